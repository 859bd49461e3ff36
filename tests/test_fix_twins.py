"""Statements that go wrong in the same way are fixed together: the fix of each is what ``--fix`` leaves of all."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from wherelint.finding import Edit, Fix, Location
from wherelint.findings import DetectOptions, analyse
from wherelint.fix import work_budget
from wherelint.fix.syntax import operands, source_node
from wherelint.fix.twins import joined
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.report.text import full
from wherelint.run.check import check_source

_HEADER = "import jax.numpy as jnp\nfrom jax import Array\n\n\n"
#: A function with twins, and what stands in it after the fix of any of them, in this order.
TWINS = {
    "statements of one shape": (
        """
        def f(x: Array, y: Array):
            near = jnp.sqrt((x - 1.0) ** 2 + y**2)
            far = jnp.sqrt((x + 1.0) ** 2 + y**2)
            return (x > 1.0) * near + (x < -1.0) * far
        """,
        ["near_squared = ", "near_is_nonzero = near_sq", "far_squared = ", "far_is_nonzero = far_sq"],
    ),
    "one shape in two branches": (
        """
        def f(x: Array, u: Array, j: int):
            if j == 0:
                up = u[1:] - u[:-1]
                r = jnp.where(up >= 1e-3, x / up, x + 2.0 * up)
            if j == 1:
                up = u[:-1] - u[1:]
                r = jnp.where(up >= 1e-3, x / up, x - 2.0 * up)
            return r
        """,
        ["x / jnp.where(above_threshold, up, 1.0), x + ", "x / jnp.where(above_threshold, up, 1.0), x - "],
    ),
    "names that each fix binds": (
        """
        def f(a: Array, b: Array, c: Array, d: Array):
            first = jnp.nan_to_num((a - 1.0) / (a * b + 2.0 * c), nan=0.0, posinf=0.0, neginf=0.0)
            second = jnp.nan_to_num((b - 1.0) / (a * c + 2.0 * d), nan=0.0, posinf=0.0, neginf=0.0)
            return first + second
        """,
        ["first_denominator = ", "second_denominator = "],
    ),
    "names that the author has given": (
        """
        def f(x: Array, y: Array):
            norms = jnp.linalg.norm(x, axis=0, keepdims=True)
            x = x / jnp.where(norms == 0, 1.0, norms)
            z = x * y
            norms = jnp.linalg.norm(z, axis=0, keepdims=True)
            return z / jnp.where(norms == 0, 1.0, norms)
        """,
        ["x_has_length = ", "norms == 0, 1.0, norms)\n    z = ", "z_has_length = ", "return z / jnp.where(norms == 0"],
    ),
    "one operand": (
        """
        def f(x: Array, u: Array, v: Array):
            first = u + 2.0 * jnp.sqrt(jnp.maximum(x, 0.0))
            second = v * jnp.sqrt(jnp.maximum(x, 0.0))
            return first + second
        """,
        ["clipped_x = jnp.maximum(x, 0.0)\n", "is_nonzero = clipped_x != 0\n", "first = ", "second = "],
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", TWINS)
def test_the_fix_of_one_is_that_of_all(why: str) -> None:
    body, expected = TWINS[why]
    text = _HEADER + textwrap.dedent(body).strip("\n") + "\n"
    settings = Settings(root=Path("/"), confidence="low")
    after = check_source(text.encode(), "f.py", settings, "unsafe").after.decode()
    findings = check_source(text.encode(), "f.py", settings, "offer").findings
    fixes = [finding.fix for finding in findings]
    assert len(fixes) == 2
    for finding, fix in zip(findings, fixes, strict=True):
        assert fix is not None
        assert Source(text).edited(fix.edits) == after
        other = next(f.location.row for f in findings if f is not finding)
        assert f", and in row {other}" in fix.message
    places = [after.find(part) for part in expected]
    assert places == sorted(places)
    assert -1 not in places
    assert all(after.count(part) == 1 for part in expected)


def test_a_fix_of_two_findings_is_shown_once() -> None:
    text = _HEADER + textwrap.dedent(TWINS["statements of one shape"][0]).strip("\n") + "\n"
    report = check_source(text.encode(), "f.py", Settings(root=Path("/"), confidence="low"), "offer")
    lines = ["".join(piece for piece, _ in line) for line in full(report, {}, 80)]
    assert lines.count("  fix: that of 6:12, above") == 1
    assert lines.count("    -    near = jnp.sqrt((x - 1.0) ** 2 + y**2)") == 1


def test_what_is_assigned_to_is_not_written_again() -> None:
    body = "x[i] = torch.where(x[i] > 0, torch.sqrt(x[i]), x[1]) + (lambda: x[i])()"
    text = f"import torch\n\n\ndef f(x, i):\n    {body}\n    return x\n"
    made = analyse(text, "f.py", DetectOptions({}, frozenset()))
    assert not isinstance(made, str)
    detection = next(each for _, each in made.found if each is not None)
    place = source_node(detection.hazard.op)
    assert place is not None
    (operand,) = operands(place)
    assert [other.region[0].column for other in operand.again()] == [5 + body.index("x[i] >")]


@pytest.mark.parametrize(("written", "together"), [("jnp.where(w > 0, {0}, 1.0)", True), ("{0} + 1e-6", False)])
def test_one_condition_makes_twins_of_what_is_masked_with_it(written: str, together: bool) -> None:
    body = "a = u / jnp.sum(v)\n    b = jnp.cos(w / jnp.sum(w))\n    return jnp.where(w > 0, a * b, 0.0)"
    text = f"{_HEADER}def f(u: Array, v: Array, w: Array):\n    {body}\n"
    made = analyse(text, "f.py", DetectOptions({}, frozenset(), 0.0))
    assert not isinstance(made, str)
    fixes = []
    for finding in made.findings:
        row, divisor = finding.location.row, {6: "jnp.sum(v)", 7: "jnp.sum(w)"}[finding.location.row]
        column = text.splitlines()[row - 1].index(divisor) + 1
        region = Location(row, column), Location(row, column + len(divisor))
        fixes.append(Fix("safe", "", (Edit(written.format(divisor), *region),)))
    fixed = joined(made, made.findings, fixes, {id(finding): 1 for finding in made.findings}, work_budget())
    assert [len(fix.edits) for fix in fixed if fix] == [1 + together] * 2
