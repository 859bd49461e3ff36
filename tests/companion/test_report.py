"""The report of a companion: its text, its codes, and the linter's formats."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from wherelint.companion import Place, Poison, PoisonedGradient, Report
from wherelint.report.formats import FORMATS

MODEL = "import jax.numpy as jnp\nangle = jnp.arccos(x)\nout = jnp.where(m, angle, 0.0)\n"
SCHEMA = json.loads((Path(__file__).parents[1] / "report" / "sarif-2.1.0.json").read_text("utf-8"))


@pytest.fixture
def poison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Poison:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return Poison(
        "arccos", Place(str(path), 2, 9, 2, 22, "f"), "where", Place(str(path), 3, 7), index=(3,), iteration=(4,)
    )


def report(*findings: Poison) -> Report:
    return Report(True, False, True, findings)


def test_the_text_names_both_places_the_element_and_the_iteration(poison: Poison) -> None:
    assert str(poison) == (
        "model.py:2:9: arccos has no finite derivative at element (3,), iteration 4\n"
        "    angle = jnp.arccos(x)\n"
        "model.py:3:7: `where` discards the result -> WL104, wherelint explain WL104\n"
        "    out = jnp.where(m, angle, 0.0)"
    )


def test_a_place_in_a_library_stands_beside_the_users(poison: Poison) -> None:
    text = str(replace(poison, op_within=Place("/lib/special.py", 7, 3)))
    assert "model.py:2:9: arccos" in text
    assert "  inside /lib/special.py:7:3" in text


def test_what_is_singular_in_earnest_names_no_selection(poison: Poison) -> None:
    genuine = replace(poison, genuine=True, select=None, select_at=None)
    assert "no selection discards the result" in str(genuine)
    assert "explain" not in str(genuine)
    assert "whole function" not in str(genuine)
    smooth = replace(genuine, smooth=True)
    assert (
        "the whole function has a finite gradient here: give arccos a safe operand at this point, and select the limit"
        in str(smooth)
    )
    assert "gradient here: write the root of s as `where(s > 0, sqrt(" in str(replace(smooth, op="norm"))
    assert json.loads(report(genuine).render("json"))[0]["select"]["kind"] is None


@pytest.mark.parametrize(
    ("op", "select", "code"),
    [
        ("arccos", "where", "WL104"),
        ("sqrt", "where", "WL101"),
        ("sqrt", "index", "WL201"),
        ("sqrt", "multiply", "WL202"),
        ("sqrt", "maximum", "WL204"),
        ("no_such_operation", "where", "WL111"),
        ("multiply", None, "WL111"),
    ],
)
def test_codes_are_those_of_the_linter(op: str, select: str | None, code: str) -> None:
    assert Poison(op, None, select).code == code


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format_of_the_linter(poison: Poison, output_format: str) -> None:
    other = replace(poison, select_at=Place("/elsewhere/b.py", 1, 1))
    text = report(poison, other, Poison("sqrt", None, genuine=True)).render(output_format)
    assert "arccos" in text
    if output_format == "sarif":
        jsonschema.validate(json.loads(text), SCHEMA)
    if output_format == "json":
        first, second, _ = json.loads(text)
        assert (first["code"], first["filename"], first["location"]) == ("WL104", "model.py", {"row": 2, "column": 9})
        assert first["select"]["location"] == {"row": 3, "column": 7}
        assert "/elsewhere/b.py:1:1" in second["message"]


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(ValueError, match="unknown format 'xml'; choose from github"):
        report().render("xml")


def test_raising(poison: Poison) -> None:
    Report(True, True, True).raise_if_poisoned()
    with pytest.raises(PoisonedGradient, match=r"model.py:3:7: `where` discards") as caught:
        report(poison).raise_if_poisoned()
    assert isinstance(caught.value, AssertionError)
    assert caught.value.report.poisoned


@pytest.mark.parametrize(
    ("finite", "told"),
    [
        ((True, True, True), "are finite"),
        ((False, False, False), "The value is not finite"),
        ((True, False, True), "Without the discarded elements it would be finite"),
        ((True, False, False), "No selection discards all operations that break it"),
    ],
)
def test_the_summary_says_what_is_finite(finite: tuple[bool, bool, bool], told: str) -> None:
    assert told in str(Report(*finite))


@pytest.mark.parametrize(("tried", "told"), [(1, "1 input in 0.0 s."), (2, "2 inputs in 0.0 s.")])
def test_inputs_are_counted(tried: int, told: str) -> None:
    assert told in str(replace(report(), tried=tried))


def test_no_framework_is_imported() -> None:
    program = "import sys, wherelint.companion; print({'jax', 'torch', 'tensorflow'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
