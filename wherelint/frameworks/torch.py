"""How PyTorch spells the operations of the catalogue (torch 2.13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wherelint.frameworks.base import Framework, Function, Mode, Result, helpers, missing, named, names

#: A trailing underscore marks the names that have an in-place form: as methods and in ``torch.nn.functional``.
_NAMES = """
[torch torch.Tensor]
input: abs_ absolute_=abs neg_=negative negative_ sign_ sgn_=sign floor_ ceil_ round_ trunc_ fix_=trunc frac_
input: positive=identity
input: sqrt_ rsqrt_ square_ reciprocal_ exp_ exp2_ expm1_ log_ log2_ log10_ log1p_ sin_ cos_ tan_ tanh_ sinh_ cosh_
input: asin_=arcsin arcsin_ acos_=arccos arccos_ atan_=arctan arctan_ asinh=arcsinh arcsinh acosh=arccosh arccosh
input: atanh=arctanh arctanh sinc_ sigmoid_ relu_ erf_ erfc_ deg2rad_ rad2deg_ i0_
input: isnan isinf isfinite isneginf isposinf signbit logical_not
input: sum mean prod amax amin max min nansum nanmean var=var_unbiased std=std_unbiased any all count_nonzero
input: argmax argmin median=median_lower norm logsumexp cumsum cumprod logcumsumexp softmax log_softmax trace=sum
input: det slogdet logdet inverse=inv cholesky
input: clone=identity ravel=identity reshape=identity flatten=identity squeeze=identity unsqueeze=identity t=identity
input: transpose=identity swapaxes=identity permute=identity moveaxis=identity movedim=identity broadcast_to=identity
input: flip=identity fliplr=identity flipud=identity roll=identity rot90=identity tile=identity triu=identity
input: tril=identity repeat_interleave=identity real=identity conj=identity
input other: add_ sub_=subtract subtract_ mul_=multiply multiply_ div_=divide divide_
input other: floor_divide_ remainder_=mod fmod_ hypot_ atan2_=arctan2 arctan2_ maximum minimum fmax fmin
input other: logaddexp logaddexp2 copysign_ xlogy_ allclose isclose
input other: eq_=equal ne_=not_equal not_equal_ lt_=less less_ le_=less_equal less_equal_ gt_=greater greater_
input other: ge_=greater_equal greater_equal_ logical_and_ logical_or_ logical_xor_ inner=dot matmul=dot kron=multiply
input other: vdot=dot igamma_=gammainc igammac_=gammaincc
input tensor: dot
input mat2: mm=dot bmm=dot
input vec: mv=dot
input vec2: outer=multiply ger=multiply
input values: heaviside_
input exponent: pow_=power
input min=-inf max=inf: clamp_=clip clip_
input min: clamp_min_
input max: clamp_max_
input end weight: lerp_
input tensor1 tensor2 value=1: addcmul_ addcdiv_
[torch]
input: lgamma digamma erfinv logit
input|dividend other|divisor: true_divide=divide
n input: polygamma
condition input other: where
input: zeros_like ones_like
input fill_value: full_like
obj: asarray=identity
data: tensor=stop_gradient as_tensor=identity
input: detach=stop_gradient
tensors: atleast_1d=identity atleast_2d=identity
a b: tensordot=dot
input other: rsub=reverse_subtract
x1 x2 - eps=1e-8: cosine_similarity
x1 x2: cdist
input other: dist=distance
x1 x2 - eps=1e-6: pairwise_distance
input weight: prelu
input alpha=1: celu
input: selu
input lambd=0.5: hardshrink
input threshold value: threshold
[torch.Tensor]
self: lgamma_ digamma_ erfinv_ logit_
self other: true_divide_=divide dist=distance
self: contiguous=identity view=identity view_as=identity reshape_as=identity expand=identity expand_as=identity
self: repeat=identity type_as=identity float=identity double=identity half=identity bfloat16=identity to=identity
self: detach_=stop_gradient cpu=identity cuda=identity
self: type=identity T=identity mT=identity H=identity
self weight: prelu
self lambd=0.5: hardshrink
[torch.nn.functional]
input: relu_ relu6 sigmoid tanh logsigmoid=log_sigmoid softsign silu mish gelu hardsigmoid=hard_sigmoid
input: hardswish=hard_silu selu_ tanhshrink softmax log_softmax
input alpha=1: elu_ celu_
input negative_slope=0.01: leaky_relu_
input weight: prelu
input min_val=-1 max_val=1: hardtanh_=hard_tanh
input lambd=0.5: softshrink hardshrink
input threshold value: threshold_
input beta=1 threshold=20: softplus=softplus_threshold
input weight bias=0: linear
input target: mse_loss=squared_error l1_loss=absolute_error binary_cross_entropy kl_div=kl_divergence
input target: binary_cross_entropy_with_logits=sigmoid_cross_entropy poisson_nll_loss=poisson_nll
input target - - - beta=1: smooth_l1_loss=smooth_l1
input target - delta=1: huber_loss=huber
input - - eps=1e-12: normalize
x1 x2 - eps=1e-8: cosine_similarity
x1 x2 - eps=1e-6: pairwise_distance
[torch.special]
input: digamma psi=digamma entr erf erfc erfinv exp2 expit=sigmoid expm1 gammaln=lgamma i0 i0e i1 i1e log1p
input: log_ndtr logit ndtr ndtri round sinc softmax log_softmax logsumexp
input other: xlogy xlog1py gammainc gammaincc zeta
n input: polygamma
[torch.linalg]
A|input: cholesky inv det slogdet
A|input B: solve solve_triangular
input|x|A: norm vector_norm=norm matrix_norm=norm
input other: matmul=dot
x y: vecdot=dot
"""

#: Classes of ``torch.nn`` whose objects call a function of ``torch.nn.functional``.
LAYERS = {
    "MSELoss": "mse_loss", "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss",
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div",
    "ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "ELU": "elu", "GELU": "gelu",
    "SiLU": "silu", "LeakyReLU": "leaky_relu", "CosineSimilarity": "cosine_similarity", "Softmax": "softmax",
    "ReLU6": "relu6", "Hardtanh": "hardtanh", "Hardsigmoid": "hardsigmoid", "Hardswish": "hardswish",
    "Hardshrink": "hardshrink", "Softshrink": "softshrink", "Threshold": "threshold",
}  # fmt: skip

#: How the operations that are not simply called are written, see ``confirm.spelling``.
_TEMPLATES = """
sum mean prod nansum nanmean: torch.{op}(a, dim=-1, keepdim=True)
amax amin any all argmax argmin logsumexp: torch.{op}(a, dim=-1, keepdim=True)
argmax argmin: torch.{op}(a, dim=-1, keepdim=True).float()
max min: torch.{op}(a, dim=-1, keepdim=True).values
median_lower: torch.median(a, dim=-1, keepdim=True).values
count_nonzero: torch.count_nonzero(a, dim=-1).unsqueeze(-1).float()
allclose: torch.all(torch.isclose(a, b), dim=-1, keepdim=True)
var_unbiased: torch.var(a, dim=-1, keepdim=True)
std_unbiased: torch.std(a, dim=-1, keepdim=True)
var std: torch.{op}(a, dim=-1, correction=0, keepdim=True)
norm: torch.linalg.vector_norm(a, dim=-1, keepdim=True)
norm1: torch.linalg.vector_norm(a, ord=1, dim=-1, keepdim=True)
norminf: torch.linalg.vector_norm(a, ord=float("inf"), dim=-1, keepdim=True)
distance: torch.linalg.vector_norm(a - b, dim=-1, keepdim=True)
cdist: torch.cdist(a[..., None, :], b[..., None, :])[..., 0]
pairwise_distance: F.pairwise_distance(a, b, eps=c, keepdim=True)
cosine_similarity: F.cosine_similarity(a, b, dim=-1, eps=c).unsqueeze(-1)
normalize: F.normalize(a, dim=-1, eps=b)
dot: torch.sum(a * b, dim=-1, keepdim=True)
linear: torch.sum(a * b, dim=-1, keepdim=True) + c
cumsum cumprod logcumsumexp softmax log_softmax: torch.{op}(a, dim=-1)
clip: torch.clamp(a, b, c)
mod: torch.remainder(a, b)
floor_divide: torch.floor_divide(a, b)
softplus: F.softplus(a)
softplus_threshold: F.softplus(a, beta=b, threshold=c)
addcmul addcdiv: torch.{op}(a, b, c, value=d)
polygamma: torch.polygamma(int(a), b)
squared_error: F.mse_loss(a, b, reduction="none")
absolute_error: F.l1_loss(a, b, reduction="none")
huber: F.huber_loss(a, b, delta=c, reduction="none")
smooth_l1: F.smooth_l1_loss(a, b, beta=c, reduction="none")
binary_cross_entropy: F.binary_cross_entropy(*torch.broadcast_tensors(a, b), reduction="none")
sigmoid_cross_entropy: F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(a, b), reduction="none")
kl_divergence: F.kl_div(a, b, reduction="none")
poisson_nll: F.poisson_nll_loss(a, b, reduction="none")
cholesky inv: torch.linalg.{op}(a[..., None, None])[..., 0, 0]
det logdet: torch.{op}(a[..., None, None])
slogdet: torch.linalg.slogdet(a[..., None, None])[1]
solve: torch.linalg.solve(a[..., None, None], b[..., None, None])[..., 0, 0]
solve_triangular: torch.linalg.solve_triangular(a[..., None, None], b[..., None, None], upper=True)[..., 0, 0]
stop: a.detach()
gather: a[..., b]
array: torch.tensor(a)
float: a.float()
"""

_SAVED = frozenset(
    """amax amin cholesky copysign cumprod exp exp2 expm1 hypot i0e i1 i1e inv log_ndtr log_softmax logcumsumexp
    logsumexp ndtri pairwise_distance prod reciprocal relu rsqrt sigmoid softmax solve solve_triangular sqrt
    std_unbiased tan tanh""".split()
)

_KEEP = """\
    mask, x = torch.broadcast_tensors(mask, x)
    first = torch.argmax(mask.int(), dim=-1, keepdim=True)
    own = torch.arange(x.shape[-1], device=x.device)
    return torch.gather(x, -1, torch.where(mask, own, first))
