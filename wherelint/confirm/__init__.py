"""Confirm findings: run their snippets under the framework, on the accelerator that is there.

Nothing of the linted project is imported, called or read: a snippet is made of the graph, and runs in a child process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from wherelint.confirm.harness import MALFORMED, HangsError, Harness, HarnessError, Limits, LostError
from wherelint.confirm.routine import PROBES, Routine, Snippet, snippet_of
from wherelint.finding import AfterFix, Confirmation, Finding, Number, Outcome
from wherelint.ops import Array
from wherelint.ops.numeric import shortest

__all__ = ["confirm"]

_TOLERANCE = 1e-4
_MOST_NAMES = 6
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError)


def confirm(
    findings: Sequence[Finding],
    device: str = "auto",
    limits: Limits | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Finding], list[str]]:
    """The findings with their confirmations, in the same order, and why a framework could not be run.

    What cannot be run is reported as not runnable. Of several places of one cause, one that is confirmed confirms it,
    and a fix is run at each.
    """
    found: dict[int, Confirmation] = {}
    problems: list[str] = []
    by_framework: dict[str, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.op != "noqa":  # a comment has nothing to run
            by_framework.setdefault(finding.framework, []).append(index)
    for framework, indices in by_framework.items():
        unusable: list[str] = []
        with Harness(framework, device, limits) as harness:
            for index in indices:
                verdicts: list[Confirmation] = []
                for place in findings[index].places:
                    verdicts.append(_confirmation(snippet_of(place), harness, unusable))
                    if verdicts[-1].verdict == "confirmed" and verdicts[-1].after_fix is None:
                        break
                found[index] = max(verdicts, key=lambda each: (each.refutes_fix, each.verdict == "confirmed"))
                progress(len(found))
        problems += unusable
    return [replace(finding, confirmation=found.get(index)) for index, finding in enumerate(findings)], problems


def _confirmation(snippet: Snippet | str, harness: Harness, unusable: list[str]) -> Confirmation:
    """The verdict on one snippet; ``unusable``: why the framework cannot be run."""
    if isinstance(snippet, str):
        return Confirmation("not-runnable", snippet)
    if unusable:
        return Confirmation("not-runnable", unusable[0])
    try:
        return verdict(snippet, harness.run(snippet), harness.version, harness.device)
    except HarnessError as error:
        unusable.append(str(error))
        return Confirmation("not-runnable", str(error))
    except HangsError as error:
        with suppress(LostError, HarnessError, *_MALFORMED):  # another input than the witness may be what hangs
            alone = _at_witness(snippet)
            return verdict(alone, harness.run(alone), harness.version, harness.device)
        return Confirmation("not-runnable", str(error), harness.device or None, harness.version or None)
    except LostError as error:
        return Confirmation("not-runnable", str(error), harness.device or None, harness.version or None)
    except _MALFORMED:
        return Confirmation("not-runnable", MALFORMED, harness.device, harness.version)


def _at_witness(snippet: Snippet) -> Snippet:
    """The program with the witness as its only input; what the fix does elsewhere is not known then."""
    probes = tuple(each[:1] * len(each) for each in snippet.before.probes)
    return replace(snippet, before=replace(snippet.before, probes=probes), after=None)


def verdict(snippet: Snippet, results: Mapping[str, Any], version: str, device: str) -> Confirmation:
    """What the results of a snippet say: the first probe, the witness, decides; or another that should fail like it."""
    before = {mode: _Result(result, snippet.infinite) for mode, result in results["before"].items()}
    shown = np.asarray(np.logical_or.reduce([result.shows for result in before.values()]))
    probe = next((p for p in range(PROBES) if shown[p] and (p == 0 or snippet.poisoned[p])), 0)
    modes = {mode: _outcome(snippet.before, result, probe) for mode, result in before.items()}
    after = None
    if "after" in results and snippet.after is not None:
        after = _after(snippet, before, {mode: _Result(result) for mode, result in results["after"].items()})
    at = _named(snippet.before, (probes[probe] for probes in snippet.before.probes), list(modes.values()))
    if shown[probe]:
        return Confirmation("confirmed", None, device, version, at, modes, after)
    what = "gradient is" if any(result.finite[0] for result in before.values()) else "value itself is not"
    return Confirmation("not-reproduced", f"the {what} finite there", device, version, at, modes, after)


class _Result:
    """Values and gradients of one mode, (probes, elements) each."""

    def __init__(self, sent: Mapping[str, Any], infinite: bool = False) -> None:
        self.value = np.asarray(sent["value"], np.float32).reshape(PROBES, -1)
        self.gradients = [np.asarray(g, np.float32).reshape(PROBES, -1) for g in sent["gradients"]]
        #: The probes at which the value is finite; at the witness it may be the infinity that the author wrote.
        self.finite: Array = np.asarray(np.isfinite(self.value).all(axis=1))
        self.finite[0] |= infinite and not np.isnan(self.value[0]).any()
        #: The probes at which some gradient is not.
        self.bad: Array = np.zeros(len(self.finite), np.bool_)
        for gradient in self.gradients:
            self.bad |= ~np.isfinite(gradient).all(axis=1)
        self.shows: Array = self.finite & self.bad


def _after(snippet: Snippet, before: Mapping[str, _Result], after: Mapping[str, _Result]) -> AfterFix:
    """Whether every value that was a number is the same, and no gradient is lost where one was.

    A value is the same if it is what some mode computed before: compiled code rounds in another way, and ``b*b - a*c``
    makes much of little.
    """
    unchanged, finite = True, True
    repaired = np.asarray(snippet.repaired)
    values = [old.value for old in before.values()]
    for new in after.values():
        same = [np.isclose(new.value, old, rtol=_TOLERANCE, atol=1e-5) | np.isnan(old) for old in values]
        unchanged &= bool(np.logical_or.reduce(same).all())
        finite &= not (new.bad & (repaired | (np.arange(PROBES) == 0))).any()
    return AfterFix(unchanged, finite)


def _outcome(routine: Routine, result: _Result, probe: int) -> Outcome:
    names = [step.name for step in routine.parameters if step.data]
    found: dict[str, Number] = {}
    pairs = zip(names, result.gradients, strict=True)
    for name, gradient in sorted(pairs, key=lambda pair: np.isfinite(pair[1][probe]).all()):
        if len(found) < _MOST_NAMES:
            found.setdefault(name, shortest(gradient[probe]))
    return Outcome(shortest(result.value[probe]), found)


def _named(routine: Routine, rows: Iterable[Sequence[float]], outcomes: Sequence[Outcome]) -> Mapping[str, Number]:
    """The inputs by name, those first of which a gradient is shown."""
    values: dict[str, Number] = {}
    for step, row in zip(routine.parameters, rows, strict=True):
        values.setdefault(step.name, shortest(row, step.kind))
    first = [name for outcome in outcomes for name in outcome.gradient]
    return {name: values[name] for name in list(dict.fromkeys([*first, *values]))[:_MOST_NAMES]}
