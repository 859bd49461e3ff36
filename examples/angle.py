"""The angle of a vector, which may be the zero vector.

`angle` returns 0 for the zero vector, but its gradient there is nan: arctan2 has no derivative at the origin, and it is
differentiated whether its value is selected or not. `angle_safe` never shows it the origin.
"""

import jax.numpy as jnp


def angle(x, y):
    origin = (x == 0) & (y == 0)
    return jnp.where(origin, 0.0, jnp.arctan2(y, x))


def angle_safe(x, y):
    origin = (x == 0) & (y == 0)
    safe_x = jnp.where(origin, 1.0, x)
    return jnp.where(origin, 0.0, jnp.arctan2(y, safe_x))
