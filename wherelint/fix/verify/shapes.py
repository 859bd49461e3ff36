"""Whether a rewrite keeps the shapes: the program with small shapes for its inputs, as far as the source says.

What is not known of a shape, a reshape or a matrix product, is an *atom*: the same for the same operation on the same
shapes, and broadcast with others into the set of all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wherelint.fix.verify.inputs import Name, names_of
from wherelint.frontend.syntax import last_name
from wherelint.graph.node import Const, Leaf, Node, topological
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import MATRICES

_UNIFORM: tuple[tuple[int, ...], ...] = ((), (3,), (4, 3), (0,), (2, 4, 3))
#: Shapes of one input and of all others.
_PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3,), ()), ((), (3,)), ((4, 1), (3,)), ((3,), (4, 1)),
    ((4,), (4, 3)), ((3,), (4, 3)), ((4, 3), (4,)), ((4, 3), (3,)),
)  # fmt: skip
_MOST_LEAVES = 4
_REDUCTIONS = frozenset(
    """sum mean prod max min any all std std_unbiased var var_unbiased norm norm1 norminf euclidean_norm logsumexp
    argmax argmin count_nonzero nansum nanmean nanmax nanmin median""".split()
)
#: Operations that mix elements and keep the shape, reshapes that do, and those of them that move elements.
_ALONG = frozenset("softmax log_softmax cumsum cumprod logcumsumexp l2_normalize normalize".split())
_MOVES = frozenset("sort flip fliplr flipud roll".split())
_COPIES = _MOVES | frozenset(
    """astype to type type_as float double half bfloat16 clone copy contiguous cast asarray as_tensor convert_to_tensor
    constant identity conj conjugate real triu tril detach cpu cuda tensor array ensure_shape""".split()
)
#: Products of elements of the one with elements of the other.
_OUTER = frozenset({"outer", "ger", "kron", "einsum"})
#: Reductions whose first argument after the operand is no axis.
_NORMS = frozenset({"norm", "vector_norm", "matrix_norm"})


@dataclass(frozen=True)
class Atom:
    """A part of a shape that is not known; one number, one part. ``of``: what it reduces with its axes kept."""

    number: int
    of: Shape | None = field(default=None, compare=False)


class Shape(NamedTuple):
    """The known part of a shape, and the atoms that it is broadcast with."""

    known: tuple[int, ...] = ()
    atoms: frozenset[Atom] = frozenset()


class MismatchError(Exception):
    """Shapes that do not go together."""


#: The shapes of some inputs.
Given = Mapping[Name, tuple[int, ...]]


class Shaped(NamedTuple):
    """Values of a program whose shapes matter one by one, and those whose shapes are read somewhere."""

    outlets: tuple[Node, ...]
    measured: tuple[Node, ...] = ()


class Rule(NamedTuple):
    """How a value gets its shape: from those of its operands and some facts, or as the input of a name."""

    shape: Callable[..., Shape]
    facts: tuple[Hashable, ...] = ()
    name: Name | None = None


class Shapes:
    """The shapes of values, each found once for all programs in which it is computed in the same way."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        #: How the value of each number gets its shape, and the numbers of its operands.
        self._rules: list[tuple[Rule, tuple[int, ...]]] = []
        #: For some shapes of the inputs that of each number; None where those of its operands do not go together.
        self._known: dict[Hashable, dict[int, Shape | None]] = {}

    def differ(self, old: Shaped, new: Shaped) -> bool:
        """Whether values may have another shape, or none, after a rewrite."""
        before, after = self._numbered(old), self._numbered(new)
        pairs = [(before[a], after[b]) for a, b in zip(old.outlets, new.outlets, strict=True)]
        measured = {before[n] for n in old.measured}, {after[n] for n in new.measured}
        for given in _choices(old):
            shapes = self._shapes([*before.values(), *after.values()], given)
            if any(shapes[i] is None for i in before.values()):
                continue  # nobody calls it so
            if any(shapes[i] is None for i in after.values()) or any(shapes[a] != shapes[b] for a, b in pairs):
                return True
            if len({frozenset(shapes[i] for i in numbers) for numbers in measured}) > 1:
                return True
        return False

    def _shapes(self, numbers: Iterable[int], given: Given) -> dict[int, Shape | None]:
        """The shapes of some values, operands first, and of others."""
        known = self._known.setdefault(frozenset(given.items()), {})
        for number in numbers:
            if number not in known:
                rule, operands = self._rules[number]
                shapes = [known[operand] for operand in operands]
                known[number] = Shape(given[rule.name]) if rule.name is not None and rule.name in given else None
                if known[number] is None and None not in shapes:
                    with suppress(MismatchError):
                        known[number] = rule.shape(shapes, *rule.facts)
        return known

    def _numbered(self, each: Shaped) -> dict[Node, int]:
        """The numbers of all that some values are computed from, operands first: what has one has one shape."""
        roots = [*each.outlets, *each.measured]
        names = names_of(roots)
        likes = [n.like for n in topological(roots) if isinstance(n, Const) and n.like is not None]
        found: dict[Node, int] = {}
        for node in topological([*likes, *roots]):
            like = node.like if isinstance(node, Const) else None
            own = (Rule(joined), (found[like],)) if like in found else None
            key = own or (_rule(node, names), tuple(found[i] for i in node.inputs))
            if key not in self._numbers:
                self._numbers[key] = len(self._rules)
                self._rules.append(key)
            found[node] = self._numbers[key]
        return found

    def misplaced(self, mask: Node, op: Node, between: Iterable[Node]) -> bool:
        """Whether a mask of what is selected may speak of other elements at an operation before that."""
        moving = [node for node in between if _moves(node)]
        if not moving:
            return False
        both = Shaped((mask, op))
        numbers = self._numbered(both)
        tries = [self._shapes(numbers.values(), given) for given in _choices(both)]
        found = [(s[numbers[mask]], s[numbers[op]]) for s in tries if all(s[i] is not None for i in numbers.values())]
        if all(shape == Shape() for shape, _ in found):
            return False
        try:
            return any(n.op != "stack" for n in moving) or any(joined([a, b]) != b for a, b in found if a and b)
        except MismatchError:
            return True


