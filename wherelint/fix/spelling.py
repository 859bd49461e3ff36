"""How a selection is spelled in a file: with the names that the file has, in the way of its framework."""

import ast
import re
from collections.abc import Iterator
from itertools import chain, count

import libcst as cst

from wherelint.finding import Edit, Location
from wherelint.fix.syntax import (
    SourceNode,
    code,
    last_name,
    operands,
    path_after,
    root_name,
    variables_in,
)
from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.module import Module
from wherelint.frontend.names import canonical, imported
from wherelint.frontend.namespaces import namespaces

#: Namespaces whose ``where`` takes operands of one shape only, and whose ``where_v2`` does not; the one by itself.
_OLD = "tensorflow.compat.v1"
_FIRST = (_OLD, "tensorflow.python.ops")
#: What namespaces are imported as.
_LOCAL = {"jax.numpy": "jnp", "tensorflow": "tf"}


def family(module: Module, framework: str, *nearby: SourceNode | None) -> str:
    """The namespace that calls nearby are written in: what runs on every backend has to do so after a fix too."""
    written = [_written(module, place) for place in nearby if place is not None]
    return "keras.ops" if "keras.ops" in written else FRAMEWORKS[framework].namespace


def wheres(module: Module, framework: str, *nearby: SourceNode | None) -> Iterator[str]:
    """Spellings of ``where``, the author's own first."""
    preferred = family(module, framework, *nearby)
    calls = [(place, place.node.func) for place in nearby if place is not None and isinstance(place.node, cst.Call)]
    old = _old(module)
    bare = [local for local, name in module.imports.items() if name == f"{preferred}.where" and local not in old]
    if any(isinstance(function, cst.Name) and function.value in bare for _, function in calls):
        yield from bare
    for place, function in calls:
        named = module.imports.get(root_name(function), "")  # a backend of the project's
        if named and framework_of(named) is None and last_name(function) == "where" and len(operands(place)) == 3:
            yield place.block.concrete.code(function)
    for place, function in calls:
        base = place.block.concrete.code(function.value) if isinstance(function, cst.Attribute) else ""
        if base in module.once(namespaces) or (base and _written(module, place) == preferred):
            yield f"{base}.where"
    for local, name in sorted(module.imports.items(), key=lambda item: (item[0] in old, item[1] != preferred)):
        if preferred == name or preferred.startswith(f"{name}."):
            yield f"{local}{preferred[len(name) :]}.where{'_v2' if local in old else ''}"
        elif preferred == "keras.ops" and name == "tensorflow.keras":
            yield f"{local}.ops.where"
    yield from bare


def missing(module: Module, framework: str) -> tuple[str, Edit] | None:
    """``where``, and the import that it needs beside those that a file has of its framework; None where it has none."""
    namespace = FRAMEWORKS[framework].namespace
    local = _LOCAL.get(namespace, namespace)
    edit = _importing(module, namespace, local) if not _old(module) else None
    return (f"{local}.where", edit) if edit is not None else None


def _importing(module: Module, namespace: str, local: str) -> Edit | None:
    """The import of a namespace, before the first of its package; None where there is none, or the name is taken."""
    line = f"import {namespace}\n" if local == namespace else f"import {namespace} as {local}\n"
    for statement in module.syntax.imports:
        name = statement.names[0].name if isinstance(statement, ast.Import) else statement.module or ""
        ours = name.partition(".")[0] == namespace.partition(".")[0] and not getattr(statement, "level", 0)
        if ours and not statement.col_offset and local not in {*module.imports, *module.definitions}:
            start = Location(statement.lineno, 1)
            return Edit(line, start, start)
    return None


def _old(module: Module) -> set[str]:
    """What a file imports from the old namespace, whatever that is read as."""
    named = [item for statement in module.syntax.imports for item in imported(statement, module.package).items()]
    return {local for local, name in named if name.startswith(_FIRST)}


def _written(module: Module, place: SourceNode) -> str:
    """The dotted name of the namespace whose function a call is of; empty where that is not known."""
    function = place.node.func if isinstance(place.node, cst.Call) else None
    if isinstance(function, cst.Name):
        return module.imports.get(function.value, "").rpartition(".")[0]
    base = root_name(function) if isinstance(function, cst.Attribute) else ""
    if not isinstance(function, cst.Attribute) or base not in module.imports or base in _old(module):
        return ""
    written = module.imports[base] + path_after(function.value)
    return "" if written == _OLD else canonical(written, module.aliases)


def negated(mask: str, *, atom: bool = False) -> str:
    """The opposite of a mask: of ``a == b`` it is ``a != b``, of ``~m`` the mask itself; in parentheses if need be."""
    try:
        node = cst.parse_expression(mask)
    except cst.ParserSyntaxError:
        return f"~({mask})"
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert) and not node.lpar:
        return code(node.expression)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        first, second = (code(n) for n in (node.left, node.comparisons[0].comparator))
        flipped = {cst.Equal: "!=", cst.NotEqual: "=="}.get(type(node.comparisons[0].operator))
        if flipped is not None:
            return f"({first} {flipped} {second})" if atom else f"{first} {flipped} {second}"
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return f"~{mask}" if plain else f"~({mask})"


def is_long(condition: str) -> bool:
    """Whether a condition is better given a name than written again."""
    return len(condition) > 24 or "(" in condition


def free_name(place: SourceNode, *preferred: str) -> str:
    """The first of some variable names that means nothing in the function around a place, nor in its file."""
    module = place.block.module
    around = next((n for n in place.path()[::-1] if isinstance(n, cst.FunctionDef)), None)
    taken = {*module.imports, *module.definitions}
    if around is not None:  # not what a docstring speaks of
        taken |= place.block.chunk.once(variables_in, around)
    else:
        taken.update(re.findall(r"\w+", module.text))
    numbered = (f"{preferred[0]}_{number}" for number in count(2))
    return next(name for name in chain(preferred, numbered) if name not in taken)


def without_gradient(text: str, framework: str, module: Module, namespace: str) -> tuple[str, list[Edit]] | None:
    """A value as a constant of reverse mode, as the framework spells it, and what has to be imported for that; None
    where the file has no name for it, nor can have one.
    """
    if framework == "torch":
        plain = re.fullmatch(r"[\w.]+(\[[^\[\]]*\])*", text)
        return (f"{text}.detach()" if plain else f"({text}).detach()"), []
    if framework == "tensorflow":
        return f"{namespace}.stop_gradient({text})", []
    names = ("jax", "jax.lax", "jax.lax.stop_gradient")
    known = [f"{local}{names[-1][len(name) :]}" for local, name in module.imports.items() if name in names]
    if known:
        return f"{min(known, key=len)}({text})", []
    edit = _importing(module, "jax", "jax")
    return (f"jax.lax.stop_gradient({text})", [edit]) if edit is not None else None


def infinity(namespace: str, framework: str) -> str:
    """The number, as a namespace of the framework spells it."""
    return FRAMEWORKS[framework].infinity.format(namespace=namespace) if namespace else 'float("inf")'
