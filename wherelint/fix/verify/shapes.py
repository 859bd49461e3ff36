"""Whether a rewrite keeps the shapes: the program with small shapes for its inputs, as far as the source says.

What is not known of a shape, a reshape or a matrix product, is an *atom*: the same for the same operation on the same
shapes, and broadcast with others into the set of all of them.
"""

import ast
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary

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
_MOST_LEAVES, _MOST_NODES = 4, 2_000
_REDUCTIONS = frozenset(
    """sum mean prod max min any all std std_unbiased var var_unbiased norm norm1 norminf euclidean_norm logsumexp
    argmax argmin count_nonzero nansum nanmean nanmax nanmin median""".split()
)
#: Operations that mix elements and keep the shape, and reshapes that do.
_ALONG = frozenset("softmax log_softmax cumsum cumprod logcumsumexp l2_normalize normalize".split())
_COPIES = frozenset(
    """astype to type type_as float double half bfloat16 clone copy contiguous cast asarray as_tensor convert_to_tensor
    constant identity conj conjugate real sort flip fliplr flipud roll triu tril detach cpu cuda tensor array
    ensure_shape""".split()
)

#: Of those, what gives elements other places.
_MOVES = frozenset("sort flip fliplr flipud roll".split())

#: Products of every element of the one with every element of the other.
_OUTER = frozenset({"outer", "ger", "kron"})
#: Reductions whose first argument after the operand is no axis.
_NORMS = frozenset({"norm", "vector_norm", "matrix_norm"})


class _Atom:
    """What is not known of a shape. Of one key there is one: atoms are made of atoms, and to compare those would be to
    compare again and again all that they share.
    """

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key


_ATOMS: WeakValueDictionary[Hashable, _Atom] = WeakValueDictionary()


class Shape(NamedTuple):
    """The known part of a shape, and what it is broadcast with."""

    known: tuple[int, ...] = ()
    atoms: frozenset[_Atom] = frozenset()


#: Shapes of the inputs by name; and the shapes of one value, for each of several such tries.
_Given = dict[Name, tuple[int, ...]]
_Column = tuple[Shape, ...]


class MismatchError(Exception):
    """Shapes that do not go together."""


class Shaped(NamedTuple):
    """Values of a program whose shapes matter one by one, and those whose shapes are read somewhere."""

    outlets: tuple[Node, ...]
    measured: tuple[Node, ...] = ()


class _Tried(NamedTuple):
    """Shapes for the inputs that go together, and those of all values then."""

    given: Sequence[_Given]
    found: dict[Node, _Column]


def differ(old: Shaped, new: Shaped, crossed: Collection[Node]) -> bool | None:
    """Whether values have another shape, or none, after a rewrite; None where that is not known.

    ``crossed``: values that calls are given which are not known; what those do with another shape is not known either.
    """
    return _differ(old, new, frozenset(crossed))


@lru_cache(maxsize=4)  # several findings of a function are proven by the same two programs
def _differ(old: Shaped, new: Shaped, crossed: frozenset[Node]) -> bool | None:
    tried = _tried(old)
    if tried is None:
        return None
    roots = [*new.outlets, *new.measured]
    after, failed = _shapes(_order(roots), names_of(roots), tried.given)
    before, unknown = tried.found, False
    for i in range(len(tried.given)):
        if i in failed:
            if not any(before[n][i].atoms for n in old.outlets):
                return True
            unknown = True  # what nobody knows the shape of might have failed as well
            continue
        odd = {before[n][i] for n in old.measured} ^ {after[n][i] for n in new.measured}
        unknown = unknown or bool(odd)
        if odd and not any(shape.atoms for shape in odd):
            return True
        for first, second in zip(old.outlets, new.outlets, strict=True):
            a, b = before[first][i], after[second][i]
            if a != b and not (a.atoms or b.atoms or second in crossed):
                return True
            unknown = unknown or a != b
    return None if unknown else False


def covers(mask: Node, product: Node) -> bool:
    """Whether a mask has as many elements as its product with another value, in every shape that is tried."""
    tried = _tried(Shaped((mask, product)))
    return tried is not None and tried.found[mask] == tried.found[product]


