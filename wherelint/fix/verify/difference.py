"""What the old text computes, known once for all proofs, and which selections of a rewritten one compute otherwise.

A change inside a selection is proven there, whatever reads it: a proof costs what the selection reads, not what its
function holds.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from wherelint.findings.hazards import Detection
from wherelint.fix.verify.compare import Behavior, Witnessed, at_witness, observe
from wherelint.fix.verify.inputs import inputs_of, names_of, roots_of, settling
from wherelint.fix.verify.shapes import Shaped, Shapes
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Const, Leaf, Node
from wherelint.interpret.programs import Program, expression_id, lowered, own_programs

#: A node of a program, and the one that has its place in another.
Pair = tuple[Node, Node]
#: What tells inputs, and constants, apart.
_LEAF, _CONST = ([f.name for f in fields(kind) if f.name not in Node.__slots__] for kind in (Leaf, Const))


class Baseline:
    """The old text: what its programs compute, and numbers for that. Two nodes with one number compute the same."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module, self._used = module, used
        self._table: dict[Hashable, int] = {}
        self._numbers = WeakKeyDictionary[Program, dict[Node, int]]()
        #: What is told apart by its identity, so that nothing else gets that.
        self._held: list[object] = []
        self._behaviors: dict[tuple[object, ...], Behavior] = {}
        self._witnessed: dict[tuple[object, ...], Witnessed | None] = {}
        self.shapes = Shapes()
        #: What rewritten selections compute, by what tells them apart.
        self.selections: dict[Hashable, Behavior | None] = {}

    def modes(self, name: tuple[str, ...]) -> tuple[bool, ...]:
        """How a function has to be read: strictly as well, unless no call is impure and no default stands in."""
        loose, strict = (own_programs(self._module, name, self._used, mode) for mode in (False, True))
        alike = len(loose) == len(strict) and all(map(self._is_alike, loose, strict))
        return (False,) if alike else (False, True)

    def _is_alike(self, a: Program, b: Program) -> bool:
        one, other = ([self.of(p)[n] for n in (*roots_of(p), *p.measured)] for p in (a, b))
        return one == other and a.opaque_calls == b.opaque_calls

    def behavior(self, program: Program, detection: Detection) -> Behavior:
        """What a program of the old text, or a part of one, computes around the witness of a hazard."""
        key = detection.key, program.name, *program.outputs
        if key not in self._behaviors:
            self._behaviors[key] = observe(program, detection)
        return self._behaviors[key]

    def at_witness(self, program: Program, detection: Detection) -> Witnessed | None:
        """What a program of the old text is given at the witness of a hazard."""
        key = detection.key, program.name, *program.outputs
        if key not in self._witnessed:
            self._witnessed[key] = at_witness(program, detection)
        return self._witnessed[key]

    def of(self, program: Program) -> dict[Node, int]:
        """The number of each node of a program."""
        if program not in self._numbers:
            names = inputs_of(program)
            numbers: dict[Node, int] = {}
            for node in settling([*roots_of(program), *program.measured], shapes=True):
                own = _LEAF if isinstance(node, Leaf) else _CONST if isinstance(node, Const) else ()
                facts = [self._frozen(getattr(node, name), numbers) for name in own]
                name = names.get(node) if isinstance(node, Leaf) else None
                operands = tuple(numbers[i] for i in node.inputs)
                key: Hashable = (node.op, node.kind, node.selection, node.static, name, *facts, operands)
                numbers[node] = self._table.setdefault(key, len(self._table))
            self._numbers[program] = numbers
        return self._numbers[program]

    def numbered(self, old: Program, new: Program, pairs: Iterable[Pair]) -> Iterator[Hashable]:
        """What tells selections apart, each with its rewrite: all that they compute, and when."""
        for pair in pairs:
            for program, node in zip((old, new), pair, strict=True):
                numbers = self.of(program)
                yield tuple(numbers.get(n, n) for n in (node, *node.path_conditions))

    def _frozen(self, value: Any, numbers: Mapping[Node, int]) -> Hashable:
        if isinstance(value, np.ndarray):
            return value.shape, value.tobytes()
        if isinstance(value, (tuple, list)):
            return tuple(self._frozen(each, numbers) for each in value)
        if isinstance(value, Node) and value in numbers:
            return "node", numbers[value]
        with suppress(TypeError):
            hash(value)
            if not isinstance(value, Node):
                return type(value), value
        self._held.append(value)
        return id(value)

    def unchanged(self, after: Module, names: Iterable[tuple[str, ...]]) -> set[Node]:
        """The nodes of a rewritten text that compute what the old one does somewhere: no search finds more in them."""
        numbers: list[list[dict[Node, int]]] = [[], []]
        for module, found in zip((self._module, after), numbers, strict=True):
            for name in names:
                with suppress(GiveUp, RecursionError):
                    found += [self.of(program) for program in lowered(module, name, self._used)]
        known = {number for each in numbers[0] for number in each.values()}
        return {node for each in numbers[1] for node, number in each.items() if number in known}

    def changes(self, old: Program, new: Program, places: Collection[int]) -> dict[int, list[Pair]] | None:
        """The selections at some places that two programs compute otherwise, in pairs.

        None where they differ in something else, or a selection that changed has no counterpart.
        """
        if len(old.outputs) != len(new.outputs) or old.opaque_calls != new.opaque_calls:
            return None
        numbers = {**self.of(old), **self.of(new)}
        measured = [{numbers[n] for n in program.measured} for program in (old, new)]
        if measured[0] != measured[1] and self.shapes.differ(Shaped((), old.measured), Shaped((), new.measured)):
            return None
        waiting: list[tuple[Node, Node, bool]] = []
        for a, b in zip(old.outputs, new.outputs, strict=True):
            if len(a.path_conditions) != len(b.path_conditions):
                return None
            waiting += [(x, y, False) for x, y in zip((a, *a.path_conditions), (b, *b.path_conditions), strict=True)]
        found: dict[int, list[Pair]] = {}
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
            elif isinstance(a, Leaf) and isinstance(b, Leaf) and _told(a) == _told(b):  # results of one unknown call
                waiting += [(x, y, inside) for x, y in zip(_given(a), _given(b), strict=True)]
                continue
            elif not alike or a.static != b.static:
                if not inside:
                    return None
                waiting += [(a, i, True) for i in b.inputs[1:] if b.op == "where"]  # what a mask was put around
                continue
            waiting += [(x, y, inside) for x, y in zip(a.inputs, b.inputs, strict=True)]
        still = {numbers[n] for n in new.order}
        gone = (expression_id(n) for n in old.order if n.selection and numbers[n] not in still)
        if not set(gone).intersection(places) <= found.keys():
            return None
        return {at: list(dict.fromkeys(pairs)) for at, pairs in found.items()}


def _given(leaf: Leaf) -> list[Node]:
    """The values that an input depends on."""
    return [*leaf.given, *(leaf.of or ())[:1], *((leaf.kept,) if leaf.kept else ())]


def _told(leaf: Leaf) -> list[object]:
    """What tells an input from others, but for the values that it depends on."""
    own = [getattr(leaf, name) for name in _LEAF if name not in ("given", "of", "kept")]
    return [*own, leaf.kind, (leaf.of or ())[1:], len(leaf.given), leaf.kept is None]


def part_of(program: Program, outputs: Sequence[Node]) -> Program | None:
    """A program that computes some of its nodes; None where its inputs would have other names."""
    part = Program(program.name, (), tuple(outputs))
    names = inputs_of(program)
    return part if all(names.get(n) == name for n, name in names_of(roots_of(part)).items()) else None
