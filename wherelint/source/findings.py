"""From the selections of a file to its findings: search each one, name the culprit once, say it in words."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wherelint import rules
from wherelint.finding import Finding, Number, Problem, Selection, Witness
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Node, leaves, topological
from wherelint.graph.search import CLIPS, Hazard, Search, singular_operations
from wherelint.ops import OPERATIONS, Array
from wherelint.source import gate, severed
from wherelint.source.module import GiveUp, Module
from wherelint.source.options import DetectOptions
from wherelint.source.roots import Program, flowing_back, programs
from wherelint.source.values import Origin

_MOST_INPUTS = 6
_CUTS = frozenset({"WL401", "WL402"})
_MOST_SINKS = 8
_BY_SELECTION = {
    "index": "WL201", "multiply": "WL202", "nan_to_num": "WL203", "maximum": "WL204", "minimum": "WL204", "fmax": "WL204",
    "fmin": "WL204", "clip": "WL204", "relu": "WL204", "relu6": "WL204", "reduction": "WL205", "assignment": "WL206",
}  # fmt: skip
_KINDS = {"fmax": "maximum", "fmin": "minimum"}


@dataclass(frozen=True)
class _Seen:
    """A hazard with the framework it was found under and the ways of running it that show it."""

    hazard: Hazard
    framework: str
    modes: tuple[str, ...]
    search: Search

    @property
    def key(self) -> tuple[int, int]:
        return _place(self.hazard.op), _place(self.hazard.select)


def _place(node: Node) -> int:
    origin = node.origin
    return id(origin.node) if isinstance(origin, Origin) else id(node)


def findings(text: str, filename: str, options: DetectOptions) -> tuple[list[Finding], list[Problem]]:
    """The findings of one file and the functions that were given up."""
    module = Module(filename, text, options.aliases)
    used = module.frameworks()
    if not used:
        return [], []
    seen: dict[tuple[int, int], _Seen] = {}
    asked: dict[tuple[str, int], Finding] = {}
    problems: list[Problem] = []
    callers = _Callers(module, used)
    for name in gate.roots(module, everything=bool(options.opt_in & _CUTS)):
        try:
            for program in programs(module, name, used, "jax.numpy"):
                callers.add(name, program)
                for item in _search(program, module, used):
                    known = seen.get(item.key)
                    if known is None or (known.hazard.confidence == "low" and item.hazard.confidence == "high"):
                        seen[item.key] = item
                for finding in _opt_in(program, used, filename, options.opt_in):
                    asked.setdefault((finding.code, hash(finding.location)), finding)
        except (GiveUp, RecursionError) as error:
            why = str(error) or "it is nested too deeply"
            problems.append(Problem(filename, f"gave up on `{'.'.join(name)}`: {why}", error=False))
    seen = {key: item for key, item in seen.items() if not _only_severed(item, callers)}
    return [_finding(s, related, filename) for s, related in _one_per_bug(seen.values())] + list(
        asked.values()
    ), problems


class _Callers:
    """How the functions of a file use each other: whether a gradient flows back through a call."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module = module
        self._used = used
        self._lowered: set[tuple[str, ...]] = set()
        self._flows: dict[str, list[bool]] = {}

    def add(self, name: tuple[str, ...], program: Program) -> None:
        """Take note of the calls that a program inlined."""
        self._lowered.add(name)
        for function, flows in program.inlined:
            self._flows.setdefault(function, []).append(flows)

    def of(self, function: str) -> list[bool]:
        """For every call of a function in its file: does a gradient flow through it?"""
        last = function.rpartition(".")[2]
        for name in gate.referring(self._module, last):
            if name not in self._lowered:
                try:
                    for program in programs(self._module, name, self._used, "jax.numpy"):
                        self.add(name, program)
                except (GiveUp, RecursionError):
                    return []
        return self._flows.get(function, [])


def _only_severed(seen: _Seen, callers: _Callers) -> bool:
    """Whether a private helper is only ever called where no gradient flows: under ``no_grad``, into ``stop_gradient``."""
    function = seen.hazard.select.origin.function
    if function != seen.hazard.op.origin.function or not function.rpartition(".")[2].startswith("_"):
        return False
    flows = callers.of(function)
    return bool(flows) and not any(flows)


