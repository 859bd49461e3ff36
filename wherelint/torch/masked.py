"""A cotangent that knows which of its elements are dead.

A backward pass that is started with a `Masked` cotangent hands every operation on cotangents to ``__torch_dispatch__``,
whichever thread runs it, whereas what an operation multiplies them by arrives as a plain tensor. So the rules of
`linear` see the linear program of the backward pass, as it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._pytree import tree_flatten, tree_map

from wherelint.torch import compat

#: Dead masks by what kills: every selection together, or one node of the graph alone.
Dead = dict[Node | None, Tensor]
#: The key of every selection together.
EVERY = None


@dataclass(frozen=True)
class Break:
    """Where a backward pass multiplied a dead or finite cotangent by something that is not finite.

    ``elements`` is a mask in the shape of the result; ``killer`` is the innermost selection that would drop them alone.
    """

    node: Node
    elements: Tensor
    killer: Node | None
    genuine: bool


@dataclass
class Run:
    """One backward pass: what it is to note, and what it could not follow."""

    #: A cotangent of exactly 0 counts as dead, whatever made it.
    exact: bool = False
    #: Whose dead elements are told apart; None if nobody asks.
    killers: frozenset[Node] | None = None
    breaks: list[Break] | None = None
    #: Operations through which dead masks could not be followed.
    lost: dict[str, None] = field(default_factory=dict)
    over: bool = False


class Masked(Tensor):
    """A cotangent, and which elements of it are dead; outside of its backward pass an ordinary tensor."""

    value: Tensor
    dead: Dead
    run: Run
    #: What it is a view of, which has the same masks.
    base: Masked | None
    #: A buffer that nothing was written to yet.
    blank: bool

    @staticmethod
    def __new__(cls, value: Tensor, dead: Dead, run: Run, *, base: Masked | None = None, blank: bool = False) -> Masked:
        """The same elements; ``dead`` has masks of its shape."""
        made: Masked = compat.alias(cls, value)
        made.value, made.run, made.base, made.blank = value, run, base, blank
        made.dead = {EVERY: value == 0} if run.exact and not run.over else dead
        return made

    __torch_function__ = compat.no_torch_function

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Masked({self.value!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        from wherelint.torch.linear import apply

        kwargs = dict(kwargs or {})
        operands = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Masked)]
        run, node = operands[0].run, compat.current_node()
        if run.over or node is None:
            return func(*plain(args), **plain(kwargs))
        return apply(Call(func, args, kwargs, operands, run, node))


def plain(tree: Any) -> Any:
    """The same with the values in place of masked cotangents."""
    return tree_map(lambda each: each.value if isinstance(each, Masked) else each, tree)


@dataclass(frozen=True)
class Call:
    """One operation of a backward pass on masked cotangents."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    operands: list[Masked]
    run: Run
    node: Node

    @property
    def name(self) -> str:
        """``where`` of ``aten::where.self``; in-place forms have the name of the others."""
        return str(self.func.name()).partition("::")[2].partition(".")[0]

    @property
    def in_place(self) -> bool:
        """Whether the first operand is written."""
        return self.name.endswith("_") and not self.name.endswith("__")

    def value(self) -> Any:
        """What the operation makes of the values."""
        return self.func(*plain(self.args), **plain(self.kwargs))

    def over(self, replace: Callable[[Tensor, bool], Any], *, kwargs: Mapping[str, Any] | None = None) -> Any:
        """What it makes of other operands: ``replace(tensor, masked)`` gives the one in the place of each tensor."""

        def each(operand: Any) -> Any:
            return replace(operand, isinstance(operand, Masked)) if isinstance(operand, Tensor) else operand

        return self.func(*tree_map(each, self.args), **tree_map(each, self.kwargs if kwargs is None else kwargs))

    def killers(self) -> list[Node | None]:
        """Everything that has killed an element of an operand."""
        return list(dict.fromkeys(key for operand in self.operands for key in operand.dead))
