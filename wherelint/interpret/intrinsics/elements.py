"""Functions that measure, rank, pick, move and sum elements: what a model of one axis can say of them."""

import math

from wherelint.graph.node import DIAGONAL, LANES, Node, Static, const
from wherelint.interpret import indexing
from wherelint.interpret.lowering import CallSite, Lowering, argument, handles
from wherelint.interpret.operations import before_write, operation
from wherelint.interpret.statements import hold
from wherelint.interpret.values import MISSING, Element, Kwargs, Shape, Value
from wherelint.ops.traits import INDEXING


@handles("tensorflow.shape", "{jax.numpy,numpy}.shape", "jax.lax.broadcast_shapes")
def _shape(low: Lowering, call: CallSite) -> Value:
    low.measure(*call.args)
    return Shape(low.text(call.at))


@handles("tensorflow.{size,rank}", "{jax.numpy,numpy}.{size,ndim}", "torch.numel")
def _size(low: Lowering, call: CallSite) -> Value:
    low.measure(*call.args)
    return low.size(low.text(call.at))


@handles(methods="dim numel nelement ndimension get_shape size", operands="self!")
def _size_method(low: Lowering, call: CallSite, receiver: Value) -> Value:
    low.measure(receiver)
    if call.last != "size":
        return low.opaque(low.text(call.at), kind="int")
    return low.size(low.text(call.at)) if len(call.args) > 1 else Shape(low.text(call.at))


@handles("{jax.numpy,numpy,torch,tensorflow}.{argsort,searchsorted,digitize,bucketize}",
         "{jax.numpy,numpy}.{argpartition,lexsort}", "torch.{multinomial,randint,randperm,histc}",
         "jax.random.{categorical,randint,poisson,binomial}", "tensorflow.random.{categorical,stateless_categorical}",
         "tensorflow.{histogram_fixed_width,unique_with_counts}")  # fmt: skip
def _integers(low: Lowering, call: CallSite) -> Node:
    """Integers that hand no gradient on to what they were found by."""
    found = low.result(call, kind="int")
    found.searched = True
    return found


@handles("torch.{topk,sort,kthvalue,mode,cummax,cummin}", "jax.lax.top_k", "tensorflow.{math,nn}.top_k",
         methods="topk sort kthvalue mode cummax cummin", operands="input|operand!")  # fmt: skip
def _ranked(low: Lowering, call: CallSite, value: Value) -> Value:
    """Some of the elements, and where they stood."""
    if call.last == "sort" and call.is_method and "jax" in low.frameworks:
        return MISSING
    return low.node("identity", (value,), call.at), _integers(low, call)


@handles("torch.{max,min,median,nanmedian}", methods="max min median nanmedian", operands="input dim?")
def _extreme(low: Lowering, call: CallSite, value: Value, dim: Value) -> Value:
    """``x.max(dim)`` of torch, which ranks; of JAX it is the maximum alone."""
    if isinstance(value, Element):
        return _at(low, call, value)
    foreign = call.is_method and ("jax" in low.frameworks or not isinstance(value, Node))
    made = None if foreign or not isinstance(dim, int) else operation(low, call)
    return MISSING if made is None else (low.node("identity", (made,), call.at), _integers(low, call))


_WRITES = {"add": "add", "multiply": "multiply", "mul": "multiply", "divide": "divide",
           "min": "minimum", "max": "maximum"}  # fmt: skip


@handles(methods="set add multiply mul divide power get apply", operands="self")
def _at(low: Lowering, call: CallSite, receiver: Value) -> Value:
    """``x.at[index].set(value)`` and its siblings."""
    if not isinstance(receiver, Element):
        return MISSING
    at, slices = call.at, receiver.subscript.slice
    tensor = low.tensor(receiver.receiver, at)
    if call.last == "get":
        return indexing.index(low, tensor, slices, at)
    if len(call.args) < 2:
        return MISSING
    value = call.args[1]
    mask = indexing.where_written(low, slices)
    if call.last == "set":
        return low.select(mask, value, tensor, at, "assignment", "jax")
    if call.last not in _WRITES:
        return low.opaque(low.text(at), (low.identity(tensor), low.identity(value)))
    return low.node("cond", (mask, low.node(_WRITES[call.last], (tensor, value), at), tensor), at)


@handles(f"{{jax.numpy,numpy,jax.lax,torch,tensorflow}}.{{{','.join(INDEXING)}}}")
def _gather(low: Lowering, call: CallSite) -> Value:
    if not call.args:
        return MISSING
    index = argument(call, 2 if call.framework == "torch" else 1, "index", "indices", "start_indices")
    return indexing.gathered(low, low.tensor(call.args[0], call.at), [index], call.at)


@handles(methods="gather index_select take roll flip take_along_dim", operands="self!")
def _gather_method(low: Lowering, call: CallSite, receiver: Value) -> Value:
    index = argument(call, 2, "index") or argument(call, 1, "indices")
    return indexing.gathered(low, low.tensor(receiver, call.at), [index], call.at)