def _opt_in(program: Program, used: Sequence[str], filename: str, codes: frozenset[str]) -> Iterable[Finding]:
    """Findings of the rules that are off unless they are asked for."""
    if "WL302" in codes:
        for root in program.made:
            if root.selection is not None and root.op == "where":
                framework = _framework(root) or used[0]
                search = Search(root, "xla" if framework == "tensorflow" else framework)
                for hazard in search.admitted():
                    yield _build(
                        "WL302", hazard.op, hazard.op.op, hazard.select, framework, filename, witness=_witness(hazard)
                    )
    if codes & _CUTS:
        for code, node, op in severed.severed(program):
            if code in codes:
                framework = _framework(node) or used[0]
                yield _build(code, node, op, node, framework, filename, witness=severed.witness(node))


def _search(program: Program, module: Module, used: Sequence[str]) -> Iterable[_Seen]:
    for root in _roots(program, module):
        framework = _framework(root) or used[0]
        arithmetic = "xla" if framework == "tensorflow" else framework
        search = Search(root, arithmetic)
        for hazard in search.hazards():
            modes: tuple[str, ...] = ()
            if framework == "tensorflow":
                modes = ("eager", "xla") if Search(root, "tensorflow").shows(hazard) else ("xla",)
            if _value_is_finite(program, hazard):
                yield _Seen(hazard, framework, modes, search)


def _value_is_finite(program: Program, hazard: Hazard) -> bool:
    """Whether anything finite leaves the function at the witness; a program that is nan anyway loses no gradient."""
    reading = {hazard.select}
    for node in program.order:
        if not reading.isdisjoint(node.inputs):
            reading.add(node)
    sinks = [s for s in program.sinks if s.kind == "float" and s in reading][:_MOST_SINKS]
    if not sinks:
        return True
    order = topological(sinks)
    inputs = dict(hazard.inputs)
    for node in order:
        if node.op == "leaf" and node not in inputs:
            inputs[node] = np.full((1, 1), True if node.kind == "bool" else np.float32(0.75))
    values = evaluate(order, inputs)
    return any(bool(np.isfinite(values[s]).all()) for s in sinks)


def _roots(program: Program, module: Module) -> list[Node]:
    """Selections with something singular among what they drop, and singular operations that a clip feeds."""
    made = set(program.made)
    selections = [n for n in program.made if n.selection is not None]
    fed = singular_operations(topological(program.made)) if any(n.selection in CLIPS for n in selections) else []
    return [n for n in [*selections, *(n for n in fed if n in made)] if _worth_searching(n, program, module)]


_TESTS = frozenset({"isnan", "isfinite", "isinf", "isneginf", "isposinf"})


def _worth_searching(root: Node, program: Program, module: Module) -> bool:
    """Whether a cotangent of the root meets a singular operation, or data that the condition calls missing.

    What a helper does to its own operations is asked where the helper is analysed on its own; here only what it does
    to others, or others to it.
    """
    missing = any(node.op in _TESTS for node in topological([root]))
    met = [n for n in flowing_back([root]) if _singular(n) and (n is not root or root.op != "where")]
    if not met and not missing:
        return False
    home = root.origin.block.module is module
    name = root.origin.function
    if home and (name == program.name or name.partition(".")[0] not in module.definitions or _is_nested(name, module)):
        return True
    return any(n.origin.function != root.origin.function and (home or n.origin.block.module is module) for n in met)


def _is_nested(name: str, module: Module) -> bool:
    """Whether a function stands inside another one, where only its callers bring it to be analysed."""
    top = module.definitions[name.partition(".")[0]].statement
    return name.count(".") > (1 if isinstance(top, ast.ClassDef) else 0)


def _singular(node: Node) -> bool:
    entry = OPERATIONS.get(node.op)
    return entry is not None and (entry.code is not None or entry.unselected is not None)


def _framework(root: Node) -> str | None:
    """The framework of the nearest call that names one."""
    layer, seen = [root], {root}
    while layer:
        following = []
        for node in layer:
            if node.framework is not None:
                return node.framework
            fresh = [i for i in node.inputs if i not in seen]
            seen.update(fresh)
            following += fresh
        layer = following
    return None


