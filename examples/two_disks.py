"""The area that two disks share: apart, one inside the other, or a lens.

`area` returns the right value everywhere. Its gradient is nan as soon as the disks are apart or one contains the
other, because the lens formula is differentiated there too: it divides by the distance, and its arccos sits at or
beyond the edge of its domain. `area_safe` gives the lens formula a distance at which it is always a lens.
"""

import jax.numpy as jnp


def area(d, r1=1.0, r2=2.0):
    cos_alpha = (d**2 + r1**2 - r2**2) / (2 * d * r1)
    cos_beta = (d**2 + r2**2 - r1**2) / (2 * d * r2)
    alpha = jnp.arccos(cos_alpha)
    beta = jnp.arccos(cos_beta)
    lens = r1**2 * (alpha - jnp.sin(2 * alpha) / 2) + r2**2 * (beta - jnp.sin(2 * beta) / 2)
    contained = jnp.pi * jnp.minimum(r1, r2) ** 2
    return jnp.where(d >= r1 + r2, 0.0, jnp.where(d <= jnp.abs(r1 - r2), contained, lens))


def area_safe(d, r1=1.0, r2=2.0):
    is_lens = (d < r1 + r2) & (d > jnp.abs(r1 - r2))
    safe_d = jnp.where(is_lens, d, jnp.maximum(r1, r2))
    cos_alpha = (safe_d**2 + r1**2 - r2**2) / (2 * safe_d * r1)
    cos_beta = (safe_d**2 + r2**2 - r1**2) / (2 * safe_d * r2)
    alpha = jnp.arccos(cos_alpha)
    beta = jnp.arccos(cos_beta)
    lens = r1**2 * (alpha - jnp.sin(2 * alpha) / 2) + r2**2 * (beta - jnp.sin(2 * beta) / 2)
    contained = jnp.pi * jnp.minimum(r1, r2) ** 2
    return jnp.where(d >= r1 + r2, 0.0, jnp.where(is_lens, lens, contained))
