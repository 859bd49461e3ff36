"""How TensorFlow and Keras spell the operations of the catalogue (tensorflow 2.21, keras 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wherelint.frameworks.base import Framework, Function, Mode, Result, helpers, missing, named, names

_NAMES = """
[tensorflow tensorflow.math]
x: abs negative sign floor round square sqrt exp sin cos tan tanh sinh cosh sigmoid
x: asin=arcsin acos=arccos atan=arctan asinh=arcsinh acosh=arccosh atanh=arctanh logical_not
x y: add subtract multiply divide truediv=divide pow=power maximum minimum
x y: less less_equal greater greater_equal equal not_equal logical_and logical_or
y x: atan2=arctan2
input_tensor: reduce_sum=sum reduce_mean=mean reduce_prod=prod reduce_max=max reduce_min=min reduce_any=any
input_tensor: reduce_all=all reduce_logsumexp=logsumexp
input: argmax argmin
x: cumsum
scalar x: scalar_mul=multiply
[tensorflow]
x y: realdiv=divide
condition x y: where where_v2=where
t clip_value_min clip_value_max: clip_by_value=clip
tensor: norm reshape=identity pad=identity
input: identity expand_dims=identity squeeze=identity tile=identity broadcast_to=identity repeat=identity
input: zeros_like ones_like roll=identity
x: cast=identity ensure_shape=identity
input: stop_gradient
value: constant=identity convert_to_tensor=identity
values: sort=identity
tensor: reverse=identity
a: transpose=identity
a b: matmul=dot tensordot=dot
[tensorflow.math]
x: ceil rint=round rsqrt reciprocal reciprocal_no_nan log log1p expm1 log_sigmoid erf erfc erfinv ndtri lgamma digamma
x: bessel_i0=i0 bessel_i0e=i0e bessel_i1=i1 bessel_i1e=i1e is_nan=isnan is_inf=isinf is_finite=isfinite
x: cumprod cumulative_logsumexp=logcumsumexp conj=identity
features: softplus softsign
x - epsilon=1e-12: l2_normalize
input_tensor: reduce_std=std reduce_variance=var reduce_euclidean_norm=euclidean_norm
logits: softmax log_softmax
input: real=identity count_nonzero
x y: divide_no_nan multiply_no_nan floordiv=floor_divide floormod=mod mod squared_difference logical_xor
x y: xlogy xlog1py xdivy
a x: igamma=gammainc igammac=gammaincc polygamma
x q: zeta
[tensorflow.nn]
x: sigmoid tanh
features: relu relu6 selu softplus softsign silu swish=silu gelu
features alpha=0.2: leaky_relu
features _alpha=1: elu
logits: softmax log_softmax
x - epsilon=1e-12: l2_normalize
labels logits: sigmoid_cross_entropy_with_logits=cross_entropy_with_logits
value bias: bias_add=add
[tensorflow.linalg]
input: cholesky inv det slogdet
matrix: logdet
matrix rhs: solve triangular_solve=solve_triangular
tensor: norm
a b: matmul=dot matvec=dot tensordot=dot
x - epsilon=1e-12: l2_normalize
x: trace=sum
a: matrix_transpose=identity
[tensorflow.keras.backend]
x: abs sign square exp log sin cos tanh sigmoid softplus softsign relu round sqrt=clipped_sqrt
x: sum mean prod max min var std any all argmax argmin cumsum cumprod softmax
x: reshape=identity transpose=identity expand_dims=identity squeeze=identity tile=identity flatten=identity
x: cast=identity permute_dimensions=identity repeat_elements=identity reverse=identity zeros_like ones_like
x a: pow=power
x y: maximum minimum dot equal not_equal greater greater_equal less less_equal
x min_value max_value: clip
x alpha=1: elu
x - _epsilon=1e-12: l2_normalize
[keras.ops tensorflow.keras.ops]
x: abs absolute=abs sign floor ceil round trunc negative square sqrt rsqrt cbrt reciprocal exp exp2 expm1 log log2 log10
x: log1p sin cos tan tanh sinh cosh arcsin arccos arctan arcsinh arccosh arctanh sinc i0 deg2rad rad2deg
x: sigmoid log_sigmoid softplus softsign squareplus silu swish=silu gelu=gelu_tanh relu relu6 selu hard_sigmoid
x: hard_silu hard_swish=hard_silu tanh_shrink=tanhshrink erf erfc erfinv isnan isinf isfinite isneginf
x: isposinf signbit logical_not fabs=abs
x: sum mean prod max amax=max min amin=min var std any all count_nonzero argmax argmin median logsumexp norm
x: nansum nanmean nanmax nanmin average=mean
x: softmax log_softmax cumsum cumprod zeros_like ones_like empty_like=zeros_like
x: array=identity copy=identity cast=identity reshape=identity ravel=identity transpose=identity squeeze=identity
x: expand_dims=identity broadcast_to=identity tile=identity repeat=identity roll=identity flip=identity sort=identity
x: swapaxes=identity moveaxis=identity pad=identity real=identity conj=identity conjugate=identity triu=identity
variable: stop_gradient
x: tril=identity convert_to_tensor=identity
x: cholesky inv det logdet slogdet
a b: solve solve_triangular
x negative_slope=0.2: leaky_relu
x alpha=1: elu celu
x _min=-1 _max=1: hard_tanh
x threshold=0.5: hard_shrink=hardshrink soft_shrink=softshrink
x threshold default_value: threshold
x x_min x_max: clip
x1 x2: add subtract multiply divide true_divide=divide divide_no_nan floor_divide mod fmod power hypot arctan2
x1 x2: maximum minimum fmax fmin logaddexp logaddexp2 heaviside isclose allclose
x1 x2: less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor
x1 x2: dot matmul=dot vdot=dot inner=dot tensordot=dot outer=multiply kron=multiply
condition x1 x2: where
x fill_value: full_like
x y: cdist=distance
[tensorflow.experimental.numpy]
x: abs absolute=abs fabs=abs sign floor ceil negative square sqrt cbrt reciprocal exp exp2 expm1 sinh cosh tanh
x: log log2 log10 log1p sin cos tan arcsin arccos arctan arcsinh arccosh arctanh deg2rad rad2deg
x: isnan isinf isfinite isneginf isposinf logical_not
x1 x2: add subtract multiply divide true_divide=divide floor_divide mod remainder=mod arctan2
x1 x2: maximum minimum power float_power=power heaviside logaddexp logaddexp2
x1 x2: less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor
condition x y: where
a a_min a_max: clip
a: sum mean prod max amax=max min amin=min var std any all argmax argmin cumsum cumprod zeros_like ones_like
a: ravel=identity transpose=identity squeeze=identity sort=identity
"""

#: Other spellings of its modules; its own files import each other under some of them.
_ALIASES = {
    "tensorflow.compat.v1": "tensorflow",
    "tensorflow.compat.v2": "tensorflow",
    "tensorflow.python.keras": "tensorflow.keras",
    "tensorflow.keras.ops": "keras.ops",
    "keras.backend": "tensorflow.keras.backend",
    "tf_keras.backend": "tensorflow.keras.backend",
    "tensorflow.keras.activations": "tensorflow.nn",
    "tensorflow.python.ops.math_ops": "tensorflow.math",
    "tensorflow.python.ops.array_ops": "tensorflow",
    **{f"tensorflow.python.ops.{part}": "tensorflow.nn" for part in ("nn_ops", "nn", "nn_impl")},
    "tensorflow.python.ops.linalg_ops": "tensorflow.linalg",
    **{f"tensorflow.python.ops.{part}": "tensorflow" for part in ("clip_ops", "control_flow_ops", "cond")},
    "tensorflow.python.ops.check_ops": "tensorflow.debugging",
    "tensorflow.python.ops.custom_gradient": "tensorflow",
}

#: How the operations that are not simply called are written, see ``confirm.spelling``.
_TEMPLATES = """
sum mean prod max min any all logsumexp: tf.reduce_{op}(a, axis=-1, keepdims=True)
var: tf.math.reduce_variance(a, axis=-1, keepdims=True)
std: tf.math.reduce_std(a, axis=-1, keepdims=True)
euclidean_norm: tf.math.reduce_euclidean_norm(a, axis=-1, keepdims=True)
nanmax nanmin nansum nanmean median: keras.ops.{op}(a, axis=-1, keepdims=True)
argmax argmin: tf.cast(tf.{op}(a, axis=-1)[..., None], tf.float32)
count_nonzero: tf.math.count_nonzero(a, axis=-1, keepdims=True, dtype=tf.float32)
allclose: tf.reduce_all(keras.ops.isclose(a, b), axis=-1, keepdims=True)
norm: tf.norm(a, axis=-1, keepdims=True)
norm1: tf.norm(a, ord=1, axis=-1, keepdims=True)
norminf: tf.norm(a, ord=float("inf"), axis=-1, keepdims=True)
distance: tf.norm(a - b, axis=-1, keepdims=True)
l2_normalize: tf.math.l2_normalize(a, axis=-1, epsilon=b)
dot: tf.reduce_sum(a * b, axis=-1, keepdims=True)
linear: tf.reduce_sum(a * b, axis=-1, keepdims=True) + c
cumsum: tf.cumsum(a, axis=-1)
cumprod: tf.math.cumprod(a, axis=-1)
logcumsumexp: tf.math.cumulative_logsumexp(a, axis=-1)
clip: tf.clip_by_value(a, b, c)
polygamma: tf.math.polygamma(tf.constant(a, tf.float32), b)
cholesky inv: tf.linalg.{op}(a[..., None, None])[..., 0, 0]
det logdet: tf.linalg.{op}(a[..., None, None])
slogdet: tf.linalg.slogdet(a[..., None, None])[1]
solve: tf.linalg.solve(a[..., None, None], b[..., None, None])[..., 0, 0]
solve_triangular: tf.linalg.triangular_solve(a[..., None, None], b[..., None, None])[..., 0, 0]
stop: tf.stop_gradient(a)
gather: tf.gather(a, b, axis=-1)
array: tf.constant(a)
float: tf.cast(a, tf.float32)
"""

_KEEP = """\
    x = x + tf.where(mask, 0.0, 0.0)
    mask = tf.logical_and(mask, tf.ones_like(x, tf.bool))
    first = tf.argmax(tf.cast(mask, tf.int32), axis=-1, output_type=tf.int32)[..., None]
    own = tf.range(tf.shape(x)[-1])
    return tf.gather(x, tf.where(mask, own, first), axis=-1, batch_dims=len(x.shape) - 1)