def _one_per_bug(seen: Iterable[_Seen]) -> list[tuple[_Seen, list[Node]]]:
    """One finding a singular operation and selection; selections further out over the same operation are related."""
    by_op: dict[int, list[_Seen]] = {}
    for item in seen:
        by_op.setdefault(_place(item.hazard.op), []).append(item)
    kept: list[tuple[_Seen, list[Node]]] = []
    for items in by_op.values():
        selected = [i for i in items if not _onto(i.hazard)]
        items = selected or items
        reads = {id(i): {_place(n) for n in topological([i.hazard.select])} for i in items}
        for item in items:
            inner = [o for o in items if o is not item and _place(o.hazard.select) in reads[id(item)]]
            if any(o.hazard.confidence == "high" or item.hazard.confidence == "low" for o in inner):
                continue
            outer = [o.hazard.select for o in items if o is not item and _place(item.hazard.select) in reads[id(o)]]
            kept.append((item, outer))
    return kept


def _onto(hazard: Hazard) -> bool:
    """Whether the selection is a clip below the operation rather than a selection above it."""
    return hazard.select.selection in CLIPS and hazard.select in set(topological([hazard.op]))


def _code(hazard: Hazard) -> str:
    if _onto(hazard):
        return "WL303" if _epsilon_lost(hazard) else "WL301"
    code = _BY_SELECTION.get(hazard.select.selection or "")
    if code is not None:
        return code
    if hazard.missing_data:
        return "WL111"
    if _epsilon_lost(hazard):
        return "WL303"
    entry = OPERATIONS.get(hazard.op.op)
    return (entry.code if entry is not None else None) or "WL111"


def _epsilon_lost(hazard: Hazard) -> bool:
    """Whether float32 rounded a guarding constant away: regular in float64, and a constant is 0 or 1 only in float32."""
    order = topological([hazard.op])
    lost = False
    for node in order:
        if node.op == "const":
            exact = node.params["value"].astype(np.float64)
            rounded = exact.astype(np.float32).astype(np.float64)
            lost = lost or bool(((rounded != exact) & np.isin(rounded, (0.0, 1.0, -1.0))).any())
    if not lost:
        return False
    double = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in hazard.inputs.items()}
    search = Search(hazard.op, "jax")
    values = evaluate(search.order, double, np.float64)
    operands = [values[i] for i in hazard.op.inputs]
    parts = OPERATIONS[hazard.op.op].vjp(np.ones_like(values[hazard.op]), values[hazard.op], *operands)
    return all(bool(np.isfinite(p).all()) for p in parts if p is not None)


def _finding(seen: _Seen, related: Sequence[Node], filename: str) -> Finding:
    hazard = seen.search.simplest(seen.hazard)
    return _build(
        _code(hazard), hazard.op, hazard.op.op, hazard.select, seen.framework, filename, witness=_witness(hazard),
        confidence=hazard.confidence, modes=seen.modes, related=tuple(_selection(n) for n in related),
    )  # fmt: skip


def _build(code: str, at: Node, op: str, select: Node, framework: Any, filename: str, **more: Any) -> Finding:
    start, end = _region(at)
    selection = _selection(select)
    return Finding(
        code=code,
        name=rules.get(code).name,
        message=rules.message(code, op, selection.kind, framework, more.get("modes", ())),
        filename=filename,
        location=start,
        end_location=end,
        select=selection,
        function=select.origin.function,
        framework=framework,
        op=op,
        noqa_row=start.row,
        **{"confidence": "high", **more},
    )


def _region(node: Node) -> Any:
    origin: Origin = node.origin
    return origin.block.region(origin.node)


def _selection(node: Node) -> Selection:
    kind = node.selection or ""
    return Selection(_KINDS.get(kind, kind), *_region(node))


def _witness(hazard: Hazard) -> Witness:
    """The inputs that the operation or the condition reads, the value, and the gradients that are not finite."""
    read = leaves(hazard.op, hazard.select)
    named = [n for n in read if n in hazard.inputs and not str(n.params["name"]).startswith("(")]
    bad = {n for n, g in hazard.gradient.items() if not np.isfinite(g).all()}
    named.sort(key=lambda n: n not in bad)
    inputs = {str(n.params["name"]): _number(hazard.inputs[n]) for n in named[:_MOST_INPUTS]}
    gradient = {str(n.params["name"]): _number(hazard.gradient[n]) for n in named[:_MOST_INPUTS] if n in bad}
    return Witness(inputs, _number(hazard.value), gradient)


def _number(array: Array) -> Number:
    """A lane-constant value as one number; float32 in its shortest spelling."""
    flat = [float(str(v)) for v in np.asarray(array, np.float32).reshape(-1)]
    first = flat[0]
    same = all(v == first or (v != v and first != first) for v in flat)
    return first if same else flat
