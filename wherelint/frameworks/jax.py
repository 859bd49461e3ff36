"""How JAX spells the operations of the catalogue (jax 0.10), and how host NumPy does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from wherelint.frameworks.base import DeviceError, Framework, Function, Mode, Result, helpers, missing, named, names

#: Host NumPy computes the same values as jax.numpy; what it computes is not differentiated.
_NAMES = """
[jax.numpy numpy]
x: abs absolute=abs fabs=abs sign floor ceil rint=round trunc positive=identity negative square sqrt cbrt reciprocal
x: exp exp2 expm1 sinh cosh log log2 log10 log1p sin cos tan tanh arcsin asin=arcsin arccos acos=arccos
x: arctan atan=arctan arcsinh asinh=arcsinh arccosh acosh=arccosh arctanh atanh=arctanh sinc i0
x: deg2rad radians=deg2rad rad2deg degrees=rad2deg isnan isinf isfinite signbit isneginf isposinf logical_not
x: conj=identity conjugate=identity matrix_transpose=identity astype=identity
x: cumulative_sum=cumsum cumulative_prod=cumprod
x1 x2: add subtract multiply divide true_divide=divide floor_divide mod remainder=mod fmod hypot arctan2 atan2=arctan2
x1 x2: maximum minimum fmax fmin logaddexp logaddexp2 copysign heaviside power pow=power float_power=power
x1 x2: less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor
x1 x2: vecdot=dot matvec=dot vecmat=dot
a b: isclose allclose dot matmul=dot vdot=dot inner=dot tensordot=dot outer=multiply kron=multiply
condition x y: where
arr|a min|a_min=-inf max|a_max=inf: clip
a: round around=round sum mean prod max amax=max min amin=min var std nansum nanmean any all count_nonzero
a: argmax argmin median nanmax nanmin average=mean
a: cumsum cumprod
a: zeros_like ones_like
prototype: empty_like=zeros_like
a fill_value: full_like
a: copy=identity asarray=identity ravel=identity reshape=identity transpose=identity squeeze=identity
a: expand_dims=identity repeat=identity roll=identity sort=identity swapaxes=identity moveaxis=identity
a: rollaxis=identity permute_dims=identity
A: tile=identity
object: array=identity
array: broadcast_to=identity pad=identity
m: flip=identity fliplr=identity flipud=identity rot90=identity triu=identity tril=identity
val: real=identity
arys: atleast_1d=identity atleast_2d=identity atleast_3d=identity
[jax.lax]
x: abs neg=negative sign floor ceil round=round_away exp exp2 expm1 log log1p sin cos tan tanh sinh cosh
x: asin=arcsin acos=arccos atan=arctan asinh=arcsinh acosh=arccosh atanh=arctanh
x: sqrt rsqrt cbrt square reciprocal logistic=sigmoid is_finite=isfinite
x: erf erfc erf_inv=erfinv lgamma digamma bessel_i0e=i0e bessel_i1e=i1e
x y: add sub=subtract mul=multiply div=divide rem=fmod pow=power atan2=arctan2 max=maximum min=minimum
x y: eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal
x y: bitwise_and=logical_and bitwise_or=logical_or bitwise_xor=logical_xor
x: bitwise_not=logical_not
x y: integer_pow=integer_power
a x: igamma=gammainc igammac=gammaincc
m x: polygamma
pred on_true on_false: select=where
x: stop_gradient
lhs rhs: dot batch_matmul=dot dot_general=dot
operand: reduce_sum=sum reduce_max=max reduce_min=min reduce_prod=prod reduce_and=all reduce_or=any argmax argmin
operand: cumsum cumprod cumlogsumexp=logcumsumexp
operand: reshape=identity transpose=identity tile=identity sort=identity rev=identity
operand: broadcast=identity broadcast_in_dim=identity reduce_precision=identity convert_element_type=identity
array: squeeze=identity expand_dims=identity
x fill_value: full_like
[jax.nn]
x: relu relu6 sigmoid softplus soft_sign=softsign silu swish=silu log_sigmoid hard_sigmoid hard_silu
x: hard_swish=hard_silu selu gelu=gelu_tanh mish squareplus tanh log1mexp identity
x: softmax log_softmax
a: logsumexp
x negative_slope=0.01: leaky_relu
x alpha=1: elu celu
x _min=-1 _max=1: hard_tanh
[jax.scipy.special]
x: digamma entr erf erfc erfinv expit=sigmoid gamma gammaln=lgamma
x: i0 i0e i1 i1e log_ndtr logit ndtr softmax log_softmax
p: ndtri
a: logsumexp
a x: gammainc gammaincc
a b: betaln
n x: polygamma
x q: zeta
p q: rel_entr
x y: xlogy xlog1py
[jax.numpy.linalg]
x: norm vector_norm=norm matrix_norm=norm trace=sum
a: cholesky inv det slogdet
a b: solve
x1 x2: matmul=dot vecdot=dot tensordot=dot outer=multiply
[jax.scipy.linalg]
a: cholesky inv det
a b: solve solve_triangular
[jax.Array]
self: sum mean prod max min var std any all argmax argmin cumsum cumprod round
self: astype=identity reshape=identity ravel=identity flatten=identity transpose=identity squeeze=identity
self: swapaxes=identity repeat=identity copy=identity conj=identity conjugate=identity sort=identity
self: T=identity mT=identity real=identity view=identity
self min=-inf max=inf: clip
self b: dot
"""

#: Other spellings of its modules; its own files import each other under some of them.
_ALIASES = {
    "jax.experimental.host_callback": "jax",
    "jax.tree": "jax.tree_util",
    "jax.interpreters.ad": "jax",
    "flax.linen.activation": "jax.nn",
    "jax._src.numpy": "jax.numpy",
    **{f"jax._src.numpy.{part}": "jax.numpy" for part in ("lax_numpy", "ufuncs", "reductions", "array_creation")},
    "jax._src.numpy.linalg": "jax.numpy.linalg",
    "jax._src.numpy.vectorize.vectorize": "jax.numpy.vectorize",
    "jax._src.lax": "jax.lax",
    **{f"jax._src.lax.{part}": "jax.lax" for part in ("lax", "slicing", "control_flow", "convolution", "special")},
    "jax._src.nn.functions": "jax.nn",
    "jax._src.scipy": "jax.scipy",
    "jax._src.random": "jax.random",
    "jax._src.custom_derivatives": "jax",
    "jax._src.api": "jax",
}
_ACTIVATIONS = (
    "relu", "gelu", "silu", "swish", "softplus", "sigmoid", "elu", "celu", "selu", "softmax", "log_softmax",
    "log_sigmoid", "leaky_relu", "tanh", "relu6",
)  # fmt: skip

#: How the operations that are not simply called are written, see ``confirm.spelling``.
_TEMPLATES = """
sum mean prod max min nanmax nanmin nansum nanmean median any all var std: jnp.{op}(a, axis=-1, keepdims=True)
argmax argmin count_nonzero: jnp.{op}(a, axis=-1, keepdims=True).astype(jnp.float32)
allclose: jnp.all(jnp.isclose(a, b), axis=-1, keepdims=True)
logsumexp: jax.nn.logsumexp(a, axis=-1, keepdims=True)
norm: jnp.linalg.norm(a, axis=-1, keepdims=True)
norm1: jnp.linalg.norm(a, ord=1, axis=-1, keepdims=True)
norminf: jnp.linalg.norm(a, ord=jnp.inf, axis=-1, keepdims=True)
distance: jnp.linalg.norm(a - b, axis=-1, keepdims=True)
dot: jnp.sum(a * b, axis=-1, keepdims=True)
linear: jnp.sum(a * b, axis=-1, keepdims=True) + c
cumsum cumprod: jnp.{op}(a, axis=-1)
logcumsumexp: jax.lax.cumlogsumexp(a, axis=a.ndim - 1)
clamp: jax.lax.clamp(b, a, c)
round: jnp.round(a)
round_away: jax.lax.round(a)
sigmoid: jax.nn.sigmoid(a)
erf erfc erfinv digamma: jax.scipy.special.{op}(a)
lgamma: jax.scipy.special.gammaln(a)
gammainc gammaincc: jax.scipy.special.{op}(a, b)
polygamma: jax.scipy.special.polygamma(int(a), b)
cholesky inv det: jnp.linalg.{op}(a[..., None, None])[..., 0, 0]
det: jnp.linalg.det(a[..., None, None])
slogdet: jnp.linalg.slogdet(a[..., None, None])[1]
solve: jnp.linalg.solve(a[..., None, None], b[..., None, None])[..., 0, 0]
solve_triangular: jax.scipy.linalg.solve_triangular(a[..., None, None], b[..., None, None])[..., 0, 0]
power_of_integers: jnp.power(a, b.astype(jnp.int32))
stop: jax.lax.stop_gradient(a)
gather: a[..., jnp.array(b)]
array: jnp.array(a)
float: a.astype(jnp.float32)
"""

_KEEP = """\
    mask, x = jnp.broadcast_arrays(mask, x)
    first = jnp.argmax(mask, axis=-1, keepdims=True)
    return jnp.take_along_axis(x, jnp.where(mask, jnp.arange(x.shape[-1]), first), axis=-1)
