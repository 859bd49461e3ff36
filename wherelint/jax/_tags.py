"""Which operation of the program each linear equation comes from: names, kinds of selections, and places.

A linear equation says ``mul``, whatever was differentiated. So the program is evaluated equation by equation, each in a
name scope of its own, which JAX hands on to what it derives from the equation.
"""

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax

import wherelint
from wherelint.companion import Place
from wherelint.companion.frames import calling, is_library, place
from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._evaluate import Evaluation
from wherelint.jax._primitives import CATALOGUE
from wherelint.ops import OPERATIONS, SIGNATURES

_TAG = re.compile(r"wherelint(\d+)_")
_JAX = os.path.dirname(jax.__file__) + os.sep
_OWN = os.path.dirname(wherelint.__file__) + os.sep
#: Parts of JAX that are libraries in their own right: a fault in there is not the caller's.
_PARTS = re.compile(r"[/\\](scipy|nn|linalg|random|image|experimental|optimizers)\b")
#: Selections by the name of the function of JAX, or the primitive, that makes the zero.
_KINDS = {
    "_where": "where", "where": "where", "select_n": "where",
    "clip": "clip", "nan_to_num": "nan_to_num", "relu": "relu",
    "relu6": "relu6", "max": "maximum", "min": "minimum", "maximum": "maximum", "minimum": "minimum", "mul": "multiply",
    "dot_general": "multiply", "scatter": "assignment", "dynamic_update_slice": "assignment", "sum": "reduction",
    "_reduce_sum": "reduction", "mean": "reduction", "_mean": "reduction", "reduce_max": "maximum",
    "reduce_min": "minimum", "_piecewise": "where", "select": "where", "clamp": "clip", "cond": "cond",
}  # fmt: skip
#: The catalogue's operations by the name of the function of JAX.
FUNCTIONS = {
    name.rpartition(".")[2]: signature.op
    for name, signature in SIGNATURES.items()
    if name.startswith("jax.") and OPERATIONS[signature.op].code
}


@dataclass(frozen=True)
class Origin:
    """An equation of the program, and those that it lies in, the outermost first."""

    path: Path
    eqn: JaxprEqn
    #: Who asked, for what lies in a library altogether.
    caller: Place | None

    @property
    def op(self) -> str:
        """The catalogue's name of the operation, of the function of JAX that it is a part of, or the primitive's."""
        for name in (*self._functions(), self._rule()):
            if name.lstrip("_") in FUNCTIONS:
                return FUNCTIONS[name.lstrip("_")]
        primitive = str(self.eqn.primitive.name)
        return CATALOGUE.get(primitive) or self._rule() or primitive

    @property
    def kind(self) -> str:
        """What kind of selection it is."""
        for name in (*self._functions(), self._rule(), str(self.eqn.primitive.name)):
            if name in _KINDS:
                return _KINDS[name]
        # In the derivative of a quotient or a power, a factor may be 0.
        return "multiply" if str(self.eqn.primitive.name) in CATALOGUE else "index"

    def _functions(self) -> list[str]:
        """The functions of JAX that it lies in, the outermost first."""
        return [str(eqn.params["name"]) for eqn in self.path if "name" in eqn.params and _file_of(eqn).startswith(_JAX)]

    def _rule(self) -> str:
        """The name of a function with a reverse rule of its own."""
        inner = _compat.programs(self.eqn) if str(self.eqn.primitive.name).startswith("custom") else []
        return _compat.function(inner[0])[0] if inner else ""

    def places(self) -> tuple[Place | None, Place | None]:
        """Where it stands in the program, and in the library, if the fault is that library's."""
        frames = self._frames()
        outside = [p for p in frames if not p.filename.startswith((_OWN, _JAX))]
        own = next((p for p in outside if not is_library(p.filename)), self.caller)
        first = next((p for p in frames if p in outside or _PARTS.search(p.filename)), None)
        return own, None if first == own else first

    def _frames(self) -> list[Place]:
        """Frames from the operation outwards; of a jitted function those inside of it, whoever traced it first."""
        found: list[Place] = []
        for eqn, outer in zip((self.eqn, *reversed(self.path)), (*reversed(self.path), None), strict=True):
            places = _compat.frames(eqn)
            if outer is not None and str(outer.primitive.name) in ("jit", "pjit"):
                places = _inside(places, _file_of(outer), str(outer.params.get("name", "")))
            found += places
        return found


def _inside(places: list[Place], filename: str, name: str) -> list[Place]:
    """The places up to a function; its file is not known where JAX has batched it."""
    for i, each in enumerate(places):
        if each.function.endswith(name) and (not filename or each.filename == filename):
            return places[: i + 1]
    return places


def in_jax(at: Place) -> bool:
    """Whether it is a place in JAX."""
    return at.filename.startswith(_JAX)


def _file_of(eqn: JaxprEqn) -> str:
    inner = _compat.programs(eqn)
    return _compat.function(inner[0])[1] if inner else ""


def _caller() -> Place:
    """The line outside of wherelint that is being run."""
    at = place(calling((_OWN,))[0])
    return Place(at.filename, at.row, function=at.function)


class Tags(Evaluation):
    """A program whose equations are numbered."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        super().__init__()
        self._program = closed
        self._caller = _caller()
        self._origins: list[Origin] = []

    def __call__(self, *inputs: Any) -> list[Any]:
        """What the program computes."""
        return self.run(self._program, inputs)

    def origin(self, eqn: JaxprEqn, path: Sequence[JaxprEqn] = ()) -> Origin:
        """Where a derived equation comes from."""
        for each in (eqn, *reversed(path)):
            if tags := _TAG.findall(str(each.source_info.name_stack)):
                return self._origins[int(tags[-1])]
        return Origin(tuple(path), eqn, self._caller)

    def equation(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        if eqn.primitive.name != "cond":  # which is a selection that holds others
            return super().equation(eqn, operands, path)
        with self._numbered(eqn, path):
            return super().equation(eqn, operands, path)

    def one(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        with self._numbered(eqn, path):
            return super().one(eqn, operands, path)

    def _numbered(self, eqn: JaxprEqn, path: Path) -> AbstractContextManager[None]:
        self._origins.append(Origin(path, eqn, self._caller))
        return jax.named_scope(f"wherelint{len(self._origins) - 1}_")