def is_single(node: Node) -> bool:
    """Whether an array has no axis, in every shape of the inputs that is tried."""
    tried = _tried(Shaped((node,)))
    return tried is not None and set(tried.found[node]) == {Shape()}


def misplaced(mask: Node, op: Node, between: Iterable[Node]) -> bool:
    """Whether a mask of what is selected may speak of other elements where it stands at an operation before that."""
    moving = [node for node in between if _moves(node)]
    if not moving or is_single(mask):
        return False
    tried = _tried(Shaped((mask, op)))
    if tried is None or any(node.op != "stack" for node in moving):
        return True
    with suppress(MismatchError):
        return any(joined(pair) != pair[1] for pair in zip(tried.found[mask], tried.found[op], strict=True))
    return True


def _moves(node: Node) -> bool:
    """Whether an operation gives elements other places, or mixes them as matrices do."""
    at = node.origin.node if isinstance(node.origin, Origin) else None
    name = last_name(at.func) if isinstance(at, ast.Call) else ""
    if node.op == "identity":
        joins = node.inputs[0].op == "stack" and node.inputs[0].origin == node.origin
        return bool(name) and (name not in _COPIES or name in _MOVES) and not joins
    return name == "einsum" or name in _OUTER or node.op in ("stack", "gather", "dot", "linear", *MATRICES)


@lru_cache(maxsize=4)
def _tried(shaped: Shaped) -> _Tried | None:
    """Shapes for the inputs that go together, and those of all values then; None for too large a program."""
    roots = [*shaped.outlets, *shaped.measured]
    order = _order(roots)
    if len(order) > _MOST_NODES:
        return None
    called = names_of(roots)
    names = [n for x, n in called.items() if x.kind != "int" and not x.fixed and x.default is None and not x.given]
    given = list(_tries(names[:_MOST_LEAVES]))
    found, failed = _shapes(order, called, given)
    if failed:  # nobody calls it so
        kept = [i for i in range(len(given)) if i not in failed]
        given, found = [given[i] for i in kept], {n: tuple([c[i] for i in kept]) for n, c in found.items()}
    return _Tried(given, found)


def _tries(names: Sequence[Name]) -> Iterator[_Given]:
    """Shapes for the inputs: all alike, and each another than the rest."""
    for shape in _UNIFORM:
        yield dict.fromkeys(names, shape)
    for name in names if len(names) > 1 else ():
        for own, others in _PAIRS:
            yield {**dict.fromkeys(names, others), name: own}


def _order(roots: Sequence[Node]) -> list[Node]:
    """What values are computed from, and before that what constants have the shape of."""
    order = topological(roots)
    likes = [n.like for n in order if isinstance(n, Const) and n.like is not None]
    return topological([*likes, *roots]) if likes else order


def _shapes(
    order: Sequence[Node], names: dict[Leaf, Name], given: Sequence[_Given]
) -> tuple[dict[Node, _Column], set[int]]:
    """The shapes of every value, one for each of the tries, and which of these do not go together."""
    found: dict[Node, _Column] = {}
    failed: set[int] = set()
    for node in order:
        if isinstance(node, Const) and node.like in found:
            found[node] = found[node.like]
        elif isinstance(node, Leaf):
            found[node] = tuple([_leaf(node, names, each) for each in given])
        else:
            found[node] = _column(node, [found[i] for i in node.inputs], len(given), failed)
    return found, failed


def _column(node: Node, inputs: Sequence[_Column], count: int, failed: set[int]) -> _Column:
    """The shapes of an operation; many tries give its operands the same ones."""
    known: dict[_Column, Shape | None] = {}
    shapes: list[Shape] = []
    for i, operands in enumerate(zip(*inputs, strict=True) if inputs else [()] * count):
        if operands not in known:
            known[operands] = None
            with suppress(MismatchError):
                known[operands] = _operation(node, operands)
        shape = known[operands]
        if shape is None:
            failed.add(i)
            shape = Shape()
        shapes.append(shape)
    return tuple(shapes)


def _leaf(leaf: Leaf, names: dict[Leaf, Name], given: _Given) -> Shape:
    name = names.get(leaf)
    if name in given:
        return Shape(given[name])
    if leaf.kind == "int" or leaf.default is not None or name is None:
        return Shape() if leaf.of is None else _atom(leaf.name)
    return _atom(name)


