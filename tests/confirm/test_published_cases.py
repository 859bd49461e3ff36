"""Every finding in the published bugs is confirmed by its framework, its fix too, and its script shows both."""

from __future__ import annotations

import ast
import contextlib
from functools import cache

import pytest
from fixes import NOT_FIXED
from kept_runs import KeptRuns, device, printed
from real_gradients import require
from test_cases import CASES, FRAMEWORKS, IDS, MISSED, POSITIVE, read

from wherelint.confirm import confirm
from wherelint.confirm.routine import Snippet
from wherelint.confirm.script import script
from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

FOUND = [name for name in POSITIVE if name not in MISSED]


@cache
def findings(name: str, file: str = "unsafe.py") -> tuple[Finding, ...]:
    content = (CASES / name / file).read_bytes()
    return check_source(content, file, Settings(), "offer").findings


@cache
def confirmed(framework: str) -> dict[str, list[Finding]]:
    """The findings of every case of a framework, confirmed by one child process at most."""
    names = [name for name in FOUND if FRAMEWORKS[read(name)["framework"]] == framework]
    owners = [name for name in names for _ in findings(name)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wherelint.confirm.Harness", KeptRuns)
        made, problems = confirm([finding for name in names for finding in findings(name)], device())
    assert problems == []
    return {name: [f for f, owner in zip(made, owners, strict=True) if owner == name] for name in names}


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", FOUND)
def test_every_finding_is_confirmed(name: str) -> None:
    framework = FRAMEWORKS[read(name)["framework"]]
    require(framework)
    for finding in confirmed(framework)[name]:
        assert finding.confirmation is not None
        assert finding.confirmation.verdict == "confirmed", finding.confirmation
        assert finding.confirmation.framework_version
        # The modes that the finding names are those in which the framework fails.
        for mode in finding.modes:
            slopes = finding.confirmation.modes[mode].gradient.values()
            assert any("nan" in str(slope) or "inf" in str(slope) for slope in slopes), mode


@pytest.mark.parametrize("name", [name for name in FOUND if name not in NOT_FIXED])
def test_every_fix_is_confirmed(name: str) -> None:
    framework = FRAMEWORKS[read(name)["framework"]]
    require(framework)
    for finding in confirmed(framework)[name]:
        assert finding.confirmation is not None
        assert finding.confirmation.after_fix is not None
        assert finding.confirmation.after_fix.value_unchanged
        assert finding.confirmation.after_fix.gradient_finite


@pytest.mark.parametrize("name", IDS)
def test_nothing_is_confirmed_of_a_repair(name: str) -> None:
    assert findings(name, "safe.py") == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FOUND)
def test_the_script_shows_it(name: str) -> None:
    """The script prints the gradient that is not finite, and after the fix one that is."""
    require(FRAMEWORKS[read(name)["framework"]])
    for finding in findings(name):
        assert isinstance(finding.snippet, Snippet)
        text = script(finding.snippet, finding)
        assert all(len(line) <= 400 for line in text.splitlines())
        ast.parse(text)
        before, _, after = printed(FRAMEWORKS[read(name)["framework"]], text).partition("after the fix: ")
        values, slopes = _parts(before)
        assert not _broken(values)
        assert _broken(slopes), text
        if finding.snippet.after is not None:
            values_after, slopes_after = _parts("after the fix: " + after)
            assert not _broken(slopes_after), text
            assert _numbers(values_after) == pytest.approx(_numbers(values), rel=1e-4, abs=1e-5)


def _parts(printed: str) -> tuple[str, str]:
    """The value and the gradients that a script printed."""
    value, *slopes = printed.split("gradient with respect to")
    return value.split(": value", 1)[1].rpartition("\n")[0], " ".join(part.partition(":")[2] for part in slopes)


def _broken(text: str) -> bool:
    return "nan" in text or "inf" in text


def _numbers(text: str) -> list[float]:
    found = []
    for word in text.replace("[", " ").replace("]", " ").replace(",", " ").replace("tf.Tensor(", " ").split():
        with contextlib.suppress(ValueError):
            found.append(float(word))
    return found
