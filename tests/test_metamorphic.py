"""What is said of a program is said of it however it is written: other names, other layout, another place."""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mutations import FILES, ROOT

from wherelint.io.config import Settings
from wherelint.run.check import check_source

Change = Callable[[ast.Module], ast.Module]
#: What is found, and in which function: its name, or none where a change moves it.
Found = Counter[tuple[str, str, str]]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
NAMES = [path.relative_to(ROOT).as_posix() for path in FILES]


def found(text: str) -> Found:
    """The findings of a program, wherever they are in it."""
    report = check_source(text.encode(), "f.py", Settings(root=Path("/"), level="note"))
    assert report.problems == ()
    places = (place for finding in report.findings for place in finding.places)
    return Counter((f.code, f.select.kind, f.function) for f in places)


@cache
def expected(name: str) -> Found:
    return found((ROOT / name).read_text("utf-8"))


def without_functions(findings: Found) -> Counter[tuple[str, str]]:
    return Counter((code, kind) for code, kind, _ in findings.elements())


# Changes of the tree


def bound(tree: ast.Module) -> list[str]:
    """The names that a file gives to its variables, arguments and functions, and that mean nothing to others."""
    said = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    said |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg}
    said |= imported(tree).keys() | set(dir(builtins))
    names = []
    members = [m for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for m in c.body]
    said |= {m.name for m in members if isinstance(m, _FUNCTIONS)}
    said |= {n.id for m in members if not isinstance(m, _FUNCTIONS) for n in ast.walk(m) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, _FUNCTIONS):
            names.append(node.name)
    return [name for name in dict.fromkeys(names) if name not in said and not name.startswith("__")]


def imported(tree: ast.Module) -> dict[str, str]:
    """What the imports of a file bind, and to which module or part of one."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(
                {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names}
            )
        elif isinstance(node, ast.ImportFrom):
            names.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return names


class Rename(ast.NodeTransformer):
    """Other names, everywhere."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        fields = {ast.Name: ["id"], ast.arg: ["arg"], ast.Global: ["names"], ast.Nonlocal: ["names"],
                  ast.ExceptHandler: ["name"], ast.MatchAs: ["name"], ast.MatchStar: ["name"]}  # fmt: skip
        for field in fields.get(type(node), ["name"] if isinstance(node, _FUNCTIONS) else []):
            value = getattr(node, field)
            renamed = [self.names.get(v, v) for v in value] if isinstance(value, list) else self.names.get(value, value)
            setattr(node, field, renamed)
        return super().generic_visit(node)


#: Names of logarithms of probabilities and of masks, by which findings are judged.
_TELLING = re.compile(r"log_?p|log_ratio|mask")


def new_names(tree: ast.Module) -> dict[str, str]:
    """Names in another order of the alphabet; one that is private stays it, and a telling one keeps what it tells."""
    names = bound(tree)
    return {
        name: f"{'_' * name.startswith('_')}v{len(names) - i}_{name.lstrip('_') * bool(_TELLING.search(name))}"
        for i, name in enumerate(names)
    }


def renamed(tree: ast.Module) -> ast.Module:
    return Rename(new_names(tree)).visit(tree)


def aliased(tree: ast.Module) -> ast.Module:
    """``import jax.numpy as q1``."""
    names = imported(tree)
    new = {name: f"q{i}" for i, name in enumerate(names)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
            for alias in node.names:
                if alias.asname or isinstance(node, ast.ImportFrom) or "." not in alias.name:
                    alias.asname = new[alias.asname or alias.name]
                else:
                    new.pop(alias.name.split(".")[0], None)
    return Rename(new).visit(tree)


class Parts(ast.NodeTransformer):
    """``jnp.where`` as another spelling of the same function."""

    def __init__(self, modules: dict[str, str], direct: bool) -> None:
        self.modules, self.direct = modules, direct
        self.imports: dict[str, ast.stmt] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name) or node.value.id not in self.modules:
            return node
        module = self.modules[node.value.id]
        if self.direct:
            name = f"{node.value.id}_{node.attr}_"
            self.imports[name] = ast.ImportFrom(module, [ast.alias(node.attr, name)], 0)
            return ast.Name(name, ast.Load())
        self.imports[module] = ast.Import([ast.alias(module)])
        return ast.parse(f"{module}.{node.attr}", mode="eval").body


