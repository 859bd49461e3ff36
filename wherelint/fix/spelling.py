"""How a selection is spelled in a file: with the names that the file has, in the way of its framework."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from wherelint.fix.syntax import Place, default_of, root_name
from wherelint.source.module import Module

_NAMESPACES = {"jax": "jax.numpy", "torch": "torch", "tensorflow": "tensorflow"}


def namespaces(module: Module, framework: str, *nearby: Place | None) -> Iterator[str]:
    """Names in the file through which ``where``, ``any`` and the like are reached, the author's own first."""
    found: list[str] = []
    wanted = _NAMESPACES[framework]
    for place in nearby:
        if place is not None and isinstance(place.node, cst.Call) and isinstance(place.node.func, cst.Attribute):
            text = place.block.text(place.node.func.value)
            base = root_name(place.node.func)
            given = default_of(place, base)  # a namespace may be a parameter: `def f(x, xp=jnp)`
            named = given.value if isinstance(given, cst.Name) else base
            if text == base and module.imports.get(named) == wanted:
                found.append(text)
    found += [local for local, name in module.imports.items() if name == wanted]
    if framework == "jax":
        found += [f"{local}.numpy" for local, name in module.imports.items() if name == "jax"]
    yield from dict.fromkeys(found)


def wheres(module: Module, framework: str, *nearby: Place | None) -> Iterator[str]:
    """Spellings of ``where``, the author's own first."""
    found = [f"{namespace}.where" for namespace in namespaces(module, framework, *nearby)]
    bare = [local for local, name in module.imports.items() if name == f"{_NAMESPACES[framework]}.where"]
    yield from dict.fromkeys([*bare, *found] if _calls_bare(nearby, bare) else [*found, *bare])


def _calls_bare(nearby: tuple[Place | None, ...], bare: list[str]) -> bool:
    return any(
        p is not None
        and isinstance(p.node, cst.Call)
        and isinstance(p.node.func, cst.Name)
        and p.node.func.value in bare
        for p in nearby
    )


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


def free_name(wanted: str, place: Place) -> str:
    """A variable name that means nothing in the function around a place, nor in its file."""
    module = place.block.module
    around = next((n for n in place.path() if isinstance(n, cst.FunctionDef)), None)
    text = place.block.text(around) if around is not None else module.text
    name, number = wanted, 1
    while name in module.imports or name in module.definitions or re.search(rf"\b{name}\b", text):
        number += 1
        name = f"{wanted}_{number}"
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
