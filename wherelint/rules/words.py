"""The words of a message: where an operation is singular, and what a selection does to it."""

from __future__ import annotations

_PLACES = {
    "at 0 or below": ("sqrt", "rsqrt"),
    "at 0": ("log", "log2", "log10", "xlogy", "entr", "cbrt", "reciprocal", "norm", "std", "hypot"),
    "at -1": ("log1p", "xlog1py"),
    "at 0 or a negative base": ("power", "pow", "float_power"),
    "with a zero divisor": ("divide", "true_divide", "div", "mod", "remainder", "fmod"),
    "at the edge of its domain": ("arccos", "arcsin", "arccosh", "arctanh", "erfinv", "logit", "ndtri"),
    "at (0, 0)": ("arctan2", "atan2", "angle"),
    "where it overflows": ("exp", "exp2", "expm1", "sinh", "cosh", "square"),
    "at a singular matrix": ("cholesky", "inv", "det", "slogdet", "solve", "eigh", "svd", "qr", "logdet"),
}
_PLACE_OF = {op: words for words, ops in _PLACES.items() for op in ops}

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


def place(op: str) -> str:
    """Where the operation is singular."""
    return _PLACE_OF.get(op, "at a singular point")


def selection_phrase(kind: str) -> str:
    """How a selection makes the zero cotangent."""
    return _SELECTIONS.get(kind, f"where the `{kind}` does not select it")
