"""Why there is no fix."""

from wherelint.finding import REFUTED, UNRUN, Fix

#: Why there is no fix, where it was not looked for to the end.
TOO_MANY = "the fixes of the file exceed its budget"
TOO_LONG, TOO_MUCH = "the search exceeds its budget", "there is too much code to follow"
TRIES = "there are more rewrites than the search tries"
ROUNDS = "each fix needed another one"
ALONE = "it fails together with the fixes around it"
UNBOUND = "it would read a name that is not bound there"
UNWANTED = "fixes of {} are switched off"
EPSILON = "an epsilon keeps the operand away from the singular point"
MATRIX = "no number stands for a matrix; give the operation an identity matrix where its result is dropped"
#: What the messages begin with.
GIVEN_UP = tuple(
    f"no fix is offered: {why}" for why in (TOO_MANY, TOO_LONG, TOO_MUCH, TRIES, ROUNDS, ALONE, REFUTED, UNRUN)
)


def refused(why: str) -> Fix:
    """No fix, and why."""
    return Fix("display", f"no fix is offered: {why}", ())
