"""How each framework writes operations and routines, on arrays whose last axis is that of the elements.

Most operations are functions that the name tables know; the tables here have the others. A line is
``operations: template``, where ``{op}`` is the operation, ``a``, ``b``, ``c`` and ``d`` are its operands, and ``each``
are however many there are. Nothing of the linted program is ever part of a template, so that templates (and
nothing else) may be evaluated.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.ops import OPERATIONS, SIGNATURES
from wherelint.ops.traits import LOGICAL

OPERANDS = "abcd"
_LINE = 100
_DEEP = 12
_LONGEST_NAME = 40
#: What imports bind: `jnp`, `jax`.
_MODULES = {line.split()[-1].partition(".")[0] for f in FRAMEWORKS.values() for line in f.imports}
_OWN = ("fixed", "report", "join", "nth", "keep")
RESERVED = frozenset({*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *_MODULES, *_OWN})

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


def literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


class Body:
    """The statements of a routine. Raises NotRunnableError where an operation is missing."""

    def __init__(self, framework: str, steps: Sequence[Step], parameters: Sequence[str], names: Identifiers) -> None:
        self._framework = framework
        self._steps = steps
        self._names = names
        #: Helpers that the statements call.
        self.used: set[str] = set()
        self.lines: list[str] = []
        uses = Counter(i for step in steps for i in step.inputs)
        given = iter(parameters)
        #: The expression that stands for each step, and how deep it is nested.
        self._found: dict[int, tuple[ast.expr, int]] = {}
        last = len(steps) - 1
        for i, step in enumerate(steps):
            if step.op == "leaf":
                self._found[i] = ast.Name(next(given)), 0
            elif step.op != "const":
                expression, depth = self._expression(step)
                text = ast.unparse(expression)
                if i == last:
                    self._write("return ", text)
                elif step.name or uses[i] > 1 or depth > _DEEP or len(text) > _LINE:
                    self._bind(i, step.name or "t", text)
                else:
                    self._found[i] = expression, depth
        if steps[last].op in ("leaf", "const"):
            self._write("return ", ast.unparse(self._argument(Argument("value", last))))

    def _bind(self, i: int, preferred: str, text: str) -> None:
        name = self._names.new(preferred)
        self._write(f"{name} = ", text)
        self._found[i] = ast.Name(name), 0

    def _write(self, before: str, text: str) -> None:
        self.lines.append(textwrap.indent(before + text, "    "))

    def _expression(self, step: Step) -> tuple[ast.expr, int]:
        template, arguments = call(self._framework, self._steps, step)
        self.used |= {n.id for n in ast.walk(template.expression) if isinstance(n, ast.Name)} & set(
            FRAMEWORKS[self._framework].helpers
        )
        for letter, argument in zip(OPERANDS, arguments, strict=False):
            found = self._found.get(argument.step)
            if letter in template.repeated and found is not None and not isinstance(found[0], ast.Name):
                self._bind(argument.step, "t", ast.unparse(found[0]))
        operands = [self._argument(argument) for argument in arguments]
        depth = 1 + max((self._found[a.step][1] for a in arguments if a.step in self._found), default=0)
        return _filled(template, operands, _extra(step)), depth

    def _argument(self, argument: Argument) -> ast.expr:
        step = self._steps[argument.step]
        if step.op == "const":
            if argument.how in ("number", "decimal"):
                return _written(step.data if argument.how == "number" else floats(step.data))
            array = _filled(templates(self._framework)["array"], [_written(floats(step.data))], None)
        else:
            array = self._found[argument.step][0]
        if argument.how == "truth":
            return ast.Compare(array, [ast.NotEq()], [ast.Constant(0)])
        return _filled(templates(self._framework)["float"], [array], None) if argument.how == "float" else array


def _written(data: object) -> ast.expr:
    """A number, or a list of them, as an expression."""
    if isinstance(data, list):
        return ast.List([_written(number) for number in data])
    return ast.parse(literal(data), mode="eval").body


def _extra(step: Step) -> ast.expr | None:
    """What a structural operation says beside its operands: an index, or several."""
    if step.op == "lane":
        return ast.Slice(ast.Constant(step.data), ast.Constant(step.data + 1))
    if step.op == "gather":
        return ast.List([ast.Constant(i) for i in step.data])
    return ast.Constant(step.data) if step.op == "nth" else None


def _filled(template: Template, operands: Sequence[ast.expr], extra: ast.expr | None) -> ast.expr:
    """A template with its operands put in."""
    if template.variadic:
        first = [] if extra is None else [extra]
        function = template.expression
        assert isinstance(function, ast.Call)
        return ast.Call(function.func, [*first, *operands], [])
    letters = dict(zip(OPERANDS, [*operands, *([] if extra is None else [extra])], strict=False))
    return _Filling(letters).visit(ast.parse(template.text, mode="eval").body)  # type: ignore[no-any-return]


class _Filling(ast.NodeTransformer):
    def __init__(self, letters: dict[str, ast.expr]) -> None:
        self._letters = letters

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._letters.get(node.id, node)
