"""The reports for people: ``full`` with a code frame, ``concise`` with a line a finding, and the last lines."""

import json
import math
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from wherelint import rules
from wherelint.evidence.pieces import LEVELS, Level
from wherelint.finding import Elsewhere, FileReport, Finding, Fix, Location, Number, Problem, Selection, Witness
from wherelint.io.edits import Source, diff
from wherelint.io.encoding import decode
from wherelint.io.notebook import spelled
from wherelint.report.advice import advice
from wherelint.report.common import (
    a_level,
    fixable_mark,
    join_and,
    level,
    message_of,
    other_places,
    place_of,
    printable,
)
from wherelint.report.frame import Line, frame

#: What rich makes of the styles; plain text ignores them.
_STYLES = {
    "path": "bold",
    "error": "bold red",
    "warning": "bold yellow",
    "note": "cyan",
    "code_name": "bold",
    "gutter": "blue",
    "operation": "bold red",
    "selection": "bold yellow",
    "label": "bold cyan",
    "dim": "dim",
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
}

#: Characters of the code of a rule.
_CODE = 5
#: Sentences are not spread over a wider terminal than this; code is.
_SENTENCE = 120


def full(report: FileReport, helps: Mapping[str, str], width: int) -> list[Line]:
    """Every finding of a file with its code frame; ``helps`` says by code what to do about it."""
    lines: list[Line] = []
    changed: dict[object, Finding] = {}
    for finding in report.findings:
        lines.append([*_head(finding), (f"{finding.code} {finding.name}", "code_name")])
        lines += frame(report.text, finding, width)
        for other in finding.elsewhere:
            lines.append([(f"{other.filename}:{other.location.row}:{other.location.column}", "path"), (": ", "")])
            lines[-1].append((other.message, ""))
            lines += frame(*alone(finding, other), width)
        edits = finding.fix.edits if finding.fix is not None else ()
        same = changed.setdefault(edits, finding)
        repeated = finding.fix is not None and finding.fix.offered and same is not finding
        own = advice(finding, report.text) if finding.code in helps else None
        for label, sentence in notes(finding, {finding.code: own} if own else helps):
            if label == "fix" and repeated:
                sentence = f"the same as for {spelled(same.location, same.cells)}, above"
            lines += _wrapped(label, sentence, min(width, _SENTENCE))
        lines += [] if repeated else change(report.text, finding)
        lines.append([])
    return lines


def _head(finding: Finding) -> Line:
    """``path:row:column: level: ``."""
    return [(place_of(finding), "path"), (": ", ""), (finding.level, finding.level), (": ", "")]


def alone(finding: Finding, other: Elsewhere) -> tuple[str, Finding]:
    """What is known of another file, and a finding that stands at a place there."""
    mark = Selection("", other.location, other.end_location)
    text = "\n" * (other.location.row - 1) + other.rows
    return text, replace(finding, location=mark.location, end_location=mark.end_location, select=mark, cells=())


def change(text: str, finding: Finding) -> Iterable[Line]:
    """The lines that a fix takes away and puts in their place."""
    edits = finding.fix.edits if finding.fix is not None else ()
    if not edits:
        return
    source = Source(text)
    first = min(edit.location.row for edit in edits)
    last = min(max(edit.end_location.row for edit in edits), len(source.lines))
    start, rest = source.offset(Location(first, 1)), text[source.offset(Location(last + 1, 1)) :]
    before, after = (each[start:].removesuffix(rest) for each in (text, source.edited(edits)))
    for line in diff(before, after, "", context=0)[2:]:
        if not line.startswith("@@"):
            yield [("    ", ""), (line.partition("\n")[0], "added" if line.startswith("+") else "removed")]


def patch(report: FileReport) -> Iterable[Line]:
    """What the fixes of a file change, as a unified diff."""
    before, after = (decode(content)[0] for content in (report.before, report.after))
    styles = {"+": "added", "-": "removed", "@": "hunk"}
    for line in diff(before, after, printable(report.filename)):
        yield [(line, styles.get(line[:1], ""))]


