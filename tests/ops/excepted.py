"""What the conformance test does not compare, and why. The test asserts that every entry is still needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import answers
import numpy as np

ALL = "jax torch tensorflow xla"
INF = float("inf")


def _finite(*operands: Any) -> Any:
    return np.all(np.isfinite(operands), axis=0)


def _not_nan(*operands: Any) -> Any:
    return ~np.any(np.isnan(operands), axis=0)


def _moderate(*operands: Any) -> Any:
    return np.all(np.abs(operands) <= 1000, axis=0)


def _positive(x: Any) -> Any:
    return np.isfinite(x) & (x > 0)


def _regular(x: Any, *_: Any) -> Any:
    return np.isfinite(x) & (x != 0)


def _none(*operands: Any) -> Any:
    return np.zeros(np.broadcast_shapes(*map(np.shape, operands)), dtype=bool)


def concerns(modes: str, mode: str) -> bool:
    """Whether an entry for some modes is one for this mode, where it runs and in the version that is installed.

    As ``torch jax>=0.11 torch@gpu``.
    """
    for name, device, bound, number in re.findall(r"([a-z]+)(?:@([a-z]+))?(?:(<|>=)([0-9.]+))?", modes):
        if name == mode and device in ("", answers.session.device):
            return not bound or (_numbers(version(name)) < _numbers(number)) == (bound == "<")
    return False


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]


#: For an operation or a name and some modes, the points that are compared.
DOMAIN: dict[str, dict[str, Callable[..., Any]]] = {
    # These raise for a matrix that is singular or not positive definite, so that no nan can come of it; XLA's
    # decompositions give nan for an infinite matrix.
    "inv": {"torch tensorflow": _regular, "xla": np.isfinite},
    "solve": {"torch tensorflow": _regular, "xla": lambda a, b: np.isfinite(a)},
    "slogdet": {"tensorflow": _regular},
    "cholesky": {"torch": _positive},
    "keras.ops.cholesky": {"tensorflow xla": _positive},
    # XLA's Cholesky factor of 0 is 0 in TensorFlow, and nan in JAX.
    "tensorflow.linalg.cholesky": {"xla": lambda x: x != 0},
    "logdet": {"tensorflow": lambda x: x != 0},
    # torch raises for a probability outside [0, 1].
    "binary_cross_entropy": {"torch": lambda p, t: (p >= 0) & (p <= 1) & (t >= 0) & (t <= 1)},
    # Series whose ranges differ between the frameworks: compared inside the domain and at its edge.
    "gammainc": {ALL: lambda a, x: (a >= 0.5) & (a <= 3) & _moderate(x)},
    "gammaincc": {ALL: lambda a, x: (a >= 0.5) & (a <= 3) & (x >= 0) & _moderate(x)},
    "betaln": {"jax": lambda a, b: (a > 1e-3) & (b > 1e-3) & _moderate(a, b)},
    "polygamma": {ALL: _positive},
    "zeta": {"torch": _finite, "torch@gpu": lambda x, q: np.abs(x) <= 10,
             "tensorflow xla": lambda x, q: _moderate(x) & _positive(q),
             "jax": lambda x, q: (np.abs(x) <= 10) & _moderate(q) & ((q > 0) | (x >= 1))},
    "log_ndtr": {"jax torch": lambda x: ~(np.abs(x) >= 1000) | (x > 0)},
    "digamma": {"jax tensorflow": lambda x: x != 0, "xla": lambda x: (x != 0) & ~np.isinf(x)},
    "ndtri": {"xla": lambda x: (x == 0) | (np.abs(x) > 1e-6)},
    "i0": {"jax<0.11": lambda x: _moderate(x) & (x != 0), "jax>=0.11": lambda x: (np.abs(x) < 1000) & (x != 0)},
    # JAX has rules of its own for these since 0.11; the catalogue has what it did before.
    "arccosh": {"jax>=0.11": lambda x: ~(x <= -1)}, "sinc": {"jax>=0.11": lambda x: ~np.isinf(x)},
    "gamma": {"jax>=0.11": lambda x: x != 0}, "lgamma": {"jax>=0.11": lambda x: x != 0},
    "rel_entr": {"jax": _moderate},
    # Running products and sums of inf come out in an order of evaluation that nobody specifies.
    "cumprod": {"jax": _finite},
    "logcumsumexp": {"jax tensorflow xla": lambda x: np.isfinite(x) & (np.abs(x) < 1e9)},
    # torch's vectorised kernels and their scalar tails disagree about nan (and gelu's about inf): torch 2.13 CPU.
    "relu6": {"torch": _not_nan}, "hard_tanh": {"torch tensorflow xla": _not_nan}, "selu": {"torch": _not_nan},
    "elu": {"torch tensorflow xla": _not_nan}, "celu": {"torch": _not_nan}, "hardshrink": {"torch": _not_nan},
    "softshrink": {"torch": _not_nan}, "gelu": {"torch": _finite},
    # TensorFlow compiles minimum and maximum on the CPU so that they may drop a nan; JAX does not.
    "maximum": {"xla": _not_nan}, "minimum": {"xla": _not_nan}, "max": {"xla": _not_nan}, "min": {"xla": _not_nan},
    # tf.clip_by_value lets the lower bound win where the bounds are crossed, the others the upper one.
    "clip": {"tensorflow": lambda x, lo, hi: ~(lo > hi), "xla": lambda x, lo, hi: ~(lo > hi) & _not_nan(x, lo, hi)},
    "clipped_sqrt": {"xla": lambda x: ~(np.signbit(x) & (x == 0)) & _not_nan(x)},
    "argmax": {"tensorflow xla": _not_nan}, "argmin": {"tensorflow xla": _not_nan},
    "softmax": {"tensorflow": _finite},
    "floor_divide": {"tensorflow xla": _finite},
    "erf": {"tensorflow": lambda x: ~np.isinf(x)},
    # Keras composes these of other operations, which go their own ways at inf and nan.
    "threshold": {"tensorflow xla": _not_nan},
    "keras.ops.hard_shrink": {"tensorflow xla": _not_nan}, "keras.ops.soft_shrink": {"tensorflow xla": _not_nan},
    "median": {"tensorflow xla": _finite}, "hypot": {"tensorflow xla": _finite}, "isclose": {"tensorflow xla": _finite},
    "heaviside": {"tensorflow xla": _not_nan},
    "fmax": {"tensorflow xla": _not_nan}, "fmin": {"tensorflow xla": _not_nan},
    # The kernels of CUDA (torch 2.11): a matrix that is singular, a series that ends in nan, a slope at nan.
    "det": {"tensorflow": _regular, "torch@gpu": _regular}, "hard_silu": {"torch@gpu": _not_nan},
    # Casts to a narrow format, compared where it loses nothing.
    "torch.Tensor.half": {"torch": lambda x: np.isin(x, (0.5, -1.5, 2.0, 0.0, INF, -INF)) | np.isnan(x)},
    "torch.Tensor.bfloat16": {"torch": lambda x: np.isin(x, (0.5, -1.5, 2.0, 0.0, INF, -INF)) | np.isnan(x)},
}  # fmt: skip
#: For an operation and some modes, the points that are compared for an infinite cotangent too. Elsewhere the slope is
#: so small that it is 0 or not, and of one sign or the other, by rounding and by the order of the multiplications.
INFINITE: dict[str, dict[str, Callable[..., Any]]] = {
    "sinc": {"torch": _moderate}, "arctanh": {"jax<0.11": _moderate}, "tanh": {"jax>=0.11": _none},
    "arccosh": {"jax>=0.11": _moderate},
    "i0": {"jax>=0.11": _none}, "i1": {"jax>=0.11": lambda x: x != 0}, "arcsinh": {"tensorflow xla": _moderate},
    "digamma": {"jax tensorflow xla": _moderate}, "polygamma": {"jax tensorflow xla": _moderate},
    "zeta": {"tensorflow xla": _moderate}, "i0e": {"jax torch xla": _moderate}, "i1e": {"jax torch xla": _moderate},
    "gelu": {"torch": lambda x: np.abs(x) < 7}, "gelu_tanh": {"tensorflow": lambda x: np.abs(x) < 7},
}  # fmt: skip
#: Modes and names: for a cotangent that is not finite these raise, or (CUDA) multiply it by a mask.
FINITE_COTANGENTS = {
    "keras.ops.cholesky": "tensorflow",
    **dict.fromkeys(("torch.max", "torch.min", "torch.median", "torch.Tensor.max", "torch.Tensor.min",
                     "torch.Tensor.median"), "torch@gpu"),
}  # fmt: skip
#: Modes and names that are not compared: memory that nobody has written, a copy that is cut off, what the GPU can do.
NOT_COMPARED = {"jax.numpy.empty_like": "jax@gpu", "torch.asarray": "torch@gpu", "torch.Tensor.cuda": "torch@gpu"}
#: Factors on the tolerance: different algorithms, or (sinc) a series against a quotient of small differences.
TOLERANCE = {"gelu": 20.0, "sinc": 2e3, "gammainc": 20.0, "gammaincc": 20.0, "log_ndtr": 20.0, "logaddexp2": 20.0,
             "rel_entr": 20.0}  # fmt: skip

NOT_COMPILED = "unsupported operations"
#: (mode, name): what the framework says when it cannot run, compile or differentiate the name in that mode.
UNSUPPORTED: dict[tuple[str, str], str] = {
    ("torch", "torch.Tensor.cuda"): "CUDA",
    ("xla", "tensorflow.constant"): "non-tensor type",
    ("xla", "keras.ops.inner"): "left_branch_shape",
    ("xla", "keras.ops.kron"): "cannot be interpreted as an integer",
    **{("xla", name): NOT_COMPILED for name in (
        "tensorflow.math.bessel_i0", "tensorflow.math.bessel_i1", "tensorflow.math.reduce_euclidean_norm",
        "tensorflow.linalg.det", "tensorflow.linalg.slogdet", "keras.ops.i0", "keras.ops.det", "keras.ops.slogdet")},
}  # fmt: skip
#: The same, in float64 alone.
UNSUPPORTED_FLOAT64: dict[tuple[str, str], str] = {("xla", "keras.ops.exp2"): "does not match type float32"}
