"""What is used of JAX that is not public; ``tests/companion/test_jax_compat.py`` names what a version broke."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
from jax._src import api as _api
from jax._src import callback as _callback
from jax._src import core as _core
from jax._src import debugging as _debugging
from jax._src import linear_util as _linear
from jax._src import pjit as _pjit
from jax._src import source_info_util as _source
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import partial_eval as _partial
from jax.interpreters import ad

from wherelint.companion import Place
from wherelint.companion.frames import place
from wherelint.companion.patching import override, wrap

if TYPE_CHECKING:  # JAX's annotations say nothing of shapes and parameters
    ClosedJaxpr: TypeAlias = Any
    Jaxpr: TypeAlias = Any
    JaxprEqn: TypeAlias = Any
    Literal: Any
    Var: TypeAlias = Any
else:
    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Var"]

#: The equations that an equation lies in, the outermost first.
Path = tuple[JaxprEqn, ...]

_undefined: Any = ad.UndefinedPrimal
#: Whether the rule of a ``custom_vjp`` has its cotangents in a pair with what it logs.
_logs = jax.__version_info__ >= (0, 11, 1)


def substituted(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """Some values, with others at some places."""
    found = list(values)
    for i, other in zip(places, others, strict=True):
        found[i] = other
    return found


def open_constants(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its constants as its first inputs."""
    jaxpr = closed.jaxpr
    invars = [*jaxpr.constvars, *jaxpr.invars]
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=invars, debug_info=_unnamed(jaxpr)), ())


def _unnamed(jaxpr: Jaxpr) -> Any:
    unnamed = getattr(jaxpr.debug_info, "with_unknown_names", None)  # an old JAX knows no names, a new one warns
    return unnamed and unnamed()