@handles("{jax.numpy,numpy,torch,tensorflow}.{nonzero,argwhere,flatnonzero}", operands="a|input")
@handles(methods="nonzero argwhere", operands="self!")
def _nonzero(low: Lowering, call: CallSite, mask: Value) -> Value:
    return indexing.indices(low, mask, call.at)


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.meshgrid")
def _meshgrid(low: Lowering, call: CallSite) -> Value:
    axes = call.args[0] if len(call.args) == 1 and isinstance(call.args[0], (list, tuple)) else call.args
    return [low.node("identity", (axis,), call.at) for axis in axes]


@handles("{jax.numpy,keras.ops}.average", operands="a|x axis? weights")
def _average(low: Lowering, call: CallSite, array: Value, axis: Value, weights: Value) -> Value:
    """A mean with weights is the quotient of two sums."""
    if call.kwargs.get("returned"):
        return MISSING
    along: Kwargs = {k: v for k, v in (("axis", axis), ("keepdims", call.kwargs.get("keepdims"))) if v is not None}
    total = call.name.replace("average", "sum")
    weighted = low.node("multiply", (array, weights), call.at)
    sums = [operation(low, CallSite(total, [x], along, call.at)) for x in (weighted, weights)]
    return low.node("divide", sums, call.at)


def _is_strict(call: CallSite, offset: Value) -> bool:
    """Whether a triangle is one without the diagonal: it has no element's pair with itself."""
    return isinstance(offset, int) and (offset > 0 if "triu" in call.name else offset < 0)


@handles("{jax.numpy,numpy,torch}.{triu_indices,tril_indices,triu_indices_from,tril_indices_from}",
         "{jax.numpy,numpy}.{diag_indices,diag_indices_from}")  # fmt: skip
def _triangle(low: Lowering, call: CallSite) -> Value:
    """The indices of a triangle, or of the diagonal."""
    found = low.result(call, kind="int")
    offset = argument(call, 2 if call.framework == "torch" else 1, "k", "offset")
    if ".diag_" in call.name or _is_strict(call, offset):
        found.kept, found.pairs = const([d == (".diag_" in call.name) for d in DIAGONAL]), True
    return found


@handles("{jax.numpy,torch}.{triu,tril}", operands="m|input k|diagonal")
@handles(methods="triu tril", operands="self! diagonal")
def _cut(low: Lowering, call: CallSite, value: Value, offset: Value) -> Value:
    if not _is_strict(call, offset):
        return MISSING
    return low.select(const(DIAGONAL), 0.0, low.tensor(value, call.at), call.at, "index", call.framework)


@handles("jax.numpy.fill_diagonal", operands="a val")
@handles(methods="fill_diagonal_", operands="self! fill_value")
def _fill_diagonal(low: Lowering, call: CallSite, value: Value, fill: Value) -> Value:
    tensor = low.tensor(before_write(low, value, call), call.at)
    return low.select(const(DIAGONAL), fill, tensor, call.at, "assignment", call.framework)


@handles("{jax.numpy,torch,tensorflow,keras.ops}.einsum")
def _einsum(low: Lowering, call: CallSite) -> Value:
    args, at, owner = call.args, call.at, call.framework
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if not args or not isinstance(args[0], str) or not operands:
        return MISSING
    given, arrow, result = args[0].replace(" ", "").partition("->")
    product = low.tensor(operands[0], at)
    for operand in operands[1:]:
        product = low.node("multiply", (product, operand), at, framework=owner)
    summed = set(given) - set(result) - {",", "."} if arrow else {i for i in given if given.count(i) > 1}
    return low.node("sum" if summed else "identity", (product,), at, framework=owner)


@handles("{jax.numpy,torch.linalg,torch,tensorflow.linalg}.cross", operands="a|input b|other")
def _cross(low: Lowering, call: CallSite, a: Value, b: Value) -> Value:
    def rolled(value: Node, by: int) -> Node:
        return low.node("gather", (value,), call.at, static=Static(lanes=tuple((i % 3 + by) % 3 for i in range(LANES))))

    x, y = low.tensor(a, call.at), low.tensor(b, call.at)
    pairs = [(rolled(x, i), rolled(y, 3 - i)) for i in (1, 2)]
    products = [low.node("multiply", pair, call.at, framework=call.framework) for pair in pairs]
    return low.node("subtract", products, call.at, framework=call.framework)


@handles("{jax.numpy,torch}.{diag,diagonal,split,array_split,hsplit,vsplit,dsplit,unstack}",
         "torch.{chunk,unbind,diag_embed,tensor_split}", "tensorflow.{split,unstack}",
         "tensorflow.linalg.{diag,diag_part,set_diag,band_part}",
         operands="input|tensor|value|ary|x|v|diagonal|tensors!")  # fmt: skip
def _rearranged(low: Lowering, call: CallSite, value: Value) -> Value:
    return low.node("identity", (value,), call.at)


