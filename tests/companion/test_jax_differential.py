"""``mask_gradients`` on random programs; ``python -m differential.masked`` asks more of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

pytest.importorskip("jax")
from differential.masked import MaskTally, ask


@pytest.mark.usefixtures("quick_compiling")
@pytest.mark.slow
def test_value_and_gradient_are_those_of_jax_and_elsewhere_those_of_the_lazy_program(
    a_tenth: Callable[[Sequence[int]], Sequence[int]],
) -> None:
    tally = MaskTally()
    for seed in a_tenth(range(100)):
        ask(seed, tally)
    assert not tally.disagreements, "\n\n".join(map(str, tally.disagreements[:5]))
    # It is not for want of programs that are poisoned.
    assert tally.counts["finite when masked"]
