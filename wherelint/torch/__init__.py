"""wherelint in a running PyTorch program: `locate`, `hunt`, `mask_gradients` and `record`."""

from wherelint.torch.hunt import hunt
from wherelint.torch.locate import locate
from wherelint.torch.masking import mask_gradients
from wherelint.torch.record import record

__all__ = ["hunt", "locate", "mask_gradients", "record"]