def concise(finding: Finding) -> Line:
    """``path:row:column: level: CODE message``."""
    mark = "" if finding.confirmation is None else f" ({VERDICTS[finding.confirmation.verdict]})"
    code = finding.code, "code_name"
    return [*_head(finding), code, (fixable_mark(finding), "path"), (f" {message_of(finding)}{mark}", "")]


def concise_lines(findings: Iterable[Finding]) -> Iterable[Line]:
    """A line a finding, each once: an operation may be dropped by several selections."""
    return {"".join(piece for piece, _ in line): line for line in map(concise, findings)}.values()


def evidence_line(finding: Finding) -> str:
    """The score of a finding and the evidence behind it, on one line."""
    what = ", ".join(finding.evidence) or "nothing against it"
    return printable(f"{place_of(finding)}: {finding.code} scores {finding.score:.2f}: {what}")


def silenced_line(finding: Finding) -> str:
    """What a comment silences, and the reason that it gives."""
    return printable(f"{place_of(finding)}: {finding.code} is silenced: {finding.silenced or 'no reason given'}")


def fixed_line(finding: Finding) -> Line:
    """``fixed path:row:column: CODE name``, as it stood before."""
    return [("fixed ", "dim"), (place_of(finding), "path"), (f": {finding.code} {finding.name}", "")]


def why_fixed(finding: Finding, fix: Fix | None) -> str:
    """What a fix does, and the witness that it is for."""
    why = fix.message if fix is not None else ""
    if finding.witness is not None:
        then = (fix and _remaining(fix)) or "with the fix it is finite"
        why += f": {witness_sentence(finding.witness)}; {then}"
    return why


def _remaining(fix: Fix) -> str:
    verb = "are" if len(fix.remaining) > 1 else "is"
    return f"gradient stays nan until {join_and(fix.remaining)} {verb} fixed too" if fix.remaining else ""


def fix_line(finding: Finding) -> Line:
    """Why a fix is made, on one line above its patch: no tool takes it for a part of that."""
    why = printable(why_fixed(finding, finding.fix))
    return [("# ", "dim"), (place_of(finding), "path"), (f": {finding.code} {why}", "")]


def fix_table(fixed: Sequence[Finding], left: Sequence[Finding]) -> list[str]:
    """What was fixed and what is left, by file and rule, and why that is."""
    gone, stay = (Counter((f.filename, f.code) for f in findings) for findings in (fixed, left))
    if not gone and not stay:
        return []
    rows = [("file", "rule", "fixed", "left", "why")]
    for filename, code in sorted({*gone, *stay}):
        whys = Counter(_why_left(f) for f in left if (f.filename, f.code) == (filename, code))
        why = "; ".join(f"{number} x {reason}" if number > 1 else reason for reason, number in whys.items())
        rows.append((printable(filename), code, str(gone[filename, code]), str(stay[filename, code]), why))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}  {e}".rstrip()
        for a, b, c, d, e in rows
    ]


def _why_left(finding: Finding) -> str:
    """Why a finding was not fixed."""
    if finding.fix is None:
        return "wherelint searched no fix"
    if finding.fix.applicability == "unsafe":
        return "unsafe: see --unsafe-fixes"
    if finding.fix.offered:
        return _CHANGES
    return finding.fix.message.removeprefix("no fix is offered: ")


def problem_line(problem: Problem) -> str:
    """One line for what could not be checked."""
    return printable(f"{level(problem)}: {place_of(problem)}: {problem.message}")


def fixes(fixed: Sequence[Finding], verb: str, *, ran: bool = False) -> str:
    """``Fixed 3 findings in 2 files.``"""
    files = len({finding.filename for finding in fixed})
    causes = len({(f.filename, id(f) if f.cause is None else f.cause) for f in fixed})
    return f"{verb} {count(causes, 'finding')} in {count(files, 'file')}{'; each fix was confirmed first' * ran}."


