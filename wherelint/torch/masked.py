"""A cotangent that knows which of its elements are dead.

A backward pass that is started with a `Masked` cotangent hands every operation on cotangents to ``__torch_dispatch__``,
whichever thread runs it, whereas what an operation multiplies them by arrives as a plain tensor. So the rules of
`linear` see the linear program of the backward pass, as it is run. Masks are worked out when they are needed, which is
where something is not finite: until then a `Ghost` keeps the operation that they follow from, without its values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import Node

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
    #: Nodes that the pass does not go through.
    ends: frozenset[Node] = frozenset()

    @property
    def eager(self) -> bool:
        """Whether masks are wanted at every step."""
        return self.exact or self.breaks is not None


class Ghost:
    """What is left of a cotangent without its value: its shape, and its masks or how they are made."""

    __slots__ = ("_dead", "_later", "base", "blank", "clean", "device", "dtype", "run", "shape", "stride", "version")

    def __init__(
        self, value: Tensor, dead: Dead | None, run: Run, *, base: Ghost | None = None, blank: bool = False
    ) -> None:
        self.shape, self.stride, self.dtype, self.device = value.shape, value.stride(), value.dtype, value.device
        self.run, self.base, self.blank = run, base, blank
        self.version = 0
        #: Whether nothing of it can be dead.
        self.clean = dead is not None and not dead and not blank
        self._dead = dead
        self._later: tuple[Call, Callable[[Call], Any], int | None] | None = None

    @classmethod
    def later(
        cls, value: Tensor, call: Call, masks: Callable[[Call], Any], number: int | None, base: Ghost | None
    ) -> Ghost:
        """The ghost of a result (of that number, if there are several) whose masks are worked out on demand."""
        result = cls(value, None, call.run, base=base)
        result._later = call, masks, number
        return result

    @property
    def dead(self) -> Dead:
        """Masks in the shape of the cotangent, by what kills."""
        todo = [self]
        while todo:  # chains are longer than Python's stack
            ghost = todo[-1]
            needed = ghost._later[0].operands if ghost._later and ghost._dead is None else ()
            waiting = [each for each in needed if each._dead is None]
            todo.extend(waiting)
            if not waiting:
                todo.pop()._settle()
        assert self._dead is not None
        return self._dead

    def with_strides(self, mask: Tensor) -> Tensor:
        """A mask with the strides of the cotangent: what views the one can view the other."""
        if mask.stride() == self.stride or mask.shape != self.shape:
            return mask
        for axis, step in enumerate(self.stride):
            if not step and mask.shape[axis] > 1:  # one element in memory
                mask = mask.bool().all(axis, keepdim=True).to(mask.dtype)
        result = torch.empty_strided(mask.shape, self.stride, dtype=mask.dtype, device=mask.device)
        return result.copy_(mask).expand(self.shape)

    def dead_by(self, key: Node | None) -> Tensor:
        """The mask of one key; nothing is dead by a key that there is none for."""
        return self.dead.get(key, torch.zeros(self.shape, dtype=torch.bool, device=self.device))

    def _settle(self) -> None:
        if self._later is None or self._dead is not None:
            return
        call, masks, number = self._later
        self._later, self._dead = None, {}
        if call.is_stale():
            call.run.lost[call.name] = None
            return
        found = ((key, mask if number is None else mask[number]) for key, mask in call.masks(masks).items())
        self._dead = {key: mask for key, mask in found if mask is not None}


class Masked(Tensor):
    """A cotangent, and which elements of it are dead; outside of its backward pass an ordinary tensor."""

    value: Tensor
    ghost: Ghost

    @staticmethod
    def __new__(cls, value: Tensor, ghost: Ghost) -> Masked:
        """The same elements."""
        result: Masked = compat.alias(cls, value)
        run = ghost.run
        result.value, result.ghost = (
            value,
            Ghost(value, {EVERY: value == 0}, run) if run.exact and not run.over else ghost,
        )
        return result

    #: What an operation of the backward pass makes of masked cotangents; ``linear`` has the rules.
    apply: ClassVar[Callable[..., Any]]
    __torch_function__ = compat.no_torch_function

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Masked({self.value!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        call = Call(func, args, kwargs or {})
        run = call.run
        if run.over or call.node is None:
            return call.value()
        return cls.apply(call, args[0] if call.in_place else None)


class Call:
    """One operation of a backward pass on cotangents: their values for now, and their ghosts for later."""

    args: list[Any]
    kwargs: dict[str, Any]

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.func = func
        self.node: Any = compat.current_node()  # None outside of a backward pass
        self.name, self.in_place = _named(func)
        self.operands: list[Ghost] = []
        self.cotangents: list[Tensor] = []
        self.residuals: list[Tensor] = []
        self._given: tuple[Any, Any] = args, kwargs
        self._plain_args = [self._plain(each) for each in args]
        self._plain_kwargs = {key: self._plain(each) for key, each in kwargs.items()}
        self.run = self.operands[0].run

    def _plain(self, tree: Any) -> Any:
        """The tree with their values in place of masked cotangents."""
        if isinstance(tree, Masked):
            ghost = tree.ghost
            if ghost.blank:  # what is written to a buffer later is none of this operation's business
                ghost = Ghost(tree.value, {}, ghost.run, base=ghost, blank=True)
            self.operands.append(ghost)
            self.cotangents.append(tree.value)
            return tree.value
        if isinstance(tree, Tensor):
            self.residuals.append(tree)
        elif isinstance(tree, list):
            return [self._plain(each) for each in tree]
        return tree

    def value(self) -> Any:
        """What the operation makes of the values."""
        return self.func(*self._plain_args, **self._plain_kwargs)

    def masks(self, rule: Callable[[Call], Any]) -> dict[Any, Any]:
        """The masks of the result; none where torch refuses to do to masks what it does to numbers."""
        try:
            found: dict[Any, Any] = rule(self)
        except (RuntimeError, IndexError):
            self.run.lost[self.name] = None
            return {}
        return found

    def keep_ghosts(self) -> None:
        """From now on ``args`` and ``kwargs`` have the ghosts in place of masked cotangents."""
        ghosts = iter(self.operands)

        def ghostly(tree: Any) -> Any:
            if isinstance(tree, Masked):
                return next(ghosts)
            return [ghostly(each) for each in tree] if isinstance(tree, list) else tree

        args, kwargs = self._given
        self.args, self.kwargs = [ghostly(each) for each in args], {key: ghostly(kwargs[key]) for key in kwargs}
        self._given = (), {}
        self._versions = self._seen()

    def forget(self) -> None:
        """Let go of the values of other operands, of which the masks need no more than the shapes."""
        if self.residuals:
            self.args, self.kwargs = (_mapped(tree, lambda leaf: leaf, _hollow) for tree in (self.args, self.kwargs))
            self.residuals = [_hollow(each) for each in self.residuals]
            self._versions = self._seen()

    def settle(self) -> None:
        """Let go of the values of the cotangents."""
        self.cotangents, self._plain_args, self._plain_kwargs = [], [], {}

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
        """What the operation makes of other operands, which lie in memory as the cotangents do."""

        def as_laid_out(ghost: Ghost) -> Any:
            return ghost.with_strides(cotangent(ghost))

        return self.func(
            *_mapped(self.args, as_laid_out, residual),
            **_mapped(self.kwargs if kwargs is None else kwargs, as_laid_out, residual),
        )

    def killers(self) -> list[Node | None]:
        """Everything that has killed an element of an operand."""
        return list(dict.fromkeys(key for operand in self.operands for key in operand.dead))


@functools.cache
def _named(func: Any) -> tuple[str, bool]:
    """The name of an operation, and whether it writes its first operand."""
    name = str(func.name()).partition("::")[2].partition(".")[0]
    return name, name.endswith("_") and not name.endswith("__")


def _mapped(tree: Any, ghost: Callable[[Ghost], Any], tensor: Callable[[Tensor], Any]) -> Any:
    """Other operands: a pytree of torch would take most of the time."""
    if isinstance(tree, Ghost):
        return ghost(tree)
    if isinstance(tree, Tensor):
        return tensor(tree)
    if isinstance(tree, list):
        return [_mapped(each, ghost, tensor) for each in tree]
    if isinstance(tree, dict):
        return {key: _mapped(each, ghost, tensor) for key, each in tree.items()}
    return tree


def _hollow(value: Tensor) -> Tensor:
    """A tensor of that shape which holds no memory."""
    return torch.empty((), dtype=value.dtype, device=value.device).expand(value.shape)
