"""The runtime companion for JAX: ``locate``, ``hunt``, ``mask_gradients`` and ``record``.

Importing this imports JAX; no other part of wherelint does.
"""

import jax

#: The lowest version of JAX that will do.
LOWEST = (0, 6, 0)
if jax.__version_info__ < LOWEST:
    raise ImportError(f"wherelint.jax needs jax {'.'.join(map(str, LOWEST))} or later; this is {jax.__version__}")

from wherelint.companion import Place, Poison, PoisonedGradient, Report  # noqa: E402
from wherelint.jax._hunt import hunt  # noqa: E402
from wherelint.jax._locate import locate  # noqa: E402
from wherelint.jax._mask import mask_gradients  # noqa: E402
from wherelint.jax._record import record  # noqa: E402

__all__ = ["Place", "Poison", "PoisonedGradient", "Report", "hunt", "locate", "mask_gradients", "record"]