def fixable(findings: Iterable[Finding]) -> str:
    """How many of the findings shown a fix is offered for, in brackets; empty for none."""
    offered = Counter(f.fix.applicability for f in findings if f.fix is not None and f.fix.offered)
    parts = [f"{offered['safe']} fixable with --fix"] if offered["safe"] else []
    if offered["unsafe"]:
        parts.append(f"{offered['unsafe']}{' more' if parts else ' fixable'} with --fix --unsafe-fixes")
    return f" ({', '.join(parts)})" if parts else ""


def summary(
    findings: Sequence[Finding], hidden: int, files: int, failed: int = 0, took: str = "", *, left: bool = False
) -> str:
    """The last lines: how much was found, in how many files that could be checked, and how much was not shown."""
    levels = Counter(finding.level for finding in findings)
    found = join_and([count(levels[each], each) for each in LEVELS if levels[each]])
    head = f"{found or 'No findings'} left" if left else f"Found {found}" if found else "No findings"
    unchecked = f", {failed} could not be checked" if failed else ""
    where = len({finding.filename for finding in findings})
    spread = f" in {count(where, 'file')}" if where > 1 else ""
    lines = [f"{head}{spread}{fixable(findings)}, {count(files, 'file')} checked{unchecked}{took}."]
    if hidden:
        verb, what = ("is", "it") if hidden == 1 else ("are", "them")
        lines.append(f"{count(hidden, 'note')} {verb} hidden; see {what} with --level note.")
    return "\n".join(lines)


def passing(findings: Iterable[Finding]) -> str:
    """Why the exit status is 0 although there are findings; empty where there are none."""
    levels = {finding.level for finding in findings}
    surest = next((each for each in LEVELS if each in levels), None)
    if surest is None:
        return ""
    above = " or ".join(f"{each}s" for each in LEVELS[: LEVELS.index(surest)])
    return f"No {above}, so the exit status is 0; --fail-on {surest} makes it 1."


def skipped(counts: Mapping[str, int]) -> str:
    """``5 files skipped: 3 with no framework, 2 with no selection.``; empty for none."""
    reasons = ", ".join(f"{number} with {reason}" for reason, number in sorted(counts.items()))
    return f"{count(sum(counts.values()), 'file')} skipped: {reasons}." if reasons else ""


def statistics(findings: Iterable[Finding]) -> list[str]:
    """Counts by level and code, the surest and the most frequent first; ``[*]`` if some of them are fixable."""
    return [
        f"{number:>6}  {level:<7}  {code}  {'[*]' if fixed else '[ ]'}  {name}"
        for (level, code, name), number, fixed in _counts(findings)
    ]


def statistics_json(findings: Iterable[Finding]) -> str:
    """The same as JSON."""
    keys = "severity", "code", "name", "count", "fixable"
    counts = [dict(zip(keys, (*key, *numbers), strict=True)) for key, *numbers in _counts(findings)]
    return json.dumps(counts, indent=2)


def _counts(findings: Iterable[Finding]) -> list[tuple[tuple[Level, str, str], int, int]]:
    """Findings and fixable findings by level, code and name."""
    counts, fixable = Counter[tuple[Level, str, str]](), Counter[tuple[Level, str, str]]()
    for finding in findings:
        key = finding.level, finding.code, finding.name
        counts[key] += 1
        fixable[key] += bool(fixable_mark(finding))
    ordered = sorted(counts, key=lambda key: (LEVELS.index(key[0]), -counts[key], key))
    return [(key, counts[key], fixable[key]) for key in ordered]


