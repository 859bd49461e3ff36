"""Which tests of the companion another version of a framework cannot pass; ``.ci/companion`` runs them all."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

import pytest

#: What JAX lacks, or does otherwise by itself, before 0.7: the ends of the tests' names.
BEFORE_JAX = {
    "[optimization_barrier]": "lax.optimization_barrier cannot be differentiated",
    "[tridiagonal solve]": "tridiagonal_solve cannot be differentiated",
    "[ragged_dot]": "ragged_dot cannot be differentiated",
    "[batched map]": "map has no batches",
    "[precision]": "the compiler keeps more digits of a bfloat16 than were asked for",
    "[solve]": "JAX's own gradient is finite",
    "[custom_vjp]": "the name of a custom rule is not kept",
    "test_a_mapped_program_is_refused_by_name": "there is no public shard_map",
}
_CLAMP = "clamp hands no cotangent to what lies on its bound"
#: What torch 2.15 does otherwise than 2.13.
SINCE_TORCH = {
    "[a clip onto the edge]": _CLAMP,
    **{f"named[{case}]": _CLAMP for case in ("geoopt-79-sphere-dist", "kornia-4233-cdist", "mace-1740-chebyshev",
                                             "mmrotate-205-gauss-dist", "nanodrr-31-geodesic")},
    "test_every_pair_is_named[assigned]": "an assignment through a mask is a masked_fill",
}  # fmt: skip


def skip_by_version(items: list[pytest.Item]) -> None:
    """Skip those that the installed version of their framework cannot pass."""
    for framework, table, concerned in (
        ("jax", BEFORE_JAX, lambda number: number < (0, 7)),
        ("torch", SINCE_TORCH, lambda number: number > (2, 13)),
    ):
        mine = [item for item in items if f"test_{framework}_" in item.nodeid]
        if mine and find_spec(framework) and concerned(tuple(map(int, version(framework).split(".")[:2]))):
            for item in mine:
                why = next((why for end, why in table.items() if item.nodeid.endswith(end)), None)
                if why:
                    item.add_marker(pytest.mark.skip(reason=f"{framework} {version(framework)}: {why}"))
