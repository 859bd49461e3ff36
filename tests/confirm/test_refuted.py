"""With --confirm every fix is run before it is written, and one that the run refutes is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import UNSAFE, write
from real_gradients import require

from wherelint import confirm
from wherelint.cli import main
from wherelint.confirm import harness
from wherelint.confirm.routine import Snippet
from wherelint.finding import AfterFix

_TWO = UNSAFE + "\n\ndef g(y):\n    return jnp.where(y > 0, jnp.log(y), 0.0)\n"
_G_ALONE = _TWO.replace("jnp.log(y)", "jnp.log(jnp.where(y > 0, y, 1.0))")


@pytest.mark.usefixtures("asked_once")
@pytest.mark.parametrize(
    ("standard_input", "said", "why"),
    [
        (False, AfterFix(True, False), "a run under the framework refuted it: the gradient is not finite"),
        (True, AfterFix(False, False), "a run under the framework refuted it: the value changed"),
        (False, None, "it could not be run: its program cannot be written"),
    ],
)
def test_a_fix_that_no_run_bears_out_is_not_written(
    project: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    standard_input: bool,
    said: AfterFix | None,
    why: str,
) -> None:
    """The run speaks against the fix in f; that in g stays."""

    def after(snippet: Snippet, *_: object) -> AfterFix | None:
        return said if snippet.function == "f" else AfterFix(True, True)

    require("jax")
    write(project, {"a.py": _TWO})
    monkeypatch.setattr(confirm, "_after", after)
    path = ["-", "--stdin-filename", "a.py"] if standard_input else ["a.py"]
    with open("a.py", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["check", "--fix", "--confirm", "--no-cache", "-j1", "--device", "cpu", *path]) == 1
    output, errors = (stream.decode() for stream in capfdbinary.readouterr())
    assert f"warning: a.py: gave up on fixes for 1 of 1 finding: {why}\n" in errors
    assert (output if standard_input else (project / "a.py").read_text()).startswith(_G_ALONE)
    report = errors if standard_input else output
    assert f"no fix is offered: {why}" in " ".join(report.split())
    assert "Fixed 1 finding in 1 file; each fix was confirmed first.\n" in report


def test_without_the_framework_no_gradient_is_fixed(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "installed", lambda framework: False)
    write(project, {"a.py": _TWO.replace("0.0)\n", "0.0)  # noqa: WL103\n", 1)})
    assert main(["check", "--fix", "--confirm", "--no-cache", "-j1", "a.py"]) == 1
    assert (project / "a.py").read_text() == _TWO  # what shows no gradient needs no run
    assert "WL102      0     1  it could not be run: jax is not installed here: pip" in capsys.readouterr().out


@pytest.mark.usefixtures("asked_once")
def test_what_no_run_refutes_is_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("jax")
    write(project, {"a.py": _TWO})
    arguments = ["--confirm", "--no-cache", "-j1", "--device", "cpu", "a.py"]
    assert main(["check", "--diff", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("\n+    return") == 2
    assert shown.err == "Would fix 2 findings in 1 file; each fix was confirmed first.\n"
    assert main(["check", "--fix", *arguments]) == 0
    assert (project / "a.py").read_text() == _G_ALONE.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")
