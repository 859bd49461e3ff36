"""Random programs: operations of the catalogue, selections, masks, helpers and reductions.

A program is a list of steps, so that it can be written down in many ways (helpers, methods, nested calls) and be run
element by element, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from differential.wild import WILD
from wherelint.ops import OPERATIONS, SIGNATURES, Signature

#: A value: the number of an input (x, y) or of a step behind them, or a literal.
Operand = int | float
INPUTS = ("x", "y")
_NUMBERS = (0.0, 0.5, 1.0, 2.0, -1.0, 1e-3)
_EXPONENTS: tuple[float, ...] = (0.5, 1.5, -0.5, -1.0, 2.5)
_INTEGERS = (2, 3, -1, -2)
#: What no program uses: operations that take or give something else than floating point numbers, and those whose
#: ranges the conformance test restricts (series, matrices): their edges are not what is asked here.
_LEFT_OUT = frozenset(
    """where isnan isinf isfinite signbit isneginf isposinf isclose logical_and logical_or logical_xor logical_not less
    less_equal greater greater_equal equal not_equal cholesky inv solve det slogdet logdet gammainc gammaincc betaln
    polygamma log_ndtr digamma ndtri i0 i0e i1 i1e rel_entr binary_cross_entropy integer_power power_static identity
    full_like lgamma gamma heaviside gelu kl_divergence poisson_nll huber smooth_l1 prelu clip clamp fma addcmul lerp
    cross_entropy_with_logits addcdiv threshold hard_tanh softshrink hardshrink leaky_relu elu celu copysign mod
    floor_divide fmod linear dot log1mexp squared_error absolute_error sigmoid_cross_entropy
    squared_difference zeta""".split()
)
#: These look at shapes; what torch makes of sgn is a zero of its own kind, which annihilates infinities.
_NAMES_LEFT_OUT = frozenset("outer ger kron sgn".split())
_REDUCTIONS = {
    "jax": "sum mean max min prod linalg.norm std var",
    "torch": "sum mean amax amin prod linalg.norm std var logsumexp",
    "tensorflow": """reduce_sum reduce_mean reduce_max reduce_min reduce_prod norm math.reduce_std math.reduce_variance
        reduce_logsumexp""",
}
_PREFIXES = {
    "jax": {"jax.numpy.": "jnp.", "jax.lax.": "jax.lax.", "jax.nn.": "jax.nn.", "jax.scipy.special.": "special."},
    "torch": {
        "torch.nn.functional.": "F.",
        "torch.special.": "torch.special.",
        "torch.Tensor.": ".",
        "torch.": "torch.",
    },
    "tensorflow": {"tensorflow.math.": "tf.math.", "tensorflow.nn.": "tf.nn.", "tensorflow.": "tf."},
}
IMPORTS = {
    "jax": "import jax\nimport jax.numpy as jnp\nfrom jax.scipy import special\n",
    "torch": "import torch\nimport torch.nn.functional as F\n",
    "tensorflow": "import tensorflow as tf\n",
}
_MODULES = {"jax": "jnp", "torch": "torch", "tensorflow": "tf"}


@dataclass(frozen=True)
class Step:
    """One operation: what it is, and what it reads.

    ``kind``: apply (an operation of the catalogue, element by element), operator, compare, not, both (of two masks),
    where, product (with a mask), reduce, stop; in wild programs also parameter (its name is the default), call and
    test (their names are texts to fill in).
    """

    kind: str
    name: str
    operands: tuple[Operand, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """The values that it reads."""
        return tuple(o for o in self.operands if type(o) is int)


@dataclass(frozen=True)
class Program:
    """Steps, the last of which is what the program returns."""

    framework: str
    steps: tuple[Step, ...]

    def shape(self, value: int) -> str:
        """What a value is: an array, a scalar or a mask."""
        if value < len(INPUTS):
            return "array"
        step = self.steps[value - len(INPUTS)]
        if step.kind in ("compare", "not", "both", "test"):
            return "mask"
        if step.kind == "call":
            return "array"
        if step.kind == "parameter":
            return "key" if step.name == "key" else "scalar"
        return "scalar" if step.kind == "reduce" else "array" if self._array(step) else "scalar"

    @property
    def parameters(self) -> dict[str, str]:
        """The names of what the program takes beside its inputs, with their defaults; a key has none."""
        named = {f"v{i}": s.name for i, s in enumerate(self.steps) if s.kind == "parameter"}
        return {"key" if default == "key" else name: default for name, default in named.items()}

    def _array(self, step: Step) -> bool:
        return any(self.shape(v) == "array" or (self.shape(v) == "mask" and self._wide(v)) for v in step.reads)

    def _wide(self, mask: int) -> bool:
        step = self.steps[mask - len(INPUTS)]
        return any(self.shape(v) == "array" or (self.shape(v) == "mask" and self._wide(v)) for v in step.reads)


def spelled(framework: str) -> Iterator[tuple[str, int]]:
    """The names of elementwise operations that a program may call, with how many operands."""
    for name, signature in SIGNATURES.items():
        entry = OPERATIONS[signature.op]
        count = _operands(signature)
        prefix = next((p for p in _PREFIXES[framework] if name.startswith(p)), None)
        if prefix is None or "." in name.removeprefix(prefix) or name.endswith("_"):
            continue
        if count == 2 and prefix == "jax.lax.":  # it takes no operands of two shapes
            continue
        if name.rpartition(".")[2] in _NAMES_LEFT_OUT:
            continue
        if not entry.mixes and signature.op not in _LEFT_OUT and count in (1, 2):
            yield name, count


def _operands(signature: Signature) -> int:
    required = signature.operands[: len(signature.operands) - len(signature.defaults)]
    return len(required) if all(required) else 0


@cache
def _choices(framework: str) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """The names of operations by how many operands they take: all of them, and the singular ones."""
    names: dict[int, list[str]] = {1: [], 2: []}
    for name, count in spelled(framework):
        names[count].append(name)
    return names, {n: [c for c in each if OPERATIONS[SIGNATURES[c].op].code] for n, each in names.items()}


def generate(rng: random.Random, framework: str, *, wild: bool = False) -> Program:
    """A program of a few steps that ends in a selection or in what reads one.

    A wild one may have parameters with defaults, draw random numbers, call what no linter can see, and reduce rows.
    """
    # The singular operations are few among many smooth ones; half of the calls are theirs.
    names, telling = _choices(framework)
    steps: list[Step] = []

    def add(kind: str, name: str, *operands: Operand) -> int:
        steps.append(Step(kind, name, operands))
        return len(INPUTS) + len(steps) - 1

    def shape(value: int) -> str:
        return Program(framework, tuple(steps)).shape(value)

    def floats() -> list[int]:
        return [v for v in range(len(INPUTS) + len(steps)) if shape(v) in ("array", "scalar") and v not in own]

    def number(numbers: tuple[float, ...] = _NUMBERS) -> Operand:
        return rng.choice(own) if own and rng.random() < 0.4 else rng.choice(numbers)

    def strange(kind: str) -> int:
        text = rng.choice(WILD[framework][kind])
        operands: tuple[Operand, ...] = (operand(), key)
        return add(kind, text, *operands[: 2 if "{1}" in text else int("{" in text)])

    def operand() -> int:
        return rng.choice([*floats()[-4:], 0, rng.choice((0, 1))])

    def called(count: int) -> str:
        return rng.choice(telling[count] if rng.random() < 0.5 else names[count])

    def mask() -> int:
        known = [v for v in range(len(INPUTS), len(INPUTS) + len(steps)) if shape(v) == "mask"]
        if known and rng.random() < 0.4:
            return rng.choice(known)
        if wild and rng.random() < 0.2:
            return strange("test")
        bound: Operand = number() if rng.random() < 0.8 else operand()
        made = add("compare", rng.choice(("<", "<=", ">", ">=", "==", "!=")), operand(), bound)
        if rng.random() < 0.1:
            made = add("not", "~", made)
        if known and rng.random() < 0.2:
            made = add("both", rng.choice("&|"), made, rng.choice(known))
        return made

    def arm() -> Operand:
        return operand() if rng.random() < 0.6 else number()

    def value() -> int:
        if wild and rng.random() < 0.4:
            return strange("call")
        draw = rng.random()
        if draw < 0.4:
            return add("apply", called(1), operand())
        if draw < 0.5:
            return add("apply", called(2), operand(), operand())
        if draw < 0.68:
            other: Operand = operand() if rng.random() < 0.6 else number(_NUMBERS[1:])
            pair = (operand(), other) if rng.random() < 0.8 else (other, operand())
            return add("operator", rng.choice("+-*/"), *pair)
        if draw < 0.73:
            exponent: Operand = rng.choice(_EXPONENTS)
            return add("operator", "**", operand(), exponent)
        if draw < 0.75:
            return add("operator", f"**{rng.choice(_INTEGERS)}", operand())
        if draw < 0.83:
            arrays = [v for v in floats() if shape(v) == "array"]
            rows = " rows" * (wild and rng.random() < 0.9)
            return add("reduce", rng.choice(_REDUCTIONS[framework].split()) + rows, rng.choice(arrays[-3:]))
        if draw < 0.85:
            return add("stop", "stop_gradient", operand())
        return select()

    def select() -> int:
        draw, inner = rng.random(), operand()
        if wild and rng.random() < 0.6:  # what is singular is guarded, somehow
            if rng.random() < 0.2:
                inner = strange("call")
            made = add("apply", rng.choice(telling[1]), inner) if draw < 0.6 else add("operator", "/", operand(), inner)
            if rng.random() < 0.3:
                made = add("operator", rng.choice("+*"), made, operand())
            sign, bound = rng.choice((">", ">=", "!=", "<", "<=", "==")), number((0.0, *_NUMBERS))
            guard = add("compare", sign, inner, bound) if rng.random() < 0.7 else mask()
            other = arm()
            return add("where", "where", guard, *((made, other) if sign in (">", ">=", "!=") else (other, made)))
        if draw < 0.2:
            return add("product", "*", mask(), inner)
        if draw < 0.4:  # the double where, or nearly
            chosen = mask()
            masked = add("where", "where", chosen, inner, rng.choice(_NUMBERS))
            made = add("apply", called(1), masked)
            return add("where", "where", chosen if rng.random() < 0.8 else mask(), made, arm())
        arms = (inner, arm()) if rng.random() < 0.6 else (arm(), inner)
        return add("where", "where", mask(), *arms)

    key = add("parameter", "key") if wild and framework != "torch" else 0
    own = [add("parameter", repr(rng.choice(_NUMBERS))) for _ in range(rng.choice((0, 1, 1, 2)) if wild else 0)]
    for _ in range(rng.randint(1, 4) if wild else rng.randint(2, 6)):
        value()
    last = select()
    if rng.random() < 0.3:
        add("operator", rng.choice("+*"), last, operand())
    return Program(framework, live(tuple(steps)))


def live(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps that the last one reads, renumbered."""
    needed: set[int] = set()
    for value in range(len(INPUTS) + len(steps) - 1, len(INPUTS) - 1, -1):
        if value in needed or value == len(INPUTS) + len(steps) - 1:
            needed.update([value, *steps[value - len(INPUTS)].reads])
    numbers = {v: i for i, v in enumerate([*range(len(INPUTS)), *sorted(w for w in needed if w >= len(INPUTS))])}
    return tuple(
        Step(s.kind, s.name, tuple(numbers[o] if type(o) is int else o for o in s.operands))
        for v, s in enumerate(steps, len(INPUTS))
        if v in needed
    )


