"""How TensorFlow and Keras spell the operations of the catalogue (tensorflow 2.21, keras 3)."""

from __future__ import annotations

from wherelint.ops.names import Signature, names

#: Exported both as ``tf.name`` and as ``tf.math.name``.
_BOTH = """
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
"""

TOP = {
    **names("tensorflow", _BOTH),
    **names("tensorflow", """
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
"""),
}  # fmt: skip

MATH = {
    **names("tensorflow.math", _BOTH),
    **names("tensorflow.math", """
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
"""),
}  # fmt: skip

NN = names("tensorflow.nn", """
x: sigmoid tanh
features: relu relu6 selu softplus softsign silu swish=silu gelu
features alpha=0.2: leaky_relu
features _alpha=1: elu
logits: softmax log_softmax
x - epsilon=1e-12: l2_normalize
labels logits: sigmoid_cross_entropy_with_logits=cross_entropy_with_logits
value bias: bias_add=add
""")  # fmt: skip

LINALG = names("tensorflow.linalg", """
input: cholesky inv det slogdet
matrix: logdet
matrix rhs: solve triangular_solve=solve
tensor: norm
a b: matmul=dot matvec=dot tensordot=dot
x - epsilon=1e-12: l2_normalize
x: trace=sum
a: matrix_transpose=identity
""")  # fmt: skip

BACKEND = names("tensorflow.keras.backend", """
x: abs sign square exp log sin cos tanh sigmoid softplus softsign relu round sqrt=clipped_sqrt
x: sum mean prod max min var std any all argmax argmin cumsum cumprod softmax
x: reshape=identity transpose=identity expand_dims=identity squeeze=identity tile=identity flatten=identity
x: cast=identity permute_dimensions=identity repeat_elements=identity reverse=identity zeros_like ones_like
x a: pow=power
x y: maximum minimum dot equal not_equal greater greater_equal less less_equal
x min_value max_value: clip
x alpha=1: elu
x - _epsilon=1e-12: l2_normalize
""")  # fmt: skip

_KERAS = """
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
a b: solve solve_triangular=solve
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
"""

KERAS = {**names("keras.ops", _KERAS), **names("tensorflow.keras.ops", _KERAS)}

#: NumPy's names for TensorFlow's functions.
TNP = names(
    "tensorflow.experimental.numpy",
    """
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
""",
)

NAMES: dict[str, Signature] = {**TOP, **MATH, **NN, **LINALG, **BACKEND, **KERAS, **TNP}
