"""How a selection is spelled in a file: with the names that the file has, in the way of its framework."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from wherelint.fix.syntax import SourceNode, default_of, path_after, root_name
from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Module
from wherelint.frontend.names import canonical, imported

#: A namespace whose ``where`` takes operands of one shape only, and whose ``where_v2`` does not.
_OLD = "tensorflow.compat.v1"


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
        if isinstance(function, cst.Attribute) and _written(module, place) == preferred:
            yield f"{place.block.text(function.value)}.where"
    for local, name in sorted(module.imports.items(), key=lambda item: (item[0] in old, item[1] != preferred)):
        if preferred == name or preferred.startswith(f"{name}."):
            yield f"{local}{preferred[len(name) :]}.where{'_v2' if local in old else ''}"
        elif preferred == "keras.ops" and name == "tensorflow.keras":
            yield f"{local}.ops.where"
    yield from bare


def _old(module: Module) -> set[str]:
    """What a file imports from the old namespace, whatever that is read as."""
    named = [item for statement in module.syntax.imports for item in imported(statement, module.package).items()]
    return {local for local, name in named if name.startswith(_OLD)}


def _written(module: Module, place: SourceNode) -> str:
    """The dotted name of the namespace whose function a call is of; empty where that is not known."""
    function = place.node.func if isinstance(place.node, cst.Call) else None
    if isinstance(function, cst.Name):
        return module.imports.get(function.value, "").rpartition(".")[0]
    base = root_name(function) if isinstance(function, cst.Attribute) else ""
    given = default_of(place, base)  # a namespace may be a parameter: `def f(x, xp=jnp)`
    named = given.value if isinstance(given, cst.Name) else base
    if not isinstance(function, cst.Attribute) or named not in module.imports or named in _old(module):
        return ""
    written = module.imports[named] + path_after(function.value)
    return "" if written == _OLD else canonical(written, module.aliases)


def negated(mask: str, *, atom: bool = False) -> str:
    """The opposite of a mask: of ``a == b`` it is ``a != b``, of ``~m`` the mask itself; in parentheses if need be."""
    try:
        node = cst.parse_expression(mask)
    except cst.ParserSyntaxError:
        return f"~({mask})"
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert) and not node.lpar:
        return cst.Module([]).code_for_node(node.expression)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        first, second = (cst.Module([]).code_for_node(n) for n in (node.left, node.comparisons[0].comparator))
        flipped = {cst.Equal: "!=", cst.NotEqual: "=="}.get(type(node.comparisons[0].operator))
        if flipped is not None:
            return f"({first} {flipped} {second})" if atom else f"{first} {flipped} {second}"
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return f"~{mask}" if plain else f"~({mask})"


def free_name(preferred: str, place: SourceNode) -> str:
    """A variable name that means nothing in the function around a place, nor in its file."""
    module = place.block.module
    around = next((n for n in place.path() if isinstance(n, cst.FunctionDef)), None)
    text = place.block.text(around) if around is not None else module.text
    name, number = preferred, 1
    while name in module.imports or name in module.definitions or re.search(rf"\b{name}\b", text):
        number += 1
        name = f"{preferred}_{number}"
    return name


def without_gradient(text: str, framework: str, module: Module, namespace: str) -> str | None:
    """A value as a constant of reverse mode, as the framework spells it; None where the file has no name for that."""
    if framework == "torch":
        return f"{text}.detach()" if text.isidentifier() else f"({text}).detach()"
    if framework == "tensorflow":
        return f"{namespace}.stop_gradient({text})"
    for local, name in module.imports.items():
        if name in ("jax", "jax.lax", "jax.lax.stop_gradient"):
            return f"{local}{'jax.lax.stop_gradient'[len(name) :]}({text})"
    return None


def infinity(namespace: str, framework: str) -> str:
    """The number, as a namespace of the framework spells it."""
    return FRAMEWORKS[framework].infinity.format(namespace=namespace) if namespace else 'float("inf")'
