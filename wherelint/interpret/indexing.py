"""Subscripts and the other targets of assignments: picking, masking, slicing, writing."""

import ast
from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from wherelint.graph.node import LANES, ROLLED, Const, Leaf, Node, Static, const, topological, unreshaped
from wherelint.interpret.lowering import Lowering, expression
from wherelint.interpret.values import Dotted, Element, Instance, Method, Shape, Value
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import VIEWS


@expression(ast.Subscript)
def subscript(low: Lowering, node: ast.Subscript) -> Value:
    """``value[index]``."""
    value = low.expression(node.value)
    if isinstance(value, Method) and value.name == "at":
        return Element(value.receiver, "at[]", low.text(node), node)
    if isinstance(value, Dotted):
        return value  # a generic type: `list[int]`
    return index(low, value, node.slice, node)


def index(low: Lowering, value: Value, slices: ast.expr, at: ast.AST) -> Value:
    """``value[slices]`` for a value that was already lowered."""
    parts = _parts(low, slices)
    if isinstance(value, (list, tuple)) and len(parts) == 1:
        position = parts[0]
        if isinstance(position, int) and not isinstance(position, bool):
            return value[position] if -len(value) <= position < len(value) else low.opaque(low.text(at))
        if _is_known(position):
            return value[position]
    if isinstance(value, dict):
        key = parts[0] if len(parts) == 1 else None
        if isinstance(key, (str, int, float, bool)) and key in value:
            return value[key]
        table = list(value.values())
        if 0 < len(table) <= 4 and all(isinstance(v, (int, float)) for v in table):
            result = table[0]  # a table of constants, by a key that is not known: one of them
            for i, other in enumerate(table[1:]):
                text = f"{low.text(at)} == {other!r}"
                other_key = low.opaque(text, (low.identity(value), i), kind="bool", preferred=False)
                result = low.choose(other_key, other, result, at)
            return result
        return low.opaque(low.text(at), low.identity(value))
    if isinstance(value, (Shape, Instance, str)) or value is None:
        return low.size(low.text(at)) if isinstance(value, Shape) else low.opaque(low.text(at), low.identity(value))
    tensor = low.tensor(value, at)
    if isinstance(tensor, Leaf) and tensor.kind == "bool":
        return tensor
    return _tensor_index(low, tensor, parts, at)


_Part: TypeAlias = "Value | slice"


def _parts(low: Lowering, slices: ast.expr) -> list[_Part]:
    several = isinstance(slices, ast.Tuple) and slices.elts
    return [_slice(low, part) if isinstance(part, ast.Slice) else low.expression(part) for part in several or [slices]]


def _slice(low: Lowering, part: ast.Slice) -> slice:
    return slice(*(None if b is None else low.expression(b) for b in (part.lower, part.upper, part.step)))


def _is_known(part: _Part) -> TypeGuard[slice]:
    """Whether it is a slice with numbers for bounds."""
    bounds = (part.start, part.stop, part.step) if isinstance(part, slice) else (...,)
    return bounds[-1] != 0 and all(b is None or isinstance(b, int) for b in bounds)


def _tensor_index(low: Lowering, tensor: Node, parts: list[_Part], at: ast.AST) -> Value:
    if len(parts) == 1 and isinstance(parts[0], (tuple, list)):
        parts = list(parts[0])
    if len(parts) == 1 and isinstance(parts[0], str):  # an entry of a dictionary that is not known
        flows = not isinstance(tensor, Leaf) or tensor.differentiable
        return low.opaque(low.text(at), ("entry", low.identity(tensor), parts[0]), differentiable=flows)
    masks = [p for p in parts if isinstance(p, Node) and p.kind == "bool"]
    if masks:
        return low.node("compress", (masks[0], tensor), at, selection="index")
    numbers = [p for p in parts if isinstance(p, int) and not isinstance(p, bool)]
    others = [p for p in parts if isinstance(p, (Node, list, Shape, Method))]
    if others:
        return gathered(low, tensor, [p for p in others if isinstance(p, Node)], at)
    source = unreshaped(tensor)
    if len(numbers) > 1 and isinstance(source, Leaf):
        return low.entry(source, low.text(at), tensor, numbers)
    if numbers and (not isinstance(tensor, Leaf) or ... in parts):
        return element(low, tensor, numbers[-1], at)
    if numbers and isinstance(tensor, Leaf):
        name = low.text(at) if len(parts) > 1 else f"{tensor.name}[{numbers[0]}]"
        return low.element(tensor, name, numbers[-1])
    index = next((i for i in map(_sliced, parts) if i is not None), None)
    if index is not None:
        return low.node("gather", (tensor,), at, static=Static(lanes=index))
    if None in parts:
        return low.node("identity", (tensor,), at, static=Static(spread=True))
    # The model holds none of the elements that are left out; but a mask of what is left fits nothing else.
    sliced = any(isinstance(p, slice) and p != slice(None) for p in parts)
    return low.node("identity", (tensor,), at) if sliced else tensor


