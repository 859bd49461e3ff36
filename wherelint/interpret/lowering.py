"""Lowers one function: dispatches to the handlers that are registered here, and chooses between values."""

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from wherelint.frameworks.base import Signature
from wherelint.graph.node import Leaf, Node, Static
from wherelint.interpret import defaults
from wherelint.interpret.builder import Builder
from wherelint.interpret.values import CALLABLES, DEFAULTS, MISSING, Args, Kwargs, Method, Settled, Shape, Value
from wherelint.ops.traits import SELECTS

#: How each kind of expression and statement is lowered; a statement's handler says whether control does not go on.
EXPRESSIONS: dict[type, Callable[..., Value]] = {}
STATEMENTS: dict[type, Callable[..., bool]] = {}
#: How each kind of value is called, from it, the arguments and the place; that of ``object`` is the last resort.
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


def handles(*names: str) -> Callable[[_Handler], _Handler]:
    """Register a handler for canonical names; ``{a,b}.c`` stands for ``a.c`` and ``b.c``."""
    return _register(FUNCTIONS, [expanded for name in names for expanded in _expand(name)])


def method(*names: str) -> Callable[[_Handler], _Handler]:
    """Register a handler for methods of a tensor of any framework."""
    return _register(METHODS, names)


def container(*names: str) -> Callable[[_Handler], _Handler]:
    """Register a handler for methods of lists, tuples, dicts and strings."""
    return _register(CONTAINER_METHODS, names)


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
        handler = CALLS.get(type(function))
        result = handler(self, function, args, kwargs, at) if handler is not None else MISSING
        return CALLS[object](self, function, args, kwargs, at) if result is MISSING else result

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
            static, kind = Static(index=len(of_a)), "cond" if of_a or of_b else None
            return self.node("cond", (condition, a, b, *of_a, *of_b), at, selection=kind, static=static)
        if a is None or b is None:
            return self.opaque(self.text(at), (self.identity(a), self.identity(b)))
        return a if not isinstance(a, (Node, str)) else b

    def select(
        self, condition: Value, a: Value, b: Value, at: ast.AST, kind: str = "where", framework: str | None = None
    ) -> Node:
        """An elementwise selection that reverse mode runs through on both sides."""
        return self.node("where", (condition, a, b), at, selection=kind, framework=framework)

    def call_operation(
        self, name: str, signature: Signature, args: Sequence[Value], kwargs: dict[str, Value], at: ast.AST
    ) -> Node | None:
        """A call of the catalogue; None where an operand is missing."""
        operands: list[Value] = []
        missing = len(signature.operands) - len(signature.defaults)
        for i, keywords in enumerate(signature.operands):
            if not keywords:
                continue
            if i < len(args):
                value = args[i]
            else:
                value = next((kwargs[k] for k in keywords if k in kwargs), None)
                if value is None and i >= missing:
                    value = signature.defaults[i - missing]
            if value is None and i >= missing:
                value = signature.defaults[i - missing]
            if value is None:
                return None
            operands.append(value)
        framework = name.split(".", 1)[0]
        host = framework == "numpy"
        select = SELECTS.get(signature.op)
        made = self.node(signature.op, operands, at, selection=select, framework=None if host else framework)
        return self.stop(made, at, static=Static(host=signature.op)) if host else made


def _is_static(value: Value) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
