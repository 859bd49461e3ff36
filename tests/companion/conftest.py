"""Which of these tests an older framework cannot run; ``.ci/companion`` runs them all under the lowest versions."""

from __future__ import annotations

from importlib.metadata import version

import pytest

#: What JAX lacks, or does otherwise by itself, before 0.7.
LATER = {
    "[optimization_barrier]": "lax.optimization_barrier cannot be differentiated",
    "[tridiagonal solve]": "tridiagonal_solve cannot be differentiated",
    "[ragged_dot]": "ragged_dot cannot be differentiated",
    "[batched map]": "map has no batches",
    "[precision]": "the compiler keeps more digits of a bfloat16 than were asked for",
    "[solve]": "JAX's own gradient is finite",
    "[custom_vjp]": "the name of a custom rule is not kept",
    "test_a_mapped_program_is_refused_by_name": "there is no public shard_map",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these; the names of other frameworks' tests are others."""
    for item in items:
        why = next((why for end, why in LATER.items() if item.nodeid.endswith(end)), None)
        if why and "test_jax_" in item.nodeid and tuple(map(int, version("jax").split(".")[:2])) < (0, 7):
            item.add_marker(pytest.mark.skip(reason=f"before JAX 0.7, {why}"))
