"""How each framework writes each operation of the graph, on arrays whose last axis is that of the elements.

Most operations are functions that the name tables know; the tables here have the others. A line is
``operations: template``, where ``{op}`` is the operation, ``a``, ``b``, ``c`` and ``d`` are its operands, and ``each``
are however many there are. Nothing of the linted program is ever part of a template, so that templates (and
nothing else) may be evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.finding import Framework
from wherelint.ops import OPERATIONS, SIGNATURES
from wherelint.ops.facts import LOGICAL

#: What a program of the framework begins with.
IMPORTS: dict[Framework, str] = {
    "jax": "import jax\nimport jax.numpy as jnp\nimport jax.scipy.special",
    "torch": "import torch\nimport torch.nn.functional as F",
    "tensorflow": "import keras\nimport tensorflow as tf",
}
_SHORT = {"jax.numpy": "jnp", "torch.nn.functional": "F", "tensorflow": "tf"}
_PREFIXES = {"jax": ("jax.",), "torch": ("torch.",), "tensorflow": ("tensorflow.", "keras.")}
OPERANDS = "abcd"

#: Operands that have to be numbers of Python.
NUMBERS: dict[str, tuple[int, ...]] = {
    "softplus_threshold": (1, 2), "leaky_relu": (1,), "elu": (1,), "celu": (1,), "hard_tanh": (1, 2),
    "softshrink": (1,), "hardshrink": (1,), "threshold": (1, 2), "normalize": (1,), "l2_normalize": (1,),
    "cosine_similarity": (2,), "pairwise_distance": (2,), "huber": (2,), "smooth_l1": (2,), "polygamma": (0,),
    "full_like": (1,), "addcmul": (3,), "addcdiv": (3,), "integer_power": (1,), "power_static": (1,),
}  # fmt: skip
#: Operations of booleans: anything else is compared with 0 first.

_EVERYWHERE = """
identity: a
add: a + b
subtract: a - b
reverse_subtract: b - a
multiply: a * b
divide: a / b
floor_divide: a // b
mod: a % b
negative: -a
power integer_power power_static: a ** b
fma: a * b + c
less: a < b
less_equal: a <= b
greater: a > b
greater_equal: a >= b
equal: a == b
not_equal: a != b
logical_and: a & b
logical_or: a | b
logical_xor: a ^ b
logical_not: ~a
lane: a[..., b]
join: join(*each)
nth: nth(a, *each)
keep: keep(a, b)
"""
_TABLES: dict[Framework, str] = {
    "jax": """
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
clip_min: jnp.clip(a, min=b)
clip_max: jnp.clip(a, max=b)
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
power_of_integers: jnp.power(a, b.astype(jnp.int32))
stop: jax.lax.stop_gradient(a)
gather: a[..., jnp.array(b)]
array: jnp.array(a)
float: a.astype(jnp.float32)
""",
    "torch": """
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
clip_min: torch.clamp(a, min=b)
clip_max: torch.clamp(a, max=b)
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
stop: a.detach()
gather: a[..., b]
array: torch.tensor(a)
float: a.float()
""",
    "tensorflow": """
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
clip_min: tf.maximum(a, b)
clip_max: tf.minimum(a, b)
polygamma: tf.math.polygamma(tf.constant(a, tf.float32), b)
cholesky inv: tf.linalg.{op}(a[..., None, None])[..., 0, 0]
det logdet: tf.linalg.{op}(a[..., None, None])
slogdet: tf.linalg.slogdet(a[..., None, None])[1]
solve: tf.linalg.solve(a[..., None, None], b[..., None, None])[..., 0, 0]
stop: tf.stop_gradient(a)
gather: tf.gather(a, b, axis=-1)
array: tf.constant(a)
float: tf.cast(a, tf.float32)
""",
}

_JOIN = '''
def join(*parts):
    """The parts side by side along the last axis."""
    zeros = sum({zeros}(part) for part in parts)
    return {concat}([part + zeros for part in parts], {axis}=-1)
'''
_NTH = '''
def nth(index, *parts):
    """One of several parts, out of the array that they make."""
    zeros = sum({zeros}(part) for part in parts)
    return {stack}([part + zeros for part in parts])[index]
'''
#: Functions that templates call; a program defines those that it needs.
HELPERS: dict[Framework, dict[str, str]] = {
    "jax": {
        "join": _JOIN.format(zeros="jnp.zeros_like", concat="jnp.concatenate", axis="axis"),
        "nth": _NTH.format(zeros="jnp.zeros_like", stack="jnp.stack"),
        "keep": '''
def keep(mask, x):
    """x[mask] in a fixed shape: an element that is dropped repeats the first one that is kept."""
    mask, x = jnp.broadcast_arrays(mask, x)
    first = jnp.argmax(mask, axis=-1, keepdims=True)
    return jnp.take_along_axis(x, jnp.where(mask, jnp.arange(x.shape[-1]), first), axis=-1)
''',
    },
    "torch": {
        "join": _JOIN.format(zeros="torch.zeros_like", concat="torch.cat", axis="dim"),
        "nth": _NTH.format(zeros="torch.zeros_like", stack="torch.stack"),
        "keep": '''
def keep(mask, x):
    """x[mask] in a fixed shape: an element that is dropped repeats the first one that is kept."""
    mask, x = torch.broadcast_tensors(mask, x)
    first = torch.argmax(mask.int(), dim=-1, keepdim=True)
    own = torch.arange(x.shape[-1], device=x.device)
    return torch.gather(x, -1, torch.where(mask, own, first))
''',
    },
    "tensorflow": {
        "join": _JOIN.format(zeros="tf.zeros_like", concat="tf.concat", axis="axis"),
        "nth": _NTH.format(zeros="tf.zeros_like", stack="tf.stack"),
        "keep": '''
def keep(mask, x):
    """x[mask] in a fixed shape: an element that is dropped repeats the first one that is kept."""
    x = x + tf.where(mask, 0.0, 0.0)
    mask = tf.logical_and(mask, tf.ones_like(x, tf.bool))
    first = tf.argmax(tf.cast(mask, tf.int32), axis=-1, output_type=tf.int32)[..., None]
    own = tf.range(tf.shape(x)[-1])
    return tf.gather(x, tf.where(mask, own, first), axis=-1, batch_dims=len(x.shape) - 1)
''',
    },
}


@dataclass(frozen=True)
class Template:
    """An expression in the operands ``a``, ``b``, ``c``, ``d``."""

    text: str
    expression: ast.expr
    #: A number of Python may stand for an operand: operators and selections convert it, other functions may not.
    takes_numbers: bool
    #: Operands that it reads several times.
    repeated: frozenset[str]

    @property
    def variadic(self) -> bool:
        """Whether it takes however many operands there are."""
        return "each" in self.text


@cache
def templates(framework: Framework) -> dict[str, Template]:
    """How a framework writes each operation; an operation that it does not have is missing."""
    texts: dict[str, str] = {}
    for name, signature in SIGNATURES.items():
        function = name.startswith(_PREFIXES[framework]) and ".Array." not in name and ".Tensor." not in name
        if function and (not OPERATIONS[signature.op].mixes or signature.op in ("softmax", "log_softmax")):
            texts.setdefault(signature.op, _call(name, signature.operands))
    for table in (_EVERYWHERE, _TABLES[framework]):
        for line in table.strip().splitlines():
            operations, _, text = line.partition(": ")
            texts.update({op: text.format(op=op) for op in operations.split()})
    return {op: _template(text, framework) for op, text in texts.items()}


def _call(name: str, operands: tuple[tuple[str, ...], ...]) -> str:
    """A call of a function by its short name; operands that come late are passed by keyword."""
    owner, _, function = name.rpartition(".")
    for long, short in _SHORT.items():
        owner = short + owner.removeprefix(long) if owner == long or owner.startswith(long + ".") else owner
    letters = iter(OPERANDS)
    arguments = []
    for keywords in operands:
        letter = next(letters) if keywords else ""
        if letter and not keywords[0].startswith("_"):
            arguments.append(letter)
    return f"{owner}.{function}({', '.join(arguments)})"


def _template(text: str, framework: Framework) -> Template:
    expression = ast.parse(text, mode="eval").body
    read = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id in OPERANDS]
    operator = isinstance(expression, (ast.BinOp, ast.Compare, ast.UnaryOp))
    return Template(
        text,
        expression,
        framework != "torch" or operator or text.startswith("torch.where"),
        frozenset(name for name in read if read.count(name) > 1),
    )


def helpers(framework: Framework, used: set[str]) -> list[str]:
    """The definitions of the functions among ``used`` that templates call."""
    return [inspect.cleandoc(text) for name, text in HELPERS[framework].items() if name in used]


def floats(data: object) -> Any:
    """What an array is made of: integers would not mix with floats everywhere."""
    if isinstance(data, tuple):
        return [floats(number) for number in data]
    return data if isinstance(data, bool) else float(data)  # type: ignore[arg-type]


How = Literal["value", "number", "decimal", "array", "float", "truth"]
#: TensorFlow does not mix integers with floats.
_NUMBER: dict[Framework, How] = {"tensorflow": "decimal"}


class Argument(NamedTuple):
    """How a call passes an operand: as it is, as a number of Python ("decimal": a float), as an array, as floats, or
    compared with 0.
    """

    how: How
    step: int


def call(framework: Framework, steps: Sequence[Step], step: Step) -> tuple[Template, list[Argument]]:
    """The template of an operation, and how it passes each operand. Raises NotRunnableError where it has none."""
    op, operands = step.op, step.inputs
    if op in ("clip", "clamp"):
        low, high = (steps[i].data if steps[i].op == "const" else None for i in operands[1:])
        if low == -math.inf or high == math.inf:
            op, operands = ("clip_max", operands[::2]) if low == -math.inf else ("clip_min", operands[:2])
    if op == "integer_power" and framework == "jax" and steps[operands[1]].op != "const":
        op = "power_of_integers"
    template = templates(framework).get(op)
    if template is None:
        raise NotRunnableError(f"{framework} has no function for {op}")
    numbers = all(steps[i].op == "const" for i in operands)
    return template, [_argument(framework, steps, op, template, operands, j, numbers) for j in range(len(operands))]


def _argument(
    framework: Framework,
    steps: Sequence[Step],
    op: str,
    template: Template,
    operands: tuple[int, ...],
    j: int,
    numbers: bool,
) -> Argument:
    step = steps[operands[j]]
    if j in NUMBERS.get(op, ()):
        if step.op == "const" and not isinstance(step.data, tuple):
            return Argument("number", operands[j])
        if op not in ("integer_power", "full_like"):
            raise NotRunnableError(f"{framework} takes a number for operand {j + 1} of {op}")
    logical = op in LOGICAL or (op in ("where", "keep") and j == 0)
    if step.kind == "bool":
        if logical or op in _CARRIES:
            return Argument("array" if step.op == "const" else "value", operands[j])
        mask = framework != "tensorflow" and op == "multiply" and steps[operands[1 - j]].kind == "float"
        return Argument("value" if mask and step.op != "const" else "float", operands[j])
    if logical:
        return Argument("truth", operands[j])
    if step.op == "const":
        bounds = op.startswith("clip") and all(steps[i].op == "const" for i in operands[1:])  # all numbers, or none
        number = (template.takes_numbers or bounds) and not numbers and not isinstance(step.data, tuple)
        return Argument(_NUMBER.get(framework, "number") if number else "array", operands[j])
    return Argument("value", operands[j])


#: What hands booleans on.
_CARRIES = frozenset({"where", "keep", "lane", "gather"})
