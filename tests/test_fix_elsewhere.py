"""Fixes of operations that stand in another file: what they write there, when, and what every format says of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, write
from executing import load, outcomes

from wherelint import api
from wherelint.finding import Finding, Fix
from wherelint.io.config import Settings
from wherelint.run.check import check_source

MATHS = """import jax.numpy as jnp


def angle(axis, a, b):
    return jnp.arctan2(jnp.dot(jnp.cross(a, b), axis), jnp.dot(a, b))
"""
LOSS = """import jax
import jax.numpy as jnp

from pk.maths import angle


@jax.grad
def loss(axis, a, b):
    turned = angle(axis, a, b)
    return jnp.where(a.sum() + b.sum() > 3.0, turned, 0.0)
"""
GUARDED = """import jax.numpy as jnp


def angle(axis, a, b):
    y = jnp.dot(jnp.cross(a, b), axis)
    x = jnp.dot(a, b)
    any_nonzero = (x != 0) | (y != 0)
    return jnp.where(any_nonzero, jnp.arctan2(y, jnp.where(any_nonzero, x, 1.0)), 0.0)
"""
TWO = """

@jax.grad
def other(axis, a, b):
    turned = angle(axis, a, b)
    return jnp.where(a.sum() - b.sum() > 3.0, turned, 0.0)
"""
PACKAGE = {"pk/__init__.py": "", "pk/maths.py": MATHS, "pk/loss.py": LOSS}


def offered(root: Path, name: str = "pk/loss.py") -> list[Finding]:
    path = root / name
    return list(check_source(path.read_bytes(), str(path), Settings(root=root), "offer").findings)


def fix_of(finding: Finding) -> Fix:
    assert finding.fix is not None
    return finding.fix


def test_the_operation_is_guarded_where_it_stands(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    status, output, _ = wherelint("check", "--no-cache")
    assert status == 1
    added = [f"    +{line}" for line in GUARDED.splitlines()[4:]]
    assert "  fix: guard the operation where it is singular\n    pk/maths.py:5\n    -" in output
    assert all(line in output for line in added[:3])
    status, output, _ = wherelint("check", "--no-cache", "--fix")
    assert status == 0
    assert output == (
        "file        rule   fixed  left  why\npk/loss.py  WL105      1     0\n"
        "Fixed 1 finding in 1 file.\nNo findings, 3 files checked.\n"
    )
    assert (project / "pk/maths.py").read_text() == GUARDED
    assert (project / "pk/loss.py").read_text() == LOSS
    assert wherelint("check", "--no-cache", "--fix")[:2] == (0, "No findings, 3 files checked.\n")


def test_a_file_that_was_not_named_is_left_alone(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    status, output, _ = wherelint("check", "--no-cache", "--fix", "pk/loss.py")
    assert (status, (project / "pk/maths.py").read_text()) == (1, MATHS)
    assert "WL105      0     1  its fix changes pk/maths.py: check that file, too\n" in output


def test_the_difference_is_shown_and_nothing_written(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    status, output, errors = wherelint("check", "--no-cache", "--diff")
    assert (status, errors) == (1, "Would fix 1 finding in 1 file.\n")
    why, *patch = output.splitlines()
    assert why.startswith("# pk/loss.py:9:14: WL105 guard the operation where it is singular: at ")
    assert patch[:2] == ["--- a/pk/maths.py", "+++ b/pk/maths.py"]
    assert (project / "pk/maths.py").read_text() == MATHS


def test_one_guard_serves_all_who_call(project: Path, wherelint: Run) -> None:
    write(project, {**PACKAGE, "pk/loss.py": LOSS + TWO, "pk/more.py": LOSS})
    _, output, _ = wherelint("check", "--no-cache", "--fix")
    assert output.endswith("Fixed 3 findings in 2 files.\nNo findings, 4 files checked.\n")
    assert (project / "pk/maths.py").read_text() == GUARDED


def test_own_fixes_and_those_of_others_end_in_one_run(project: Path, wherelint: Run) -> None:
    own = "\n\ndef ratio(a, b):\n    return jnp.where(b != 0, a / b, 0.0)\n"
    write(project, {**PACKAGE, "pk/maths.py": MATHS + own})
    assert wherelint("check", "--no-cache", "--fix")[0] == 0
    mended = own.replace("a / b", "a / jnp.where(b != 0, b, 1.0)")
    assert (project / "pk/maths.py").read_text() == GUARDED + mended


def test_the_ends_of_lines_are_kept(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    (project / "pk/maths.py").write_bytes(MATHS.replace("\n", "\r\n").encode())
    assert wherelint("check", "--no-cache", "--fix")[0] == 0
    assert (project / "pk/maths.py").read_bytes() == GUARDED.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        # A mask at the call is better than a guard of the helper.
        ("jnp.where(jnp.abs(inverse(x) * y) < 10.0, inverse(x) * y, 0.0)", ""),
        # What the clip needs stays infinite, for whoever calls the helper.
        ("jnp.minimum(inverse(x), 5.0)", "jnp.where(x != 0, x, jax.lax.stop_gradient(x))"),
    ],
)
def test_a_value_that_others_read_stays(project: Path, value: str, written: str) -> None:
    maths = "import jax\nimport jax.numpy as jnp\n\n\ndef inverse(x):\n    return jnp.reciprocal(x)\n"
    head = "import jax\nimport jax.numpy as jnp\n\nfrom pk.maths import inverse\n\n\n@jax.grad\n"
    loss = f"{head}def loss(x, y):\n    return {value}\n"
    write(project, {"pk/__init__.py": "", "pk/maths.py": maths, "pk/loss.py": loss})
    (fix,) = map(fix_of, offered(project))
    assert [edit.content for other in fix.elsewhere for edit in other.edits] == ([written] if written else [])
    assert bool(fix.edits) != bool(written)


@pytest.mark.parametrize(
    ("helper", "call"),
    [
        ("    return s ** 0.5\n", "helper(x * x)"),  # whoever calls it with 2.0 is given a number
        ("    return 1.0 / s\n", "helper(x)"),
        ("    return torch.sqrt((s * s).sum(-1))\n", "helper(x)"),  # a norm takes no integers
    ],
)
def test_a_helper_that_may_be_given_a_number_or_integers_is_not_rewritten_safely(
    project: Path, wherelint: Run, helper: str, call: str
) -> None:
    maths = f"import torch\n\n\ndef helper(s):\n{helper}"
    loss = f"""import torch

