"""Phases that a flag switches off (after jax#1052).

The flag has nothing to do with the amplitude, and does not protect it: where an amplitude is 0 its phase has no
derivative, and the gradient of `phases` is nan there although the phase is switched off.
"""

import jax.numpy as jnp

SWITCHED_OFF = jnp.array([False, True, False])


def phases(amplitude):
    return jnp.where(SWITCHED_OFF, 0.0, jnp.arctan2(amplitude, amplitude))


def phases_safe(amplitude):
    safe_amplitude = jnp.where(SWITCHED_OFF, 1.0, amplitude)
    return jnp.where(SWITCHED_OFF, 0.0, jnp.arctan2(safe_amplitude, safe_amplitude))