def write(program: Program, rng: random.Random | None) -> str:
    """The program as Python, in one of many ways: calls nested or not, part of it in a helper; plainly without rng."""
    steps, first = program.steps, len(INPUTS)
    last = first + len(steps) - 1
    parameters = program.parameters
    body_first = first + len(parameters)
    uses = [v for step in steps for v in step.reads]
    inline = {v for v in range(body_first, last) if rng and uses.count(v) == 1 and rng.random() < 0.5}
    start, end = last, last
    if rng and last - body_first > 1 and rng.random() < 0.4:
        start = rng.randrange(body_first, last)
        end = rng.randrange(start + 1, last + 1)
        # What crosses the border of the helper has a name.
        for v, step in enumerate(steps, first):
            inline -= {u for u in step.reads if (start <= u < end) != (start <= v < end)}
    names = [*INPUTS, *(f"v{i}" for i in range(len(steps)))]
    texts: dict[int, str] = dict(enumerate((*INPUTS, *parameters)))
    main: list[str] = []
    helper: list[str] = []
    for v, step in enumerate(steps[len(parameters) :], body_first):
        text = expression(program, step, [texts[o] if type(o) is int else repr(float(o)) for o in step.operands])
        inside = start <= v < end
        if v == last:
            main.append(f"return {text}")
        elif v in inline:
            texts[v] = f"({text})" if step.kind in ("operator", "compare", "not", "both", "product", "test") else text
        else:
            texts[v] = names[v]
            (helper if inside else main).append(f"{names[v]} = {text}")
        if v == end - 1 and helper:
            read = sorted({u for w in range(start, end) for u in steps[w - first].reads if u < start})
            later = {u for step in steps[end - first :] for u in step.reads}
            given = [u for u in range(start, end) if u not in inline and u in later]
            taken = [texts[u] for u in read]
            arguments = ", ".join(f"{n}={n}" for n in taken) if rng and rng.random() < 0.3 else ", ".join(taken)
            left = ", ".join(names[u] for u in given)
            main.append(f"{left} = part({arguments})")
            helper.append(f"return {left}")
            helper.insert(0, f"def part({', '.join(taken)}):")
    body = "\n    ".join(main)
    part = "\n    ".join(helper) + "\n\n\n" if helper else ""
    taken = [*INPUTS, *(n if default == "key" else f"{n}={default}" for n, default in parameters.items())]
    elsewhere = "import elsewhere\n" if "elsewhere." in part + body else ""
    return f"{IMPORTS[program.framework]}{elsewhere}\n\n{part}def f({', '.join(taken)}):\n    {body}\n"


