"""What an expression of the linted program can be, besides a node of the graph.

Python numbers, strings, None, tuples, lists and dicts stand for themselves (they are static: known from the source).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

from wherelint.frontend.module import Block, Module
from wherelint.frontend.syntax import FunctionDef, below
from wherelint.graph.node import Leaf, Node

#: Static values stand for themselves: numbers, strings, None, ``...``, containers.
Value: TypeAlias = (
    "Node | bool | int | float | str | bytes | EllipsisType | list[Value] | tuple[Value, ...]"
    " | dict[Any, Value] | Settled | Shape | Method | Dotted | Function | Class | Instance | Super | Bound"
    " | Partial | Handler | Missing | None"
)
Args = Sequence[Value]
Kwargs = dict[str, Value]
Definition = FunctionDef | ast.Lambda


class Scope:
    """Local variables, and the scope around them."""

    def __init__(self, module: Module, parent: Scope | None = None) -> None:
        self.module = module
        self.parent = parent
        self.names: dict[str, Value] = {}
        #: Names that ``nonlocal`` or ``global`` gave away.
        self.outer: set[str] = set()
        #: What the values of a file's top level held when they were made.
        self.contents: dict[str, Contents] = {}

    def bind(self, name: str, value: Value) -> None:
        """Assign to a variable, in the scope that it belongs to."""
        scope = self
        if name in self.outer:
            while scope.parent is not None and (scope is self or name not in scope.names):
                scope = scope.parent
        scope.names[name] = value

    def find(self, name: str) -> Value:
        """The value bound to a name, or MISSING."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return MISSING

    def local(self, name: str) -> Value:
        """The value that a function around binds to a name, or MISSING."""
        scope = self
        while scope.parent is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return MISSING


class Missing(Enum):
    """The one value of a name that is not bound, and of a call about which nothing is known."""

    MISSING = 0


MISSING = Missing.MISSING


class Origin(NamedTuple):
    """Where a node was written: enough to report it, without computing any position before that."""

    block: Block
    node: ast.AST
    function: str
    #: In another file than the one that is checked: the call there that led to it.
    call: Origin | None = None


@dataclass(frozen=True)
class Dotted:
    """Something that lives outside the file, by its canonical name: ``jax.numpy.where``."""

    name: str


@dataclass(eq=False)
class Function:
    """A function or lambda of the project, with the scope it closes over."""

    definition: Definition
    scope: Scope
    block: Block
    name: str
    owner: Class | None = None
    #: Whether it was called, so that its body has been lowered with real arguments.
    called: bool = False
    #: True where reverse mode does not run through the body: custom rules, ``autograd.Function``.
    opaque: bool = False
    #: True for a primal: it may be lowered for its value all the same.
    custom_value: bool = False
    #: True for the rule of a ``custom_jvp`` function: it is transposed, with its last parameter as the variable.
    jvp_rule: bool = False
    #: The last part of what each decorator is called.
    decorators: frozenset[str] = frozenset()
    #: Predicates that held where it was defined.
    path_conditions: tuple[Node, ...] = ()


@dataclass(eq=False)
class Class:
    """A class of the project."""

    definition: ast.ClassDef
    scope: Scope
    block: Block
    name: str
    bases: tuple[Value, ...] = ()
    members: dict[str, Value] = field(default_factory=dict)
    #: What methods are called on that nobody calls, of either strictness.
    receivers: dict[bool, Instance] = field(default_factory=dict)

    def ancestry(self) -> Iterator[Class]:
        """The class and its bases that the project defines, nearest first."""
        todo, seen = [self], set[int]()
        while todo:
            cls = todo.pop()
            if id(cls) not in seen:
                seen.add(id(cls))
                yield cls
                todo += [base for base in reversed(cls.bases) if isinstance(base, Class)]


@dataclass(eq=False)
class Instance:
    """An object of a class of the project; attributes are known once something assigned them."""

    cls: Class
    name: str
    attributes: dict[str, Value] = field(default_factory=dict)
    #: Predicates that the constructor made sure of.
    path_conditions: tuple[Node, ...] = ()
    #: Whether it may be any object of its class.
    stands_for_any: bool = False
    #: What the constructor left in it and its parts.
    contents: Contents | None = None
    #: The inputs that it read, by what they are told apart by, and what that needs to exist.
    read: tuple[Mapping[object, Leaf], Mapping[int, object]] = field(default=({}, {}))