def gathered(low: Lowering, tensor: Node, indices: Sequence[Value], at: ast.AST) -> Node:
    """``tensor[indices]`` for integers that are not known: other elements for every other index."""
    index = next((i for i in indices if isinstance(i, Node)), None)
    if index is None:
        return low.node("gather", (tensor,), at, static=Static(lanes=ROLLED))
    mask = _mask_of(indices)
    if mask is not None:
        return low.node("compress", (mask, tensor), at, selection="index")
    rotation = low.rotations.setdefault(as_numbers(index), 1 + len(low.rotations) % (LANES - 1))
    rolled = tuple((i + rotation) % LANES for i in range(LANES))
    return low.node("gather", (tensor,), at, static=Static(lanes=rolled, searched=_searched(index)))


def as_numbers(index: Node) -> Node:
    """An index before it was converted: ``index.long()`` reads what ``index`` reads."""
    while index.op in ("identity", "stop"):
        index = index.inputs[0]
    return index


def indices(low: Lowering, mask: Value, at: ast.AST) -> Node:
    """The integers that ``nonzero(mask)`` gives: what is indexed with them is ``x[mask]``."""
    found = low.opaque(low.text(at), low.identity(mask), kind="int")
    found.searched = True
    if isinstance(mask, Node):
        found.kept = mask if mask.kind == "bool" else low.node("not_equal", (mask, 0), at)
    return found


def _mask_of(indices: Sequence[_Part]) -> Node | None:
    """The mask that these are the indices of; None where they may be others, such as the rows of a mask over pairs."""
    found = [as_numbers(i) for i in indices if isinstance(i, Node)]
    masks = {i.kept if isinstance(i, Leaf) else None for i in found}
    mask = masks.pop() if len(masks) == 1 else None
    if mask is None or len(found) > 1 or not isinstance(found[0], Leaf) or found[0].of is None:
        return mask
    pairs = found[0].of[0].pairs
    return None if pairs or any(n.op == "gather" or n.static.spread for n in topological([mask])) else mask


def _searched(index: Node) -> bool:
    """Whether an index was computed from values, as ``searchsorted`` and ``argmax`` do; not just taken from a table."""
    order = topological([index])
    taken = all(isinstance(n, Leaf) or n.op in VIEWS | {"const", "add", "subtract"} for n in order)
    inputs = [n for n in order if isinstance(n, Leaf)]
    computed = any(n.searched or (n.kind == "float" and not taken) for n in inputs)
    return computed or any(n.static.searched for n in order)


def _sliced(part: _Part) -> tuple[int, ...] | None:
    """The lanes that a slice reads, repeated to fill the model; None where it reads them as they are."""
    if not isinstance(part, slice) or part == slice(None):
        return None
    if not _is_known(part):
        return ROLLED if part.start is not None else None
    read = list(range(LANES))[part]
    if part.start and not read:
        read = list(ROLLED)  # a slice beyond what the model holds
    return tuple(read[i % len(read)] for i in range(LANES)) if read and read != list(range(LANES)) else None


def element(low: Lowering, tensor: Node, position: int, at: ast.AST) -> Node:
    """One element: of an array built from parts it is that part, otherwise it is a lane."""
    tensor = unreshaped(tensor)
    if tensor.op == "stack" and -len(tensor.inputs) <= position < len(tensor.inputs):
        static = Static(index=position % len(tensor.inputs))
        return low.node("pick", tensor.inputs, at, selection="index", static=static)
    # What was reduced along one axis and is indexed along another holds the elements of a `stack` apart.
    apart = _component(low, tensor, position) if _mixes(tensor) else tensor
    if apart is not tensor:
        return apart
    return low.node("lane", (tensor,), at, selection="index", static=Static(index=position))


