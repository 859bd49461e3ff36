"""How JAX spells the operations of the catalogue (jax 0.10), and how host NumPy does."""

from __future__ import annotations

from wherelint.ops.names import Signature, names

NUMPY = names("jax.numpy", """
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
""")  # fmt: skip

LAX = names("jax.lax", """
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
""")  # fmt: skip

NN = names("jax.nn", """
x: relu relu6 sigmoid softplus soft_sign=softsign silu swish=silu log_sigmoid hard_sigmoid hard_silu
x: hard_swish=hard_silu selu gelu=gelu_tanh mish squareplus tanh log1mexp identity
x: softmax log_softmax
a: logsumexp
x negative_slope=0.01: leaky_relu
x alpha=1: elu celu
x _min=-1 _max=1: hard_tanh
""")  # fmt: skip

SPECIAL = names("jax.scipy.special", """
x: digamma entr erf erfc erfinv expit=sigmoid gamma gammaln=lgamma
x: i0 i0e i1 i1e log_ndtr logit ndtr softmax log_softmax
p: ndtri
a: logsumexp
a x: gammainc gammaincc
a b: betaln
n x: polygamma
p q: rel_entr
x y: xlogy xlog1py
""")  # fmt: skip

LINALG = {
    **names("jax.numpy.linalg", """
x: norm vector_norm=norm matrix_norm=norm trace=sum
a: cholesky inv det slogdet
a b: solve
x1 x2: matmul=dot vecdot=dot tensordot=dot outer=multiply
"""),
    **names("jax.scipy.linalg", """
a: cholesky inv det
a b: solve solve_triangular=solve
"""),
}  # fmt: skip

METHODS = names("jax.Array", """
self: sum mean prod max min var std any all argmax argmin cumsum cumprod round
self: astype=identity reshape=identity ravel=identity flatten=identity transpose=identity squeeze=identity
self: swapaxes=identity repeat=identity copy=identity conj=identity conjugate=identity sort=identity
self: T=identity mT=identity real=identity view=identity
self min=-inf max=inf: clip
self b: dot
""")  # fmt: skip

#: Host NumPy computes the same values; what it computes is not differentiated.
HOST = {name.replace("jax.numpy", "numpy", 1): signature for name, signature in NUMPY.items()}

NAMES: dict[str, Signature] = {**NUMPY, **LAX, **NN, **SPECIAL, **LINALG, **METHODS, **HOST}
