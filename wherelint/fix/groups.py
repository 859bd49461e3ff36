"""Rewrites of one file proven together: its functions are read once, and each selection is compared at its own probes.

A rewrite that changes only what a selection computes is proven there: whatever reads it is given the same. So a proof
costs what the selection reads, not what its function holds.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wherelint.finding import Edit, Finding
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection
from wherelint.fix.comparison import Comparison, key
from wherelint.fix.opaque import names_of, settling
from wherelint.fix.proof import finite_at, inputs_of, record, roots_of, same
from wherelint.fix.shapes import Shaped, differ
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.names import written
from wherelint.frontend.screen import heirs
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Const, Leaf, Node, topological
from wherelint.interpret.programs import Program, expression_id, lowered, own_programs
from wherelint.io.edits import compatible
from wherelint.search.budget import WorkBudget

Function = tuple[str, ...]
#: The findings of one cause.
Places = Sequence[tuple[Finding, Detection]]

#: The variables that the lines of an edit bind.
BINDS = re.compile(r"^[ \t]*(\w+) = ", re.MULTILINE)
_MOST_CALLERS = 6
#: What tells inputs, and constants, apart.
_LEAF, _CONST = ([f.name for f in fields(kind) if f.name not in Node.__slots__] for kind in (Leaf, Const))


class Attempt(NamedTuple):
    """A rewrite that may fix a finding."""

    finding: Finding
    detection: Detection
    #: The functions that hold the two places, and those that call them.
    names: Sequence[Function]
    callers: Sequence[Function] = ()
    edits: Sequence[Edit] = ()
    #: The findings that have to go with it.
    targets: Sequence[Finding] = ()


def proven(analysis: Analysis, attempts: Sequence[Attempt], whole: WorkBudget) -> list[Attempt]:
    """Those of some rewrites, far enough from each other to be made at once, that can be proven so.

    What is left may be right as well: a change that reaches further than a selection takes a proof of its own.
    """
    while attempts and not whole.spent:
        failing = _failing(analysis, attempts, whole)
        if failing is None and len(attempts) == 1:
            break
        if failing is None:
            middle = len(attempts) // 2
            return [each for half in (attempts[:middle], attempts[middle:]) for each in proven(analysis, half, whole)]
        if not failing:
            return list(attempts)
        attempts = [each for each in attempts if not any(each is one for one in failing)]
    return []


def otherwise(analysis: Analysis, after: Module, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The rewrites whose functions, and callers, cannot be proven to compute the same in another text."""
    concerned: dict[Function, list[Attempt]] = {}
    for each in attempts:
        for name in [*each.names, *each.callers]:
            concerned.setdefault(name, []).append(each)
    places = {expression_id(each.detection.hazard.select) for each in attempts}
    told = [
        each
        for name, some in concerned.items()
        for strict in (False, True)
        for each in _compared(analysis, after, name, strict, some, places)
    ]
    shown = {id(each) for each, holds in told if holds} - {id(each) for each, holds in told if not holds}
    return [each for each in attempts if id(each) not in shown]


def _failing(analysis: Analysis, attempts: Sequence[Attempt], whole: WorkBudget) -> list[Attempt] | None:
    """The rewrites that cannot be proven at their selections; None where it is not known which those are."""
    edits = list(dict.fromkeys(edit for each in attempts for edit in each.edits))
    source = analysis.module.source
    try:
        module = analysis.module.project.revised(source.edited(edits))
    except (SyntaxError, ValueError):
        return None
    failing = otherwise(analysis, module, attempts)
    if failing:
        return None if len(failing) == len(attempts) else failing
    compared = Comparison(source, edits, analysis.findings)
    names = list(dict.fromkeys(name for each in attempts for name in each.names))
    targets = list({id(finding): finding for each in attempts for finding in each.targets}.values())
    kinds = set(map(key, targets))

    def near(root: Node) -> bool:
        origin = root.origin
        return origin.block.module is not module or compared.at(targets, *origin.block.region(origin.node))

    same = Unchanged(analysis, names).within(module)

    def fresh(root: Node) -> bool:
        return root not in same or near(root)

    for only in (fresh, near):  # nothing of high confidence has come, and nothing of what was to go is left
        low = only is near
        after = analyse_functions(
            module, analysis.used, names, frozenset(), low=low, draft=True, only=only, whole=whole
        )
        found = [f for f in after.findings if not low or key(f) in kinds]
        if after.problems or not compared.gone(targets, found):
            return None
    return []


