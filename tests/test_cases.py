"""Bugs of public projects, re-expressed: each is found where it is, its repair is silent, and both claims are run.

``tests/cases/README.md`` says what a case holds. ``unsafe.py`` and ``safe.py`` compute the same value; only the
gradient differs.
"""

from __future__ import annotations

import inspect
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import Outcome, load, outcomes
from real_gradients import require

from wherelint.evidence.pieces import Level
from wherelint.finding import FileReport, Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

CASES = Path(__file__).parent / "cases"
IDS = sorted(path.parent.name for path in CASES.glob("*/case.json"))
POSITIVE = [name for name in IDS if not name.startswith("neg-")]
FRAMEWORKS = {"jax": "jax", "torch": "torch", "tf": "tensorflow"}

#: Cases that are not found, and why that is right or not yet so.
MISSED = {
    "keras-2960-std": "a std of equal elements with no selection: a true singularity, nan under symbolic zeros too",
}
#: Printed witnesses that the framework does not confirm, and why.
NOT_CONFIRMED: dict[str, str] = {}
#: Cases whose witness is not one of `f`'s arguments by name (a helper's parameter, an element, a derived array).
ELSEWHERE = frozenset(
    """jax-5798-threshold-root jax-9873-celu-net jaxxc-29-where-log keras-20110-divide-no-nan keras-9097-siamese
    geoopt-79-sphere-dist deepmd-4301-clip-suggestion mace-1732-bessel-basis nanodrr-31-geodesic
    numpyro-872-masked-support optax-1743-sam-direction optax-1752-clip-select schnetpack-6-padded-distances
    tf-20355-transfer tinygp-115-matern-radius tinygrad-17852-selu""".split()
)


#: Found, and no more than a note: findings with as little for them are mostly not wanted.
NOTES = frozenset(
    """kornia-918-focal nanodrr-31-geodesic pytorch-121416-mse-mask schnetpack-87-angular
    tf-20355-transfer""".split()
)


def read(name: str) -> dict[str, Any]:
    return json.loads((CASES / name / "case.json").read_text())


@cache
def check(name: str, file: str) -> FileReport:
    level: Level = "note" if name in NOTES and file == "unsafe.py" else "warning"
    alone = f"/{name}/{file}"  # of no project, in which other functions of its names are known
    return check_source((CASES / name / file).read_bytes(), alone, Settings(root=Path("/"), level=level))


def lines(case: dict[str, Any]) -> set[int]:
    return {case["unsafe_line"], *case.get("unsafe_lines", [])}


