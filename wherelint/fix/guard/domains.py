"""The condition of a local guard, for a call of the operation."""

from collections.abc import Mapping
from typing import NamedTuple

import libcst as cst

from wherelint.fix.syntax import SourceNode, operands
from wherelint.frameworks import FRAMEWORKS
from wherelint.ops.catalogue import Domain

#: By namespace, its ``any`` and the name of that one's "keep the axis" flag.
_ANY = {framework.namespace: framework.any_of for framework in FRAMEWORKS.values()}
_ANY_OF = "any", "keepdims"
_AXES = frozenset({"axis", "dim", "keepdims", "keepdim"})


class Tests(NamedTuple):
    """A condition in the shape of the operand, and in the shape of the result."""

    inner: str
    outer: str


def tests_of(domain: Domain, family: str, place: SourceNode, terms: Mapping[str, str]) -> Tests | None:
    """The condition in the author's terms; None where it cannot be written for this call."""
    holds = domain.condition.format(**terms)
    if not domain.reduces:
        return Tests(holds, holds)
    found = _options(place, family) if terms["namespace"] else None
    if found is None:
        return None
    name, keep = _ANY.get(family, _ANY_OF)
    axis = [f"{key}={value}" for key, value in found.items() if key in ("axis", "dim")]
    keeps = [f"{key}={value}" for key, value in found.items() if key not in ("axis", "dim")]
    call = f"{terms['namespace']}.{name}"
    outer = f"{call}({', '.join([holds, *axis, *keeps])})"
    inner = f"{call}({', '.join([holds, *axis, f'{keep}=True'])})" if axis else outer
    return Tests(inner, outer)


def _options(place: SourceNode, family: str) -> dict[str, str] | None:
    """The axes of a norm and whether it keeps them, as the namespace names them; None where the call does not say."""
    if not isinstance(place.node, cst.Call):
        return None
    called = place.node.func
    if isinstance(called, cst.Name) and called.value not in place.block.module.imports:
        return None  # `jax.vmap(norm)` by a name
    named = {a.keyword.value: place.block.concrete.code(a.value) for a in place.node.args if a.keyword is not None}
    array = next(iter(operands(place, 1)), None)
    given = [a.value for a in place.node.args if a.keyword is None and (array is None or a.value is not array.node)]
    keep = _ANY.get(family, _ANY_OF)[1]
    names = ("ord", "dim" if keep == "keepdim" else "axis", keep)
    named |= dict(zip(names, map(place.block.concrete.code, given), strict=False))
    named.pop("ord", None)
    if len(given) > len(names) or any(a.star for a in place.node.args) or not set(named) <= _AXES:
        return None
    return {name: value for name, value in named.items() if name not in ("axis", "dim") or value != "None"}
