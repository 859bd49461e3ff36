"""Whether a rewrite keeps the shapes: the program with small shapes for its inputs, as far as the source says.

What is not known of a shape, a reshape or a matrix product, is an *atom*: the same for the same operation on the same
shapes, and broadcast with others into the set of all of them.
"""

import ast
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
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


class Shape(NamedTuple):
    """The known part of a shape, and the atoms that it is broadcast with."""

    known: tuple[int, ...] = ()
    atoms: frozenset[int] = frozenset()


#: What an atom is the reduction of, if that keeps its axes.
_KEPT: dict[int, Shape] = {}


class MismatchError(Exception):
    """Shapes that do not go together."""


class Shaped(NamedTuple):
    """Values of a program whose shapes matter one by one, and those whose shapes are read somewhere."""

    outlets: tuple[Node, ...]
    measured: tuple[Node, ...] = ()


def differ(old: Shaped, new: Shaped) -> bool:
    """Whether values may have another shape, or none, after a rewrite."""
    _KEPT.clear()
    for before, after in _tries(old, new):
        if after is None or {before[n] for n in old.measured} != {after[n] for n in new.measured}:
            return True
        if any(before[a] != after[b] for a, b in zip(old.outlets, new.outlets, strict=True)):
            return True
    return False


def misplaced(mask: Node, op: Node, between: Iterable[Node]) -> bool:
    """Whether a mask of what is selected may speak of other elements where it stands at an operation before that."""
    moving = [node for node in between if _moves(node)]
    shapes = [found for found, _ in _tries(Shaped((mask, op)), Shaped(()))] if moving else []
    if all(found[mask] == Shape() for found in shapes):
        return False
    try:
        return any(n.op != "stack" for n in moving) or any(joined([s[mask], s[op]]) != s[op] for s in shapes)
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


def _tries(old: Shaped, new: Shaped) -> Iterator[tuple[dict[Node, Shape], dict[Node, Shape] | None]]:
    """The shapes of all values for inputs of shapes that go together: all alike, and each another than the rest.

    None for those of the new program where they do not go together there.
    """
    named = [names_of([*each.outlets, *each.measured]) for each in (old, new)]
    orders = [_order([*each.outlets, *each.measured]) for each in (old, new)]
    names = [n for x, n in named[0].items() if x.kind != "int" and not (x.fixed or x.given) and x.default is None]
    names = names[:_MOST_LEAVES]
    given = [dict.fromkeys(names, shape) for shape in _UNIFORM]
    several = names if len(names) > 1 else ()
    given += [{**dict.fromkeys(names, others), name: own} for name in several for own, others in _PAIRS]
    for each in given:
        before, after = (_shapes(order, called, each) for order, called in zip(orders, named, strict=True))
        if before is not None:  # nobody calls it so
            yield before, after


def _order(roots: Sequence[Node]) -> list[Node]:
    """What values are computed from, and before that what constants have the shape of."""
    likes = [n.like for n in topological(roots) if isinstance(n, Const) and n.like is not None]
    return topological([*likes, *roots])


def _shapes(
    order: Sequence[Node], names: dict[Leaf, Name], given: dict[Name, tuple[int, ...]]
) -> dict[Node, Shape] | None:
    """The shapes of every value; None where they do not go together."""
    found: dict[Node, Shape] = {}
    for node in order:
        if isinstance(node, Const) and node.like in found:
            found[node] = found[node.like]
        elif isinstance(node, Leaf):
            name = names.get(node)
            number = node.kind == "int" or node.default is not None or name is None
            unknown = (Shape() if node.of is None else _atom(node.name)) if number else _atom(name)
            found[node] = Shape(given[name]) if name in given else unknown
        else:
            try:
                found[node] = _operation(node, [found[i] for i in node.inputs])
            except MismatchError:
                return None
    return found


def _atom(*key: Hashable) -> Shape:
    return Shape((), frozenset([hash(key)]))


