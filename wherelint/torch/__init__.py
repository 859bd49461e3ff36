"""wherelint in a running PyTorch program: `mask_gradients`, `locate` and `hunt`."""

from __future__ import annotations

from wherelint.torch.hunt import hunt
from wherelint.torch.locate import locate
from wherelint.torch.masking import mask_gradients

__all__ = ["hunt", "locate", "mask_gradients"]