def spelled(tree: ast.Module, direct: bool) -> ast.Module:
    others = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    others |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    whole = {alias.asname or alias.name for s in tree.body if isinstance(s, ast.Import) for alias in s.names}
    modules = {name: target for name, target in imported(tree).items() if name in whole and name not in others}
    if not direct:  # the package itself has to be free
        modules = {
            name: t
            for name, t in modules.items()
            if t.split(".")[0] not in others | imported(tree).keys() - {t.split(".")[0]}
        }
    parts = Parts(modules, direct)
    tree = parts.visit(tree)
    tree.body[future(tree) : future(tree)] = parts.imports.values()
    return tree


def future(tree: ast.Module) -> int:
    """How many statements have to stay the first."""
    first = [i for i, s in enumerate(tree.body) if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    return max(first, default=-1 if ast.get_docstring(tree) is None else 0) + 1


def in_functions(tree: ast.Module, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> ast.Module:
    """The bodies of all functions, changed."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            node.body = change(node.body)
    return tree


def around(text: str) -> Change:
    """A statement around the body of every function."""

    def change(tree: ast.Module) -> ast.Module:
        def wrap(body: list[ast.stmt]) -> list[ast.stmt]:
            made = ast.parse(text).body[0]
            made.body = body  # type: ignore[attr-defined]
            return [made]

        return in_functions(tree, wrap)

    return change


def around_all(text: str) -> Change:
    """A statement around the whole file."""

    def change(tree: ast.Module) -> ast.Module:
        made = ast.parse(text).body[0]
        first = future(tree)
        made.body = tree.body[first:]  # type: ignore[attr-defined]
        tree.body[first:] = [made]
        return tree

    return change


def in_a_function(tree: ast.Module) -> ast.Module:
    """The definitions of a file inside of a function that returns them."""
    inner = [s for s in tree.body[future(tree) :] if not isinstance(s, ast.Import | ast.ImportFrom)]
    names = [s.name for s in inner if isinstance(s, (*_FUNCTIONS, ast.ClassDef))]
    outer = ast.parse("def outer():\n    pass").body[0]
    outer.body = [*inner, ast.Return(ast.Tuple([ast.Name(n, ast.Load()) for n in names], ast.Load()))]  # type: ignore[attr-defined]
    tree.body = [*(s for s in tree.body if s not in inner), outer]
    return tree


class Reach(ast.NodeTransformer):
    """Functions that are reached through a class."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.names[node.id], mode="eval").body if node.id in self.names else node


def in_a_class(tree: ast.Module, static: bool) -> ast.Module:
    """Every function of the file that is defined once a method of a class of its own."""
    defined = Counter(s.name for s in tree.body if isinstance(s, _FUNCTIONS))
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    taken |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    taken |= {n.name for s in tree.body for n in ast.walk(s) if isinstance(n, _FUNCTIONS) and n is not s}
    moved = [
        s for s in tree.body
        if isinstance(s, ast.FunctionDef) and defined[s.name] == 1 and not s.decorator_list and s.name not in taken
    ]  # fmt: skip
    names = {s.name: f"In_{s.name}.{s.name}" if static else f"In_{s.name}().{s.name}" for s in moved}
    for index, statement in enumerate(tree.body):
        if statement in moved:
            assert isinstance(statement, ast.FunctionDef)
            holder = ast.parse(f"class In_{statement.name}:\n    pass").body[0]
            holder.body = [statement]  # type: ignore[attr-defined]
            tree.body[index] = holder
    tree = Reach(names).visit(tree)
    for statement in moved:
        if static:
            statement.decorator_list = [ast.Name("staticmethod", ast.Load())]
        else:
            (statement.args.posonlyargs or statement.args.args).insert(0, ast.arg("self"))
    return tree


class Name(ast.NodeTransformer):
    """Gives a name to every operation that is computed in any case, in the order in which they are."""

    def __init__(self, fresh: Iterator[int]) -> None:
        self.fresh, self.made = fresh, list[ast.stmt]()

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(
            node, (*_SCOPES, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.JoinedStr)
        ):
            return node
        self.generic_visit(node)
        if not isinstance(node, ast.BinOp | ast.Call | ast.Compare | ast.Subscript):
            return node
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return node
        name = f"t{next(self.fresh)}_"
        self.made.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())


def with_temporaries(tree: ast.Module) -> ast.Module:
    """``y = f(a + b)`` as ``t = a + b; y = f(t)``."""
    fresh = itertools.count()

    def change(body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            for field in ("body", "orelse", "finalbody"):
                if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try) and getattr(
                    statement, field, None
                ):
                    setattr(statement, field, change(getattr(statement, field)))
            if isinstance(statement, ast.Assign | ast.Return | ast.AugAssign) and statement.value is not None:
                name = Name(fresh)
                for field in ("left", "right", "args", "elts", "operand"):  # the outermost operation keeps its name
                    parts = getattr(statement.value, field, None)
                    if isinstance(parts, list):
                        setattr(statement.value, field, [name.visit(p) for p in parts])
                    elif isinstance(parts, ast.AST):
                        setattr(statement.value, field, name.visit(parts))
                made += name.made
            made.append(statement)
        return made

    return in_functions(tree, change)


def without_temporaries(tree: ast.Module) -> ast.Module:
    """What is named once and read once, by the very next statement, stands there itself."""

    def change(body: list[ast.stmt]) -> list[ast.stmt]:
        uses = Counter(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
        made: list[ast.stmt] = []
        for statement in body:
            before = made[-1] if made else None
            if isinstance(before, ast.Assign) and isinstance(statement, ast.Assign | ast.Return) and statement.value:
                target = before.targets[0]
                inner = {
                    n.id
                    for s in ast.walk(statement.value)
                    if isinstance(s, _SCOPES)
                    for n in ast.walk(s)
                    if isinstance(n, ast.Name)
                }
                direct = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)} - inner
                if (
                    isinstance(target, ast.Name)
                    and len(before.targets) == 1
                    and uses[target.id] == 2
                    and target.id in direct
                ):
                    statement.value = Put(target.id, before.value).visit(statement.value)
                    made.pop()
            made.append(statement)
        return made

    return in_functions(tree, change)


