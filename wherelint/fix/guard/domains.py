"""Where an operation is singular, in the terms of a call of it."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import libcst as cst
import numpy as np

from wherelint.fix.syntax import SourceNode, operands
from wherelint.frameworks import FRAMEWORKS
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Const, Leaf, Node, topological
from wherelint.ops import OPERATIONS
from wherelint.ops.catalogue import Domain
from wherelint.search.witness import Hazard

#: By namespace, what puts in an axis of one element, where that is not ``expand_dims``.
_EXPAND = {"torch": "unsqueeze"}
#: By namespace, its ``any`` and the name of that one's "keep the axis" flag.
_ANY = {framework.namespace: framework.any_of for framework in FRAMEWORKS.values()}
_ANY_OF = "any", "keepdims"
_AXES = frozenset({"axis", "dim", "keepdims", "keepdim"})


#: What is no larger, or has such a name, is added to keep away from where an operation is singular.
_EPSILON, _EPSILONS = 1e-3, frozenset("eps epsilon tiny".split())
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_WHOLE = re.compile(r"^\(([\w.]+)\)(?= [<>=!])")
_NEGATED = re.compile(r"\(-([\w.]+)\) ([<>=!]+) (-?)([\d.]+)")
_DISTANCE = re.compile(r"\(([\d.]+) - ([\w.]+)\) ([<>=!]+) 0(?:\.0)?")


def has_epsilon(hazard: Hazard) -> bool:
    """Whether an operand is regular by an epsilon that only the witness cancels: a mask would be a second guard."""
    values = evaluate(topological([hazard.op]), hazard.inputs)
    for total in hazard.op.inputs:
        for part in total.inputs if total.op == "add" else ():
            least = values[part].min()
            if isinstance(part, Const) and ((part.value > 0) & (part.value <= _EPSILON)).all():
                return _is_point(hazard, total, values)
            words = re.findall("[a-z]+", part.name.lower()) if isinstance(part, Leaf) and part.usual is None else ()
            if not _EPSILONS.isdisjoint(words) and (least <= 0 or _is_point(hazard, total, values)):
                return True
    return False


def _is_point(hazard: Hazard, operand: Node, values: Values) -> bool:
    """Whether an operation is regular below where it is singular: for one input nobody masks it."""
    below = {**values, operand: -np.ones_like(values[operand])}
    del below[hazard.op]
    below = evaluate([hazard.op], {}, known=below)
    given = [below[i] for i in hazard.op.inputs]
    with np.errstate(all="ignore"):
        parts = OPERATIONS[hazard.op.op].vjp(np.ones_like(below[hazard.op]), below[hazard.op], *given)
    return all(part is None or bool(np.isfinite(part).all()) for part in parts)


class Tests(NamedTuple):
    """A condition in the shape of the operand, and in the shape of the result."""

    inner: str
    outer: str
    #: How the first is made of a name of the second, the shortest first; none where they are the same, or it is not
    #: known.
    widened: tuple[str, ...] = ()


def tests_of(domain: Domain, family: str, place: SourceNode, terms: Mapping[str, str]) -> Tests | None:
    """The condition in the author's terms; None where it cannot be written for this call."""
    holds = plainer(domain.condition.format(**terms))
    if not domain.reduces:
        return Tests(holds, holds)
    found = options_of(place, family) if terms["namespace"] else None
    if found is None:
        return None
    keep = _ANY.get(family, _ANY_OF)[1]
    axis, kept = ([f"{k}={v}" for k, v in found.items() if (k in ("axis", "dim")) is flag] for flag in (True, False))
    call = f"{terms['namespace']}.{_ANY.get(family, _ANY_OF)[0]}"
    outer = f"{call}({', '.join([holds, *axis, *kept])})"
    if not axis:
        return Tests(outer, outer)
    inner = f"{call}({', '.join([holds, *axis, f'{keep}=True'])})"
    along = axis[0].partition("=")[2]
    return Tests(inner, outer, () if kept else tuple(_widened(along, terms["namespace"], family)))


def options_of(place: SourceNode, family: str) -> dict[str, str] | None:
    """Along which axes a norm reduces, and whether it keeps them, by the names that the namespace has for that; None
    where that is not written in the call.
    """
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


def sum_of(family: str) -> str:
    """The sum of a namespace along axes, whose options are named as those of its ``any``."""
    return _ANY.get(family, _ANY_OF)[0].replace("any", "sum")


def _widened(axis: str, namespace: str, family: str) -> Iterator[str]:
    """A name with an axis more; the first axis is one that broadcasting puts in, where it is known what there is."""
    if axis == "0":
        yield "{}"
    if axis == "-1":
        yield "{}[..., None]"
    elif re.fullmatch(r"-?\w+", axis):
        yield f"{namespace}.{_EXPAND.get(family, 'expand_dims')}({{}}, {axis})"


def plainer(condition: str) -> str:
    """The same condition without a sign, a difference or parentheses on its left: ``(-y) > -1`` is ``y < 1``."""
    condition = _WHOLE.sub(r"\1", condition)
    if found := _NEGATED.fullmatch(condition):
        name, order, minus, number = found.groups()
        zero = not float(number)
        return f"{name} {_FLIPPED[order]} {'' if minus or zero else '-'}{number}"
    if found := _DISTANCE.fullmatch(condition):
        number, name, order = found.groups()
        return f"{name} {_FLIPPED[order]} {number}"
    return condition
