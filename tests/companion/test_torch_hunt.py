"""What `wherelint.torch.hunt` finds from ordinary arguments, and that what it finds is so."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from executing import load
from real_gradients import require
from test_cases import CASES, IDS, lines, points, read

require("torch")

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from wherelint.companion import Report  # noqa: E402
from wherelint.companion.hunt import Domain, combined_points, distance, special_points  # noqa: E402
from wherelint.torch import hunt, locate  # noqa: E402

CASE_IDS = [name for name in IDS if read(name)["framework"] == "torch"]
POISONED = [name for name in CASE_IDS if not name.startswith("neg-")]
#: A clip onto the singular point: there is no gradient that would be finite without what is dropped.
CLIPPED = frozenset(
    """geoopt-79-sphere-dist kornia-4233-cdist mace-1740-chebyshev mmrotate-205-gauss-dist
    nanodrr-31-geodesic""".split()
)


def hunted(name: str, file: str) -> Report:
    return hunt(load(CASES / name / file).f, *map(torch.tensor, points(read(name))[0]), seconds=60, budget=640)


@pytest.mark.parametrize("name", sorted({*POISONED} - CLIPPED))
def test_published_bugs_are_found_from_ordinary_arguments(name: str) -> None:
    report = hunted(name, "unsafe.py")
    assert report.poisoned
    assert {p.op_at.row for p in report.findings if p.op_at} & lines(read(name)), str(report)
    for poison in report.findings:  # every witness is one
        again = locate(load(CASES / name / "unsafe.py").f, *poison.witness)
        assert again.value_finite
        assert not again.gradient_finite
        assert again.masked_finite or any(p.genuine for p in report.findings)


@pytest.mark.parametrize("name", sorted(CLIPPED & {*POISONED}))
def test_inputs_that_no_mask_repairs_are_named(name: str) -> None:
    report = hunted(name, "unsafe.py")
    assert (
        "of the inputs the gradient is not finite, and no selection discards all operations that break it"
        in report.note
    )
    found = [p for p in report.findings if p.genuine and p.witness is not None]
    assert {p.op_at.row for p in found if p.op_at} & lines(read(name)), str(report)


def test_three_quarters_of_the_published_bugs_are_found() -> None:
    assert 1 - len(CLIPPED & {*POISONED}) / len(POISONED) >= 0.75


@pytest.mark.rotated(4)  # a random search, held against torch
@pytest.mark.parametrize("name", [name for name in CASE_IDS if read(name).get("witness")])
def test_in_safe_programs_only_what_a_plain_run_shows(name: str) -> None:
    f = load(CASES / name / "safe.py").f
    for poison in hunted(name, "safe.py").findings:
        leaves = [each.detach().clone().requires_grad_() for each in poison.witness]
        value = f(*leaves)
        assert value.isfinite().all()
        found = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
        assert not all(g is None or g.isfinite().all() for g in found)


def test_the_nearest_input_is_the_witness_and_extremes_are_warnings() -> None:
    (poison,) = hunt(lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), torch.tensor([1.0, 2.0])).findings
    assert poison.witness[0].tolist() == [0.0, 2.0]
    assert poison.level == "error"
    (poison,) = hunt(lambda x: torch.where(x < 5000, (x / 100).exp(), x).sum(), torch.tensor([1.0])).findings
    assert poison.level == "warning"


def test_types_shapes_and_other_arguments_stay() -> None:
    seen = set()

    def f(x: Tensor, options: dict[str, Any], n: Tensor) -> Tensor:
        seen.add((x.dtype, x.shape, options["y"].dtype, options["p"], n.dtype, tuple(n.tolist())))
        return torch.where(x > 0, x.sqrt(), 0.0).sum() + (options["y"] * n).sum()

    x, y = torch.ones(2, 3, dtype=torch.float64), torch.ones(2, dtype=torch.bfloat16)
    report = hunt(f, x, {"y": y, "p": 0.5}, torch.tensor([1, 2]), budget=200)
    assert report.poisoned
    assert seen == {(torch.float64, (2, 3), torch.bfloat16, 0.5, torch.int64, (1, 2))}


def root(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.sqrt(), 0.0).sum()


def test_an_input_that_no_mask_repairs_is_the_witness_of_a_report_that_is_fine() -> None:
    report = hunt(lambda x, n: (x.sqrt() ** 2).sum() * n, torch.tensor([1.0, 2.0]), 3)
    assert report.ok
    assert not report.poisoned
    assert [(p.op, p.genuine, p.witness[0].tolist()) for p in report.findings] == [("sqrt", True, [0.0, 2.0])]
    assert "are finite at the given arguments" in str(report)
    assert "no selection discards all operations that break it." in str(report)


def padded_mean(mask: Tensor, score: Tensor) -> Tensor:
    return torch.where(mask > 0, score.exp(), 0.0).sum() / mask.sum()


def packed(x: Tensor) -> Tensor:
    return torch.where(x[0] > 0, (x[0] * x[1]).exp() * x[1].exp(), 0.0)


def test_two_things_move_at_once() -> None:
    report = hunt(padded_mean, torch.ones(3), torch.ones(3))
    assert [(p.op, p.select) for p in report.findings][:1] == [("exp", "where")]
    assert hunt(padded_mean, torch.ones(3), torch.ones(3), budget=50).ok
    assert hunt(packed, torch.tensor([1.0, 0.5])).poisoned


def test_two_arrays_or_rows_have_special_values() -> None:
    start = [np.float32([1, 2]), np.float32(3), np.ones(2, np.float32)]
    points = list(combined_points(start, [5.0]))
    found = {tuple(np.concatenate([np.ravel(each) for each in point]).tolist()) for point in points}
    assert (0.0, 0.0, 100.0, 1.0, 1.0) in found  # two arrays
    assert {(0.0, 2.0, 3.0, 5.0, 1.0), (1.0, 0.0, 3.0, 1.0, 5.0)} & found  # one row of two
    assert [each.tolist() for each in points[0]] == [[0, 0], 0, [1, 1]]
    assert str(list(combined_points(start, seed=1))) == str(list(combined_points(start, seed=1)))
    assert list(combined_points([np.float32(1)])) == []


def test_what_cannot_occur_is_not_tried() -> None:
    assert hunt(root, torch.ones(2), positive=[0]).ok
    assert hunt(root, torch.ones(2), bounds={0: (0.5, None)}).ok
    assert not hunt(root, torch.ones(2), bounds={0: (None, 3.0)}).ok


def test_bounds_are_of_arguments_by_number_or_parameter() -> None:
    assert hunt(root, torch.ones(2), bounds={"x": (0.5, None)}).ok
    assert Domain.of(lambda a, *b, c=0: None, 3, {2: (None, 1), "a": [0, 1]}, ("a", 1)) == Domain(
        {2: (None, 1), 0: [0, 1]}, frozenset({0, 1})
    )
    assert Domain.of(dict, 1, None, [0]) == Domain({}, frozenset({0}))  # it says no parameters


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"bounds": {0: (2, -2)}}, ValueError, r"the bounds of argument 0 are reversed: write \(-2, 2\)"),
        ({"bounds": {3: (0, 1)}}, ValueError, "there is no argument 3; choose from 0, 'x'"),
        ({"bounds": {"y": (0, 1)}}, ValueError, "there is no argument 'y'; choose from 0, 'x'"),
        ({"positive": [-1]}, ValueError, "there is no argument -1; choose from 0, 'x'"),
        ({"bounds": {0: 1}}, TypeError, r"the bounds of argument 0 must be a pair \(low, high\), not 1"),
        ({"bounds": {0: (1,)}}, TypeError, r"a pair \(low, high\), not \(1,\)"),
    ],
    ids=str,
)
def test_bounds_that_cannot_be_meant_are_refused(options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        hunt(root, torch.ones(2), **options)


def test_without_numbers_that_move_nothing_is_said_to_be_fine() -> None:
    with pytest.raises(TypeError, match=r"hunt needs an argument to change"):
        hunt(root, torch.ones(2, dtype=torch.int64))
    with pytest.raises(ValueError, match="the result has no gradient"):
        hunt(lambda x: root(x.detach()), torch.ones(2))


def test_budget_and_time_are_kept() -> None:
    calls = []

    def slow(x: Tensor) -> Tensor:
        calls.append(1)
        time.sleep(0.05)
        return x.sum()

    report = hunt(slow, torch.ones(3), seconds=0.3)
    assert report.ok
    assert len(calls) < 12
    assert "The time limit was reached." in str(report)
    report = hunt(root, torch.ones(50, 50), positive=[0], budget=7)
    assert report.tried == 7
    assert "The limit of 7 inputs was reached." in str(report)


def test_a_function_that_refuses_inputs_is_hunted_all_the_same() -> None:
    def f(x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            raise ValueError("negative")
        return root(x)

    assert hunt(f, torch.ones(2)).poisoned
    with pytest.raises(ValueError, match="negative"):
        hunt(f, -torch.ones(2))


def test_every_input_is_tried_with_the_same_random_numbers() -> None:
    drawn = []

    def f(x: Tensor) -> Tensor:
        drawn.append(torch.rand(1).item())
        return root(x)

    state = torch.get_rng_state()
    assert hunt(f, torch.ones(8), budget=50).poisoned
    assert len(set(drawn)) == 1
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_seed_tries_the_same() -> None:
    one, same = (hunt(root, torch.ones(40), seed=3, budget=300).witness[0] for _ in range(2))
    assert torch.equal(one, same)
    start = [np.ones(40, np.float32)]
    one, same, other = ([p[0].tobytes() for p in special_points(start, seed=seed)] for seed in (1, 1, 2))
    assert one == same != other


def test_points_are_special_equal_and_next_to_literals() -> None:
    start = [np.array([0.3, 0.6], np.float32), np.array([0.1, 0.2], np.float32)]
    found = [tuple(np.concatenate(point).tolist()) for point in special_points(start, [5.0])]
    assert tuple(np.float32([0.3, 0.6, 0.3, 0.6]).tolist()) in found  # two arguments
    assert tuple(np.float32([0.3, 0.3, 0.1, 0.2]).tolist()) in found  # two elements
    assert any(np.nextafter(np.float32(5), np.float32(9)) in point for point in found)
    assert not any(math.isnan(x) for point in found for x in point)
    assert all(point.dtype == np.float32 for each in special_points(start) for point in each)
    assert distance([start[0] + 2000], start[:1]) > distance([start[0] + 1], start[:1])
    assert not Domain({0: (0.0, 1.0)}).allows(0, np.array([2.0]))
