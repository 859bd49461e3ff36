"""What a framework is: how it names and writes the operations, and how a child process runs them.

The name tables: a line ``[jax.nn]`` says which namespaces have the names below it, a line ``operands: names`` how these
are called. An operand is its accepted keywords joined by ``|``, with ``=default`` where the call may omit it and ``-``
for a positional argument that is no operand; a name is ``name`` or ``name=operation``. The receiver of a method is its
first operand.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt


class DeviceError(Exception):
    """The device that was asked for is not there; the message says what to do."""


class Result(NamedTuple):
    """The value of a routine and the gradient of its sum for each differentiated parameter, at every probe."""

    value: npt.NDArray[Any]
    gradients: list[npt.NDArray[Any]]


Function = Callable[..., Any]
#: ``mode(routine, parameters, watched)`` runs a routine; ``watched`` are the differentiated parameters.
Mode = Callable[[Function, Sequence[Any], Sequence[int]], Result]


def missing(device: str, framework: str, remedy: str) -> DeviceError:
    """That there is no such device, and what to do."""
    return DeviceError(f"{framework} sees no {device.upper()}: {remedy}, or use --device auto")


def named(platform: str, kind: str) -> str:
    """What a report calls a device."""
    return platform if platform == "cpu" or not kind else f"{platform} ({kind})"


@dataclass(frozen=True)
class Signature:
    """How a framework spells an operation: ``operands`` are the accepted keyword names, in positional order."""

    op: str
    operands: tuple[tuple[str, ...], ...]
    #: Values of the trailing operands when the call omits them.
    defaults: tuple[float, ...] = ()


def names(text: str, in_place: Container[str] = ()) -> dict[str, Signature]:
    """The signatures in a table; ``in_place``: namespaces where a name with ``_`` at its end stands without it, too."""
    found: dict[str, Signature] = {}
    for section in text.strip().split("[")[1:]:
        head, _, lines = section.partition("]")
        for prefix in head.split():
            for line in lines.strip().split("\n"):
                left, _, right = line.partition(":")
                parts = [operand.partition("=") for operand in left.split()]
                operands = tuple(() if keywords == "-" else tuple(keywords.split("|")) for keywords, _, _ in parts)
                defaults = tuple(float(default) for _, equals, default in parts if equals)
                for word in right.split():
                    name, _, op = word.partition("=")
                    base = name.rstrip("_")
                    for each in dict.fromkeys((base, name) if prefix in in_place else (base,)):
                        if f"{prefix}.{each}" in found:
                            raise ValueError(f"{prefix}.{each} is listed twice")
                        found[f"{prefix}.{each}"] = Signature(op or base, operands, defaults)
    return found


def helpers(namespace: str, concat: str, axis: str, keep: str) -> dict[str, str]:
    """The functions that templates call; ``keep``: how ``x[mask]`` is computed."""
    return {
        "join": f'''
def join(*parts):
    """The parts side by side along the last axis."""
    zeros = sum({namespace}.zeros_like(part) for part in parts)
    return {namespace}.{concat}([part + zeros for part in parts], {axis}=-1)
''',
        "nth": f'''
def nth(index, *parts):
    """One of several parts, out of the array that they make."""
    zeros = sum({namespace}.zeros_like(part) for part in parts)
    return {namespace}.stack([part + zeros for part in parts])[index]
''',
        "keep": f'''
def keep(mask, x):
    """x[mask] in a fixed shape: an element that is dropped repeats the first one that is kept."""
{keep}''',
    }


@dataclass(frozen=True)
class Framework:
    """All that is particular to a framework but its derivatives, which the catalogue has, and its transformations."""

    name: str
    #: Its top-level packages: a name below one of them is its own.
    packages: tuple[str, ...]
    #: What it calls the operations of the catalogue.
    names: Mapping[str, Signature]
    #: Where ``where`` and its like are, for a fix.
    namespace: str
    #: The class whose methods ``names`` has, too; none where a tensor's methods are other functions.
    methods: str | None = None
    #: Classes whose objects call a function.
    layers: Mapping[str, str] = field(default_factory=dict)
    #: Strings, beside ``packages``, of which one stands in every file that uses it.
    markers: tuple[str, ...] = ()
    #: Other spellings of modules and names, and names that other packages re-export from a module.
    aliases: Mapping[str, str] = field(default_factory=dict)
    reexports: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    #: Modules of functions of arrays, alone or with all below them; what else there is (files, devices, callbacks) may
    #: have effects.
    arrays: str = ""
    arrays_below: str = ""
    #: Modules in which everything draws random numbers, and what draws by a key though it is named like that.
    random: tuple[str, ...] = ()
    keyed: str = ""
    #: ``any`` and its flag that keeps the axis; the number infinity.
    any_of: tuple[str, str] = ("any", "keepdims")
    infinity: str = "{namespace}.inf"
    #: The derivatives that fail wherever the others do, if it has several.
    compiled: str | None = None

    #: For ``--confirm`` and scripts. Packages of the index whose versions count.
    distributions: tuple[str, ...] = ()
    #: The imports of a script, each with what has to stand in it for the import to be needed.
    imports: Mapping[str, str] = field(default_factory=dict)
    #: How operations are written that are not simply called, and the helpers that need definitions.
    templates: str = ""
    helpers: Mapping[str, str] = field(default_factory=dict)
    #: Whether functions take numbers for tensors.
    takes_numbers: bool = True
    #: Operations whose results are saved for the backward pass, which raises where something was written into one.
    saved: frozenset[str] = frozenset()
    #: The function ``report`` of a script, an array, and one with respect to which it differentiates.
    report: str = ""
    literal: str = "{}"
    parameter: str = ""
    #: ``backend(device)`` is the framework's version, the device, and the ways of running it. Raises DeviceError.
    backend: Callable[[str], tuple[str, str, dict[str, Mode]]] | None = None
