"""Every promise holds for programs of every syntax. ``tests/fuzz.py`` goes on for as long as one likes."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import fuzz
import pytest
from answers import TURNS
from conftest import UNSAFE, environment
from mutations import COMMENTS, EXPRESSIONS, STATEMENTS, Mutator, templates

from wherelint.io.files import FixMode
from wherelint.run.check import check_source

SEEDS = range(100)

_REPORTS = """
import sys
from fuzz import SETTINGS, look, output
from mutations import Mutator
import random
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    text = Mutator(random.Random(seed)).program()
    for fix_mode in ("offer", "unsafe"):
        report = look(text, SETTINGS, fix_mode)
        print(seed, fix_mode, output(report))
"""


@pytest.mark.slow
def test_promises_hold_for_mutations_of_real_programs(a_tenth: Callable[[Sequence[int]], Sequence[int]]) -> None:
    for seed in a_tenth(SEEDS):
        fuzz.one(random.Random(seed))


@pytest.mark.slow
def test_every_tenth_of_the_mutations_is_worth_it() -> None:
    """Else it is the parser that is tested; on every day, and not on the one whose tenth is too tame."""
    tenths = [Counter[str]() for _ in range(TURNS)]
    for seed in SEEDS:
        text = Mutator(random.Random(seed)).program()
        counts, content = tenths[seed % TURNS], text.encode("utf-8", "surrogatepass")
        parses = fuzz.parses(text) is not None
        counts["parsing"] += parses
        for mode in ("unsafe", "silence"):
            report = check_source(content, "f.py", fuzz.SETTINGS, mode)
            counts[mode] += bool(report.fixed)
        counts["searched"] += parses and not any(problem.error for problem in report.problems)
        counts["with a finding"] += bool(report.findings or report.fixed)
    assert all(counts["unsafe"] and counts["silence"] for counts in tenths), tenths
    total = sum(tenths, Counter())
    assert total["parsing"] >= 0.5 * len(SEEDS), total
    assert total["searched"] >= 0.3 * len(SEEDS), total
    assert total["with a finding"] > 0.2 * len(SEEDS), total


@pytest.mark.parametrize(("fix_mode", "share"), [("no", 0.1), ("unsafe", 1.0), ("silence", 1.0)])
def test_promises_hold_with_comments_of_every_shape(fix_mode: FixMode, share: float) -> None:
    rows = [row for row, line in enumerate(UNSAFE.splitlines()) if line.strip()]
    silent = []
    for comment in COMMENTS:
        for row in rows:
            lines = UNSAFE.splitlines()
            lines[row] += f"  {comment}"
            left = fuzz.look("\n".join(lines) + "\n", fix_mode=fix_mode).findings
            silent.append({finding.code for finding in left} <= {"WL001"})
    assert sum(silent) >= share * len(silent)
    assert all(silent) == (fix_mode != "no")


@pytest.mark.slow
def test_every_process_says_the_same(tmp_path: Path) -> None:
    said = []
    for seed in ("1", "2"):
        child = {**environment(), "PYTHONHASHSEED": seed}
        child["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
        ran = subprocess.run(
            [sys.executable, "-c", _REPORTS, "0", "12"], env=child, cwd=tmp_path, capture_output=True, check=False
        )
        assert ran.returncode == 0, ran.stderr.decode()
        said.append(ran.stdout)
    assert said[0] == said[1]
    assert said[0].count(b"Finding(") > 4


def test_the_templates_have_nodes_of_every_class() -> None:
    """Those of this Python."""
    statements = [*templates(EXPRESSIONS), *templates(STATEMENTS)]
    made = {type(node) for statement in statements for node in ast.walk(statement)}
    kinds = {c for c in vars(ast).values() if isinstance(c, type) and issubclass(c, ast.AST) and not c.__subclasses__()}
    deprecated = {c for c in kinds if (c.__doc__ or "").startswith("Deprecated")}
    missing = {kind.__name__ for kind in kinds - made - deprecated}
    assert missing <= {"Module", "Interactive", "Expression", "FunctionType", "TypeIgnore", "slice"}


def test_a_failure_is_made_small() -> None:
    text = UNSAFE + "\n\ndef g(x):\n    return x\n"
    assert fuzz.smaller(text, lambda fewer: "sqrt" in fewer) == "    return jnp.where(x > 0, jnp.sqrt(x), 0.0)"


def test_the_same_seed_makes_the_same_program() -> None:
    assert [Mutator(random.Random(7)).program() for _ in range(2)] == [Mutator(random.Random(7)).program()] * 2


def test_a_notebook_has_the_cells_of_a_program() -> None:
    made = json.loads(fuzz.notebook(UNSAFE, random.Random(1)))
    assert len(made["cells"]) == 2


def test_a_promise_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def analysis(*arguments: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr("wherelint.findings.analyse", analysis)
    with pytest.raises(fuzz.Broken, match="a defect"):
        fuzz.check(UNSAFE)