from pk.maths import helper


def f(x):
    n = {call}
    return torch.where(torch.isfinite(n) & (n > 0), n, torch.zeros_like(n)).sum()


def train(x: torch.Tensor):
    f(x).backward()
"""
    write(project, {"pk/__init__.py": "", "pk/maths.py": maths, "pk/loss.py": loss})
    status, output, _ = wherelint("check", "--no-cache", "--fix")
    assert (status, "pk/maths.py:5" in output) == (1, True)  # it is found, and left
    assert (project / "pk/maths.py").read_text() == maths


def test_what_is_read_in_another_encoding_is_left_alone(project: Path, wherelint: Run) -> None:
    maths = MATHS.replace("return jnp", 'name = "éé"; return jnp')
    content = ("# -*- coding: latin-1 -*-\n" + maths).encode()  # as UTF-8 the row is shorter
    write(project, PACKAGE)
    (project / "pk/maths.py").write_bytes(content)
    _, output, _ = wherelint("check", "--no-cache", "--fix")
    assert (project / "pk/maths.py").read_bytes() == content
    assert "in another encoding than UTF-8" in output


def test_what_cannot_be_written_is_still_reported(
    project: Path, wherelint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wherelint.finding import Problem
    from wherelint.io import files

    write(project, PACKAGE)
    monkeypatch.setattr(files, "rewrite", lambda name, before, after: Problem(name, "cannot write the file"))
    status, output, errors = wherelint("check", "--no-cache", "--fix")
    assert (status, errors) == (2, "error: pk/maths.py: cannot write the file\n")
    assert "pk/loss.py:9:14: WL105" in output


def test_what_the_fix_of_a_later_file_removes_is_not_left(project: Path, wherelint: Run) -> None:
    maths = """import jax.numpy as jnp


def root(s):
    return jnp.sqrt(s)