def table(names: list[str], known: dict[str, str]) -> list[Any]:
    """Parameters with the known failures marked, each with its reason."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=known[name])) if name in known else name
        for name in names
    ]


@pytest.mark.parametrize("name", table(POSITIVE, MISSED))
def test_the_bug_is_found_where_it_is(name: str) -> None:
    report = check(name, "unsafe.py")
    assert report.problems == ()
    assert {f.location.row for f in report.findings} & lines(read(name))
    assert all(f.is_shown != (name in NOTES) and f.witness is not None for f in report.findings)


@pytest.mark.parametrize("name", IDS)
def test_the_repair_is_silent(name: str) -> None:
    report = check(name, "safe.py")
    assert report.findings == ()
    assert report.problems == ()


def test_nothing_is_left_over_in_the_tables() -> None:
    # A case that was renamed would otherwise take its excuse with it.
    assert {*MISSED, *NOT_CONFIRMED, *ELSEWHERE, *NOTES} <= set(POSITIVE)


def arrays(values: list[Any]) -> list[np.ndarray]:
    """Arguments as the JSON spells them; "nan", "inf" and "-inf" are strings there."""

    def number(value: Any) -> Any:
        return [number(item) for item in value] if isinstance(value, list) else float(value)

    return [np.asarray(number(value), np.float32) for value in values]


def points(case: dict[str, Any]) -> list[list[np.ndarray]]:
    """Ordinary arguments: the ones of the case, or arbitrary moderate ones in the shapes of the witness."""
    if case.get("points"):
        return [arrays(point) for point in case["points"]]
    rng = np.random.default_rng(zlib.crc32(case["id"].encode()))
    return [[rng.uniform(0.3, 0.9, a.shape).astype(np.float32) for a in arrays(case["witness"])]]


def run(name: str, file: str, inputs: list[np.ndarray]) -> list[Outcome]:
    case, path = read(name), CASES / name / file
    require(FRAMEWORKS[case["framework"]])
    return outcomes(FRAMEWORKS[case["framework"]], module(path).f, inputs, case.get("argnums"), path.read_text("utf-8"))


module = cache(load)


@pytest.mark.parametrize("name", POSITIVE)
def test_the_repair_keeps_the_value_and_fixes_the_gradient(name: str) -> None:
    case = read(name)
    for at in [witness := arrays(case["witness"]), *points(case)]:
        bad, good = run(name, "unsafe.py", at), run(name, "safe.py", at)
        assert np.isfinite(bad[0].value).all()
        np.testing.assert_allclose(good[0].value, bad[0].value, rtol=1e-5, atol=1e-6)
        assert all(outcome.regular for outcome in good)
        if at is witness:
            assert not bad[0].regular
        for expected, gradient in zip(bad[0].gradients, good[0].gradients, strict=True):
            known = np.isfinite(expected) if at is not witness else np.zeros(expected.shape, bool)
            np.testing.assert_allclose(gradient[known], expected[known], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in IDS if name.startswith("neg-")])
def test_what_only_looks_like_the_bug_has_a_finite_gradient(name: str) -> None:
    case = read(name)
    for at in [arrays(case["witness"]), *points(case)]:
        for outcome in run(name, "safe.py", at):
            assert np.isfinite(outcome.value).all()
            assert outcome.regular


def placed(finding: Finding, f: Any, at: list[np.ndarray]) -> list[np.ndarray] | None:
    """The printed witness as arguments in the shapes of ``at``; None where it speaks of something else."""
    assert finding.witness is not None
    names = list(inspect.signature(f).parameters)
    inputs = finding.witness.inputs
    if finding.function != "f" or not set(inputs) <= set(names[: len(at)]):
        return None
    return [
        np.resize(np.asarray(inputs[name], np.float32), a.shape) if name in inputs else a
        for name, a in zip(names, at, strict=False)
    ]


@pytest.mark.parametrize("name", table([n for n in POSITIVE if n not in ELSEWHERE and n not in MISSED], NOT_CONFIRMED))
def test_the_printed_witness_is_one(name: str) -> None:
    """The value is finite and the gradient is not, at the very numbers that the report shows.

    The witness speaks of four elements and the program has its own shapes, so the numbers are tried in the shapes of
    the case and as four elements.
    """
    case = read(name)
    require(FRAMEWORKS[case["framework"]])
    f = load(CASES / name / "unsafe.py").f
    for finding in check(name, "unsafe.py").findings:
        shapes = [points(case)[0], arrays(case["witness"]), [np.full(4, 0.6, np.float32) for _ in case["witness"]]]
        tried = [inputs for shape in shapes if (inputs := placed(finding, f, shape)) is not None]
        if not tried:
            pytest.skip(f"the witness speaks of {', '.join(finding.witness.inputs)}")
        assert any(shows(name, finding, inputs) for inputs in tried), finding.witness


def shows(name: str, finding: Finding, inputs: list[np.ndarray]) -> bool:
    try:
        found = run(name, "unsafe.py", inputs)
    except (TypeError, ValueError, RuntimeError):  # the program does not take these shapes
        return False
    modes = finding.modes or (found[0].mode,)
    return all(np.isfinite(o.value).all() and not o.regular for o in found if o.mode in modes)
