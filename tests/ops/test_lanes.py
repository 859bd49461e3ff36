"""Reductions over the lanes: they give what NumPy gives, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from wherelint.ops.lanes import every, mean, some, total

_TELLING = (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3e38, 1e-45)


def _arrays(dtype: type) -> list[np.ndarray]:
    """Random numbers of every size among telling ones, of one to nine lanes, and shapes that are only looked at."""
    rng = np.random.default_rng(0)
    made = []
    for lanes in range(1, 10):
        numbers = rng.standard_normal((400, lanes)) * 10.0 ** rng.integers(-40, 38, (400, lanes))
        telling = rng.choice(_TELLING, (400, lanes))
        made.append(np.where(rng.random((400, lanes)) < 0.5, numbers, telling).astype(dtype))
    return [*made, np.full((3, 4), -0.0, dtype), np.broadcast_to(made[3][:1], (5, 4)), np.asfortranarray(made[3])]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_and_means_are_those_of_numpy(dtype: type) -> None:
    with np.errstate(all="ignore"):
        for array in _arrays(np.float64 if dtype in (np.int32, np.bool_) else dtype):
            x = np.clip(np.nan_to_num(array), -9, 9).astype(dtype) if dtype in (np.int32, np.bool_) else array
            for ours, theirs in (total, np.sum), (mean, np.mean):
                made, expected = ours(x), theirs(x, axis=-1, keepdims=True)
                assert made.dtype == expected.dtype
                np.testing.assert_array_equal(made, expected)
                numbers = ~np.isnan(expected)
                assert (np.signbit(made) == np.signbit(expected))[numbers].all()


def test_a_mask_holds_in_some_or_in_every_lane() -> None:
    mask = np.array([[False, False], [True, False], [False, True], [True, True]])
    assert some(mask).tolist() == [[False], [True], [True], [True]]
    assert every(mask).tolist() == [[False], [False], [False], [True]]
    assert some(mask[:, :1]).shape == every(mask[:, :1]).shape == (4, 1)
