"""A cotangent that knows which of its elements are dead.

A backward pass that is started with a `Masked` cotangent hands every operation on cotangents to ``__torch_dispatch__``,
whichever thread runs it, whereas what an operation multiplies them by arrives as a plain tensor. So the rules of
`linear` see the linear program of the backward pass, as it is run. Masks are worked out when they are needed, which is
where something is not finite: until then a `Ghost` keeps the operation that they follow from, without its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

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

    @property
    def eager(self) -> bool:
        """Whether masks are wanted at every step."""
        return self.exact or self.breaks is not None


class Ghost:
    """What is left of a cotangent without its value: its shape, and its masks or how they are made."""

    def __init__(
        self, value: Tensor, dead: Dead | None, run: Run, *, base: Ghost | None = None, blank: bool = False
    ) -> None:
        self.shape, self.dtype, self.device = value.shape, value.dtype, value.device
        self.run, self.base, self.blank = run, base, blank
        self.version = 0
        #: Whether nothing of it can be dead.
        self.clean = dead is not None and not dead and not blank
        self._dead = dead
        self._later: tuple[Call, Callable[[Call], Any], int | None] | None = None

    @classmethod
    def later(
        cls, value: Tensor, call: Call, masks: Callable[[Call], Any], number: int | None, *, clean: bool
    ) -> Ghost:
        """The ghost of a result (of that number, if there are several) whose masks are worked out on demand."""
        made = cls(value, None, call.run, base=call.operands[0] if masks.__name__ == "_view" else None)
        made.clean = clean
        made._later = call, masks, number
        return made

    @property
    def dead(self) -> Dead:
        """Masks in the shape of the cotangent, by what kills."""
        todo = [self]
        while todo:  # chains are longer than Python's stack
            ghost = todo[-1]
            waiting = [each for each in ghost._needed() if each._dead is None]
            todo.extend(waiting)
            if not waiting:
                todo.pop()._settle()
        assert self._dead is not None
        return self._dead

    def _needed(self) -> list[Ghost]:
        return self._later[0].operands if self._later and self._dead is None else []

    def _settle(self) -> None:
        if self._later is None or self._dead is not None:
            return
        call, masks, number = self._later
        self._later, self._dead = None, {}
        if call.is_stale():
            call.run.lost[call.name] = None
            return
        found = masks(call)
        self._dead = {
            key: each for key, mask in found.items()
            if (each := mask if number is None else mask[number]) is not None
        }  # fmt: skip


class Masked(Tensor):
    """A cotangent, and which elements of it are dead; outside of its backward pass an ordinary tensor."""

    value: Tensor
    ghost: Ghost

    @staticmethod
    def __new__(cls, value: Tensor, ghost: Ghost) -> Masked:
        """The same elements."""
        made: Masked = compat.alias(cls, value)
        run = ghost.run
        made.value, made.ghost = value, Ghost(value, {EVERY: value == 0}, run) if run.exact and not run.over else ghost
        return made

    #: What an operation of the backward pass makes of masked cotangents; ``linear`` has the rules.
    apply: ClassVar[Callable[..., Any]]
    __torch_function__ = compat.no_torch_function

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Masked({self.value!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        found = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Masked)]
        run, node = found[0].ghost.run, compat.current_node()
        if run.over or node is None:
            return func(*unmasked(args), **unmasked(kwargs))
        return cls.apply(func, args, kwargs, run, node)


def unmasked(tree: Any) -> Any:
    """The same with the values in place of masked cotangents."""
    return tree_map(lambda each: each.value if isinstance(each, Masked) else each, tree)


def _ghostly(tree: Any) -> Any:
    def each(leaf: Any) -> Any:
        if not isinstance(leaf, Masked):
            return leaf
        ghost = leaf.ghost  # what is written to a buffer later is none of this operation's business
        return Ghost(leaf.value, {}, ghost.run, blank=True) if ghost.blank else ghost

    return tree_map(each, tree)


class Call:
    """One operation of a backward pass on cotangents, of which it has the ghosts."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run, node: Node) -> None:
        self.func, self.run, self.node = func, run, node
        self.name = str(func.name()).partition("::")[2].partition(".")[0]
        self.in_place = self.name.endswith("_") and not self.name.endswith("__")
        self.args, self.kwargs = _ghostly(args), _ghostly(kwargs)
        leaves = tree_flatten((self.args, self.kwargs))[0]
        self.operands: list[Ghost] = [each for each in leaves if isinstance(each, Ghost)]
        self.residuals: list[Tensor] = [each for each in leaves if isinstance(each, Tensor)]
        self._versions = self._seen()

    def _seen(self) -> list[int]:
        return [t.version for t in self.operands] + [t._version for t in self.residuals if not t.is_inference()]

    def is_stale(self) -> bool:
        """Whether something was written meanwhile that the masks depend on."""
        return self._seen() != self._versions

    def over(
        self,
        cotangent: Callable[[Ghost], Any],
        residual: Callable[[Tensor], Any] = lambda t: t,
        *,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the operation makes of other operands."""

        def each(leaf: Any) -> Any:
            if isinstance(leaf, Ghost):
                return cotangent(leaf)
            return residual(leaf) if isinstance(leaf, Tensor) else leaf

        return self.func(*tree_map(each, self.args), **tree_map(each, self.kwargs if kwargs is None else kwargs))

    def killers(self) -> list[Node | None]:
        """Everything that has killed an element of an operand."""
        return list(dict.fromkeys(key for operand in self.operands for key in operand.dead))