class Put(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name else node


def with_keywords(tree: ast.Module) -> ast.Module:
    """``where(condition=c, x=a, y=b)``."""
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "where":
            module = names.get(node.func.value.id, "") if isinstance(node.func.value, ast.Name) else ""
            if len(node.args) == 3 and module in ("jax.numpy", "torch", "tensorflow"):
                parts = ("condition", "input", "other") if module == "torch" else ("condition", "x", "y")
                node.keywords = [ast.keyword(name, arg) for name, arg in zip(parts, node.args, strict=True)]
                node.args = []
    return tree


class Branches(ast.NodeTransformer):
    """``y = a if c else b`` as a statement."""

    def _chosen(self, statement: ast.Assign | ast.Return) -> ast.stmt:
        value = statement.value
        if not isinstance(value, ast.IfExp):
            return statement
        arms = [copy.copy(statement), copy.copy(statement)]
        arms[0].value, arms[1].value = value.body, value.orelse
        return ast.If(value.test, [arms[0]], [arms[1]])

    visit_Assign = _chosen  # noqa: N815
    visit_Return = _chosen  # noqa: N815


class Negated(ast.NodeTransformer):
    """``where(c, a, b)`` as ``where(~c, b, a)``, where c compares."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        named = (
            isinstance(node.func, ast.Attribute) and node.func.attr == "where" and isinstance(node.func.value, ast.Name)
        )
        if named and len(node.args) == 3 and isinstance(node.args[0], ast.Compare):
            condition, a, b = node.args
            node.args = [ast.UnaryOp(ast.Invert(), condition), b, a]
        return node


def reordered(tree: ast.Module) -> ast.Module:
    """Functions that follow each other, the last one first, where nothing of them is needed to define another."""
    body: list[ast.stmt] = []
    for is_function, group in itertools.groupby(tree.body, lambda s: isinstance(s, _FUNCTIONS)):
        statements = list(group)
        names = [s.name for s in statements if isinstance(s, _FUNCTIONS)]
        needed = {n.id for s in statements if isinstance(s, _FUNCTIONS) for part in (s.args, *s.decorator_list)
                  for n in ast.walk(part) if isinstance(n, ast.Name)}  # fmt: skip
        if is_function and len({*names}) == len(names) and not needed & {*names}:
            statements.reverse()
        body += statements
    tree.body = body
    return tree


_UNRELATED = '''
class Unrelated:
    """Nothing that is differentiated."""

    def __init__(self, path, *rows):
        self.path, self.rows = path, list(rows)

    def read(self):
        with open(self.path) as file:
            return [line.split(",") for line in file if line.strip()] or None


def unrelated(first, second=None, *, third="a"):
    total = 0
    for index, item in enumerate(first or []):
        total += len(item) * index
    return f"{third}{total}" if second else third.upper()


assert unrelated([]) == "A"
'''


def among_others(tree: ast.Module) -> ast.Module:
    first = future(tree)
    tree.body = [*tree.body[:first], *ast.parse(_UNRELATED).body, *tree.body[first:], *ast.parse(_UNRELATED).body]
    return tree


# Changes of the text


def commented(text: str) -> str:
    """A comment and an empty row before every statement."""
    lines = text.split("\n")
    rows = {n.lineno for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)}
    for row in sorted(rows, reverse=True):
        line = lines[row - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines.insert(row - 1, f'{indent}# sqrt(x) where x > 0: an "example"\n')
    return "\n".join(lines)


def indented(text: str) -> str:
    """Tabs, where a row is indented."""
    return re.sub(r"^( +)", lambda m: m[0].replace("    ", "\t"), text, flags=re.MULTILINE)


def written(change: Change) -> Callable[[str], str]:
    return lambda text: ast.unparse(ast.fix_missing_locations(change(ast.parse(text)))) + "\n"


CHANGES: dict[str, Callable[[str], str]] = {
    "written anew": written(lambda tree: tree),
    "other names": written(renamed),
    "other aliases": written(aliased),
    "names imported one by one": written(lambda tree: spelled(tree, direct=True)),
    "full names": written(lambda tree: spelled(tree, direct=False)),
    "in a function": written(in_a_function),
    "static methods": written(lambda tree: in_a_class(tree, static=True)),
    "methods": written(lambda tree: in_a_class(tree, static=False)),
    "bodies below if": written(around("if True:\n    pass")),
    "bodies below try": written(around("try:\n    pass\nexcept ValueError:\n    raise")),
    "bodies below with": written(around("with scope('a') as scope_:\n    pass")),
    "below if": written(around_all("if True:\n    pass")),
    "below try": written(around_all("try:\n    pass\nexcept ImportError:\n    pass")),
    "below with": written(around_all("with scope():\n    pass")),
    "with temporaries": written(with_temporaries),
    "without temporaries": written(without_temporaries),
    "keywords": written(with_keywords),
    "branches": written(lambda tree: Branches().visit(tree)),
    "conditions negated": written(lambda tree: Negated().visit(tree)),
    "another order": written(reordered),
    "among others": written(among_others),
    "commented": commented,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "tabs": indented,
}
#: Changes after which a finding is in a function of another name.
_MOVING = {"in a function", "static methods", "methods"}
#: Changes under which something else is said of a file, and why that is right, or known.
KNOWN = {
    ("in a function", "tests/cases/kornia-918-focal/unsafe.py"): (
        "a product counts as a mask where it reads a constant of the file; a local array is not known to be one"
    ),
    **{
        ("in a function", f"tests/fixtures/{name}.py"): "which classes override a method is known at the top level only"
        for name in ("functions", "modules")
    },
    ("methods", "tests/fixtures/severed.py"): "an ordinary method of an object made on the spot is no `defvjp` rule",
}


def differs(change: str, name: str, text: str) -> str:
    before, after = expected(name), found(text)
    if change == "other names":
        new = new_names(ast.parse((ROOT / name).read_text("utf-8")))
        before = Counter(
            (code, kind, ".".join(new.get(p, p) for p in f.split("."))) for code, kind, f in before.elements()
        )
    one, other = (without_functions(before), without_functions(after)) if change in _MOVING else (before, after)
    return "" if one == other else f"lost {dict(one - other)}, came {dict(other - one)}"


def deviations(change: str, made: dict[str, str]) -> dict[str, str]:
    return {name: why for name, text in made.items() if (why := differs(change, name, text))}


@pytest.fixture
def sample(a_tenth: Callable[..., Sequence[Any]]) -> Callable[[int], dict[str, str]]:
    """A tenth of the files, another one for another number."""
    return lambda number: {name: (ROOT / name).read_text("utf-8") for name in a_tenth(NAMES, number)}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_one(change: str) -> None:
    texts = ((ROOT / name).read_text("utf-8") for name in NAMES)
    assert any(CHANGES[change](text) != text for text in texts)


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_is_said(change: str, sample: Callable[[int], dict[str, str]]) -> None:
    texts = sample([*CHANGES].index(change))
    made = {name: CHANGES[change](text) for name, text in texts.items()}
    wrong = deviations(change, made)
    assert set(wrong) == {name for each, name in KNOWN if each == change and name in made}, wrong


@pytest.mark.parametrize("length", [40, 200])
def test_the_same_is_said_of_what_was_formatted(
    length: int, sample: Callable[[int], dict[str, str]], tmp_path: Path
) -> None:
    texts = sample(length)
    paths = {name: tmp_path / f"{index}.py" for index, name in enumerate(texts)}
    for name, path in paths.items():
        path.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", f"--line-length={length}",
               "--config=format.skip-magic-trailing-comma=true", str(tmp_path)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    made = {name: path.read_text("utf-8") for name, path in paths.items()}
    assert made != texts
    assert deviations("formatted", made) == {}


def test_nothing_is_left_over_among_the_known() -> None:
    assert {change for change, _ in KNOWN} <= CHANGES.keys()
    assert {name for _, name in KNOWN} <= {*NAMES}