"""

#: What a script ends with.
_REPORT = """
def report(label, f, inputs, names):
    def total(*inputs):
        return jnp.sum(f(*inputs))

    print(f"{label}: value {f(*inputs)}")
    gradient = jax.grad(total, argnums=tuple(range(len(names))))
    for mode, g in (("jit", jax.jit(gradient)), ("eager", gradient)):
        for name, slope in zip(names, g(*inputs)):
            print(f"  {mode}: gradient with respect to {name}: {slope}")
"""


def _backend(device: str) -> tuple[str, str, dict[str, Mode]]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    try:
        chosen = jax.devices(None if device == "auto" else device)[0]
    except Exception as error:  # of which kind depends on what is wrong with the platform
        if device == "auto":
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            asked = os.environ.get("JAX_PLATFORMS")
            asked = f" (JAX_PLATFORMS={asked})" if asked else ""
            raise DeviceError(f"jax {jax.__version__} finds no device{asked}: {why[:200]}") from None
        remedy = "pip install 'jax[cuda13]' for NVIDIA, 'jax[tpu]' for TPU"
        raise missing(device, f"jax {jax.__version__}", remedy) from None

    def gradient(routine: Function, watched: Sequence[int]) -> Callable[..., Any]:
        def call(*parameters: Any) -> tuple[Any, Any]:
            def part(*chosen: Any) -> Any:
                given = list(parameters)
                for i, each in zip(watched, chosen, strict=True):
                    given[i] = each
                return routine(*given)

            # The gradient of the sum, at once with the value: compiled in less time than `value_and_grad`.
            value, pull = jax.vjp(part, *(parameters[i] for i in watched))
            return value, pull(jnp.ones_like(value))

        return call

    def mode(compiled: bool) -> Mode:
        def run(routine: Function, parameters: Sequence[Any], watched: Sequence[int]) -> Result:
            call = gradient(routine, watched)
            with jax.default_device(chosen):
                value, gradients = (jax.jit(call) if compiled else call)(*map(jnp.asarray, parameters))
            return Result(np.asarray(value), [np.asarray(g) for g in gradients])

        return run

    return jax.__version__, named(chosen.platform, chosen.device_kind), {"jit": mode(True), "eager": mode(False)}


FRAMEWORK = Framework(
    "jax",
    packages=("jax",),
    markers=("flax",),
    aliases=_ALIASES,
    reexports={"flax.linen": ("jax.nn", (*_ACTIVATIONS, "standardize")), "flax.nnx": ("jax.nn", _ACTIVATIONS)},
    names=names(_NAMES),
    methods="jax.Array",
    namespace="jax.numpy",
    arrays="jax.lax jax.random jax.image jax.ops jax.tree_util jax.vmap",
    arrays_below="jax.numpy jax.scipy jax.nn",
    keyed=r"jax\.",
    distributions=("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu"),
    imports={"import jax": "", "import jax.numpy as jnp": "", "import jax.scipy.special": "jax.scipy"},
    templates=_TEMPLATES,
    helpers=helpers("jnp", "concatenate", "axis", _KEEP),
    report=_REPORT,
    literal="jnp.array({})",
    backend=_backend,
)
