"""With --confirm every fix is run before it is written, and one that the run refutes is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import UNSAFE, write
from real_gradients import require

from wherelint import confirm
from wherelint.cli import main
from wherelint.confirm.routine import Snippet
from wherelint.finding import AfterFix

_TWO = UNSAFE + "\n\ndef g(y):\n    return jnp.where(y > 0, jnp.log(y), 0.0)\n"
_G_ALONE = _TWO.replace("jnp.log(y)", "jnp.log(jnp.where(y > 0, y, 1.0))")


@pytest.mark.parametrize("standard_input", [False, True])
def test_a_refuted_fix_is_not_written(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, standard_input: bool
) -> None:
    """The run says of the fix in f that the gradient is not finite; that in g stays."""

    def after(snippet: Snippet, *_: object) -> AfterFix:
        return AfterFix(value_unchanged=True, gradient_finite=snippet.function != "f")

    require("jax")
    write(project, {"a.py": _TWO})
    monkeypatch.setattr(confirm, "_after", after)
    path = ["-", "--stdin-filename", "a.py"] if standard_input else ["a.py"]
    with open("a.py", encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["check", "--fix", "--confirm", "--no-cache", "-j1", "--device", "cpu", *path]) == 1
    output, errors = (stream.decode() for stream in capfdbinary.readouterr())
    assert "warning: a.py: gave up on fixes for 1 of 1 finding: a run under the framework refuted it" in errors
    assert (output if standard_input else (project / "a.py").read_text()).startswith(_G_ALONE)
    report = errors if standard_input else output
    assert "no fix is offered: a run under the framework refuted it" in " ".join(report.split())
    assert "Fixed 1 finding in 1 file." in report


def test_what_no_run_refutes_is_written(project: Path) -> None:
    write(project, {"a.py": _TWO})
    assert main(["check", "--fix", "--confirm", "--no-cache", "-j1", "--device", "cpu", "a.py"]) == 0
    assert (project / "a.py").read_text() == _G_ALONE.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")