"""

#: What a script ends with.
_REPORT = """
def report(label, f, inputs, names):
    value = f(*inputs)
    print(f"{label}: value {value.tolist()}")
    gradient = torch.autograd.grad(value.sum(), inputs[: len(names)], allow_unused=True)
    for name, slope in zip(names, gradient):
        print(f"  eager: gradient with respect to {name}: {0.0 if slope is None else slope.tolist()}")
"""


def _backend(device: str) -> tuple[str, str, dict[str, Mode]]:
    import torch

    # A build for an accelerator names it even where the machine has none.
    has_any = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    there = torch.accelerator.current_accelerator() if has_any else None
    there = there or (torch.device("cuda") if torch.cuda.is_available() else None)
    if device == "tpu" or (device == "gpu" and there is None):
        raise missing(device, f"torch {torch.__version__}", "install a build of torch for it (https://pytorch.org)")
    chosen = torch.device("cpu") if device == "cpu" or there is None else there
    torch.set_default_device(chosen)
    kind = torch.cuda.get_device_name() if chosen.type == "cuda" else ""

    def run(routine: Function, parameters: Sequence[Any], watched: Sequence[int]) -> Result:
        tensors = [torch.tensor(p, requires_grad=i in watched) for i, p in enumerate(parameters)]
        value = routine(*tensors)
        chosen = [tensors[i] for i in watched]
        flows = value.requires_grad and chosen
        found = torch.autograd.grad(value.sum(), chosen, allow_unused=True) if flows else [None] * len(chosen)
        gradients = [torch.zeros_like(w) if g is None else g for g, w in zip(found, chosen, strict=True)]
        return Result(value.numpy(force=True), [g.numpy(force=True) for g in gradients])

    return torch.__version__, named("gpu" if kind else chosen.type, kind), {"eager": run}


FRAMEWORK = Framework(
    "torch",
    packages=("torch",),
    aliases={"torch.functional": "torch", "torch.autograd.function.Function": "torch.autograd.Function"},
    names=names(_NAMES, in_place=("torch.Tensor", "torch.nn.functional")),
    methods="torch.Tensor",
    layers=LAYERS,
    namespace="torch",
    any_of=("any", "keepdim"),
    arrays="torch torch.special torch.linalg torch.fft torch.signal torch.nn.functional",
    distributions=("torch",),
    imports={"import torch": "", "import torch.nn.functional as F": "F."},
    templates=_TEMPLATES,
    takes_numbers=False,
    saved=_SAVED,
    helpers=helpers("torch", "cat", "dim", _KEEP),
    report=_REPORT,
    literal="torch.tensor({})",
    parameter="torch.tensor({}, requires_grad=True)",
    backend=_backend,
)
