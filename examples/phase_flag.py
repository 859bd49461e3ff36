"""A phase that a flag switches off (after jax#1052).

The angle of the origin has no derivative, and the flag does not protect it: the gradient of `phase` is nan wherever
the amplitude is 0, whether the phase is used there or not.
"""

import jax.numpy as jnp


def phase(amplitude, temperature):
    return jnp.where(temperature > 0.5, 0.0, jnp.arctan2(amplitude, amplitude))


def phase_safe(amplitude, temperature):
    hot = temperature > 0.5
    safe_amplitude = jnp.where(hot, 1.0, amplitude)
    return jnp.where(hot, 0.0, jnp.arctan2(safe_amplitude, safe_amplitude))
