"""The words of a message: where an operation is singular, and what a selection does to it."""

from __future__ import annotations

_PLACES = {
    "at 0": "log log2 log10 log1mexp entr cbrt clipped_sqrt reciprocal hypot",
    "at a constant array": "std std_unbiased",
    "at the zero vector": "norm euclidean_norm distance",
    "at 0 or below": "sqrt rsqrt",
    "at 0 or a negative base": "power power_static",
    "at 0 with a negative exponent": "integer_power",
    "at -1": "log1p xlog1py",
    "with a zero divisor": "divide mod fmod addcdiv xdivy",
    "with a zero argument": "xlogy kl_divergence",
    "at the edge of its domain": "arccos arcsin arccosh arctanh erfinv ndtri logit",
    "at (0, 0)": "arctan2",
    "where it overflows": "exp exp2 expm1 sinh cosh i0 i1 poisson_nll",
    "at a pole": "lgamma gamma digamma polygamma betaln gammainc gammaincc",
    "where every element is -inf": "logsumexp softmax log_softmax",
    "at a singular matrix": "cholesky inv solve slogdet logdet",
}
_PLACE_OF = {op: words for words, ops in _PLACES.items() for op in ops.split()}

#: Operations that have another name in the catalogue than in a program.
_SPOKEN = {
    "clipped_sqrt": "sqrt",
    "power_static": "power",
    "integer_power": "power",
    "std_unbiased": "std",
    "euclidean_norm": "norm",
}

_SELECTIONS = {
    "masked_fill": "where `masked_fill` overwrites it",
    "index": "where the index does not pick it",
    "multiply": "where the mask multiplies it by 0",
    "nan_to_num": "where `nan_to_num` replaces it",
    "reduction": "where the mask of the reduction leaves it out",
    "assignment": "where the assignment overwrites it",
    "clip": "where the `clip` drops it",
    "maximum": "where the `maximum` drops it",
    "minimum": "where the `minimum` drops it",
}

#: Selections with a rule of their own; a ``where`` has the rule of the operation.
BY_SELECTION = {
    "index": "WL201", "multiply": "WL202", "nan_to_num": "WL203", "maximum": "WL204", "minimum": "WL204",
    "fmax": "WL204", "fmin": "WL204",
    "clip": "WL204", "relu": "WL204", "relu6": "WL204", "reduction": "WL205", "assignment": "WL206",
}  # fmt: skip


def spoken(op: str) -> str:
    """The operation's name in a sentence."""
    return _SPOKEN.get(op, op)


def place(op: str) -> str:
    """Where the operation is singular."""
    return _PLACE_OF.get(op, "at a singular point")


def selection_phrase(kind: str) -> str:
    """How a selection makes the zero cotangent."""
    return _SELECTIONS.get(kind, f"where the `{kind}` does not select it")