def inverse(s):
    return jnp.reciprocal(s)
"""
    head = "import jax\nimport jax.numpy as jnp\n\nfrom pk.maths import inverse, root\n\n\n@jax.grad\n"
    first = head + "def f(x):\n    r = inverse(root(x * x))\n    return jnp.where(jnp.isfinite(r), r, 0.0)\n"
    later = head + "def f(x):\n    n = root(x * x)\n    return jnp.where(n > 0, n, 0.0)\n"
    write(project, {"pk/__init__.py": "", "pk/maths.py": maths, "pk/a.py": first, "pk/b.py": later})
    after = wherelint("check", "--no-cache", "--fix", "--unsafe-fixes")[1].splitlines()[-1]
    assert wherelint("check", "--no-cache", "--fix", "--unsafe-fixes")[1].splitlines()[-1] == after


def test_a_link_is_the_file_that_it_leads_to(project: Path, wherelint: Run) -> None:
    write(project, {"m.py": LOSS.replace("pk.maths", "maths"), "real/maths.py": MATHS})
    (project / "maths.py").symlink_to(project / "real/maths.py")
    assert wherelint("check", "--no-cache", "--fix")[0] == 0
    assert (project / "real/maths.py").read_text() == GUARDED
    assert (project / "maths.py").is_symlink()


def test_the_comment_stands_there_too(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    assert wherelint("check", "--no-cache", "--fix", "--fix-comment")[0] == 0
    assert "    # Keep nan out of the gradient of `arctan2`" in (project / "pk/maths.py").read_text()


def test_every_format_names_the_file(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    (finding,) = json.loads(wherelint("check", "--no-cache", "--output-format", "json")[1])
    assert finding["fix"]["edits"] == []
    (other,) = finding["fix"]["elsewhere"]
    assert (other["filename"], [*other]) == ("pk/maths.py", ["filename", "edits"])
    assert [edit["location"]["row"] for edit in other["edits"]] == [5, 5]
    log = json.loads(wherelint("check", "--no-cache", "--output-format", "sarif")[1])
    (fix,) = log["runs"][0]["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "pk/maths.py"
    assert len(change["replacements"]) == 2


def test_the_framework_is_asked_before_it_is_made(
    project: Path, wherelint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, PACKAGE)
    asked: list[Finding] = []

    def against(finding: Finding) -> str:
        asked.append(finding)
        return "a run under the framework refuted it: the value is another"

    from wherelint.io.config import Configuration

    result = api.check_paths(["pk"], fix_mode="safe", snippets=True)
    result = api.fixed_elsewhere(result, Configuration(), unsafe=False, snippets=True, against=against)
    assert len(asked) == 1
    assert asked[0].snippet is not None
    assert asked[0].snippet.after is not None  # type: ignore[attr-defined]
    assert not result.fixed
    assert [fix_of(f).message for f in result.findings] == [
        "no fix is offered: a run under the framework refuted it: the value is another"
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="JAX needs Python 3.11")
def test_it_computes_the_same(tmp_path: Path) -> None:
    (tmp_path / "before.py").write_text(MATHS)
    (tmp_path / "after.py").write_text(GUARDED)
    rng = np.random.default_rng(0)
    batch = [rng.normal(size=(3, 3)) for _ in range(20)] + [np.zeros((3, 3)), np.ones((3, 3))]
    for inputs in batch:
        old, new = (
            outcomes("jax", load(tmp_path / name).angle, list(inputs), text=text)[0]
            for name, text in (("before.py", MATHS), ("after.py", GUARDED))
        )
        np.testing.assert_array_equal(old.value, new.value)
        assert new.regular
        assert not old.regular or all(map(np.allclose, old.gradients, new.gradients))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="JAX needs Python 3.11")
def test_the_run_bears_it_out(project: Path, wherelint: Run) -> None:
    write(project, PACKAGE)
    status, output, _ = wherelint("check", "--no-cache", "--fix", "--confirm")
    assert (status, output.splitlines()[-2:]) == (
        0, ["Fixed 1 finding in 1 file, each fix run before.", "No findings, 3 files checked."],
    )  # fmt: skip
    assert (project / "pk/maths.py").read_text() == GUARDED
