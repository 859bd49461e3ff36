"""The runtime companion for JAX: ``locate``, ``hunt``, ``mask_gradients`` and ``record``.

Importing this imports JAX; no other part of wherelint does.
"""

from __future__ import annotations

from wherelint.companion import Place, Poison, PoisonedGradient, Report
from wherelint.companion.coverage_jax import record
from wherelint.jax._hunt import hunt
from wherelint.jax._locate import locate
from wherelint.jax._mask import mask_gradients

__all__ = ["Place", "Poison", "PoisonedGradient", "Report", "hunt", "locate", "mask_gradients", "record"]
