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
from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.ops import OPERATIONS, SIGNATURES
from wherelint.ops.traits import LOGICAL

OPERANDS = "abcd"

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
def templates(framework: str) -> dict[str, Template]:
    """How a framework writes each operation; an operation that it does not have is missing."""
    texts: dict[str, str] = {}
    imports = (line.removeprefix("import ").partition(" as ") for line in FRAMEWORKS[framework].imports)
    short = {long: name for long, _, name in imports if name}
    for name, signature in SIGNATURES.items():
        function = framework_of(name) == framework and ".Array." not in name and ".Tensor." not in name
        if function and (not OPERATIONS[signature.op].mixes or signature.op in ("softmax", "log_softmax")):
            texts.setdefault(signature.op, _call(name, signature.operands, short))
    for table in (_EVERYWHERE, FRAMEWORKS[framework].templates):
        for line in table.strip().splitlines():
            operations, _, text = line.partition(": ")
            texts.update({op: text.format(op=op) for op in operations.split()})
    return {op: _template(text, framework) for op, text in texts.items()}


def _call(name: str, operands: tuple[tuple[str, ...], ...], shorter: dict[str, str]) -> str:
    """A call of a function by its short name; operands that come late are passed by keyword."""
    owner, _, function = name.rpartition(".")
    for long, short in shorter.items():
        owner = short + owner.removeprefix(long) if owner == long or owner.startswith(long + ".") else owner
    letters = iter(OPERANDS)
    arguments = []
    for keywords in operands:
        letter = next(letters) if keywords else ""
        if letter and not keywords[0].startswith("_"):
            arguments.append(letter)
    return f"{owner}.{function}({', '.join(arguments)})"


def _template(text: str, framework: str) -> Template:
    expression = ast.parse(text, mode="eval").body
    read = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and node.id in OPERANDS]
    operator = isinstance(expression, (ast.BinOp, ast.Compare, ast.UnaryOp))
    return Template(
        text,
        expression,
        FRAMEWORKS[framework].takes_numbers or operator or text.startswith("torch.where"),
        frozenset(name for name in read if read.count(name) > 1),
    )


def helpers(framework: str, used: set[str]) -> list[str]:
    """The definitions of the functions among ``used`` that templates call."""
    return [inspect.cleandoc(text) for name, text in FRAMEWORKS[framework].helpers.items() if name in used]


def floats(data: object) -> Any:
    """What an array is made of: integers would not mix with floats everywhere."""
    if isinstance(data, tuple):
        return [floats(number) for number in data]
    return data if isinstance(data, bool) else float(data)  # type: ignore[arg-type]


How = Literal["value", "number", "decimal", "array", "float", "truth"]


class Argument(NamedTuple):
    """How a call passes an operand: as it is, as a number of Python ("decimal": a float), as an array, as floats, or
    compared with 0.
    """

    how: How
    step: int


def call(framework: str, steps: Sequence[Step], step: Step) -> tuple[Template, list[Argument]]:
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
    framework: str, steps: Sequence[Step], op: str, template: Template, operands: tuple[int, ...], j: int, numbers: bool
) -> Argument:
    step = steps[operands[j]]
    if op in OPERATIONS and j in OPERATIONS[op].numbers:
        if step.op == "const" and not isinstance(step.data, tuple):
            return Argument("number", operands[j])
        if op not in ("integer_power", "full_like"):
            raise NotRunnableError(f"{framework} takes a number for operand {j + 1} of {op}")
    logical = op in LOGICAL or (op in ("where", "keep") and j == 0)
    if step.kind == "bool":
        if logical or op in _CARRIES:
            return Argument("array" if step.op == "const" else "value", operands[j])
        mask = FRAMEWORKS[framework].mixes_types and op == "multiply" and steps[operands[1 - j]].kind == "float"
        return Argument("value" if mask and step.op != "const" else "float", operands[j])
    if logical:
        return Argument("truth", operands[j])
    if step.op == "const":
        bounds = op.startswith("clip") and all(steps[i].op == "const" for i in operands[1:])  # all numbers, or none
        number = (template.takes_numbers or bounds) and not numbers and not isinstance(step.data, tuple)
        return Argument(
            "array" if not number else "number" if FRAMEWORKS[framework].mixes_types else "decimal", operands[j]
        )
    return Argument("value", operands[j])


#: What hands booleans on.
_CARRIES = frozenset({"where", "keep", "lane", "gather"})
