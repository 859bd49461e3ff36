"""What ``--confirm`` is told by a framework, and what scripts print, kept as other answers are (``answers.py``)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import answers
import numpy as np

from wherelint import frameworks
from wherelint.confirm import child, spelling
from wherelint.confirm.harness import Harness, request
from wherelint.confirm.routine import Snippet

_FRAMEWORKS = Path(frameworks.__file__).parent
#: An answer depends on how the child computes it, too.
_HOW = answers.how(Path(child.__file__), Path(spelling.__file__), *sorted(_FRAMEWORKS.glob("*.py")))


class KeptRuns(Harness):
    """A harness that starts a process only for what is not known, or is asked again."""

    def run(self, snippet: Snippet) -> dict[str, Any]:
        question = (_HOW, self._device, request(snippet))
        found = answers.to(self._framework, question, lambda: dict(_flat(super(KeptRuns, self).run(snippet))))
        self.version, self.device = self.version or answers.version(self._framework), self.device or self._device
        return _nested(found)


def device() -> str:
    """Where findings are run: on the accelerator that is there, if everything is asked again."""
    return "auto" if answers.session.live else answers.session.device


def printed(framework: str, script: str) -> str:
    """What a script of a finding prints, without its first line, which says who wrote it."""
    script = script.partition("\n")[2]

    def run() -> answers.Answer:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(script, "script", "exec"), {"__name__": "__main__"})
        return {"printed": np.frombuffer(said.getvalue().encode(), np.uint8)}

    return answers.to(framework, ("script", script), run)["printed"].tobytes().decode()


def _flat(reply: Mapping[str, Any]) -> list[tuple[str, Any]]:
    modes = [(f"{routine} {mode}", sent) for routine, modes in reply.items() for mode, sent in modes.items()]
    return [
        (f"{name} {number}", np.asarray(array, np.float32))
        for name, sent in modes
        for number, array in enumerate([sent["value"], *sent["gradients"]])
    ]


def _nested(found: answers.Answer) -> dict[str, Any]:
    reply: dict[str, Any] = {}
    for name, array in found.items():
        routine, mode, number = name.split()
        sent = reply.setdefault(routine, {}).setdefault(mode, {"value": array, "gradients": []})
        if number != "0":
            sent["gradients"].append(array)
    return reply
