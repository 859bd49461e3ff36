"""Facts of the operations that are read before anything is computed: rule, phrase, selection, kind of result.

Nothing here needs NumPy: the gate, which dismisses most files, reads the words of these operations, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Singular(NamedTuple):
    """What makes an operation singular: the rule that reports it, and where, as a phrase."""

    code: str
    place: str


class Selection(NamedTuple):
    """A kind of selection: the rule of its own, unless the operation's counts, and how it makes the zero."""

    code: str | None
    phrase: str


def _turned(table: Mapping[object, str]) -> dict[str, object]:
    return {name: value for value, words in table.items() for name in words.split()}


SINGULAR: dict[str, Singular] = {
    name: Singular(code, place)
    for (code, place), names in {
        ("WL101", "at 0 or below"): "sqrt rsqrt",
        ("WL101", "at 0"): "cbrt clipped_sqrt",
        ("WL102", "at 0"): "log log2 log10 log1mexp",
        ("WL102", "at -1"): "log1p",
        ("WL102", "where every element is -inf"): "logsumexp",
        ("WL103", "at 0"): "reciprocal",
        ("WL103", "with a zero divisor"): "divide mod fmod addcdiv xdivy",
        ("WL104", "at the edge of its domain"): "arcsin arccos arccosh arctanh",
        ("WL105", "at (0, 0)"): "arctan2",
        ("WL105", "at 0"): "hypot",
        ("WL106", "at 0 or a negative base"): "power power_static",
        ("WL106", "at 0 with a negative exponent"): "integer_power",
        ("WL107", "where it overflows"): "exp exp2 expm1 sinh cosh i0 i1 poisson_nll",
        ("WL108", "at a constant array"): "std std_unbiased",
        ("WL108", "at the zero vector"): "norm distance euclidean_norm",
        ("WL109", "at 0"): "entr",
        ("WL109", "at -1"): "xlog1py",
        ("WL109", "with a zero argument"): "xlogy kl_divergence",
        ("WL109", "at a pole"): "lgamma gamma digamma polygamma betaln gammainc gammaincc",
        ("WL109", "at the edge of its domain"): "erfinv ndtri logit",
        ("WL109", "where every element is -inf"): "softmax log_softmax",
        ("WL110", "at a singular matrix"): "cholesky inv solve slogdet logdet",
    }.items()
    for name in names.split()
}
#: Singular where an operand, the divisor, is 0.
QUOTIENTS = frozenset({"divide", "mod", "fmod", "xdivy", "solve"})
#: Their gradient is 0 almost everywhere.
PIECEWISE = frozenset({"sign", "floor", "ceil", "round", "trunc"})

#: Every kind of selection by its name, see ``Node.selection``.
SELECTIONS: dict[str, Selection] = {
    "where": Selection(None, "where the `where` does not select it"),
    "select": Selection(None, "where the `select` does not select it"),
    "masked_fill": Selection(None, "where `masked_fill` overwrites it"),
    "index": Selection("WL201", "where the index does not pick it"),
    "multiply": Selection("WL202", "where the mask multiplies it by 0"),
    "nan_to_num": Selection("WL203", "where `nan_to_num` replaces it"),
    **{kind: Selection("WL204", f"where the `{kind}` drops it") for kind in ("maximum", "minimum", "clip")},
    **{kind: Selection("WL204", f"where the `{kind}` does not select it") for kind in ("relu", "relu6", "threshold")},
    "reduction": Selection("WL205", "where the mask of the reduction leaves it out"),
    "assignment": Selection("WL206", "where the assignment overwrites it"),
}
#: The operations of the catalogue that select, each with the kind that it is.
SELECTS: dict[str, str] = {
    "where": "where", "multiply_no_nan": "multiply", "maximum": "maximum", "fmax": "maximum", "minimum": "minimum",
    "fmin": "minimum", "clip": "clip", "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip", "hard_tanh": "clip",
    "relu": "relu", "relu6": "relu6", "threshold": "threshold", "hard_sigmoid": "clip", "hard_silu": "clip",
    "softshrink": "clip", "hardshrink": "clip",
}  # fmt: skip
#: Selections by the value itself, whose zero may lie behind the singular operation: clips onto a singular point.
CLIPS = frozenset(kind for kind, selection in SELECTIONS.items() if selection.code == "WL204")
#: Selections that are no operation of the catalogue, by the last part of their names.
SELECTING = frozenset(
    "select select_n where_ masked_fill masked_fill_ nan_to_num nan_to_num_ masked_select boolean_mask at "
    "piecewise nansum nanmean nanmax nanmin".split()
)
#: Functions that pick elements.
INDEXING = (
    "take", "gather", "index_select", "take_along_axis", "take_along_dim", "roll", "flip", "fliplr", "flipud",
    "gather_nd", "dynamic_slice", "dynamic_index_in_dim", "rev",
)  # fmt: skip

#: Tests of a value that say outright that it may not be finite.
FINITE_TESTS = frozenset({"isnan", "isfinite", "isinf", "isneginf", "isposinf"})
ORDERINGS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not", "any", "all"})
#: Operations whose results are booleans, integers, and integers where the operands are.
TO_BOOL = FINITE_TESTS | ORDERINGS | LOGICAL | {"isclose", "allclose", "signbit"}
TO_INT = frozenset({"argmax", "argmin", "count_nonzero"})
INTEGER = frozenset(
    """add subtract multiply floor_divide mod negative abs maximum minimum sum prod max min identity sign square
    cumsum zeros_like ones_like integer_power clip stack where cond pick lane gather compress""".split()
)
