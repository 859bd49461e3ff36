"""Fuzzing for as long as one likes: ``python tests/fuzz.py --minutes 30 --seed 7``.

A program that breaks a promise is made as small as it gets, and kept in a file.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mutations import Mutator

from wherelint import rules
from wherelint.confirm.routine import Snippet
from wherelint.confirm.script import script
from wherelint.defects import DEFECT
from wherelint.finding import FileReport, Finding
from wherelint.findings import analyse
from wherelint.fix.verify.findings import key
from wherelint.frontend.options import DetectOptions
from wherelint.io.config import Settings
from wherelint.io.edits import Source, consistent
from wherelint.io.files import FixMode
from wherelint.run.check import check_source

SETTINGS = Settings(root=Path("/"))
EVERYTHING = replace(SETTINGS, select=tuple(rules.codes()), level="note")


class Broken(AssertionError):
    """A promise that a program shows not to be kept."""

    def __init__(self, promise: str, text: str, detail: object = "") -> None:
        super().__init__(f"{promise}\n{detail}\n{text}")
        self.promise = promise


def parses(text: str) -> ast.Module | None:
    """The tree of a text, None where Python takes it for no program."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def look(text: str, settings: Settings = SETTINGS, fix_mode: FixMode = "no") -> FileReport:
    """The report on a text, which tells of no defect and is the same a second time."""
    name = "f.ipynb" if text.startswith("{") else "f.py"
    content = text.encode("utf-8", "surrogatepass")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning is an exception that went by
        report = check_source(content, name, settings, fix_mode)
        again = check_source(content, name, settings, fix_mode)
    said = [problem.message for problem in report.problems]
    said += [f.fix.message for f in (*report.findings, *report.fixed) if f.fix is not None]
    said += [f.snippet for f in report.findings if isinstance(f.snippet, str)]
    for message in said:
        if DEFECT in message:
            raise Broken(f"no exception escapes ({message})", text)
    if output(report) != output(again):
        raise Broken("the output is the same every time", text, f"{output(report)}\n{output(again)}")
    return report


def output(report: FileReport) -> str:
    """Everything that a report says: nan is nan here."""
    snippets = [script(f.snippet, f) if isinstance(f.snippet, Snippet) else f.snippet for f in report.findings]
    return f"{report}\n{snippets}"


def check(text: str, settings: Settings = SETTINGS) -> Counter[str]:
    """Hold a text against every promise, and count what it led to."""
    counts = Counter(programs=1)
    tree = parses(text)
    report = look(text, settings)
    counts["parsing"] += tree is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts["searched"] += tree is not None and not isinstance(analyse(text, "f.py", DetectOptions()), str)
    if tree is None and report.findings:
        raise Broken("nothing is found in what does not parse", text)
    if any(problem.error for problem in report.problems):
        counts["refused"] += 1
        return counts
    counts["gave up"] += bool(report.problems)
    counts["with a finding"] += bool(report.findings)
    counts["findings"] += len(report.findings)
    if not report.findings:
        return counts
    _offers(text, settings, report)
    for fix_mode in ("safe", "unsafe"):
        counts[f"fixed ({fix_mode})"] += len(_repaired(text, settings, fix_mode, report.findings))
    counts["silenced"] += _silenced(text, settings, tree, report)
    return counts


def _offers(text: str, settings: Settings, report: FileReport) -> None:
    offered = look(text, settings, "offer")
    if _bare(offered.findings) != _bare(report.findings):
        raise Broken("a fix that is offered changes no finding", text)
    for finding in offered.findings:
        if finding.fix is not None and finding.fix.edits:
            if not consistent(finding.fix.edits):
                raise Broken("the edits of a fix leave each other alone", text, finding.fix)
            if parses(Source(text).edited(finding.fix.edits)) is None:
                raise Broken("what a fix makes parses", text, finding.fix)
        if isinstance(finding.snippet, Snippet) and parses(script(finding.snippet, finding)) is None:
            raise Broken("the script of a finding parses", text, script(finding.snippet, finding))


def _bare(findings: tuple[Finding, ...]) -> str:
    return str([replace(finding, fix=None) for finding in findings])


def _repaired(text: str, settings: Settings, fix_mode: FixMode, before: tuple[Finding, ...]) -> tuple[Finding, ...]:
    report = look(text, settings, fix_mode)
    if not report.fixed:
        return ()
    after = report.after.decode()
    if parses(after) is None:
        raise Broken(f"a file that was fixed ({fix_mode}) parses", text, after)
    come = _high(report.findings) - _high(before)
    if come:
        raise Broken(f"a fix ({fix_mode}) adds no finding", text, f"{come}\n{after}")
    again = look(after, settings, fix_mode)
    if again.fixed or _bare(again.findings) != _bare(report.findings):
        raise Broken(f"a second run ({fix_mode}) changes nothing", text, f"{after}\n----\n{again.after.decode()}")
    return report.fixed


