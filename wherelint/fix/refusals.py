"""Why there is no fix."""

from wherelint.finding import REFUTED, UNRUN, Fix

#: Why there is no fix, where it was not looked for to the end.
TOO_MANY = "the fixes of the file take longer than they are looked for"
TOO_LONG, TOO_MUCH = "it takes longer than a fix is looked for", "it is too much to follow"
TRIES = "more rewrites are possible than are tried"
ROUNDS = "one fix after the other needed another"
ALONE = "it does something else together with the fixes around it"
UNWANTED = "{} is not to be fixed here"
NO_TERM = "there is no constant arm that a short linear term gives the slope of the limit"
EPSILON = "an epsilon keeps the operand away from there"
MATRIX = "no number stands for a matrix; give the operation an identity matrix where its result is dropped"
#: What the messages begin with.
GIVEN_UP = tuple(
    f"no fix is offered: {why}" for why in (TOO_MANY, TOO_LONG, TOO_MUCH, TRIES, ROUNDS, ALONE, REFUTED, UNRUN)
)


def refused(why: str) -> Fix:
    """No fix, and why."""
    return Fix("display", f"no fix is offered: {why}", ())