def _compared(
    analysis: Analysis, module: Module, name: Function, strict: bool, some: Sequence[Attempt], places: Collection[int]
) -> Iterator[tuple[Attempt, bool]]:
    """For each rewrite whose selection a function computes otherwise, whether that is proven to be the same."""
    try:
        old, new = (own_programs(m, name, analysis.used, strict) for m in (analysis.module, module))
    except (GiveUp, RecursionError):
        old, new = [], []
    matching = bool(old) and [p.name for p in old] == [p.name for p in new]
    for before, after in zip(old, new, strict=True) if matching else ():
        changed = changes(before, after, places)
        if changed is None:
            matching = False
            break
        around = [each for each in some if expression_id(each.detection.hazard.select) in changed]
        mine = [each for each in around if each.detection.program.name == before.name and not strict]
        finite = finite_at(before, after, [each.detection for each in mine])
        yield from ((each, False) for each, holds in zip(mine, finite, strict=True) if not holds)
        for each in around:
            pairs = changed[expression_id(each.detection.hazard.select)]
            yield each, _holds(analysis, (before, after), pairs, each.detection, strict)
    if not matching:
        yield from ((each, False) for each in some)


def _holds(
    analysis: Analysis,
    programs: tuple[Program, Program],
    pairs: Sequence[tuple[Node, Node]],
    detection: Detection,
    strict: bool,
) -> bool:
    """Whether the selections of a rewrite compute the same, and their gradients are those that were meant."""
    before, after = (_only(program, [pair[i] for pair in pairs]) for i, program in enumerate(programs))
    if before is None or after is None:
        return False
    known, asked = analysis.module.kept.setdefault(record, {}), (detection.key, strict, *before.outputs)
    if asked not in known:
        known[asked] = record(before, detection)
    now = same(known[asked], after, detection.framework)
    if now is None or now.worse or now.crossed or now.doubtful or now.remains or now.unclean:
        return False
    if detection.hazard.select.selection == "multiply" and now.lost:
        return False  # a product drops nothing where the mask is 1
    return not strict or differ(Shaped(before.outputs), Shaped(after.outputs), now.crossed) is False


class Taken:
    """Edits that are made at once: apart from those that they share they touch no other, nor bind its names."""

    def __init__(self, module: Module) -> None:
        self._blocks = [(block.first, block.last) for _, block in module.blocks]
        self._edits: set[Edit] = set()
        self._bound: set[tuple[int, str]] = set()

    def takes(self, edits: Iterable[Edit]) -> bool:
        """Whether some more fit, which are made as well then."""
        own = [edit for edit in edits if edit not in self._edits]
        bound = {(self._block(edit), name) for edit in own for name in BINDS.findall(edit.content)}
        if bound & self._bound or not compatible(own, list(self._edits)):
            return False
        self._edits.update(own)
        self._bound |= bound
        return True

    def _block(self, edit: Edit) -> int:
        return next((first for first, last in self._blocks if first <= edit.location.row <= last), 0)


def concerned(analysis: Analysis, detection: Detection) -> tuple[list[Function], list[Function]]:
    """The functions that hold the two places of a hazard; those that call them, and the heirs of any."""
    module, hazard = analysis.module, detection.hazard
    known = set(screen.roots(module, everything=True))
    names = [detection.name]
    callers: list[Function] = []
    for node in (hazard.op, hazard.select):
        parts = tuple(node.origin.function.split(".")) if node.origin.block.module is module else ()
        for name in (parts[:2], parts[:1]):
            if name in known:
                names.append(name)
                callers += screen.referring(module, written(name[-1]))[:_MOST_CALLERS]
                break
    callers += [heir for name in (*names, *callers) if len(name) > 1 for heir in heirs(module, name)]
    return list(dict.fromkeys(names)), [name for name in dict.fromkeys(callers) if name not in names]


def places_of(analysis: Analysis, finding: Finding) -> Places:
    """The findings of one cause that a search made, as it made them."""
    return [(found, made) for found, made in analysis.places(finding) if made is not None]


def laid_bare(before: Analysis, after: Analysis, finding: Finding) -> bool:
    """Whether what is found after a rewrite was not finite before either, at its witness: it was hidden."""
    places = places_of(after, finding)
    if not places:
        return False
    detection = places[0][1]
    try:
        programs = lowered(before.module, detection.name, before.used, False)
        return any(not finite_at(p, p, [detection])[0] for p in programs if p.name == detection.program.name)
    except (GiveUp, RecursionError):
        return False


def around(detection: Detection) -> Iterator[Node]:
    """The selections that the hazard's own flows through on its way out of the function, the nearest first."""
    select = detection.hazard.select
    reading = {select}
    for node in detection.program.order:
        if node not in reading and not reading.isdisjoint(node.inputs):
            reading.add(node)
            outer = node.op == "where" and node.selection is not None and expression_id(node) != expression_id(select)
            if outer and any(select in topological([i]) for i in node.inputs[1:]):
                yield node