def _high(findings: tuple[Finding, ...]) -> Counter[tuple[str, ...]]:
    return Counter(key(finding) for finding in findings if finding.is_shown)


def _silenced(text: str, settings: Settings, tree: ast.Module | None, before: FileReport) -> int:
    report = look(text, settings, "silence")
    if not report.fixed:
        return 0
    after = report.after.decode()
    silent = parses(after)
    if tree is None or silent is None or ast.dump(tree) != ast.dump(silent):
        raise Broken("silencing changes nothing about the program", text, after)
    if _bare(look(after, settings).findings) != _bare(report.findings):
        raise Broken("what was silenced stays silent", text, after)
    if len(report.findings) + len(report.fixed) < len(before.findings):
        raise Broken("what is not shown any more was said to be silenced", text, after)
    if {f.code for f in report.fixed} & {"WL001"}:
        raise Broken("a comment that silences nothing is not silenced", text, after)
    return len(report.fixed)


def notebook(text: str, rng: random.Random) -> str:
    """A notebook whose cells are the pieces of a text, some with a magic in them."""
    cells = []
    for piece in text.split("\n\n\n"):
        magic = rng.choice(["", "", "", "%matplotlib inline\n", "%%time\n", "!ls\n", "x = !ls\n", "%%bash\n", "x?\n"])
        source: str | list[str] = magic + piece
        if rng.random() < 0.5:
            source = (magic + piece).splitlines(keepends=True)
        cells.append({"cell_type": rng.choice(["code"] * 7 + ["markdown"]), "metadata": {}, "outputs": [],
                      "execution_count": None, "source": source})  # fmt: skip
    made = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(made, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)


def check_notebook(text: str) -> Counter[str]:
    """The promises that a notebook is held against."""
    counts = Counter(notebooks=1)
    report = look(text, fix_mode="unsafe")
    counts["fixed in notebooks"] += len(report.fixed)
    for fix_mode in ("unsafe", "silence"):
        changed = look(text, fix_mode=fix_mode)  # type: ignore[arg-type]
        if changed.fixed:
            after = changed.after.decode()
            old, new = json.loads(text), json.loads(after)
            for cell in (*old["cells"], *new["cells"]):
                cell["source"] = ""
            if old != new:
                raise Broken(f"nothing but the source of cells changes ({fix_mode})", text, after)
            if look(after, fix_mode=fix_mode).fixed:  # type: ignore[arg-type]
                raise Broken(f"a second run changes nothing in a notebook ({fix_mode})", text, after)
    return counts


def one(rng: random.Random) -> Counter[str]:
    """One program, as a file and now and then as a notebook as well."""
    text = Mutator(rng).program()
    settings = EVERYTHING if rng.random() < 0.25 else SETTINGS
    counts = check(text, settings)
    if counts["findings"] and rng.random() < 0.2:
        counts += check_notebook(notebook(text, rng))
    return counts


def smaller(text: str, broken: Callable[[str], bool]) -> str:
    """The text without the rows, and then the nodes, that the failure does not need."""
    lines = text.split("\n")
    size = max(1, len(lines) // 2)
    while size:
        start = 0
        while start < len(lines):
            fewer = lines[:start] + lines[start + size :]
            if fewer and broken("\n".join(fewer)):
                lines = fewer
            else:
                start += size
        size //= 2
    return "\n".join(lines)


def _promise(text: str) -> str | None:
    """Which promise a program breaks."""
    for settings in (SETTINGS, EVERYTHING):
        try:
            check_notebook(text) if text.startswith("{") else check(text, settings)
        except Broken as error:
            return error.promise
        except Exception as error:
            return repr(error)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None, help="of the first program (default: arbitrary)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where failures are kept")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 32)
    end = time.monotonic() + 60 * arguments.minutes
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    slowest = (0.0, 0)
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            counts += one(random.Random(seed))
        except Exception as error:
            promise = error.promise if isinstance(error, Broken) else repr(error)
            failures[promise] += 1
            if failures[promise] == 1:
                _keep(arguments.keep, seed, promise, error)
        slowest = max(slowest, (time.monotonic() - start, seed))
        seed += 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    print(f"slowest: {slowest[0]:.1f} s, seed {slowest[1]}; next seed: {seed}")
    for promise, count in failures.most_common():
        print(f"BROKEN {count} times: {promise}")
    return 1 if failures else 0


def _keep(directory: Path, seed: int, promise: str, error: Exception) -> None:
    text = Mutator(random.Random(seed)).program()
    if _promise(text) == promise:
        text = smaller(text, lambda fewer: _promise(fewer) == promise)
    directory.mkdir(exist_ok=True)
    (directory / f"{seed}.py").write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    (directory / f"{seed}.txt").write_text(
        "".join(traceback.format_exception(error)), encoding="utf-8", errors="replace"
    )
    print(f"seed {seed}: {promise}\n  kept in {directory / str(seed)}.py", flush=True)


if __name__ == "__main__":
    sys.exit(main())