def _moves(node: Node) -> bool:
    """Whether an operation gives elements other places, or mixes them as matrices do."""
    at = node.origin.node if isinstance(node.origin, Origin) else None
    name = last_name(at.func) if isinstance(at, ast.Call) else ""
    if node.op == "identity":
        joins = node.inputs[0].op == "stack" and node.inputs[0].origin == node.origin
        return bool(name) and (name not in _COPIES or name in _MOVES) and not joins
    return name in _OUTER or node.op in ("stack", "gather", "dot", "linear", *MATRICES)


def _choices(each: Shaped) -> Iterator[Given]:
    """Shapes for the inputs: all alike, and each another than the rest."""
    named = names_of([*each.outlets, *each.measured])
    names = [n for x, n in named.items() if x.kind != "int" and not (x.fixed or x.given) and x.default is None]
    names = names[:_MOST_LEAVES]
    yield from (dict.fromkeys(names, shape) for shape in _UNIFORM)
    if len(names) > 1:
        yield from ({**dict.fromkeys(names, others), name: own} for name in names for own, others in _PAIRS)


def _atom(*key: Hashable) -> Shape:
    return Shape((), frozenset([Atom(hash(key))]))


def joined(shapes: Iterable[Shape]) -> Shape:
    """The shape that arrays are broadcast to. Raises where they are not."""
    shapes = [shape for shape in dict.fromkeys(shapes) if shape != Shape()]
    if len(shapes) < 2:
        return shapes[0] if shapes else Shape()
    try:
        known = np.broadcast_shapes(*(shape.known for shape in shapes))
    except ValueError:
        raise MismatchError from None
    atoms = frozenset[Atom]().union(*(shape.atoms for shape in shapes))
    return Shape(known, frozenset(atom for atom in atoms if not _is_within(atom, known, atoms)))


def _is_within(atom: Atom, known: tuple[int, ...], atoms: frozenset[Atom]) -> bool:
    """Whether an atom is a reduction, with its axes kept, of what it is broadcast with: that changes nothing."""
    if atom.of is None or not atom.of.atoms <= atoms:
        return False
    with suppress(ValueError):  # they do not go together
        return np.broadcast_shapes(known, atom.of.known) == known
    return False


