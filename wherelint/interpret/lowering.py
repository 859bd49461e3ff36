"""Lowers one function: dispatches to the handlers that are registered here, and chooses between values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from wherelint.frameworks import framework_of
from wherelint.graph.node import Call, Leaf, Node, Static
from wherelint.interpret import defaults
from wherelint.interpret.builder import Builder
from wherelint.interpret.values import CALLABLES, DEFAULTS, MISSING, Args, Dotted, Kwargs, Method, Settled, Shape, Value

#: How each kind of expression and statement is lowered; a statement's handler says whether control does not go on.
EXPRESSIONS: dict[type, Callable[..., Value]] = {}
STATEMENTS: dict[type, Callable[..., bool]] = {}
#: How each kind of value is called, from it and the call; that of ``object`` is the last resort.
CALLS: dict[type, Callable[..., Value]] = {}
#: What functions of the frameworks and of Python do, by canonical name.
FUNCTIONS: dict[str, Callable[..., Value]] = {}
#: What methods do, of tensors and of Python's containers.
METHODS: dict[str, Callable[..., Value]] = {}
CONTAINER_METHODS: dict[str, Callable[..., Value]] = {}

_Key = TypeVar("_Key")
_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Executor = TypeVar("_Executor", bound=Callable[..., bool])


def expression(*nodes: type) -> Callable[[_Handler], _Handler]:
    """Register a handler for kinds of expressions; it gives their value."""
    return _register(EXPRESSIONS, nodes)


def statement(*nodes: type) -> Callable[[_Executor], _Executor]:
    """Register a handler for kinds of statements; it says whether control does not go on."""
    return _register(STATEMENTS, nodes)


@dataclass(eq=False, slots=True)
class CallSite:
    """A call of something that a handler knows: the canonical name, what it is called with, and where."""

    name: str
    args: Args
    kwargs: Kwargs
    at: ast.AST

    @property
    def values(self) -> list[Value]:
        """All arguments."""
        return [*self.args, *self.kwargs.values()]

    def with_receiver(self, receiver: Value) -> CallSite:
        """The same with one more argument before the others."""
        return CallSite(self.name, [receiver, *self.args], self.kwargs, self.at)

    def named(self, name: str) -> CallSite:
        """The same call of something else."""
        return CallSite(name, self.args, self.kwargs, self.at)

    @property
    def last(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def framework(self) -> str | None:
        """The framework, or another package; host NumPy is none."""
        top = self.name.partition(".")[0]
        return framework_of(self.name) or (None if top == "numpy" else top)

    @property
    def is_method(self) -> bool:
        """Whether it is a method of a tensor of any framework; all are called by torch's names."""
        return self.name.startswith(METHOD)


#: What the names of methods begin with.
METHOD = "torch.Tensor."


def argument(call: CallSite, position: int, *names: str) -> Value:
    """An argument by position or keyword; None where it is absent."""
    if position < len(call.args):
        return call.args[position]
    return next((call.kwargs[name] for name in names if name in call.kwargs), None)


def handles(*names: str, methods: str = "", operands: str = "") -> Callable[[_Handler], _Handler]:
    """Register a handler for functions, by canonical name, and for methods of a tensor of any framework.

    ``{a,b}.c`` stands for ``a.c`` and ``b.c``. ``operands``: what the handler is given after the call, by position or
    the keywords that ``|`` joins. None may be absent but those with ``?``, and one with ``!`` has to be a tensor; what
    is called otherwise is not known.
    """

    def register(handler: _Handler) -> _Handler:
        bound = _with_operands(handler, operands)
        FUNCTIONS.update(dict.fromkeys((each for name in names for each in _expand(name)), bound))
        METHODS.update(dict.fromkeys(methods.split(), bound))
        return handler

    return register


def container(*names: str, operands: str) -> Callable[[_Handler], _Handler]:
    """Register a handler for methods of lists, tuples, dicts and strings."""

    def register(handler: _Handler) -> _Handler:
        CONTAINER_METHODS.update(dict.fromkeys(names, _with_operands(handler, operands)))
        return handler

    return register


def _with_operands(handler: Callable[..., Value], operands: str) -> Callable[[Any, CallSite], Value]:
    wanted = [(word.rstrip("?!").split("|"), word[-1]) for word in operands.split()]

    @wraps(handler)
    def bound(low: Any, call: CallSite) -> Value:
        given = [argument(call, i, *names) for i, (names, _) in enumerate(wanted)]
        for value, (_, mark) in zip(given, wanted, strict=True):
            if (value is None and mark != "?") or (mark == "!" and not isinstance(value, Node)):
                return MISSING
        return handler(low, call, *given)

    return bound


def _register(table: dict[_Key, Callable[..., Any]], keys: Iterable[_Key]) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        table.update(dict.fromkeys(keys, handler))
        return handler

    return register


