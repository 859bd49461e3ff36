"""What is known of JAX's primitives: how masks and derivatives go through them, and their entries in the catalogue."""

from collections.abc import Sequence

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.jax._compat import Jaxpr, JaxprEqn, Literal, Var, programs, scan_counts

#: The dead elements of the operands are those of the result: nothing moves, nothing is multiplied but by -1.
SAME = frozenset(
    """add add_any sub neg convert_element_type copy copy_p real imag conj complex reduce_precision device_put
    sharding_constraint layout_constraint optimization_barrier pvary pbroadcast reshard preduced reduced_vary_cast_p
    vary_unreduced_cast_p tie with_memory_space_constraint""".split()
)
#: Elements are moved and added: an element is dead where all that it went to are.
MOVES = frozenset(
    """broadcast_in_dim reduce_sum reshape squeeze expand_dims transpose rev concatenate cumsum stack unstack tile
    scatter-add scatter_add scatter-sub psum psum2 psum_invariant unreduced_psum all_gather all_gather_invariant
    all_gather_reduced all_to_all ppermute reduce_scatter unreduced_reduce_scatter""".split()
)
#: The same, and elements are left out, by an index, an overwrite or a window.
DROPS = frozenset(
    """slice dynamic_slice dynamic_update_slice pad gather scatter split reduce_window_sum select_and_gather_add
    select_and_scatter_add""".split()
)
#: Every element of a result depends on every one of the operands, along as many trailing axes (None: along all).
DENSE = {
    "fft": 3, "triangular_solve": 2, "tridiagonal_solve": 2, "linear_call": None,
    "ragged_dot_general": None, "scatter-mul": None,
}  # fmt: skip
#: What computes another program, and nothing else.
CALLS = frozenset("jit pjit closed_call core_call call remat2 checkpoint remat program_order".split())
#: Where a rule of its own is: products, selections, calls and loops.
BY_HAND = CALLS | frozenset(
    "mul div select_n dot_general conv_general_dilated scan cond custom_lin custom_linear_solve".split()
)
_LOOP = "has no reverse mode in JAX either: use `lax.scan` or a `fori_loop` with static bounds"
_SHARDED = "is a program for many devices: mask the function that it maps, inside of it"
_EFFECT = "calls Python or writes to a reference, and what it computes cannot be read"
#: Linear primitives that are refused, and why.
REFUSED: dict[str, str] = {
    "while": _LOOP,
    "custom_linear_solve": "is not differentiated in its right-hand side alone, or cannot solve the transposed system",
    **dict.fromkeys(["shard_map", "xla_pmap", "pallas_call", "ragged_all_to_all", "call_hi_primitive",
                     "call_hi_primitive_linearized"], _SHARDED),
    **dict.fromkeys(
        """debug_callback debug_print io_callback pure_callback ffi_call box_get box_set new_box new_log log_extend
        log_read get swap addupdate dce_sink""".split(), _EFFECT),
}  # fmt: skip

KNOWN = SAME | MOVES | DROPS | set(DENSE) | BY_HAND


def refusal(name: str) -> NotImplementedError:
    """The error for a linear primitive whose cotangents cannot be masked."""
    why = REFUSED.get(name, f"has no rule in this version of wherelint (jax is {jax.__version__})")
    return NotImplementedError(f"mask_gradients cannot mask the gradient of the primitive `{name}`: it {why}")


#: Real-valued primitives that have no derivative but zero.
CONSTANT = frozenset("sign floor ceil round nextafter stop_gradient".split())

#: Primitives by the name of their entry in the catalogue.
CATALOGUE = {
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "div": "divide", "rem": "fmod", "atan2": "arctan2",
    "pow": "power", "integer_pow": "integer_power", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "sinh": "sinh",
    "cosh": "cosh", "log": "log", "log1p": "log1p", "asin": "arcsin", "acos": "arccos", "acosh": "arccosh",
    "atanh": "arctanh", "erf_inv": "erfinv", "lgamma": "lgamma", "digamma": "digamma", "polygamma": "polygamma",
    "igamma": "gammainc", "igammac": "gammaincc", "cholesky": "cholesky", "triangular_solve": "solve",
    "lu": "inv", "mul": "multiply", "max": "maximum", "min": "minimum", "select_n": "where",
    "custom_linear_solve": "solve", "dot_general": "dot",
}  # fmt: skip


def is_inexact(variable: Var) -> bool:
    """Whether it is a real or complex number."""
    return bool(jnp.issubdtype(variable.aval.dtype, jnp.inexact))


def active_outputs(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Which outputs of a jaxpr depend on the inputs that are active; its constants are not."""
    active = {v: flag and is_inexact(v) for v, flag in zip(jaxpr.invars, inputs, strict=True)}
    for eqn in jaxpr.eqns:
        flags = [not isinstance(v, Literal) and active.get(v, False) for v in eqn.invars]
        active.update(zip(eqn.outvars, active_results(eqn, flags), strict=True))
    return [not isinstance(v, Literal) and active.get(v, False) for v in jaxpr.outvars]


def active_results(eqn: JaxprEqn, flags: Sequence[bool]) -> list[bool]:
    """Which results of an equation depend on the operands that are active."""
    if not any(flags) or eqn.primitive.name in CONSTANT:
        return [False] * len(eqn.outvars)
    results = [any(flags)] * len(eqn.outvars)
    name, inner = eqn.primitive.name, programs(eqn)
    if name == "scan":
        first, count = scan_counts(eqn)
        results = _until_stable(inner[0].jaxpr, list(flags), first, first + count)
    elif name == "cond":
        branches = [active_outputs(branch.jaxpr, flags[1:]) for branch in inner]
        results = [any(each) for each in zip(*branches, strict=True)]
    elif name == "while":
        flags = flags[eqn.params["cond_nconsts"] :]
        results = _until_stable(eqn.params["body_jaxpr"].jaxpr, list(flags), eqn.params["body_nconsts"], len(flags))
    elif len(inner) == 1 and (len(inner[0].in_avals), len(inner[0].out_avals)) == (len(flags), len(eqn.outvars)):
        results = active_outputs(inner[0].jaxpr, flags)
    elif name == "select_n":
        results = [any(flags[1:])]
    return [result and is_inexact(v) for result, v in zip(results, eqn.outvars, strict=True)]


def _until_stable(body: Jaxpr, flags: list[bool], first: int, last: int) -> list[bool]:
    """The outputs of a loop's body when what it carries has gone round often enough."""
    while True:
        results = active_outputs(body, flags)
        carried = [a or b for a, b in zip(flags[first:last], results, strict=False)]
        if carried == flags[first:last]:
            return results
        flags[first:last] = carried


def is_risky(eqn: JaxprEqn) -> bool:
    """Whether a finite cotangent may leave a linear equation as nan or inf."""
    name = eqn.primitive.name
    if name in SAME or name in MOVES or name in DROPS or name == "select_n":
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