def joined(shapes: Iterable[Shape]) -> Shape:
    """The shape that arrays are broadcast to. Raises where they are not."""
    shapes = [shape for shape in dict.fromkeys(shapes) if shape != Shape()]
    if len(shapes) < 2:
        return shapes[0] if shapes else Shape()
    try:
        known = np.broadcast_shapes(*(shape.known for shape in shapes))
    except ValueError:
        raise MismatchError from None
    atoms = frozenset[int]().union(*(shape.atoms for shape in shapes))
    return Shape(known, frozenset(atom for atom in atoms if not _is_within(atom, known, atoms)))


def _is_within(atom: int, known: tuple[int, ...], atoms: frozenset[int]) -> bool:
    """Whether an atom is a reduction, with its axes kept, of what it is broadcast with: that changes nothing."""
    reduced = _KEPT.get(atom)
    if reduced is None or not reduced.atoms <= atoms:
        return False
    with suppress(ValueError):  # they do not go together
        return np.broadcast_shapes(known, reduced.known) == known
    return False


def _operation(node: Node, inputs: Sequence[Shape]) -> Shape:
    at = node.origin.node if isinstance(node.origin, Origin) else None
    name = last_name(at.func) if isinstance(at, ast.Call) else ""
    if isinstance(node, Const):
        return Shape() if node.value.size == 1 else _atom("constant", node.value.tobytes(), _rest(at))
    if isinstance(at, ast.Subscript) and node.op in ("identity", "lane", "gather"):
        return _indexed(at, inputs[0])
    if node.selection == "assignment":
        return inputs[2]  # the mask may well have fewer axes
    if node.op == "identity" and name in _COPIES:
        return joined(inputs)
    if isinstance(at, ast.Call) and name in _OUTER:
        equation = [ast.dump(each) for each in at.args[:1] if name == "einsum"]
        is_product = name == "einsum" and node.op not in ("identity", "sum")
        return joined(inputs) if is_product else _atom(name, *equation, *inputs)
    if node.op in _REDUCTIONS and isinstance(at, ast.Call):
        return _reduced(at, inputs[0])
    mixes = node.op in OPERATIONS and OPERATIONS[node.op].mixes and node.op not in _ALONG
    moves = node.op in ("lane", "stack", "pick", "gather", "compress")
    if mixes or moves or (node.op == "identity" and isinstance(at, (ast.Call, ast.Attribute))):
        return _atom(node.op, _rest(at), *inputs)
    return joined(inputs)


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


def _reduced(call: ast.Call, shape: Shape) -> Shape:
    options = _options(call)
    if last_name(call.func) in _NORMS and options and options[0][0] is None:
        options = options[1:]  # the order of the norm
    axis = next((value for name, value in options if name in (None, "axis", "dim")), None)
    given = [value for name, value in options if name is None]
    keep = next((value for name, value in options if name in ("keepdims", "keepdim")), given[1] if given[1:] else None)
    kept = keep.value if isinstance(keep, ast.Constant) else False if keep is None else None
    if axis is None and kept is False:
        return Shape()
    axes = [_integer(each) for each in (axis.elts if isinstance(axis, (ast.Tuple, ast.List)) else [axis])]
    if shape.atoms or kept is None or None in axes:
        found = _atom("reduction", *(ast.dump(each) if each is not None else "" for each in (axis, keep)), shape)
        if kept:
            _KEPT.update(dict.fromkeys(found.atoms, shape))
        return found
    rank = len(shape.known)
    places = {a % rank for a in axes if a is not None and rank and -rank <= a < rank}
    if len(places) != len(axes):
        raise MismatchError
    return Shape(tuple(1 if i in places else n for i, n in enumerate(shape.known) if kept or i not in places))


def _indexed(at: ast.Subscript, shape: Shape) -> Shape:
    """``x[..., None]``, ``x[0]`` and the like; other indices give an atom."""
    parts = [*map(_part, at.slice.elts if isinstance(at.slice, ast.Tuple) else [at.slice])]
    if None in parts or parts.count("rest") > 1 or shape.atoms:
        return _atom("index", ast.dump(at.slice), shape)
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