def witness_sentence(witness: Witness) -> str:
    """``at x = 0.0 the value is 0.0 and the gradient with respect to x is nan``."""
    inputs = join_and([f"{name} = {_number(value)}" for name, value in witness.inputs.items()])
    bad = {name: value for name, value in witness.gradient.items() if not _finite(value)} or dict(witness.gradient)
    arrays = {_number(value) for value in bad.values() if isinstance(value, (list, tuple))}
    by_value: dict[str, list[str]] = {}
    for name, value in bad.items():
        told = _number(value) if len(arrays) < 2 or _number(value) not in arrays else "not finite in some elements"
        by_value.setdefault(told, []).append(name)
    gradients = join_and([f"with respect to {_some(names)} is {value}" for value, names in by_value.items()])
    where = f"at {inputs} " if inputs else ""
    given = f"where {join_and(witness.conditions)} " if witness.conditions else ""
    return f"{where}{given}the value is {_number(witness.value)} and the gradient {gradients}"


def _some(names: list[str]) -> str:
    """The first of some names, and how many are left."""
    more = len(names) - _MOST_NAMES
    return join_and(names if more <= 1 else [*names[:_MOST_NAMES], f"{more} more"])


_MOST_NAMES = 3
VERDICTS = {"confirmed": "confirmed", "not-reproduced": "not reproduced", "not-runnable": "not run"}


def confirmation_sentence(finding: Finding) -> tuple[str, str]:
    """A label and a sentence: ``jax 0.10.2 on cpu, under jit and eager; after the fix ...``."""
    confirmation = finding.confirmation
    assert confirmation is not None
    label = VERDICTS[confirmation.verdict]
    ran = f"{finding.framework} {confirmation.framework_version} on {confirmation.device}"
    if confirmation.verdict != "confirmed":
        return label, f"{f'{ran}: ' if confirmation.device else ''}{confirmation.reason}"
    bad = {mode: out for mode, out in confirmation.modes.items() if not all(map(_finite, out.gradient.values()))}
    fine = [mode for mode in confirmation.modes if mode not in bad]
    outcome = next(iter(bad.values()))
    parts = [f"{ran}, {join_and([_MODES[mode] for mode in bad])}"]
    if finding.witness is not None and (calls := [f"`{call}`" for call in finding.witness.unknown]):
        parts.append(f"{join_and(calls)} {'is' if len(calls) == 1 else 'are'} replaced by an input of any value")
    if not _at_witness(finding.witness, confirmation.at):
        parts.append(witness_sentence(Witness(confirmation.at, outcome.value, outcome.gradient)))
    if fine:
        parts.append(f"{join_and([_MODES[mode] for mode in fine])} the gradient is finite")
    after = confirmation.after_fix
    if after is not None:
        gradient = "finite" if after.gradient_finite else "NOT finite"
        value = "unchanged" if after.value_unchanged else "CHANGED"
        parts.append(f"after the fix the gradient is {gradient}, the value {value}")
    return label, "; ".join(parts)


_MODES = {"jit": "under jit", "eager": "in eager mode", "xla": "under XLA"}


def _at_witness(witness: Witness | None, at: Mapping[str, Number]) -> bool:
    """Whether a finding was confirmed at its witness, which is printed already."""
    shared = {} if witness is None else {name: value for name, value in witness.inputs.items() if name in at}
    return bool(shared) and all(str(at[name]) == str(value) for name, value in shared.items())


def confirmations(findings: Iterable[Finding], unconfirmed: int) -> str:
    """``2 confirmed, 1 not reproduced.``; empty where nothing was run."""
    counts: Counter[str] = Counter(f.confirmation.verdict for f in findings if f.confirmation is not None)
    verdicts = ", ".join(f"{counts[verdict]} {word}" for verdict, word in VERDICTS.items() if counts[verdict])
    lines = [f"{verdicts}."] if verdicts else []
    if unconfirmed:
        lines.append(f"{count(unconfirmed, 'unconfirmed finding')} {'is' if unconfirmed == 1 else 'are'} hidden.")
    return "\n".join(lines)


