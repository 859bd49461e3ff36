"""What each stage of a check makes of a place, as text: why something is reported there, or why nothing is."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wherelint import rules
from wherelint.evidence import pieces
from wherelint.finding import Finding
from wherelint.findings import analyse
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import arithmetic
from wherelint.fix import offered_for, work_budget
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.options import DetectOptions
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Const, Leaf, Node, leaves, nearest_framework, topological
from wherelint.interpret.programs import Program, lowered
from wherelint.interpret.values import Origin
from wherelint.io.config import Settings
from wherelint.ops import OPERATIONS
from wherelint.ops.numeric import shortest
from wherelint.report.text import change, witness_sentence
from wherelint.search.batch import Hazard, Run
from wherelint.search.budget import WorkBudget
from wherelint.search.probes import Inputs
from wherelint.search.simplify import simplest
from wherelint.search.whole_program import InProgram
from wherelint.search.witness import Search
from wherelint.suppress.view import view

#: So much is printed of a graph, of the searches, and of a line.
_MOST_NODES, _MOST_SEARCHES, _LONGEST = 40, 6, 110


def debug(text: str, filename: str, row: int, settings: Settings) -> Iterator[str]:
    """The lines to print about a row of a text: source, module, program, search, finding, fix.

    Nothing of the text is imported or executed. Raises SyntaxError where the text is not Python.
    """
    path = Path(os.path.abspath(filename))
    codes = settings.codes_for(path)
    evidence = settings.evidence_for(path)
    options = DetectOptions(settings.aliases, rules.previews(codes), said=evidence)
    analysis = analyse(text, filename, options)
    yield f"source    {filename}, row {row}: {text.splitlines()[row - 1].strip()}"
    if isinstance(analysis, str):
        yield f"module    not searched: {analysis} (explain limits)"
        return
    yield f"module    {', '.join(analysis.used)}"
    analysis = analysis.with_evidence(*evidence) if evidence else analysis
    for problem in analysis.problems:
        yield f"          {problem.message}"
    yield from _dismissed(analysis.module, row)
    programs = list(_programs(analysis, row))
    if not programs:
        yield "program   no searched function computes anything in this row"
    for program in programs:
        yield from _graph(program, row)
        yield from _searches(analysis, program, row)
    yield from _findings(analysis, programs, text, row, settings, codes)


def _dismissed(module: Module, row: int) -> Iterator[str]:
    """A line for each function of a row that a check does not read."""
    read = {*screen.roots(module), *screen.inherited(module)}
    for name, node in module.once(screen.functions).items():
        if name not in read and node.lineno <= row <= (node.end_lineno or 0):
            yield f"screen    `{'.'.join(name)}` is skipped: no singular operation in it reaches a selection"


def _programs(analysis: Analysis, row: int) -> Iterator[Program]:
    """The graphs of the functions that compute something in a row."""
    module = analysis.module
    for name in screen.roots(module, everything=True):
        block = module.definitions[name[0]].block
        if block.first <= row <= block.last:
            try:
                found = lowered(module, name, analysis.used)
            except (GiveUp, RecursionError):  # it is among the problems
                continue
            yield from (each for each in found if any(_at(node, module.filename, row) for node in _nodes(each)))


def _nodes(program: Program) -> list[Node]:
    return topological([*program.outputs, *program.made])


def _at(node: Node, filename: str, row: int) -> bool:
    """Whether a node is written in a row, or begins there and ends below."""
    origin = node.origin
    if not isinstance(origin, Origin) or origin.block.module.filename != filename:
        return False
    start, end = origin.block.region(origin.node)
    return start.row == row or (start.row <= row <= end.row and node.selection is not None)


def _graph(program: Program, row: int) -> Iterator[str]:
    """A line for each operation of the row, and for what it reads."""
    here = [node for node in _nodes(program) if _marked(node, row)]
    read = topological(here)
    inputs = [f"{n.name} ({n.kind}{'' if n.differentiable else ', not differentiated'})" for n in leaves(*here)]
    size, reads = len(_nodes(program)), _cut(", ".join(inputs) or "no input")
    yield f"program   `{program.name}`: {size} nodes; this row reads {reads}"
    computed = [node for node in read if not isinstance(node, (Leaf, Const))]
    number = {node: i for i, node in enumerate(computed, 1)}
    if len(computed) > _MOST_NODES:
        yield f"          ... {len(computed) - _MOST_NODES} operations before these"
    for node in computed[-_MOST_NODES:]:
        operands = ", ".join(f"%{number[i]}" if i in number else _spelled(i) for i in node.inputs)
        line = f"%{number[node]} = {node.op}({operands})"
        notes = "; ".join(filter(None, [f"selects ({node.selection})" if node.selection else "", _singular(node)]))
        yield f"        {'>' if node in here else ' '} {_cut(line):<44}{_place(node):<8}{notes}".rstrip()


def _marked(node: Node, row: int) -> bool:
    return isinstance(node.origin, Origin) and _at(node, node.origin.block.module.filename, row)


def _spelled(node: Node) -> str:
    return node.name if isinstance(node, Leaf) else str(shortest(node.value)) if isinstance(node, Const) else "?"


def _singular(node: Node) -> str:
    operation = OPERATIONS.get(node.op)
    return f"singular {operation.place}" if operation is not None and operation.code is not None else ""


def _place(node: Node) -> str:
    if not isinstance(node.origin, Origin):
        return ""
    start, _ = node.origin.block.region(node.origin.node)
    return f"{start.row}:{start.column}"


class _Recorded(Search):
    """A search that notes how much it tries."""

    #: How many inputs were tried; at how many the value is finite, the gradient is not, and a dropped arm is why.
    probes = finite = broken = witnesses = 0

    def run(self, *batches: Inputs, **options: Any) -> Run:
        for batch in batches:
            values = evaluate(self.order, batch)
            fit = self.allowed(values) & self._finite(values)
            self.probes += len(fit)
            self.finite += int(fit.sum())
        found = super().run(*batches, **options)
        self.broken += len(found.witness)
        self.witnesses += int(found.witness.sum())
        return found


def _searches(analysis: Analysis, program: Program, row: int) -> Iterator[str]:
    """What the search of each selection at the row, or above an operation at the row, came to."""
    selects = [node for node in program.made if node.selection is not None]
    roots = [node for node in selects if _marked(node, row) or any(_marked(n, row) for n in topological([node]))]
    if not roots:
        yield "search    this row has no selection, and no selection reads its results"
    for root in roots[:_MOST_SEARCHES]:
        nearest = nearest_framework(root)
        framework = arithmetic(nearest if nearest and nearest in analysis.used else analysis.used[0])
        effort = WorkBudget(analysis.module.budget.function_work)
        whole = InProgram(program, framework, analysis.module.budget)
        search = _Recorded(root, framework, effort, whole)
        hazards = search.hazards()
        yield f"search    the {root.selection} at {_place(root)}, with the derivatives of {framework}"
        moved = ", ".join(n.name for n in search.guard.movable())
        yield f"          inputs that the condition reads: {moved or 'none'}"
        yield f"          {search.probes} inputs tried, from {len(search.starts)} starting points"
        for hazard in hazards:
            yield f"hazard    {hazard.op.op} at {_place(hazard.op)}: {_witness(simplest(search, hazard))}"
        if not hazards:
            yield f"          no hazard: {_why_none(search)}"


def _witness(hazard: Hazard) -> str:
    inputs = [f"{n.name} = {shortest(v)}" for n, v in hazard.inputs.items() if isinstance(n, Leaf)]
    bad = [f"{n.name}: {shortest(v)}" for n, v in hazard.gradient.items() if not np.isfinite(v).all()]
    return _cut(f"at {', '.join(inputs)} the value is {shortest(hazard.value)}, the gradient {', '.join(bad)}")


def _why_none(search: _Recorded) -> str:
    if search.root not in search.requires_grad:
        return "no gradient flows back from this selection to an input"
    if not any(_singular(node) for node in search.order):
        return "it reads no singular operation"
    if not search.starts:
        return "no input satisfies the conditions around it"
    counts = {
        "the value is not finite": search.probes - search.finite,
        "the gradient is finite": search.finite - search.broken,
        "the gradient is nan, but no selection causes it": search.broken - search.witnesses,
        "the whole function is not finite": search.witnesses,
    }
    return "; ".join(f"at {count} {what}" for what, count in counts.items() if count)


def _findings(
    analysis: Analysis, programs: Sequence[Program], text: str, row: int, settings: Settings, codes: Collection[str]
) -> Iterator[str]:
    """The findings at the row, what speaks for and against each, whether it is shown, and its fix."""
    here = [f for f in analysis.findings if row in (f.location.row, f.select.location.row)]
    if not here:
        functions = {each.name for each in programs}
        near = [f.select.location for f in analysis.findings if f.function in functions]
        where = ", ".join(f"{at.row}:{at.column}" for at in dict.fromkeys(near))
        yield "finding   none" + (f" in this row; this function has some at {where}" if near else "")
    noqa = not settings.ignore_noqa
    seen = view(analysis, text, analysis.module.filename, codes, settings.level, noqa=noqa)
    shown = {place.sort_key() for finding in seen.shown for place in finding.places}
    fixes = offered_for(analysis, here, settings.fixed_codes, work_budget())
    for finding, fix in zip(here, fixes, strict=True):
        at = finding.location
        yield f"finding   {finding.code} {finding.name} at {at.row}:{at.column}: {finding.message}"
        if finding.witness is not None:
            yield f"          {_cut(witness_sentence(finding.witness))}"
        for piece in sorted(pieces.labelled(finding.evidence), key=lambda piece: (-abs(piece.weight), piece.label)):
            yield f"evidence  {piece.weight:+6.2f}  {piece.label}: {piece.sentence}"
        why = _shown(finding, finding.sort_key() in shown, settings, codes)
        yield f"score     {finding.score:.2f}: {finding.level}; {why}"
        if fix is None:
            yield "fix       none: this rule has none"
            continue
        yield f"fix       {f'{fix.applicability}: ' if fix.offered else ''}{fix.message}"
        for line in change(text, replace(finding, fix=fix)):
            yield f"      {''.join(part for part, _ in line)}"


def _shown(finding: Finding, shown: bool, settings: Settings, codes: Collection[str]) -> str:
    if shown:
        return "shown"
    if finding.code not in codes:
        return "not shown: the rule is off"
    if not finding.reaches(settings.level):
        return f"not shown: the level is {settings.level}"
    return "not shown: a comment silences it"


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