def _atom(*key: Hashable) -> Shape:
    return Shape((), frozenset([_ATOMS.setdefault(key, _Atom(key))]))


def joined(shapes: Sequence[Shape]) -> Shape:
    """The shape that arrays are broadcast to. Raises where they are not."""
    shapes = [shape for shape in dict.fromkeys(shapes) if shape != Shape()]
    if len(shapes) < 2:
        return shapes[0] if shapes else Shape()
    try:
        known = np.broadcast_shapes(*(shape.known for shape in shapes))
    except ValueError:
        raise MismatchError from None
    atoms = frozenset[_Atom]().union(*(shape.atoms for shape in shapes))
    return Shape(known, frozenset(a for a in atoms if not _is_within(a, known, atoms)))


def _is_within(atom: _Atom, known: tuple[int, ...], atoms: frozenset[_Atom]) -> bool:
    """Whether an atom is a reduction, with its axes kept, of what it is broadcast with: that changes nothing."""
    match atom.key:
        case ("kept", _, Shape(whole, parts)) if parts <= atoms:
            with suppress(ValueError):  # they do not go together
                return np.broadcast_shapes(known, whole) == known
    return False


def _operation(node: Node, inputs: _Column) -> Shape:
    at = node.origin.node if isinstance(node.origin, Origin) else None
    call = at if isinstance(at, ast.Call) else None
    if isinstance(node, Const):
        return _constant(node, call)
    if isinstance(at, ast.Subscript) and node.op in ("identity", "lane", "gather"):
        return _indexed(at, inputs[0])
    if node.selection == "assignment":
        return inputs[2]  # the mask may well have fewer axes
    if call is not None and last_name(call.func) == "einsum":
        return _atom("einsum", ast.dump(call.args[0]), *inputs) if node.op in ("identity", "sum") else joined(inputs)
    if call is not None and last_name(call.func) in _OUTER:
        return _atom(last_name(call.func), *inputs)
    if node.op == "identity" and call is not None:
        return _rearranged(call, inputs)
    if node.op == "identity" and isinstance(at, ast.Attribute) and at.attr in ("T", "H", "mT", "mH"):
        return _transposed(inputs[0], reverse=at.attr in ("T", "H"))
    if node.op in _REDUCTIONS and call is not None:
        return _reduced(call, inputs)
    mixes = node.op in OPERATIONS and OPERATIONS[node.op].mixes and node.op not in _ALONG
    if mixes or node.op in ("lane", "stack", "pick", "gather", "compress"):
        return _atom(node.op, _rest(call), *inputs)
    return joined(inputs)


def _constant(node: Const, call: ast.Call | None) -> Shape:
    if call is not None and last_name(call.func) in ("eye", "identity") and call.args:
        sizes = [size for a in call.args[:2] if (size := _integer(a)) is not None]
        return Shape((sizes[0], sizes[-1])) if sizes else _atom("eye", ast.dump(call.args[0]))
    return Shape() if node.value.size == 1 else _atom("constant", node.value.tobytes())


def _rest(call: ast.Call | None) -> tuple[Hashable, ...]:
    """What a call is given besides its operand."""
    return () if call is None else tuple((name, ast.dump(value)) for name, value in _options(call))