def write(lines: Iterable[Line], stream: TextIO, *, color: bool, exact: bool = False) -> None:
    """Print lines, with colours if asked; the text is the same either way.

    ``exact``: with the blanks at their ends and, unless it is for a terminal, every character as it is: for a patch.
    """
    if not exact or stream.isatty():
        lines = [[(printable(text), style) for text, style in line] for line in lines]
    if not color:
        texts = ("".join(text for text, _ in line) for line in lines)
        stream.writelines((text if exact else text.rstrip()) + "\n" for text in texts)
        return
    from rich.console import Console
    from rich.text import Text
    from rich.theme import Theme

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True, theme=Theme(_STYLES))
    for line in lines:
        console.print(Text.assemble(*((text, _styled(text, style)) for text, style in line)), emoji=False)


def _styled(text: str, style: str) -> str:
    """What rich takes: the code of a rule is a link to its page."""
    if style == "code_name":
        return f"{_STYLES[style]} link {rules.url(text[:_CODE])}"
    return style if style in _STYLES else ""


def page(markdown: str, stream: TextIO) -> None:
    """A page of documentation on a terminal."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=stream, width=min(columns(), 100)).print(Markdown(markdown))


def columns() -> int:
    """How wide the terminal is; Python 3.10 says 0 of one that has no size."""
    return shutil.get_terminal_size().columns or 80


_CHANGES = "it changes a value of the program"
_CAVEATS = {
    "safe": "",
    "unsafe": " (unsafe: check the shapes and the unknown calls)",
    "display": f" (not applied by --fix: {_CHANGES})",
}


def notes(finding: Finding, helps: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What is known of a finding: labels and sentences."""
    yield "why", finding.message
    if finding.witness is not None:
        yield "witness", witness_sentence(finding.witness)
    if finding.why:
        yield f"why {a_level(finding.level)}", finding.why
    if places := other_places(finding):
        codes = dict.fromkeys(places.values())
        others = [f"{code} at {join_and([at for at, its in places.items() if its == code])}" for code in codes]
        is_open = finding.fix is None or finding.fix.offered
        cause = f"one double where can fix all {len(places) + 1}" if is_open else "the cause is the same"
        yield "also", f"{'; '.join(others)}: {cause}"
    if finding.framework == "tensorflow" and finding.modes:
        yield "mode", _mode_sentence(finding.modes)
    if finding.confirmation is not None:
        yield confirmation_sentence(finding)
    if finding.fix is not None and finding.fix.offered:
        then = f"; {_remaining(finding.fix)}" * bool(finding.fix.remaining)
        unsafe = " (unsafe)" if then and finding.fix.applicability == "unsafe" else _CAVEATS[finding.fix.applicability]
        yield "fix", finding.fix.message + then + unsafe
        return
    if finding.code in helps:
        yield "help", helps[finding.code]
    if finding.fix is not None:
        yield "note", finding.fix.message


def _mode_sentence(modes: Sequence[str]) -> str:
    if tuple(modes) == ("xla",):
        return "under XLA only (jit_compile=True); in eager mode this gradient is finite"
    if "xla" not in modes:
        return "in eager mode only; under XLA this gradient is finite"
    return "both in eager mode and under XLA"


def _wrapped(label: str, sentence: str, width: int) -> list[Line]:
    hanging = " " * (len(label) + 4)
    room = max(width - len(hanging), 20)
    first, *rest = textwrap.wrap(sentence, room, break_long_words=False, break_on_hyphens=False) or [""]
    # A line that begins with colons is a command to the runner of GitHub Actions.
    rest = [hanging + re.sub("^::", r"\\::", line) for line in rest]
    return [[("  ", ""), (f"{label}:", "label"), (f" {first}", "")], *([(line, "")] for line in rest)]


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _finite(number: Number) -> bool:
    return all(map(math.isfinite, number)) if isinstance(number, list) else math.isfinite(number)


def _number(number: Number) -> str:
    if isinstance(number, list):
        return f"[{', '.join(map(_number, number))}]"
    # Probes are float32: more digits than these are noise.
    return repr(float(f"{number:.7g}") if isinstance(number, float) else number)