def expression(program: Program, step: Step, operands: list[str]) -> str:
    """One step as an expression."""
    torch = program.framework == "torch"
    module = _MODULES[program.framework]
    if step.kind == "apply":
        prefix, short = next((p, s) for p, s in _PREFIXES[program.framework].items() if step.name.startswith(p))
        name = step.name.removeprefix(prefix)
        receiver, given = (operands[0], operands[1:]) if short == "." else ("", operands)
        return f"{receiver}{short}{name}({', '.join(given)})"
    if step.kind == "operator" and len(operands) == 1:
        return f"{operands[0]} {step.name[:2]} {step.name[2:]}"
    if step.kind == "reduce":
        axis = ", dim=0" if step.name == "logsumexp" else ""
        if step.name.endswith(" rows"):
            axis = ", dim=-1, keepdim=True" if torch else ", axis=-1, keepdims=True"
        return f"{module}.{step.name.removesuffix(' rows')}({operands[0]}{axis})"
    if step.kind in ("call", "test"):
        return step.name.format(*operands)
    if step.kind == "where":
        return f"{module}.where({', '.join(operands)})"
    if step.kind == "stop":
        return (
            f"{operands[0]}.detach()"
            if torch
            else f"{'tf' if module == 'tf' else 'jax.lax'}.stop_gradient({operands[0]})"
        )
    if step.kind == "not":
        return f"~{operands[0]}"
    if step.kind == "product" and module == "tf":
        return f"tf.cast({operands[0]}, tf.float32) * {operands[1]}"
    if step.kind == "product" and int(step.operands[0]) % 2:  # some masks are numbers before they multiply
        return f"{operands[0]}{'.float()' if torch else '.astype(jnp.float32)'} * {operands[1]}"
    return f"{operands[0]} {step.name} {operands[1]}"
