"""Where an operation is singular, in the words of its own operand, and what its value is there.

A condition says where it is regular by ``!=``, and where it is singular by an ordering: both let nan through, which is
unequal to everything and in no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import libcst as cst

from wherelint.fix.syntax import Place

#: By namespace, its ``any`` and the name of that one's "keep the axis" flag.
_ANY = {"torch": ("any", "keepdim"), "tensorflow": ("reduce_any", "keepdims")}
_AXES = frozenset({"axis", "dim", "keepdims", "keepdim"})


class Tests(NamedTuple):
    """A condition in the shape of the operand, and in the shape of the result."""

    inner: str
    outer: str


@dataclass(frozen=True)
class Guard:
    """One way to guard an operation by its operand ``{x}``; ``{y}`` is the other operand."""

    condition: str
    safe: str
    #: What the operation's value is where it is singular, the likelier first.
    outside: tuple[str, ...] = ("0.0",)
    operand: int = 0
    #: What the operand is called if it needs a name.
    name: str = "operand"
    #: Whether the operation reduces, so that the condition has to as well.
    reduces: bool = False
    #: Whether the value is finite where the derivative is not: then it is kept, even if nothing seems to read it.
    finite: bool = True
    #: Whether the value is not finite wherever the condition says so, in every precision, save at the edge.
    exact: bool = True

    @property
    def keeps(self) -> bool:
        """Whether the condition holds where the operation is regular."""
        return "!=" in self.condition

    def tests(self, family: str, place: Place, terms: Mapping[str, str]) -> Tests | None:
        """The condition in the author's terms; None where it cannot be written for this call."""
        holds = self.condition.format(**terms)
        if not self.reduces:
            return Tests(holds, holds)
        if not isinstance(place.node, cst.Call) or not terms["namespace"]:
            return None
        named = {a.keyword.value: place.block.text(a.value) for a in place.node.args if a.keyword is not None}
        if len([a for a in place.node.args if a.keyword is None]) > 1 or not set(named) <= _AXES:
            return None
        function, keep = _ANY.get(family, ("any", "keepdims"))
        axis = [f"{k}={v}" for k, v in named.items() if k in ("axis", "dim")]
        kept = [f"{k}={v}" for k, v in named.items() if k not in ("axis", "dim")]
        call = f"{terms['namespace']}.{function}"
        inner = ", ".join([holds, *axis, *([f"{keep}=True"] if axis else [])])
        outer = ", ".join([holds, *axis, *kept])
        return Tests(f"{call}({inner})", f"{call}({outer})")


def _both(singular: str, boundary: str, *rest: Any, **named: Any) -> tuple[Guard, Guard]:
    """A guard where the operation has no value either, and one at the edge of its domain alone."""
    return Guard(singular, *rest, **named), Guard(boundary, *rest, **named)


def _all(names: str, *guards: Guard) -> dict[str, tuple[Guard, ...]]:
    return dict.fromkeys(names.split(), guards)


GUARDS: dict[str, tuple[Guard, ...]] = {
    **_all("sqrt clipped_sqrt", Guard("{x} <= 0", "1.0", name="radicand"), Guard("{x} != 0", "1.0", name="radicand")),
    **_all("rsqrt", *_both("{x} <= 0", "{x} != 0", "1.0", ("0.0", "{inf}"), name="radicand", finite=False)),
    **_all("cbrt", Guard("{x} != 0", "1.0", name="radicand")),
    **_all("log log2 log10",
           *_both("{x} <= 0", "{x} != 0", "1.0", ("-{inf}", "0.0"), name="argument", finite=False)),
    **_all("log1p", *_both("{x} <= -1", "{x} != -1", "0.0", ("-{inf}",), name="argument", finite=False)),
    **_all("log1mexp entr", Guard("{x} <= 0", "1.0", ("0.0", "{inf}", "-{inf}"), finite=False)),
    **_all("lgamma gamma digamma",
           Guard("{x} <= 0", "1.0", ("0.0", "{inf}", "-{inf}"), finite=False, exact=False)),
    **_all("logit ndtri", Guard("({x} <= 0) | ({x} >= 1)", "0.5", (), name="probability", finite=False)),
    **_all("arccos", Guard("abs({x}) >= 1", "0.0", (), name="cosine")),
    **_all("arcsin", Guard("abs({x}) >= 1", "0.0", (), name="sine")),
    **_all("arctanh erfinv", Guard("abs({x}) >= 1", "0.0", (), finite=False)),
    **_all("arccosh", Guard("{x} <= 1", "2.0")),
    **_all("reciprocal", Guard("{x} != 0", "1.0", ("0.0", "{inf}"), name="divisor", finite=False)),
    **_all("divide mod fmod", Guard("{x} != 0", "1.0", ("0.0", 'float("nan")', "{inf}"), 1, "divisor", finite=False)),
    **_all("xlogy", Guard("{x} <= 0", "1.0", ("0.0", "-{inf}"), 1)),
    **_all("xdivy", Guard("{x} != 0", "1.0", ("0.0", "{inf}"), 1, "divisor")),
    **_all("arctan2", Guard("({x} != 0) | ({y} != 0)", "1.0", ("0.0",), 1)),
    **_all("hypot", Guard("({x} != 0) | ({y} != 0)", "1.0")),
    **_all("power power_static", Guard("({x} != 0) | ({y} != 0)", "1.0", (), name="base"),
           Guard("{x} <= 0", "1.0", name="base", exact=False), Guard("{x} != 0", "1.0", name="base")),
    **_all("integer_power", Guard("({x} != 0) | ({y} != 0)", "1.0", (), name="base"),
           Guard("{x} != 0", "1.0", name="base")),
    **_all("exp exp2 expm1", Guard("{x} > 80", "80.0", ("{inf}",), name="exponent", finite=False, exact=False)),
    **_all("sinh cosh", Guard("abs({x}) > 80", "80.0", ("{inf}",), name="exponent", finite=False, exact=False)),
    **_all("norm euclidean_norm", Guard("{x} != 0", "1.0", name="vector", reduces=True)),
}  # fmt: skip
