"""How the conformance test calls each name of the tables: which shapes, which arguments after the operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runners import Call, resolve

from wherelint.ops import OPERATIONS, Signature

#: Operations whose operands are matrices; every element becomes one of a single row and column.
MATRICES = {"cholesky", "inv", "solve", "solve_triangular", "det", "logdet", "slogdet"}


def _turned(table: dict[Any, str]) -> dict[str, Any]:
    """``{value: names}`` as ``{name: value}``."""
    return {name: value for value, words in table.items() for name in words.split()}


#: Arguments after the operands.
POSITIONAL: dict[str, tuple[Any, ...]] = _turned({
    ((1, 1),): """jax.numpy.reshape jax.numpy.broadcast_to jax.lax.reshape jax.lax.broadcast jax.Array.reshape
        torch.reshape torch.broadcast_to torch.Tensor.reshape torch.Tensor.broadcast_to torch.Tensor.view
        torch.Tensor.expand torch.tile torch.Tensor.tile torch.Tensor.repeat jax.numpy.tile jax.lax.tile
        tensorflow.reshape tensorflow.broadcast_to tensorflow.ensure_shape tensorflow.tile
        tensorflow.keras.backend.reshape tensorflow.keras.backend.tile keras.ops.reshape keras.ops.broadcast_to
        keras.ops.tile""",
    ((1, 1), (0, 1)): "jax.lax.broadcast_in_dim",
    (0,): """jax.numpy.expand_dims jax.numpy.roll jax.numpy.pad jax.numpy.rollaxis torch.unsqueeze torch.roll
        torch.Tensor.unsqueeze torch.Tensor.roll tensorflow.expand_dims tensorflow.keras.backend.expand_dims
        tensorflow.keras.backend.squeeze keras.ops.expand_dims keras.ops.roll""",
    ((0,),): """jax.lax.squeeze jax.lax.expand_dims jax.lax.rev jax.lax.reduce_sum jax.lax.reduce_max
        jax.lax.reduce_min jax.lax.reduce_prod jax.lax.reduce_and jax.lax.reduce_or torch.flip torch.Tensor.flip
        tensorflow.reverse tensorflow.keras.backend.reverse""",
    (1,): """jax.numpy.repeat jax.Array.repeat tensorflow.repeat keras.ops.repeat torch.repeat_interleave
        torch.Tensor.repeat_interleave jax.numpy.tensordot torch.tensordot tensorflow.tensordot keras.ops.tensordot
        tensorflow.linalg.tensordot""",
    (0, 1): """jax.numpy.swapaxes jax.numpy.moveaxis jax.Array.swapaxes torch.transpose torch.Tensor.transpose
        torch.swapaxes torch.Tensor.swapaxes torch.moveaxis torch.Tensor.moveaxis torch.movedim torch.Tensor.movedim
        keras.ops.swapaxes keras.ops.moveaxis""",
    ((1, 0),): """jax.numpy.permute_dims jax.lax.transpose torch.permute torch.Tensor.permute
        tensorflow.keras.backend.permute_dimensions""",
    (0, 0): "tensorflow.roll",
    (((0, 0), (0, 0)),): "tensorflow.pad keras.ops.pad",
    (1, 0): "tensorflow.keras.backend.repeat_elements",
    (11, 52): "jax.lax.reduce_precision",
    (0, "int32"): "jax.lax.argmax jax.lax.argmin",
    (-1,): """torch.cumsum torch.cumprod torch.logcumsumexp torch.softmax torch.log_softmax torch.logsumexp
        torch.Tensor.cumsum torch.Tensor.cumprod torch.Tensor.logcumsumexp torch.Tensor.softmax
        torch.Tensor.log_softmax torch.Tensor.logsumexp torch.nn.functional.softmax torch.nn.functional.log_softmax
        torch.special.softmax torch.special.log_softmax torch.special.logsumexp""",
    ((((0,), (0,)), ((), ())),): "jax.lax.dot_general",
})  # fmt: skip
#: Keyword arguments beside the operands.
KEYWORDS: dict[str, dict[str, Any]] = {
    name: dict(value)
    for name, value in _turned({
        (("axes", 1),): "jax.numpy.linalg.tensordot",
        (("axis", 0),): "jax.numpy.cumulative_sum jax.numpy.cumulative_prod",
        (("reduction", "none"),): """torch.nn.functional.mse_loss torch.nn.functional.l1_loss
            torch.nn.functional.kl_div torch.nn.functional.binary_cross_entropy
            torch.nn.functional.binary_cross_entropy_with_logits torch.nn.functional.poisson_nll_loss
            torch.nn.functional.smooth_l1_loss torch.nn.functional.huber_loss""",
        (("dim", 0),): "torch.nn.functional.normalize torch.nn.functional.cosine_similarity torch.cosine_similarity",
        (("upper", False),): "torch.linalg.solve_triangular",
    }).items()
}  # fmt: skip
#: Arguments taken from the operand itself.
OWN: dict[str, Callable[[Any], Any]] = {
    **_turned({(lambda x: x.dtype): """jax.numpy.astype jax.Array.astype jax.lax.convert_element_type tensorflow.cast
        tensorflow.keras.backend.cast keras.ops.cast torch.Tensor.to torch.Tensor.type"""}),
    **_turned({(lambda x: x): """torch.Tensor.view_as torch.Tensor.reshape_as torch.Tensor.expand_as
        torch.Tensor.type_as"""}),
}  # fmt: skip
#: Operands that are Python numbers, by name or by operation, with the values to try.
STATIC: dict[str, tuple[tuple[float, ...] | None, ...]] = {
    "softplus_threshold": (None, (1.0, 2.0), (20.0, 1.0)), "leaky_relu": (None, (0.01, 0.2)), "elu": (None, (1.0, 0.5)),
    "celu": (None, (1.0, 0.5)), "hard_tanh": (None, (-1.0,), (1.0,)), "softshrink": (None, (0.5,)),
    "hardshrink": (None, (0.5,)), "threshold": (None, (0.0, 1.0), (2.0,)), "normalize": (None, (1e-12,)),
    "l2_normalize": (None, (1e-12,)), "cosine_similarity": (None, None, (1e-8,)),
    "pairwise_distance": (None, None, (1e-6,)), "huber": (None, None, (1.0, 0.5)),
    "smooth_l1": (None, None, (1.0, 0.0)), "polygamma": ((1, 2), None), "full_like": (None, (2.0,)),
    "addcmul": (None, None, None, (1.0, 2.0)), "addcdiv": (None, None, None, (1.0, 2.0)),
    "tensorflow.scalar_mul": ((0.0, 2.0), None), "integer_power": (None, (-2, -1, 0, 1, 2, 3)),
}  # fmt: skip
#: Where the documentation of torch and its argument parser use different keywords, what the parser wants.
_SPELLED = {("torch.linalg.cholesky", "A"): "input", ("torch.linalg.solve_triangular", "A"): "input"}  # fmt: skip
#: These take the order of polygamma as a tensor of the operand's dtype, the others as an int.
_TENSOR_ORDER = {"tensorflow.math.polygamma", "jax.lax.polygamma"}


def kind(name: str, signature: Signature) -> str:
    """What the framework is given: all points at once, rows of lanes, one element at a time, or 1x1 matrices."""
    short = name.rpartition(".")[2]
    if signature.op in MATRICES:
        return "matrix"
    if signature.op in ("identity", "stop_gradient") or short in ("outer", "ger", "kron", "prelu", "bias_add"):
        return "single"
    return "row" if OPERATIONS[signature.op].mixes else "point"


def _shaped(name: str, shape: str, values: list[Any]) -> list[Any]:
    """The operands with the ranks that the function insists on; ``values`` are vectors of points or of lanes."""
    short = name.rpartition(".")[2]
    first, rest = values[0], values[1:]
    if shape == "matrix":
        return [value[..., None, None] for value in values]
    if shape == "single" and short not in ("outer", "ger"):
        return [first[None], *rest] if rest else [first[None]]
    if short == "trace":
        return [_diagonal(first)]
    if short in ("mm", "bmm", "batch_matmul") or name in ("tensorflow.matmul", "tensorflow.linalg.matmul"):
        left, right = first[None, :], rest[0][:, None]
        return [left, right] if short in ("mm", "matmul") else [left[None], right[None]]
    if short == "cdist":
        return [first[None, :], rest[0][None, :]]
    if name == "tensorflow.keras.backend.dot":
        return [first[None, :], rest[0][:, None]]
    if short in ("mv", "matvec", "matrix_norm") or name == "tensorflow.keras.backend.softmax":
        return [first[None, :], *rest]
    if short == "vecmat":
        return [first, rest[0][:, None]]
    if short == "linear":
        return [first, rest[0][None, :], *rest[1:]]
    return values


def _diagonal(row: Any) -> Any:
    name = {"torch": "torch.diag", "tensorflow": "tensorflow.linalg.diag"}.get(_module(row), "jax.numpy.diag")
    return resolve(name)(row)


def _constant(like: Any, number: float) -> Any:
    stop = resolve("tensorflow.stop_gradient" if _module(like) == "tensorflow" else "jax.lax.stop_gradient")
    return stop(like * 0 + number)


def _module(tensor: Any) -> str:
    return type(tensor).__module__.partition(".")[0]


def build(name: str, signature: Signature, static: dict[int, float], *, by_keyword: bool) -> Call:
    """A call of the name on the operands that are not static, positionally or by their keywords."""
    function = resolve(name)
    shape = kind(name, signature)
    short = name.rpartition(".")[2]
    method = ".Array." in name or ".Tensor." in name

    def call(*operands: Any) -> Any:
        values = _shaped(name, shape, list(operands))
        if short.endswith("_"):
            values = [value.clone() for value in values]
        for index, number in sorted(static.items()):
            values.insert(index, _constant(operands[0], number) if name in _TENSOR_ORDER else number)
        arguments: list[Any] = []
        keywords = dict(KEYWORDS.get(name, {}))
        pending = list(values)
        for index, names in enumerate(signature.operands):
            if not names:
                continue
            value = pending.pop(0)
            if names[0].startswith("_"):
                continue
            if by_keyword and not (method and index == 0):
                keywords[_SPELLED.get((name, names[0]), names[0])] = value
            elif len(arguments) == index and names != ("value",):
                arguments.append(value)
            else:
                keywords[names[0]] = value
        arguments += POSITIONAL.get(name, ())
        if name in OWN:
            arguments.append(OWN[name](values[0]))
        out = function(*arguments, **keywords)
        if short == "slogdet":
            out = out[1]
        if short in ("half", "bfloat16"):
            out = out.to(operands[0].dtype)
        return out[0] if isinstance(out, (list, tuple)) else out

    return call