def evaluate(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    """What a program computes; every equation keeps the place in the source that it came from."""
    return list(_core.eval_jaxpr(closed.jaxpr, closed.consts, *arguments))


def bind(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """What one equation computes."""
    bound = eqn.primitive.get_bind_params(eqn.params)
    subfuns, params = bound if isinstance(bound, tuple) else ((), bound)
    out = eqn.primitive.bind(*subfuns, *operands, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def transpose(eqn: JaxprEqn, operands: Sequence[Any], linear: Sequence[bool], cts: Sequence[Any]) -> list[Any]:
    """The cotangents of the linear operands of an equation, as JAX computes them; operands that are linear are None."""
    avals = [v.aval for v in compress(eqn.invars, linear)]
    rule = ad.primitive_transposes.get(eqn.primitive)
    if rule is not None:
        operands = [_undefined(v.aval) if one else x for v, x, one in zip(eqn.invars, operands, linear, strict=True)]
        got = rule(list(cts) if eqn.primitive.multiple_results else cts[0], *operands, **eqn.params)
        pairs = zip(avals, compress(got, linear), strict=True)
        zero = type(None), ad.Zero
        return [jax.numpy.zeros(aval.shape, aval.dtype) if isinstance(ct, zero) else ct for aval, ct in pairs]

    def forward(*tangents: Any) -> Any:
        rest = iter(tangents)
        return bind(eqn, [next(rest) if is_linear else x for x, is_linear in zip(operands, linear, strict=True)])

    struct: Any = jax.ShapeDtypeStruct
    shapes = [struct(aval.shape, aval.dtype) for aval in avals]
    return list(jax.linear_transpose(forward, *shapes)(list(cts)))


def split(closed: ClosedJaxpr, linear: Sequence[bool]) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """What a program computes without its linear inputs, the rest, and which results are of the rest.

    The first gives results, and then the residuals that the second takes first.
    """
    known, rest, of_the_rest, _ = _partial.partial_eval_jaxpr_nounits(closed, unknowns=list(linear), instantiate=False)
    return known, open_constants(rest), list(of_the_rest)


def active_outputs(closed: ClosedJaxpr, active: Sequence[bool]) -> list[bool]:
    """Which results of a program have a derivative by some of its inputs."""
    try:
        return list(_ad.jvp_jaxpr(closed, list(active), instantiate=False)[1])
    except Exception:  # it holds something without a derivative
        return [True] * len(closed.out_avals)


def scan_counts(eqn: JaxprEqn) -> tuple[int, int]:
    """How many of a ``scan``'s operands stay the same in every round, and how many it carries from one to the next."""
    if "ft_in" not in eqn.params:  # before jax 0.11
        return eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, _ = eqn.params["ft_in"].unpack()
    return len(consts), len(carry)


def pull_back(eqn: JaxprEqn, residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
    """What the rule of a ``custom_vjp`` makes of cotangents."""
    rule = eqn.params["bwd"]
    found: Any = getattr(rule, "call_wrapped", rule)(*residuals, *cts)
    return found[0] if _logs else found  # type: ignore[no-any-return]


def programs(eqn: JaxprEqn) -> list[ClosedJaxpr]:
    """The jaxprs among an equation's parameters, with their constants."""
    found = []
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else [value]:
            if hasattr(each, "eqns"):
                found.append(each if hasattr(each, "consts") else ClosedJaxpr(each, ()))
    return found


def equations(program: ClosedJaxpr) -> Iterator[JaxprEqn]:
    """The equations of a program, and those inside of them."""
    for eqn in program.jaxpr.eqns:
        yield eqn
        for inner in programs(eqn):
            yield from equations(inner)


def frames(eqn: JaxprEqn) -> list[Place]:
    """Where an equation was traced, the innermost first, without JAX's machinery."""
    traceback = eqn.source_info.traceback
    return [] if traceback is None else [place(frame) for frame in zip(*traceback.raw_frames(), strict=True)]


def current_traceback() -> Any:
    """Where the program stands, or what it had traced that is now being transformed."""
    return _source.current().traceback


def function(closed: ClosedJaxpr) -> tuple[str, str]:
    """Name and file of the function that a program was traced from; empty where they are not known."""
    source = str(getattr(closed.jaxpr.debug_info, "func_src_info", None) or "")
    name, _, place = source.partition(" at ")
    return name, place.rpartition(":")[0]


def double_precision() -> AbstractContextManager[Any]:
    """Within the block, arrays may be of double precision."""
    enable: Any = getattr(jax, "enable_x64", None) or importlib.import_module("jax.experimental").enable_x64
    return enable(True)  # type: ignore[no-any-return]


#: The function that all of reverse mode passes: a private one that the public ones call, or (since jax 0.10) ``vjp``.
VJP = "_vjp" if hasattr(_api, "_vjp") else "vjp"
#: The files that call back.
CALLERS = [_debugging.__file__, _callback.__file__]


@contextmanager
def around(name: str, instead: Callable[..., Any]) -> Iterator[None]:
    """Within the block ``instead(original, ...)`` does what a function of JAX does, public and private."""
    with ExitStack() as patches:
        for owner in [jax, _api] if hasattr(jax, name) else [_api]:
            patches.enter_context(wrap(owner, name, instead))
        yield


def as_differentiable(fun: Any, new: Callable[..., Any]) -> Any:
    """A function to differentiate in place of another one, of the kind that `VJP` takes."""
    return _linear.wrap_init(new, debug_info=fun.debug_info) if isinstance(fun, _linear.WrappedFun) else new


def is_eager() -> bool:
    """Whether nothing is being traced."""
    return _core.trace_state_clean()


def current_trace() -> Any:
    """What is tracing."""
    core: Any = _core
    return core.trace_ctx.trace


class _Unlisted(_debugging.DebugEffect):
    """What a callback does that nobody waits for."""


def quick_callbacks() -> AbstractContextManager[None]:
    """Callbacks that are traced within the block do not make each call of what is compiled slow.

    JAX calls a compiled function through Python if it has effects, which takes time for each array that it is given.
    """
    return override(_debugging, debug_effect=_Unlisted())


def quick_calls() -> AbstractContextManager[None]:
    """Within the block functions whose only effects are `quick_callbacks` are called as those without any."""
    effects = [*inspect.signature(_pjit._get_fastpath_data).parameters].index("effects")

    def fast(original: Any, executable: Any, *rest: Any) -> Any:
        call: Any = getattr(executable, "unsafe_call", None)
        if hasattr(call, "has_unordered_effects") and all(isinstance(e, _Unlisted) for e in rest[effects - 1]):
            call.has_unordered_effects = False
        return original(executable, *rest)

    return wrap(_pjit, "_get_fastpath_data", fast)


def wait_for_callbacks() -> None:
    """Wait for what is being computed, and its callbacks; what fails there the program has seen."""
    with suppress(Exception):
        jax.block_until_ready(jax.live_arrays())  # type: ignore[no-untyped-call]
        jax.effects_barrier()  # type: ignore[no-untyped-call]
