"""Functions that ask for sizes, move elements around or contract axes: what a model of one axis can say of them."""

import ast
import math

from wherelint.graph.node import DIAGONAL, LANES, Node, Static, const
from wherelint.interpret import indexing
from wherelint.interpret.intrinsics.discrete import integers
from wherelint.interpret.lowering import Lowering, handles, method
from wherelint.interpret.operations import argument, framework, operation
from wherelint.interpret.statements import hold
from wherelint.interpret.values import MISSING, Args, Kwargs, Shape, Value


@handles("tensorflow.shape", "{jax.numpy,numpy}.shape", "jax.lax.broadcast_shapes")
def _shape(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    low.measure(*args)
    return Shape(low.text(at))


@handles("tensorflow.{size,rank}", "{jax.numpy,numpy}.{size,ndim}", "torch.numel")
def _size(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    low.measure(*args)
    return low.size(low.text(at))


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.meshgrid")
def _meshgrid(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    axes = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return [low.node("identity", (axis,), at) for axis in axes]


@handles("{jax.numpy,numpy,torch,tensorflow}.{nonzero,argwhere,flatnonzero}")
def _nonzero(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    mask = argument(args, kwargs, 0, "a", "input")
    return MISSING if mask is None else indexing.indices(low, mask, at)


@method("nonzero", "argwhere")
def _nonzero_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return indexing.indices(low, receiver, at) if isinstance(receiver, Node) else MISSING


@handles("{jax.numpy,keras.ops}.average")
def _average(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A mean, or with weights the quotient of two sums."""
    array, axis, weights = (argument(args, kwargs, i, *n) for i, n in enumerate([("a", "x"), ("axis",), ("weights",)]))
    if weights is None or kwargs.get("returned"):
        return MISSING
    along: Kwargs = {k: v for k, v in (("axis", axis), ("keepdims", kwargs.get("keepdims"))) if v is not None}
    total = name.replace("average", "sum")
    sums = [operation(low, total, [x], along, at) for x in (low.node("multiply", (array, weights), at), weights)]
    return low.node("divide", sums, at)


@handles("{jax.numpy,numpy,torch}.{triu_indices,tril_indices,triu_indices_from,tril_indices_from}")
def _triangle(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """The indices of a triangle; one without the diagonal keeps no element's pair with itself."""
    found = low.opaque(low.text(at), tuple(map(low.identity, args)), kind="int")
    offset = argument(args, kwargs, 2 if name.startswith("torch") else 1, "k", "offset")
    if isinstance(offset, int) and (offset > 0 if "triu" in name else offset < 0):
        found.kept, found.pairs = const([not d for d in DIAGONAL]), True
    return found


@handles("{jax.numpy,torch}.{triu,tril}")
def _cut(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A triangle of a matrix; one without the diagonal drops every element's pair with itself."""
    value, offset = argument(args, kwargs, 0, "m", "input"), argument(args, kwargs, 1, "k", "diagonal")
    if value is None or not isinstance(offset, int) or not (offset > 0 if name.endswith("triu") else offset < 0):
        return MISSING
    return low.select(const(DIAGONAL), 0.0, low.tensor(value, at), at, "index", framework(name))


@method("triu", "tril")
def _cut_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    name = at.func.attr if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) else ""
    return _cut(low, f"torch.{name}", [receiver, *args], kwargs, at) if isinstance(receiver, Node) else MISSING


@handles("{jax.numpy,numpy}.{diag_indices,diag_indices_from}")
def _diagonal(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    found = low.opaque(low.text(at), tuple(map(low.identity, args)), kind="int")
    found.kept, found.pairs = const(DIAGONAL), True
    return found


@handles("jax.numpy.fill_diagonal")
def _fill_diagonal(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value, fill = argument(args, kwargs, 0, "a"), argument(args, kwargs, 1, "val")
    if value is None or fill is None:
        return MISSING
    return low.select(const(DIAGONAL), fill, low.tensor(value, at), at, "assignment", framework(name))


@method("fill_diagonal_")
def _fill_diagonal_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not isinstance(receiver, Node) or not args:
        return MISSING
    return low.select(const(DIAGONAL), args[0], low.overwritten(receiver, at), at, "assignment", "torch")


@handles("{jax.numpy,torch,tensorflow,keras.ops}.einsum")
def _einsum(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if not args or not isinstance(args[0], str) or not operands:
        return MISSING
    given, arrow, result = args[0].replace(" ", "").partition("->")
    product = low.tensor(operands[0], at)
    for operand in operands[1:]:
        product = low.node("multiply", (product, operand), at, framework=framework(name))
    summed = set(given) - set(result) - {",", "."} if arrow else {i for i in given if given.count(i) > 1}
    return low.node("sum" if summed else "identity", (product,), at, framework=framework(name))


@handles("{jax.numpy,torch.linalg,torch,tensorflow.linalg}.cross")
def _cross(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 2:
        return MISSING

    def rolled(value: Value, by: int) -> Node:
        return low.node("gather", (value,), at, static=Static(lanes=tuple((i % 3 + by) % 3 for i in range(LANES))))

    a, b = low.tensor(args[0], at), low.tensor(args[1], at)
    one, other = ((rolled(a, i), rolled(b, 3 - i)) for i in (1, 2))
    products = [low.node("multiply", pair, at, framework=framework(name)) for pair in (one, other)]
    return low.node("subtract", products, at, framework=framework(name))


@handles("{jax.numpy,torch}.{diag,diagonal,split,array_split,hsplit,vsplit,dsplit,unstack}",
         "torch.{chunk,unbind,diag_embed,tensor_split}", "tensorflow.{split,unstack}",
         "tensorflow.linalg.{diag,diag_part,set_diag,band_part}")  # fmt: skip
def _rearranged(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value = argument(args, kwargs, 0, "input", "tensor", "value", "ary", "x", "v", "diagonal", "tensors")
    return low.node("identity", (value,), at) if isinstance(value, Node) else MISSING


@handles("{jax.numpy,torch}.diff")
def _diff(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not args or not isinstance(args[0], Node):
        return MISSING
    lanes = [i % (LANES - 1) for i in range(LANES)]
    ends = [low.node("gather", (args[0],), at, static=Static(lanes=tuple(i + k for i in lanes))) for k in (1, 0)]
    return low.node("subtract", ends, at, framework=framework(name))


@handles("equinox.error_if", "equinox.internal.error_if")
def _error_if(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 2:
        return MISSING
    hold(low, low.negation(low.condition(args[1], at), at))
    return args[0]


@handles("jax.numpy.pad", "torch.nn.functional.pad", "tensorflow.pad")
def _pad(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    mode = argument(args, kwargs, 2, "mode")
    if not args or not isinstance(args[0], Node):
        return MISSING
    if isinstance(mode, str) and mode.lower() != "constant":
        return low.node("identity", (args[0],), at)
    fill = kwargs.get("constant_values", kwargs.get("value", args[3] if len(args) > 3 else 0.0))
    fill = 0.0 if fill is None else float(fill) if isinstance(fill, int) else fill
    return low.concatenated([args[0], low.tensor(fill, at)], at)


@handles("jax.ops.segment_sum", "tensorflow.math.{segment_sum,unsorted_segment_sum}")
def _segment_sum(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    data, index = argument(args, kwargs, 0, "data"), argument(args, kwargs, 1, "segment_ids")
    return MISSING if data is None else scattered(low, data, index, at)


@handles("tensorflow.scatter_nd")
def _scatter_nd(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    index, data = argument(args, kwargs, 0, "indices"), argument(args, kwargs, 1, "updates")
    return MISSING if data is None else scattered(low, data, index, at)


@handles("{jax.numpy,numpy,torch}.bincount", "tensorflow.math.bincount")
def _bincount(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    index, weights = argument(args, kwargs, 0, "x", "input", "arr"), argument(args, kwargs, 1, "weights")
    return integers(low, args, at) if weights is None else scattered(low, weights, index, at)


@method("scatter_add", "scatter_add_", "index_add", "index_add_")
def _scatter_add(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    index, data = argument(args, kwargs, 1, "index"), argument(args, kwargs, 2, "src", "source")
    if data is None or not isinstance(receiver, Node):
        return MISSING
    return low.node("add", (receiver, scattered(low, data, index, at)), at, framework="torch")


def scattered(low: Lowering, data: Value, index: Value, at: ast.AST) -> Node:
    """Sums over the elements that share an index.

    An index that no element has gets a zero that reads nothing, so that no cotangent flows back from there; which
    indices these are is the same for everything that is scattered by one index.
    """
    filled = low.opaque("(some element has this index)", ("scattered", low.identity(index)), kind="bool")
    filled.array = True
    return low.node("cond", (filled, data, 0.0), at)


_SIGNS = {"positive": ("greater", 0), "negative": ("less", 0), "non_negative": ("greater_equal", 0),
          "non_positive": ("less_equal", 0)}  # fmt: skip


@handles(*(f"tensorflow.debugging.assert_{sign}" for sign in _SIGNS), *(f"tensorflow.assert_{sign}" for sign in _SIGNS))
def _assert_sign(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    op, bound = _SIGNS[name.partition("assert_")[2]]
    return _assertion(low, op, [argument(args, kwargs, 0, "x"), bound], at)


@handles("tensorflow.debugging.assert_{greater,greater_equal,less,less_equal}",
         "tensorflow.assert_{greater,greater_equal,less,less_equal}")  # fmt: skip
def _assert_order(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return _assertion(low, name.partition("assert_")[2], [argument(args, kwargs, i, n) for i, n in enumerate("xy")], at)


def _assertion(low: Lowering, op: str, sides: Args, at: ast.AST) -> Value:
    if all(isinstance(s, Node) or (isinstance(s, (int, float)) and math.isfinite(s)) for s in sides):
        hold(low, low.node(op, sides, at))
    return None
