"""Which values depend, differentiably, on the inputs that are differentiated; and where a mask would be of use."""

from collections.abc import Sequence

import numpy as np
from jax import numpy as jnp

from wherelint.jax._compat import Jaxpr, JaxprEqn, Literal, Var, programs, scan_counts
from wherelint.jax._primitives import CONSTANT, DROPS, MOVES, SAME


def is_inexact(variable: Var) -> bool:
    """Whether it is a real or complex number."""
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def active_outputs(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Which outputs of a jaxpr depend on the inputs that are active; its constants are not."""
    active = {v: given and is_inexact(v) for v, given in zip(jaxpr.invars, inputs, strict=True)}
    for eqn in jaxpr.eqns:
        given = [not isinstance(v, Literal) and active.get(v, False) for v in eqn.invars]
        active.update(zip(eqn.outvars, active_results(eqn, given), strict=True))
    return [not isinstance(v, Literal) and active.get(v, False) for v in jaxpr.outvars]


def active_results(eqn: JaxprEqn, given: Sequence[bool]) -> list[bool]:
    """Which results of an equation depend on the operands that are active."""
    if not any(given) or eqn.primitive.name in CONSTANT:
        return [False] * len(eqn.outvars)
    results = [any(given)] * len(eqn.outvars)
    name, inner = eqn.primitive.name, programs(eqn)
    if name == "scan":
        first, count = scan_counts(eqn)
        results = _until_stable(inner[0].jaxpr, list(given), first, first + count)
    elif name == "cond":
        branches = [active_outputs(branch.jaxpr, given[1:]) for branch in inner]
        results = [any(each) for each in zip(*branches, strict=True)]
    elif name == "while":
        given = given[eqn.params["cond_nconsts"] :]
        results = _until_stable(eqn.params["body_jaxpr"].jaxpr, list(given), eqn.params["body_nconsts"], len(given))
    elif len(inner) == 1 and (len(inner[0].in_avals), len(inner[0].out_avals)) == (len(given), len(eqn.outvars)):
        results = active_outputs(inner[0].jaxpr, given)
    elif name == "select_n":
        results = [any(given[1:])]
    return [result and is_inexact(v) for result, v in zip(results, eqn.outvars, strict=True)]


def _until_stable(body: Jaxpr, given: list[bool], first: int, last: int) -> list[bool]:
    """The outputs of a loop's body when what it carries has gone round often enough."""
    while True:
        results = active_outputs(body, given)
        carried = [a or b for a, b in zip(given[first:last], results, strict=False)]
        if carried == given[first:last]:
            return results
        given[first:last] = carried


def is_risky(eqn: JaxprEqn) -> bool:
    """Whether a finite cotangent may leave a linear equation as nan or inf."""
    name = eqn.primitive.name
    if name in SAME or name in MOVES or name in DROPS or name in ("add", "add_any", "sub", "select_n"):
        return False
    literals = [v.val for v in eqn.invars if isinstance(v, Literal)]
    if name in ("mul", "div") and literals:
        return not (np.all(np.isfinite(literals[0])) and (name == "mul" or np.all(literals[0])))
    return True


def needs_masks(jaxpr: Jaxpr, inputs: Sequence[bool]) -> dict[Var, bool]:
    """By variable of a linear jaxpr: whether something risky made it, so that it matters which elements are dead."""
    needed = dict(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        need = is_risky(eqn) or any(not isinstance(v, Literal) and needed.get(v, False) for v in eqn.invars)
        needed.update(dict.fromkeys(eqn.outvars, need))
    return needed
