"""Every sentence that a fix says: what it does, what it leaves, and why there is none."""

from collections.abc import Sequence

from wherelint.finding import REFUTED, UNRUN, Fix

#: Why there is no fix, where it was not looked for to the end.
TOO_MANY = "too many fixes in this file (analysis budget exceeded)"
TOO_LONG = "too much to search (analysis budget exceeded)"
TOO_MUCH = "too much code to follow (analysis budget exceeded)"
TRIES = "too many possible fixes (analysis budget exceeded)"
ROUNDS = "too many rounds of fixes"
ALONE = "it conflicts with another fix nearby"
UNBOUND = "the fix would use an undefined name"
UNWANTED = "fixes of {} are switched off"
MATRIX = "a number cannot replace a matrix; use an identity matrix where the result is dropped"
ELSEWHERE = "the operation is in {}"
UNPROVEN = "no change keeps the values and makes the gradient finite"
#: What the messages begin with.
GIVEN_UP = tuple(
    f"no fix is offered: {why}" for why in (TOO_MANY, TOO_LONG, TOO_MUCH, TRIES, ROUNDS, ALONE, REFUTED, UNRUN)
)


def refused(why: str) -> Fix:
    """No fix, and why."""
    return Fix("display", f"no fix is offered: {why}", ())


#: What a mask does; with what a selection is called.
MASK_OPERAND = "mask the operand with the condition of the {}"
MASK_OPERANDS = "mask the operands with the condition of the {}"
MASK_VARIABLE = "mask `{}` with the condition of the {}"
#: What a guard does.
GUARD = "guard the operation where it is singular"
CLAMP = "clamp the exponent at 80: float32 overflows beyond 88"
STOP = "stop the gradient at the singular point"
VARIANCE = "guard the square root where the variance is 0"
NORM = "use the norm function, whose gradient at 0 is 0"
#: What a comment above a fix says, which begins like that.
COMMENT = "# Keep nan out of the gradient of"
_LEFT = "; not fixed here: "
#: How many rows a message names.
_MOST_ROWS = 3


def comment(op: str) -> str:
    """What a comment says of the operation that is fixed below it."""
    return f"{COMMENT} `{op}` where it is not selected."


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
    return f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:_MOST_ROWS]))}{more}"


def left_in(rows: Sequence[int]) -> str:
    """What is said of the rows that a fix leaves as they are, though they have the same cause."""
    return f"{_LEFT}{_rows(rows)}" if rows else ""


def made_with(message: str, rows: Sequence[int]) -> str:
    """The message of a fix that those of some rows are part of: it no longer speaks of what it left alone."""
    return f"{message.partition(_LEFT)[0]}, together with {_rows(rows)}" if rows else message