def _expand(name: str) -> list[str]:
    if "{" not in name:
        return [name]
    before, _, rest = name.partition("{")
    choices, _, after = rest.partition("}")
    return [e for c in choices.split(",") for e in _expand(before + c + after)]


class Lowering(Builder):
    """Lowers one function (and what it calls) to a graph."""

    def expression(self, node: ast.AST) -> Value:
        """The value of an expression; something unknown becomes an opaque leaf."""
        self.step()
        handler = EXPRESSIONS.get(type(node))
        value = handler(self, node) if handler is not None else self.opaque(self.text(node))
        return defaults.here(self, value) if isinstance(value, DEFAULTS) else value

    def invoke(self, function: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
        """The result of calling a value."""
        handler, call = CALLS.get(type(function)), CallSite("", args, kwargs, at)
        result = handler(self, function, call) if handler is not None else MISSING
        return CALLS[object](self, function, call) if result is MISSING else result

    def run(self, body: Sequence[ast.AST]) -> bool:
        """Lower statements; True where control does not reach the end."""
        for statement in body:
            self.step()
            handler = STATEMENTS.get(type(statement))
            if handler is not None and handler(self, statement):
                return True
        return False

    def condition(self, value: Value, at: ast.AST) -> Node | bool:
        """The truth of a value: a boolean node, or a Python bool where it is known from the source."""
        if isinstance(value, DEFAULTS):
            value = defaults.settled(self, "not_equal", value, 0, value != 0, at)
        if isinstance(value, Settled):
            return value.node
        if isinstance(value, Node):
            if value.kind == "bool":
                return value
            if isinstance(value, Leaf) and value.kind == "float" and value.origin is None:
                return self.opaque(f"bool({value.name})", self.identity(value), kind="bool")
            return self.node("not_equal", (value, 0), at)
        if value is None or isinstance(value, (bool, int, float, str)):
            return bool(value)
        if isinstance(value, (list, tuple, dict)):
            return len(value) > 0
        if isinstance(value, CALLABLES):
            return True
        return self.opaque(self.text(at), self.identity(value), kind="bool")

    def negation(self, condition: Node | bool, at: ast.AST) -> Node | bool:
        if isinstance(condition, bool):
            return not condition
        return condition.inputs[0] if condition.op == "logical_not" else self.node("logical_not", (condition,), at)

    def choose(
        self, condition: Node | bool, a: Value, b: Value, at: ast.AST, read: tuple[Sequence[Node], ...] = ()
    ) -> Value:
        """``a if condition else b``, lazily: the arm not taken contributes nothing.

        ``read`` is what only the one and only the other arm reads; it receives an exact zero where that arm is not
        taken.
        """
        self.step()
        if isinstance(condition, bool):
            return a if condition else b
        if a is b:
            return a
        decided = defaults.chosen(self, condition, a, b, at)
        if decided is not None:
            return decided
        if _is_static(a) and _is_static(b) and type(a) is type(b) and a == b:
            return a
        if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
            return type(a)(self.choose(condition, x, y, at, read) for x, y in zip(a, b, strict=False))
        if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
            return {k: self.choose(condition, a[k], b[k], at, read) for k in a}
        numeric = (Node, int, float, bool, Method, Shape, list, tuple)
        if isinstance(a, numeric) and isinstance(b, numeric):
            of_a, of_b = read or ((), ())
            static, kind = Static(index=len(of_a)), "cond" if read else None
            return self.node("cond", (condition, a, b, *of_a, *of_b), at, selection=kind, static=static)
        if a is None or b is None:
            return self.opaque(self.text(at), (self.identity(a), self.identity(b)))
        if isinstance(a, Dotted) and isinstance(b, Dotted):  # a namespace, NumPy for what no framework computes
            return b if framework_of(a.name) is None else a
        return a if not isinstance(a, (Node, str)) else b

    def select(
        self, condition: Value, a: Value, b: Value, at: ast.AST, kind: str = "where", framework: str | None = None
    ) -> Node:
        """An elementwise selection that reverse mode runs through on both sides."""
        return self.node("where", (condition, a, b), at, selection=kind, framework=framework)

    def called(self, call: CallSite, callee: str, key: object, *, pure: bool = False, **of: Any) -> Leaf:
        """The result of a call that is not followed: another one for another ``key`` and other arguments."""
        number = None
        if self.strict and not pure:
            number = self.opaque_calls = self.opaque_calls + 1
        made = self.opaque(self.text(call.at), (key, *map(self.identity, call.values), number), **of)
        static = tuple(a if isinstance(a, (str, int, float)) else type(a) for a in call.values)
        made.call = Call(callee, number, static)
        return made

    def result(self, call: CallSite, **of: Any) -> Leaf:
        """An input that stands for what a call gives: the same for the same arguments."""
        return self.opaque(self.text(call.at), tuple(map(self.identity, call.args)), **of)


def _is_static(value: Value) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