@handles("{jax.numpy,torch}.diff", operands="a|input!")
def _diff(low: Lowering, call: CallSite, value: Value) -> Value:
    lanes = [i % (LANES - 1) for i in range(LANES)]
    ends = [low.node("gather", (value,), call.at, static=Static(lanes=tuple(i + k for i in lanes))) for k in (1, 0)]
    return low.node("subtract", ends, call.at, framework=call.framework)


@handles("jax.numpy.pad", "torch.nn.functional.pad", "tensorflow.pad",
         operands="array|input|tensor! pad_width|pad|paddings? mode? constant_values|value?")  # fmt: skip
def _pad(low: Lowering, call: CallSite, value: Value, widths: Value, mode: Value, fill: Value) -> Value:
    if isinstance(mode, str) and mode.lower() != "constant":
        return low.node("identity", (value,), call.at)
    fill = 0.0 if fill is None else float(fill) if isinstance(fill, int) else fill
    return low.concatenated([low.tensor(value, call.at), low.tensor(fill, call.at)], call.at)


@handles("jax.ops.segment_sum", "tensorflow.math.{segment_sum,unsorted_segment_sum}", operands="data segment_ids?")
def _segment_sum(low: Lowering, call: CallSite, data: Value, index: Value) -> Node:
    """Sums over the elements that share an index.

    An index that no element has gets a zero that reads nothing, so that no cotangent flows back from there.
    """
    return low.node("cond", (_filled(low, index), data, 0.0), call.at)


def _filled(low: Lowering, index: Value) -> Node:
    """Which places some element is scattered to: the same for everything that is scattered by one index.

    In the model every element has an index of its own, so that what is read by that index again is in the old order.
    """
    if isinstance(index, Node):
        index = indexing.as_numbers(index)
        low.rotations[index] = 0
    filled = low.opaque("(some element has this index)", ("scattered", low.identity(index)), kind="bool")
    filled.array = True
    return filled


@handles("jax.ops.segment_{max,min}", "tensorflow.math.{segment,unsorted_segment}_{max,min,mean}",
         operands="data segment_ids?")  # fmt: skip
def _segment_extremum(low: Lowering, call: CallSite, data: Value, index: Value) -> Node:
    """Extrema over the elements that share an index: in JAX infinite where there are none."""
    nothing = {"jax.ops.segment_max": -math.inf, "jax.ops.segment_min": math.inf}.get(call.name, 0.0)
    return low.node("cond", (_filled(low, index), data, nothing), call.at)


@handles(methods="scatter_reduce scatter_reduce_ index_reduce index_reduce_",
         operands="self! dim? index? src|source reduce include_self?")  # fmt: skip
def _scatter_reduce(
    low: Lowering, call: CallSite, receiver: Value, dim: Value, index: Value, data: Value, reduce: Value, own: Value
) -> Value:
    """Reductions over the elements that share an index, together with what is there already unless that is left out."""
    both = {"sum": "add", "amax": "maximum", "amin": "minimum", "prod": "multiply"}.get(str(reduce))
    if both is None and own is not False:
        return MISSING
    put = data if own is False or both is None else low.node(both, (receiver, data), call.at)
    return low.node("cond", (_filled(low, index), put, receiver), call.at)


@handles("tensorflow.scatter_nd", operands="indices? updates")
def _scatter_nd(low: Lowering, call: CallSite, index: Value, data: Value) -> Value:
    return _segment_sum(low, call, data, index)


@handles("{jax.numpy,numpy,torch}.bincount", "tensorflow.math.bincount", operands="x|input|arr? weights?")
def _bincount(low: Lowering, call: CallSite, index: Value, weights: Value) -> Value:
    return _integers(low, call) if weights is None else _segment_sum(low, call, weights, index)


@handles(methods="scatter_add scatter_add_ index_add index_add_", operands="self! dim? index? src|source")
def _scatter_add(low: Lowering, call: CallSite, receiver: Value, dim: Value, index: Value, data: Value) -> Value:
    return low.node("add", (receiver, _segment_sum(low, call, data, index)), call.at, framework="torch")


@handles("equinox.error_if", "equinox.internal.error_if", operands="x pred")
def _error_if(low: Lowering, call: CallSite, value: Value, failed: Value) -> Value:
    hold(low, low.negation(low.condition(failed, call.at), call.at))
    return value


_SIGNS = {"positive": "greater", "negative": "less", "non_negative": "greater_equal", "non_positive": "less_equal"}


@handles(f"{{tensorflow,tensorflow.debugging}}.assert_{{{','.join([*_SIGNS, *_SIGNS.values()])}}}", operands="x? y?")
def _assert(low: Lowering, call: CallSite, x: Value, y: Value) -> Value:
    order = call.name.partition("assert_")[2]
    sides = (x, 0 if order in _SIGNS else y)
    if all(isinstance(s, Node) or (isinstance(s, (int, float)) and math.isfinite(s)) for s in sides):
        hold(low, low.node(_SIGNS.get(order, order), sides, call.at))
    return None
