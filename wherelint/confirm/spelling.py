"""How each framework writes operations and routines, on arrays whose last axis is that of the elements.

Most operations are functions that the name tables know; the tables here have the others. A line is
``operations: template``, where ``{op}`` is the operation, ``a``, ``b``, ``c`` and ``d`` are its operands, and ``each``
are however many there are. Nothing of the linted program is ever part of a template, so that what is made of templates,
numbers and identifiers may be executed.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.ops import OPERATIONS, SIGNATURES
from wherelint.ops.traits import LOGICAL

OPERANDS = "abcd"
_LONGEST_NAME = 40
#: What imports bind: `jnp`, `jax`.
_MODULES = {line.split()[-1].partition(".")[0] for f in FRAMEWORKS.values() for line in f.imports}
_OWN = ("fixed", "report", "join", "nth", "keep")
RESERVED = frozenset({*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *_MODULES, *_OWN})
_OPERATOR = re.compile(r"[a-d] \S+ [a-d]|[-~][a-d]")
#: What hands booleans on.
_PASSES_BOOLEANS = frozenset({"where", "keep", "lane", "gather"})

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


@cache
def templates(framework: str) -> dict[str, str]:
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
    return texts


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


def helpers(framework: str, used: Iterable[str]) -> list[str]:
    """The definitions of the functions among ``used`` that templates call."""
    return [inspect.cleandoc(text) for name, text in FRAMEWORKS[framework].helpers.items() if name in used]


def operation(framework: str, steps: Sequence[Step], step: Step, names: Sequence[str]) -> str:
    """The expression of a step; ``names``: what the steps before it are called. Raises NotRunnableError."""
    op = step.op
    if op == "integer_power" and framework == "jax" and steps[step.inputs[1]].op != "const":
        op = "power_of_integers"
    template = templates(framework).get(op)
    if template is None:
        raise NotRunnableError(f"{framework} has no function for {op}")
    operands = [_operand(framework, steps, step, position, template, names) for position in range(len(step.inputs))]
    extra = {
        "lane": lambda: f"{step.data}:{step.data + 1}",
        "gather": lambda: repr([int(lane) for lane in step.data]),
        "nth": lambda: repr(step.data),
    }.get(op)
    if "each" in template:
        return template.replace("*each", ", ".join(operands)).replace("a, ", f"{extra()}, " if extra else "a, ", 1)
    return _filled(template, [*operands, extra()] if extra else operands)


def _filled(template: str, operands: Sequence[str]) -> str:
    letters = dict(zip(OPERANDS, operands, strict=False))
    return re.sub(r"\b[a-d]\b", lambda match: letters.get(match[0], match[0]), template)


def _operand(
    framework: str, steps: Sequence[Step], step: Step, position: int, template: str, names: Sequence[str]
) -> str:
    """How a call passes an operand: as it is, as a number of Python, as floats, or compared with 0."""
    index = step.inputs[position]
    operand = steps[index]
    constant = operand.op == "const"
    if step.op in OPERATIONS and position in OPERATIONS[step.op].numbers:
        if constant and not isinstance(operand.data, tuple):
            return literal(operand.data)
        if step.op not in ("integer_power", "full_like"):
            raise NotRunnableError(f"{framework} takes a number for operand {position + 1} of {step.op}")
    logical = step.op in LOGICAL or (step.op in ("where", "keep") and position == 0)
    if operand.kind == "bool":
        text = array(framework, operand.data) if constant else names[index]
        return text if logical or step.op in _PASSES_BOOLEANS else _filled(templates(framework)["float"], [text])
    if logical:
        return f"({array(framework, operand.data) if constant else names[index]} != 0)"
    if not constant:
        return names[index]
    plain = FRAMEWORKS[framework].takes_numbers or _OPERATOR.fullmatch(template) or step.op == "where"
    # Of numbers alone an operator makes a number, and a function may not take one.
    plain = plain and any(steps[i].op != "const" for i in step.inputs) and not isinstance(operand.data, tuple)
    return literal(float(operand.data)) if plain else array(framework, operand.data)


def array(framework: str, data: object) -> str:
    """A number, or one an element, as an array: of booleans or of floats."""
    numbers = data if isinstance(data, tuple) else (data,)
    written = [literal(number if isinstance(number, bool) else float(number)) for number in numbers]
    return _filled(
        templates(framework)["array"], [f"[{', '.join(written)}]" if isinstance(data, tuple) else written[0]]
    )


def literal(value: object) -> str:
    """A number as an expression; a negative one may stand before ``**``."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f"({value!r})" if isinstance(value, (int, float)) and str(value)[0] == "-" else repr(value)


class Identifiers:
    """Names of the author as identifiers: none is in use already, and none is given twice."""

    def __init__(self, used: Iterable[str] = RESERVED) -> None:
        self._used = set(used)

    def inside(self) -> Identifiers:
        """The names of a function, which may be those of another one."""
        return Identifiers(self._used)

    def new(self, text: str) -> str:
        """An identifier that reads like some text."""
        plain = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_")[:_LONGEST_NAME].rstrip("_")
        plain = plain if plain.isidentifier() else f"v_{plain}".rstrip("_")
        plain = plain if plain.isidentifier() else "v"
        name, number = plain, 2
        while name in self._used:
            name, number = f"{plain}_{number}", number + 1
        self._used.add(name)
        return name


def body(framework: str, steps: Sequence[Step], parameters: Sequence[str], names: Identifiers) -> str:
    """The statements of a routine, one a step. Raises NotRunnableError where an operation is missing."""
    rest = iter(parameters)
    called: list[str] = []
    lines: list[str] = []
    for step in steps:
        if step.op == "leaf":
            called.append(next(rest))
        elif step.op == "const":
            called.append("")
        else:
            text = operation(framework, steps, step, called)
            called.append(names.new(step.op))
            lines.append(f"    {called[-1]} = {text}")
    lines.append(f"    return {called[-1] or array(framework, steps[-1].data)}")
    return "\n".join(lines)


def program(framework: str, functions: Iterable[tuple[str, Sequence[str], str]]) -> str:
    """Functions with their names, parameters and statements, after the helpers that they call."""
    texts = [f"def {name}({', '.join(parameters)}):\n{statements}" for name, parameters, statements in functions]
    used = set(re.findall(r"\b(join|nth|keep)\(", "\n".join(texts)))
    return "\n\n\n".join([*helpers(framework, used), *texts])