class Contents:
    """What the lists, dictionaries and objects hold that a value is made of: a cache, say, or what a method writes."""

    def __init__(self, value: Value) -> None:
        containers = (part.attributes if isinstance(part, Instance) else part for part in _inside(value))
        self._held: list[tuple[Any, Any]] = [
            (each, each.copy()) for each in containers if isinstance(each, (list, dict))
        ]

    def __bool__(self) -> bool:
        return bool(self._held)

    def put_back(self) -> None:
        """Make it hold what it held: no function reads what another one has left there."""
        for held, before in self._held:
            held.clear()
            held.update(before) if isinstance(held, dict) else held.extend(before)


@dataclass(frozen=True, eq=False)
class Super:
    """``super()``: the receiver, whose methods are looked up from a base class on."""

    receiver: Instance
    cls: Class


@dataclass(frozen=True, eq=False)
class Bound:
    """A method with its receiver."""

    function: Function
    receiver: Value


@dataclass(frozen=True, eq=False)
class Partial:
    """``functools.partial``, or a transformation that fixes some arguments."""

    function: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Method:
    """An attribute of a value, not yet called: ``x.sqrt``, ``items.append``."""

    receiver: Value
    name: str
    text: str


@dataclass(frozen=True, eq=False)
class Element(Method):
    """``x.at[i]``: elements of an array that a method reads, or writes into a copy."""

    subscript: ast.Subscript


@dataclass(frozen=True, eq=False)
class Handler:
    """A callable that the lowering itself provides (the setter of ``x.at[i]``, a loss object ...)."""

    call: Callable[..., Value]


@dataclass(frozen=True, eq=False)
class Shape:
    """``x.shape``: integers, whatever is read of it."""

    of: str


class DefaultInt(int):
    """An integer that is a default."""

    node: Node


class DefaultFloat(float):
    """A number that is a default."""

    node: Node


DEFAULTS = (DefaultInt, DefaultFloat)
#: What is called, and is no number.
CALLABLES = (Function, Class, Dotted, Handler)


@dataclass(frozen=True, eq=False)
class Settled:
    """A comparison of defaults: as a value what it is by default, as the condition of a branch open."""

    truth: bool
    node: Node


def _inside(*values: Value) -> Iterator[Value]:
    """Some values and all that is in them, in order: items of containers and attributes of objects."""
    todo, seen = list(values), set[int]()
    while todo:
        value = todo.pop(0)
        yield value
        held = value.attributes if isinstance(value, Instance) else value
        held = [held.node] if isinstance(held, Settled) else held
        if isinstance(held, (tuple, list, dict)) and id(held) not in seen:  # they may be in themselves
            seen.add(id(held))
            todo[:0] = held.values() if isinstance(held, dict) else held


def nodes_in(*values: Value) -> Iterator[Node]:
    """Every graph node inside some values."""
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (tuple, list, dict, Instance, Settled)):
            yield from (each for each in _inside(value) if isinstance(each, Node))


def closed_over(*values: Value) -> Iterator[Node]:
    """Every graph node that functions among some values close over: whoever calls them computes with it."""
    todo: list[Value] = [value for value in values if not isinstance(value, Node)]
    seen = set[int]()
    while todo:
        value = todo.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        held: Iterable[Value] = ()
        if isinstance(value, Function):
            held = [value.scope.local(name) for name in value.block.chunk.once(_read, value.definition)]
        elif isinstance(value, (Partial, Bound)):
            held = vars(value).values()
        elif isinstance(value, (tuple, list, dict)):
            todo += value.values() if isinstance(value, dict) else value
        yield from nodes_in(*held)
        todo += held


def _read(definition: Definition) -> list[str]:
    """The names that a function reads and does not bind itself."""
    names = [n for n in below([definition]) if isinstance(n, ast.Name)]
    given = definition.args
    own = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    own.update(a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if a)
    return list(dict.fromkeys(n.id for n in names if n.id not in own))