def changes(old: Program, new: Program, places: Collection[int]) -> dict[int, list[tuple[Node, Node]]] | None:
    """The selections at some places that two programs compute otherwise, in pairs.

    None where they differ in something else, or a selection that changed has no counterpart.
    """
    if len(old.outputs) != len(new.outputs) or old.opaque_calls != new.opaque_calls:
        return None
    table: dict[Hashable, int] = {}
    numbers = {**_numbered(old, table), **_numbered(new, table)}
    measured = [{numbers[n] for n in program.measured} for program in (old, new)]
    if measured[0] != measured[1] and differ(Shaped((), old.measured), Shaped((), new.measured), ()) is not False:
        return None
    waiting = [(a, b, False) for a, b in zip(old.outputs, new.outputs, strict=True)]
    for a, b, _ in [*waiting]:
        if len(a.path_conditions) != len(b.path_conditions):
            return None
        waiting += [(x, y, False) for x, y in zip(a.path_conditions, b.path_conditions, strict=True)]
    found: dict[int, list[tuple[Node, Node]]] = {}
    seen = set()
    while waiting:
        a, b, inside = pair = waiting.pop()
        if numbers[a] == numbers[b] or pair in seen:
            continue
        seen.add(pair)
        alike = a.op == b.op and len(a.inputs) == len(b.inputs) > 0
        if alike and a.selection is not None and a.selection == b.selection and expression_id(a) in places:
            found.setdefault(expression_id(a), []).append((a, b))
            inside = True
        elif not alike or a.static != b.static:
            if not inside:
                return None
            waiting += [(a, i, True) for i in b.inputs[1:] if b.op == "where"]  # what a mask was put around
            continue
        waiting += [(x, y, inside) for x, y in zip(a.inputs, b.inputs, strict=True)]
    kept = {numbers[n] for n in new.order}
    gone = (expression_id(n) for n in old.order if n.selection and numbers[n] not in kept)
    if not set(gone).intersection(places) <= found.keys():
        return None
    return {at: list(dict.fromkeys(pairs)) for at, pairs in found.items()}


class Unchanged:
    """What the functions of a text compute, to tell what a rewritten text computes otherwise."""

    def __init__(self, analysis: Analysis, names: Iterable[Function]) -> None:
        self._analysis = analysis
        self._names = list(names)

    @cached_property
    def _known(self) -> tuple[dict[Hashable, int], set[int]]:
        table: dict[Hashable, int] = {}
        return table, {number for p in self._programs(self._analysis.module) for number in _numbered(p, table).values()}

    def within(self, module: Module) -> set[Node]:
        """The nodes of a rewritten text that compute what the old one does somewhere: no search finds more in them."""
        table, known = self._known
        numbered = (_numbered(program, table) for program in self._programs(module))
        return {node for numbers in numbered for node, number in numbers.items() if number in known}

    def _programs(self, module: Module) -> Iterator[Program]:
        for name in self._names:
            with suppress(GiveUp, RecursionError):
                yield from lowered(module, name, self._analysis.used)


def _numbered(program: Program, table: dict[Hashable, int]) -> dict[Node, int]:
    """The nodes of a program, each with a number that says what it computes."""
    names = inputs_of(program)
    numbers: dict[Node, int] = {}
    for node in settling([*roots_of(program), *program.measured], shapes=True):
        known = names.get(node) if isinstance(node, Leaf) else None, *_known(node, numbers)
        kind = node.op, node.kind, node.selection, node.static
        told: Hashable = (*kind, known, tuple(numbers[i] for i in node.inputs))
        numbers[node] = table.setdefault(told, len(table))
    return numbers


def _known(node: Node, numbers: Mapping[Node, int]) -> tuple[Hashable, ...]:
    """What is known of an input or a constant."""
    own = _LEAF if isinstance(node, Leaf) else _CONST if isinstance(node, Const) else ()
    return tuple(_frozen(getattr(node, name), numbers) for name in own)


def _frozen(value: Any, numbers: Mapping[Node, int]) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, (tuple, list)):
        return tuple(_frozen(each, numbers) for each in value)
    if isinstance(value, Node):
        return "node", numbers.get(value, id(value))
    with suppress(TypeError):
        hash(value)
        return type(value), value
    return id(value)


def _only(program: Program, outputs: Sequence[Node]) -> Program | None:
    """A program that computes some of its nodes; None where its inputs would have other names."""
    part = Program(program.name, (), tuple(outputs))
    names = inputs_of(program)
    return part if all(names.get(n) == name for n, name in names_of(roots_of(part)).items()) else None