def _rule(node: Node, names: Mapping[Leaf, Name]) -> Rule:
    at = node.origin.node if isinstance(node.origin, Origin) else None
    name = last_name(at.func) if isinstance(at, ast.Call) else ""
    if isinstance(node, Leaf):
        called = names.get(node)
        number = node.kind == "int" or node.default is not None or called is None
        told = (node.name,) if node.of is not None else ()
        return Rule(_told, told if number else (called,), called)
    if isinstance(node, Const):
        return Rule(_told, () if node.value.size == 1 else ("constant", node.value.tobytes(), _rest(at)))
    if isinstance(at, ast.Subscript) and node.op in ("identity", "lane", "gather"):
        parts = at.slice.elts if isinstance(at.slice, ast.Tuple) else [at.slice]
        return Rule(_indexed, (*map(_part, parts), ast.dump(at.slice)))
    if node.selection == "assignment":
        return Rule(_assigned)
    if node.op == "identity" and name in _COPIES:
        return Rule(joined)
    if isinstance(at, ast.Call) and name in _OUTER:
        equation = [ast.dump(each) for each in at.args[:1] if name == "einsum"]
        is_product = name == "einsum" and node.op not in ("identity", "sum")
        return Rule(joined) if is_product else Rule(_told, (name, *equation))
    if node.op in _REDUCTIONS and isinstance(at, ast.Call):
        return _reduction(at)
    mixes = node.op in OPERATIONS and OPERATIONS[node.op].mixes and node.op not in _ALONG
    moves = node.op in ("lane", "stack", "pick", "gather", "compress")
    if mixes or moves or (node.op == "identity" and isinstance(at, (ast.Call, ast.Attribute))):
        return Rule(_told, (node.op, _rest(at)))
    return Rule(joined)


def _told(inputs: Sequence[Shape], *facts: Hashable) -> Shape:
    """A shape of which nothing is known but what it depends on; that of a number depends on nothing."""
    return _atom(*facts, *inputs) if facts else Shape()


def _assigned(inputs: Sequence[Shape]) -> Shape:
    return inputs[2]  # the mask may well have fewer axes


def _rest(at: ast.AST | None) -> Hashable:
    """What a call is given besides its operand, or which attribute is read."""
    if isinstance(at, ast.Call):
        return last_name(at.func), *((name, ast.dump(value)) for name, value in _options(at))
    return at.attr if isinstance(at, ast.Attribute) else None


def _options(call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """The arguments after the operand, which a method has before the dot, each with its keyword."""
    first = call.args[0] if call.args else None
    is_method = first is None or isinstance(first, (ast.UnaryOp, ast.Tuple)) or _integer(first) is not None
    given = call.args if is_method else call.args[1:]
    return [*((None, value) for value in given), *((k.arg, k.value) for k in call.keywords)]


def _integer(node: ast.expr | None) -> int | None:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
    return value if type(value) is int else None


def _reduction(call: ast.Call) -> Rule:
    options = _options(call)
    if last_name(call.func) in _NORMS and options and options[0][0] is None:
        options = options[1:]  # the order of the norm
    axis = next((value for name, value in options if name in (None, "axis", "dim")), None)
    given = [value for name, value in options if name is None]
    keep = next((value for name, value in options if name in ("keepdims", "keepdim")), given[1] if given[1:] else None)
    kept = keep.value if isinstance(keep, ast.Constant) else False if keep is None else None
    if axis is None and kept is False:
        return Rule(_told)
    axes = tuple(map(_integer, axis.elts if isinstance(axis, (ast.Tuple, ast.List)) else [axis]))
    return Rule(_reduced, (axes, kept, *(ast.dump(each) if each is not None else "" for each in (axis, keep))))


def _reduced(inputs: Sequence[Shape], axes: Sequence[int | None], kept: bool | None, *source: str) -> Shape:
    shape = inputs[0]
    if shape.atoms or kept is None or None in axes:
        atom = Atom(hash(("reduction", *source, shape)), shape if kept else None)
        return Shape((), frozenset([atom]))
    rank = len(shape.known)
    places = {a % rank for a in axes if a is not None and rank and -rank <= a < rank}
    if len(places) != len(axes):
        raise MismatchError
    return Shape(tuple(1 if i in places else n for i, n in enumerate(shape.known) if kept or i not in places))


def _indexed(inputs: Sequence[Shape], *facts: str | None) -> Shape:
    """``x[..., None]``, ``x[0]`` and the like; other indices give an atom."""
    shape, (*parts, source) = inputs[0], facts
    if None in parts or parts.count("rest") > 1 or shape.atoms:
        return _atom("index", source, shape)
    parts += [] if "rest" in parts else ["rest"]
    left = len(shape.known) - sum(part in ("keep", "drop") for part in parts)
    if left < 0:
        raise MismatchError
    sizes = iter(shape.known)
    known: list[int] = []
    for part in parts:
        axes = [1] if part == "new" else [next(sizes) for _ in range(left if part == "rest" else 1)]
        known += axes if part != "drop" else []
    return Shape(tuple(known))


def _part(part: ast.expr) -> str | None:
    """What one index does to the axes; None where that is not known."""
    if isinstance(part, ast.Slice):
        return "keep" if part.lower is part.upper is part.step is None else None
    if isinstance(part, ast.Constant) and part.value in (None, ...):
        return "new" if part.value is None else "rest"
    return "drop" if _integer(part) is not None else None