def _options(call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """The arguments after the operand, which a method has before the dot, each with its keyword."""
    given = [(None, value) for value in call.args]
    first = call.args[0] if given else None
    is_method = first is None or isinstance(first, (ast.UnaryOp, ast.Tuple)) or _integer(first) is not None
    return [*(given if is_method else given[1:]), *((k.arg, k.value) for k in call.keywords)]


def _integer(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _rearranged(call: ast.Call, inputs: _Column) -> Shape:
    name, shape = last_name(call.func), joined(inputs)
    if name in _COPIES:
        return shape
    options = _options(call)
    axis = _integer(options[0][1]) if len(options) == 1 else None
    if name == "squeeze" and not shape.atoms and (axis is not None or not options):
        return _squeezed(shape, axis)
    if name in ("unsqueeze", "expand_dims") and axis is not None and shape.atoms:
        return _kept_again(shape, axis) or _atom(name, _rest(call), shape)
    if name in ("unsqueeze", "expand_dims") and axis is not None:
        at = axis + len(shape.known) + 1 if axis < 0 else axis
        if not 0 <= at <= len(shape.known):
            raise MismatchError
        return Shape((*shape.known[:at], 1, *shape.known[at:]))
    return _atom(name, _rest(call), shape)


def _squeezed(shape: Shape, axis: int | None) -> Shape:
    """The shape without an axis of length 1, or without any such."""
    rank = len(shape.known)
    if axis is not None and not -rank <= axis < rank:
        raise MismatchError
    gone = range(rank) if axis is None else [axis % rank]
    return Shape(tuple(n for i, n in enumerate(shape.known) if n != 1 or i not in gone))


def _transposed(shape: Shape, *, reverse: bool) -> Shape:
    """The shape with its axes in reverse, or its last two exchanged."""
    if shape.atoms:
        return _atom("transposed", reverse, shape)
    return shape._replace(known=shape.known[::-1] if reverse else (*shape.known[:-2], *shape.known[:-3:-1]))


def _kept_again(shape: Shape, axis: int) -> Shape | None:
    """The shape of a reduction along an axis that is put back; None where it is another, or along several."""
    match [atom.key for atom in shape.atoms]:
        case [("reduction", along, None, whole)] if not shape.known and along == (axis,):
            return _atom("kept", along, whole)
    return None


def _reduced(call: ast.Call, inputs: _Column) -> Shape:
    shape = inputs[0]
    options = _options(call)
    if last_name(call.func) in _NORMS and options and options[0][0] is None:
        options = options[1:]  # the order of the norm
    axis = next((value for name, value in options if name in (None, "axis", "dim")), None)
    given = [value for name, value in options if name is None]
    keep = next((value for name, value in options if name in ("keepdims", "keepdim")), given[1] if given[1:] else None)
    dropped = keep is None or (isinstance(keep, ast.Constant) and keep.value is False)
    kept = isinstance(keep, ast.Constant) and keep.value is True
    if axis is None and dropped:
        return Shape()
    if axis is None and kept and not shape.atoms:
        return Shape((1,) * len(shape.known))
    elements = axis.elts if isinstance(axis, (ast.Tuple, ast.List)) else [axis]
    axes = [None if e is None else _integer(e) for e in elements]
    if shape.atoms or not (kept or dropped) or None in axes:
        along = (ast.dump(axis) if axis is not None else "") if None in axes else tuple(axes)
        unsure = None if dropped or keep is None else ast.dump(keep)
        return _atom("kept", along, shape) if kept else _atom("reduction", along, unsure, shape)
    rank = len(shape.known)
    places = {a % rank for a in axes if a is not None and rank and -rank <= a < rank}
    if len(places) != len(axes):
        raise MismatchError
    return Shape(tuple(1 if i in places else n for i, n in enumerate(shape.known) if kept or i not in places))


def _indexed(at: ast.Subscript, shape: Shape) -> Shape:
    """``x[..., None]``, ``x[0]`` and the like; other indices give an atom."""
    parts = [*map(_part, at.slice.elts if isinstance(at.slice, ast.Tuple) else [at.slice])]
    used = sum(part in ("keep", "drop") for part in parts)
    if parts in (["rest", "new"], ["new"]) and (kept := _kept_again(shape, 0 if parts == ["new"] else -1)):
        return kept
    if None in parts or parts.count("rest") > 1 or shape.atoms:
        return _atom("index", ast.dump(at.slice), shape)
    if used > len(shape.known):
        raise MismatchError
    if "rest" not in parts:
        parts.append("rest")
    known: list[int] = []
    place = 0
    for part in parts:
        if part == "new":
            known.append(1)
        elif part == "rest":
            known += shape.known[place : place + len(shape.known) - used]
            place += len(shape.known) - used
        else:
            known += shape.known[place : place + 1] if part == "keep" else ()
            place += 1
    return Shape(tuple(known))


def _part(part: ast.expr) -> str | None:
    """What one index does to the axes; None where that is not known."""
    if isinstance(part, ast.Slice):
        return "keep" if part.lower is part.upper is part.step is None else None
    if isinstance(part, ast.Constant) and part.value in (None, ...):
        return "new" if part.value is None else "rest"
    return "drop" if _integer(part) is not None else None
