"""What is known of JAX's primitives: how masks and derivatives go through them, and their entries in the catalogue."""

import jax
from jax import numpy as jnp

from wherelint.jax._compat import Var

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
_LOOP = "has no reverse mode in JAX either: use `lax.scan` or a `fori_loop` with static bounds"
_SHARDED = "runs on several devices: apply mask_gradients to the mapped function instead"
_EFFECT = "calls Python or writes to a reference, so wherelint cannot read what it computes"
#: Linear primitives that are refused, and why.
REFUSED: dict[str, str] = {
    "custom_linear_solve": "is not differentiated in its right-hand side alone, or cannot solve the transposed system",
    "while": _LOOP,
    **dict.fromkeys(["shard_map", "xla_pmap", "pallas_call", "ragged_all_to_all", "call_hi_primitive",
                     "call_hi_primitive_linearized"], _SHARDED),
    **dict.fromkeys(
        """debug_callback debug_print io_callback pure_callback ffi_call box_get box_set new_box new_log log_extend
        log_read get swap addupdate dce_sink""".split(), _EFFECT),
}  # fmt: skip


def refusal(name: str) -> NotImplementedError:
    """The error for a linear primitive whose cotangents cannot be masked."""
    why = REFUSED.get(name, f"has no rule in this version of wherelint (jax is {jax.__version__})")
    return NotImplementedError(f"mask_gradients cannot mask the gradient of the primitive `{name}`: it {why}")


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
