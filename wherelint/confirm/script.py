"""The script of a snippet: what anyone can run with nothing but the framework, and paste into a report."""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np

from wherelint.confirm.routine import Routine, Snippet, Step
from wherelint.confirm.spelling import OPERANDS, Argument, Template, call, floats, helpers, templates
from wherelint.finding import Finding
from wherelint.frameworks import FRAMEWORKS
from wherelint.io.notebook import spelled
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.numeric import shortest
from wherelint.version import __version__

_LINE = 100
_DEEP = 12
_LONGEST_NAME = 40
#: What imports bind: `jnp`, `jax`.
_MODULES = {line.split()[-1].partition(".")[0] for f in FRAMEWORKS.values() for line in f.imports}
_OWN = ("fixed", "report", "join", "nth", "keep")
RESERVED = frozenset({*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *_MODULES, *_OWN})

_SINGLE = frozenset({"lane", "gather", "join", "keep"})


def script(snippet: Snippet, finding: Finding) -> str:
    """A program that prints the finite value and the gradient that is not, and both after the fix.

    It contains nothing of the linted file but names, made into plain identifiers.
    """
    framework = snippet.framework
    names = _Identifiers()
    function = names.new(snippet.function.rpartition(".")[2].replace("<lambda>", "f") or "f")
    routines = [(function, "before the fix", snippet.before)]
    if snippet.after is not None:
        routines.append(("fixed", "after the fix", snippet.after))
    inputs: dict[object, tuple[str, str]] = {}
    vector = any(_vector(routine) for _, _, routine in routines)
    used: set[str] = set()
    defined, calls = [], []
    for name, label, routine in routines:
        parameters, signature = _parameters(routine, names, inputs, framework, vector)
        body = _Body(framework, routine.steps, parameters, names.inside())
        defined.append("\n".join([f"def {name}({', '.join(signature)}):", *body.lines]))
        used |= body.used
        watched = [text for text, step in zip(parameters, routine.parameters, strict=True) if step.data]
        passed = f"({', '.join(signature)}{',' * (len(signature) == 1)})"
        calls.append(f"report({json.dumps(label)}, {name}, {passed}, {json.dumps(watched)})")
    place = f"{finding.filename}:{spelled(finding.location, finding.cells).rpartition(':')[0]}"
    head = [  # Python reads an encoding from the first two lines, so that no name of the author's may stand there
        f"Written by wherelint {__version__} from what {framework} computes at the place below;",
        "nothing of that file is imported, and of its text there are only names.",
        f"{finding.code} {finding.name} in {finding.function}, {place}",
        *(["an array has four elements here, whatever it has there"] if vector else []),
        *([] if snippet.after else ["no fix is offered"]),
    ]
    imports = [line for line, mark in FRAMEWORKS[framework].imports.items() if mark in "\n".join(defined)]
    parts = [
        "\n".join([*(f"# {''.join(c if c.isprintable() else '?' for c in line)}" for line in head), *imports]),
        *helpers(framework, used),
        *defined,
        FRAMEWORKS[framework].report.strip(),
        "\n".join([*(line for _, line in inputs.values()), *calls]),
    ]
    return "\n\n\n".join(parts) + "\n"


def _vector(routine: Routine) -> bool:
    """Whether the program tells elements apart, or joins them: then its inputs are arrays."""
    for step in routine.steps:
        entry = OPERATIONS.get(step.op)
        if step.op in _SINGLE or (entry is not None and entry.mixes) or isinstance(step.data, tuple):
            return True
    return any(isinstance(shortest(probes[0]), list) for probes in routine.probes)


def _parameters(
    routine: Routine, names: _Identifiers, inputs: dict[object, tuple[str, str]], framework: str, vector: bool
) -> tuple[list[str], list[str]]:
    """An identifier for every parameter, and the signature: the differentiated ones first, then those that are not."""
    seen: Counter[object] = Counter()
    found = []
    for step, probes in zip(routine.parameters, routine.probes, strict=True):
        seen[step.name, step.kind] += 1
        key = step.name, step.kind, seen[step.name, step.kind]
        if key not in inputs:
            name = names.new(step.name)
            inputs[key] = name, f"{name} = {_literal(probes[0], step, framework, vector)}"
        found.append(inputs[key][0])
    order = sorted(range(len(found)), key=lambda i: not routine.parameters[i].data)
    return found, [found[i] for i in order]


def _literal(row: Array, step: Step, framework: str, vector: bool) -> str:
    numbers = [bool(v) if step.kind == "bool" else float(str(np.float32(v))) for v in row.tolist()]
    text = _number(numbers[0]) if not vector else f"[{', '.join(map(_number, numbers))}]"
    spelled = FRAMEWORKS[framework]
    return (spelled.parameter if step.data and spelled.parameter else spelled.literal).format(text)


def _number(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


class _Identifiers:
    """Names of the author as identifiers: none is reserved, and none is given twice."""

    def __init__(self) -> None:
        self._taken = set(RESERVED)

    def inside(self) -> _Identifiers:
        """The names of a function, which may be those of another one."""
        scope = _Identifiers()
        scope._taken |= self._taken
        return scope

    def new(self, text: str) -> str:
        """An identifier that reads like some text."""
        plain = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_")[:_LONGEST_NAME].rstrip("_")
        plain = plain if plain.isidentifier() else f"v_{plain}".rstrip("_")
        plain = plain if plain.isidentifier() else "v"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name


class _Body:
    """The statements of a routine. Raises NotRunnableError where an operation is missing."""

    def __init__(self, framework: str, steps: Sequence[Step], parameters: Sequence[str], names: _Identifiers) -> None:
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
    return ast.parse(_number(data), mode="eval").body


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
