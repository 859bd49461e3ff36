"""Operations by what they have in common, and the kinds of selections."""

from typing import NamedTuple

from wherelint.ops import OPERATIONS, linalg


class Selection(NamedTuple):
    """A kind of selection: the rule of its own, unless the operation's counts, and what it does to a result."""

    code: str | None
    phrase: str


#: Operations that are singular somewhere, those where an operand, the divisor, is 0, and those whose gradient is 0
#: almost everywhere.
SINGULAR = frozenset(name for name, operation in OPERATIONS.items() if operation.code is not None)
QUOTIENTS = frozenset(name for name, operation in OPERATIONS.items() if operation.quotient)
#: Operations of whole matrices, which the model takes element by element.
MATRICES = frozenset(linalg.OPERATIONS)
PIECEWISE = frozenset(name for name, operation in OPERATIONS.items() if operation.piecewise)

#: Every kind of selection by its name, see ``Node.selection``.
SELECTIONS: dict[str, Selection] = {
    "where": Selection(None, "`where` discards the result"),
    "select": Selection(None, "`select` discards the result"),
    "masked_fill": Selection(None, "`masked_fill` overwrites the result"),
    "cond": Selection(None, "`cond` takes a branch without the result"),
    "index": Selection("WL201", "the index leaves out the result"),
    "multiply": Selection("WL202", "the mask multiplies the result by 0"),
    "nan_to_num": Selection("WL203", "`nan_to_num` replaces the result"),
    **{
        kind: Selection("WL204", f"`{kind}` discards the result")
        for kind in ("maximum", "minimum", "clip", "relu", "relu6", "threshold")
    },
    "reduction": Selection("WL205", "the mask of the reduction leaves out the result"),
    "assignment": Selection("WL206", "the assignment overwrites the result"),
}
#: The operations of the catalogue that select, each with the kind that it is.
SELECTS = {name: operation.selects for name, operation in OPERATIONS.items() if operation.selects is not None}
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
#: Functions that run one of several functions.
BRANCHING = ("cond", "switch", "switch_case")

#: Roots of sums of squares; squares, of which each is 0 only together with its derivative; and what adds such values.
NORMS = frozenset({"norm", "euclidean_norm", "distance", "std", "std_unbiased"})
SQUARES = frozenset({"square", "squared_difference", "var", "var_unbiased"})
SUMS = frozenset({"identity", "lane", "gather", "stack", "add", "sum", "mean", "cumsum", "maximum", "clip", "relu"})

#: Operations over rows that fail where every element is -inf.
ROWS = frozenset({"softmax", "log_softmax", "logsumexp"})

#: Tests of a value that say outright that it may not be finite.
FINITE_TESTS = frozenset({"isnan", "isfinite", "isinf", "isneginf", "isposinf"})
#: What shows some of the elements of its first operand, or all of them in another form.
VIEWS = frozenset({"identity", "stop", "lane", "gather"})
ORDERINGS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not", "any", "all"})
#: Operations whose results are booleans.
TO_BOOL = frozenset(name for name, operation in OPERATIONS.items() if operation.result == "bool")
