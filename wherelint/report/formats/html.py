"""The report to look at: one page that needs nothing else, with a plot of each finding."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from wherelint.evidence.pieces import labelled
from wherelint.finding import Finding, Problem
from wherelint.report import text
from wherelint.report.common import join_and, level, place_of, printable
from wherelint.report.frame import Line, frame
from wherelint.report.plot import COLORS, svg
from wherelint.rules import Rule

CELLS = FIXES = TEXTS = True
#: The template, its style and its script.
_PAGE = Path(__file__).parents[1] / "page"
_COLUMNS = 110
#: A name in a sentence.
_NAMED = re.compile(r"`([^`'\"{}]+)`")


def render(
    findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str, texts: dict[str, str]
) -> str:
    """The page. What comes from files is escaped, and no script runs but ours, whose digest the page names."""
    style, script = (Markup((_PAGE / name).read_text("utf-8")) for name in ("page.css", "page.js"))
    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, finalize=_one_line, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters["marked"] = _marked
    helps = {rule.code: rule.help for rule in rules}
    shown = [_finding(f"f{i}", f, helps, texts.get(f.filename)) for i, f in enumerate(findings, 1)]
    where = len({finding.filename for finding in findings})
    page = environment.get_template("page.html").render(
        code=_code,
        colors=COLORS if any(each["plot"] for each in shown) else {},
        confirmed=any(finding.confirmation for finding in findings),
        digest=b64encode(sha256(script.encode()).digest()).decode(),
        findings=shown,
        headline=f"{text.count(len(findings), 'finding')} in {text.count(where, 'file')}",
        problems=[(place_of(each), each.message, level(each)) for each in problems],
        unchecked=len(problems),
        script=script,
        style=style,
        summary=list(_summary([each["keys"] for each in shown])),
        version=version,
    )
    return page.rstrip("\n")


def _one_line(value: object) -> object:
    """Text on one line, without what would be obeyed; what is markup already, as it is."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _marked(sentence: str) -> Markup:
    """A sentence with what stands in backticks as code."""
    code = Markup("<code>{}</code>")
    parts = _NAMED.split(printable(sentence))
    return Markup().join(code.format(part) if i % 2 else part for i, part in enumerate(parts))


def _code(lines: Sequence[Line]) -> Markup:
    """Lines in their styles."""
    span, newline = Markup('<span class="{}">{}</span>'), Markup("\n")
    marked = newline.join(Markup().join(span.format(style, printable(text)) for text, style in line) for line in lines)
    return Markup('<pre tabindex="0">{}</pre>').format(marked)


def _finding(name: str, finding: Finding, helps: Mapping[str, str], source: str | None) -> dict[str, Any]:
    """What the page shows of a finding; without the text of its file, neither code nor changes."""
    keys = {"rule": f"{finding.code} {finding.name}", "file": finding.filename, "level": finding.level}
    if finding.confirmation is not None:
        keys["verdict"] = text.VERDICTS[finding.confirmation.verdict]
    places = [] if source is None else [("", frame(source, finding, _COLUMNS))]
    places += [
        (f"{other.filename}:{other.location.row}: {other.message}", frame(*text.alone(finding, other), _COLUMNS))
        for other in finding.elsewhere
    ]
    return {
        "also": [(place_of(place), place.code, place.message) for place in finding.also],
        "caption": _caption(finding),
        "diff": [] if source is None else list(text.change(source, finding)),
        "evidence": [(e.label, f"{e.weight:+g}") for e in sorted(labelled(finding.evidence), key=lambda e: e.label)],
        "finding": finding,
        "fix": finding.fix.applicability if finding.fix is not None and finding.fix.offered else "none",
        "frames": places,
        "keys": {key: _one_line(value) for key, value in keys.items()},
        "name": name,
        "notes": list(text.notes(finding, helps)),
        "place": printable(place_of(finding)),
        "plot": _plot(finding, name),
    }


def _plot(finding: Finding, name: str) -> Markup | None:
    if finding.plot is None:
        return None
    return Markup(svg(finding.plot, name).replace("<svg", f'<svg id="{name}-plot"', 1))


def _caption(finding: Finding) -> str:
    """What moves in a plot, and why there may be no curve after the fix."""
    if (plot := finding.plot) is None:
        return ""
    if len(plot.moved) == 1:
        moves = f"Only {plot.moved[0]} changes; at the witness it is {plot.witness:g}"
    else:
        moves = f"{join_and(list(dict.fromkeys(plot.moved)))} change together, through the witness"
    if plot.after is not None:
        return f"{moves}."
    fixed = finding.fix is not None and finding.fix.offered
    why = "wherelint could not follow the fixed program to this selection" if fixed else "no fix is offered"
    return f"{moves}. There is no curve after the fix: {why}."


def _summary(keys: Sequence[Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    """For each thing that can be chosen, how many findings there are of which, the most frequent first."""
    for key in ("rule", "file", "level", "verdict"):
        counts = Counter(each[key] for each in keys if key in each)
        if counts:
            yield {"key": key, "counts": sorted(counts.items(), key=lambda item: (-item[1], item[0]))}