def _component(low: Lowering, reduced: Node, position: int) -> Node:
    """What a reduction makes of one of the arrays that were stacked along a new axis, the others being like it."""
    elementwise = {reduced}
    for node in reversed(order := topological([reduced])):
        if node in elementwise:
            elementwise.update(i for i in node.inputs if not _mixes(i))
    done: dict[Node, Node] = {}
    for node in order:
        inputs = tuple(done[i] for i in node.inputs)
        if node not in elementwise:
            done[node] = node
        elif node.op == "stack" and node.static.new_axis and -len(inputs) <= position < len(inputs):
            done[node] = node.inputs[position]
        else:
            done[node] = node if inputs == node.inputs else low.copy(node, inputs)
    return done[reduced]


def _mixes(node: Node) -> bool:
    return (node.op in OPERATIONS and OPERATIONS[node.op].mixes) or node.op in ("lane", "pick")


def unpack(low: Lowering, value: Value, count: int, at: ast.AST) -> list[Value]:
    """The ``count`` elements that tuple assignment takes from a value."""
    if isinstance(value, (list, tuple)):
        missing = range(len(value), count)
        return [*value[:count], *(low.opaque(low.text(at), (low.identity(value), i)) for i in missing)]
    if isinstance(value, Shape):
        return [low.size(f"{value.of}[{i}]") for i in range(count)]
    tensor = low.tensor(value, at)
    if isinstance(tensor, Leaf):
        return [low.element(tensor, f"{tensor.name}[{i}]", i) for i in range(count)]
    return [low.node("lane", (tensor,), at, static=Static(index=i)) for i in range(count)]


def where_written(low: Lowering, slices: ast.expr) -> Node:
    """The mask of the elements that ``x[slices] = ...`` writes."""
    parts = _parts(low, slices)
    for part in parts:
        if isinstance(part, Node) and part.kind == "bool":
            return part
    if (mask := _mask_of(parts)) is not None:  # x[nonzero(mask)] = ...
        return mask
    if all(part is ... or part is None or part == slice(None) for part in parts):
        return const(True)
    index = next((p for p in parts if isinstance(p, int) or (_is_known(p) and p != slice(None))), 0)
    written = range(LANES)[index] if isinstance(index, slice) else [index % LANES]
    return const([i in written for i in range(LANES)])


def assign(low: Lowering, target: ast.expr, value: Value) -> None:
    """Bind a value to a target of any form."""
    if isinstance(target, ast.Name):
        low.frame.scope.bind(target.id, value)
        if isinstance(value, Leaf) and not value.called and not value.name.isidentifier():
            value.called = target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        starred = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), None)
        if starred is not None and isinstance(value, (list, tuple)):
            after = len(target.elts) - starred - 1
            value = [*value[:starred], list(value[starred : len(value) - after]), *value[len(value) - after :]]
        items = unpack(low, value, len(target.elts), target)
        for element, item in zip(target.elts, items, strict=False):
            assign(low, element, item)
    elif isinstance(target, ast.Starred):
        assign(low, target.value, value)
    elif isinstance(target, ast.Attribute):
        receiver = low.expression(target.value)
        if isinstance(receiver, Instance):
            receiver.attributes[target.attr] = value
        low.leaves_function(value)
    elif isinstance(target, ast.Subscript):
        _assign_item(low, target, value)


def _assign_item(low: Lowering, target: ast.Subscript, value: Value) -> None:
    base = low.expression(target.value)
    if isinstance(base, (dict, list)) and not isinstance(target.slice, (ast.Tuple, ast.Slice)):
        key = low.expression(target.slice)
        if isinstance(base, dict):
            base[key if isinstance(key, (str, int, float, bool)) else low.text(target)] = value
            return
        if isinstance(key, int) and -len(base) <= key < len(base):
            base[key] = value
            return
    if not isinstance(base, Node) or _is_text(target.slice):  # an item of a dictionary that others have, too
        low.leaves_function(value)
        return
    mask = where_written(low, target.slice)
    if isinstance(mask, Const) and mask.value.all():
        assign(low, target.value, low.node("identity", (value,), target))
        return
    base = low.overwritten(base, target)
    assign(low, target.value, low.select(mask, value, base, target, "assignment"))


def _is_text(index: ast.expr) -> bool:
    return isinstance(index, ast.JoinedStr) or (isinstance(index, ast.Constant) and isinstance(index.value, str))
