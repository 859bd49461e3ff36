"""What an operation of the catalogue is.

Arrays have the shape (probes, lanes): every probe is one input to try, the lanes stand for the elements of an array.
An operation that is constant along the lanes may return (probes, 1); NumPy broadcasting joins the two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:  # the screen reads the catalogue without NumPy
    Array = Any
#: ``vjp(ct, out, *operands)`` -> one cotangent an operand (None: the operand is not differentiated). Cotangents have
#: the broadcast shape of operands and output; the caller sums them back to the operand's own shape.
Vjp = Callable[..., "tuple[Array | None, ...]"]


@dataclass(frozen=True)
class Domain:
    """One way to guard an operation by its operand ``{x}``; ``{y}`` is the other operand, ``{abs}`` the modulus.

    A condition says where it is regular by ``!=``, and where it is singular by an ordering: both let nan through, which
    is unequal to everything and in no order.
    """

    condition: str
    safe: str
    #: What the operation's value is where it is singular, the likelier first.
    outside: tuple[str, ...] = ("0.0",)
    operand: int = 0
    #: What the operand is called if it needs a name.
    name: str = "argument"
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


@dataclass(frozen=True)
class Operation:
    """One entry of the catalogue: all that is known of an operation but its names, which the frameworks give it."""

    name: str
    forward: Callable[..., Array]
    vjp: Vjp
    #: VJPs that differ: by "jax", "torch", "tensorflow" (eager) or "xla" (TensorFlow compiled; falls back on
    #: "tensorflow").
    variants: Mapping[str, Vjp] = field(default_factory=dict)
    #: Forwards that differ, by "jax", "torch" or "tensorflow".
    forwards: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    #: The WL1xx rule that reports this operation when it turns a zero cotangent into nan; None for a smooth one.
    code: str | None = None
    #: Where it is singular, as a phrase, and what a message calls it.
    place: str = ""
    spoken: str = ""
    #: Operand tuples at which it is singular, overflows, or leaves its domain; the search aims at the first operands.
    singular: tuple[tuple[float, ...], ...] = ()
    #: For each operand a value that is regular (what the fix substitutes); None where any value is.
    safe: tuple[float | None, ...] = ()
    #: Selections: ``unselected(*operands)`` gives, for each operand, the mask of the elements whose value is dropped
    #: (None: never dropped). Under symbolic-zero arithmetic no cotangent flows there.
    unselected: Callable[..., tuple[Array | None, ...]] | None = None
    #: True where the operation combines the lanes; its output then has the shape (probes, 1) or mixes lanes.
    mixes: bool = False
    #: The kind of selection that it is (``traits.SELECTIONS``).
    selects: str | None = None
    #: The result's kind: "same" is an integer where the operands are.
    result: Literal["float", "same", "int", "bool"] = "float"
    #: Whether it is singular where an operand, the divisor, is 0; whether its gradient is 0 almost everywhere.
    quotient: bool = False
    piecewise: bool = False
    #: By framework, the elements at which it raises: there is no value, and no gradient to lose.
    raises: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    #: Operands that the frameworks want as numbers of Python.
    numbers: tuple[int, ...] = ()
    #: How a fix may guard it by its own operands, the better way first.
    domains: tuple[Domain, ...] = ()

    def computes(self, framework: str | None) -> Callable[..., Array]:
        """The forward of a framework."""
        return self.forwards.get(framework or "", self.forward)