"""

#: What a script ends with.
_REPORT = """
def report(label, f, inputs, names):
    def gradient(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[: len(names)])
            total = tf.reduce_sum(f(*inputs))
        return tape.gradient(total, inputs[: len(names)], unconnected_gradients="zero")

    print(f"{label}: value {f(*inputs).numpy()}")
    for mode, g in (("eager", gradient), ("xla", tf.function(gradient, jit_compile=True, autograph=False))):
        for name, slope in zip(names, g(*inputs)):
            print(f"  {mode}: gradient with respect to {name}: {slope.numpy()}")
"""


def _backend(device: str) -> tuple[str, str, dict[str, Mode]]:
    import tensorflow as tf

    devices = [d for d in tf.config.list_physical_devices() if d.device_type in ("GPU", "TPU")]
    chosen = [d for d in devices if device in ("auto", d.device_type.lower())]
    if device in ("gpu", "tpu") and not chosen:
        raise missing(device, f"tensorflow {tf.__version__}", "pip install 'tensorflow[and-cuda]' for NVIDIA")
    place = f"/{chosen[0].device_type}:0" if chosen else "/CPU:0"
    kind = tf.config.experimental.get_device_details(chosen[0]).get("device_name", "") if chosen else ""

    def mode(compiled: bool) -> Mode:
        def run(routine: Function, parameters: Sequence[Any], watched: Sequence[int]) -> Result:
            def gradient(*tensors: Any) -> tuple[Any, Any]:
                chosen = [tensors[i] for i in watched]
                with tf.GradientTape() as tape:
                    tape.watch(chosen)
                    value = routine(*tensors)
                    total = tf.reduce_sum(value)
                return value, tape.gradient(total, chosen, unconnected_gradients=tf.UnconnectedGradients.ZERO)

            call = tf.function(gradient, jit_compile=True, autograph=False) if compiled else gradient
            with tf.device(place):
                value, gradients = call(*map(tf.constant, parameters))
            return Result(value.numpy(), [tf.convert_to_tensor(g).numpy() for g in gradients])

        return run

    platform = chosen[0].device_type.lower() if chosen else "cpu"
    return tf.__version__, named(platform, kind), {"eager": mode(False), "xla": mode(True)}


FRAMEWORK = Framework(
    "tensorflow",
    packages=("tensorflow", "keras"),
    aliases=_ALIASES,
    names=names(_NAMES),
    namespace="tensorflow",
    any_of=("reduce_any", "keepdims"),
    infinity='float("inf")',
    compiled="xla",
    arrays="tensorflow tensorflow.math tensorflow.linalg tensorflow.nn tensorflow.signal tensorflow.image "
    "tensorflow.random tensorflow.debugging keras.ops keras.backend",
    random=("tensorflow.random", "keras.random"),
    keyed=r"tensorflow\.random\.(stateless_|experimental\.stateless_|fold_in|split)|tensorflow\.image\.stateless_|"
    r"keras\.ops\.gamma\w*$",
    distributions=("tensorflow", "tensorflow-cpu", "keras"),
    imports={"import keras": "keras.ops", "import tensorflow as tf": ""},
    templates=_TEMPLATES,
    helpers=helpers("tf", "concat", "axis", _KEEP),
    report=_REPORT,
    literal="tf.constant({})",
    backend=_backend,
)
