"""Numbers that are defaults: what a parameter is unless it is passed, and the input that it is where it is passed.

As a value a default is its number. A branch on it has two arms, and both are searched: in the one that contradicts the
default, and after the other has ended, the parameter is an input about which the condition holds.
"""

import ast
from collections.abc import Callable

from wherelint.graph.node import Node, leaves
from wherelint.interpret.builder import Builder
from wherelint.interpret.values import DEFAULTS, DefaultFloat, DefaultInt, Settled, Value


def default_of(number: float, node: Node) -> float:
    """A number that is one by default, and ``node`` in general."""
    made = DefaultInt(number) if isinstance(number, int) else DefaultFloat(number)
    made.node = node
    return made


def of_parameter(low: Builder, name: str, key: object, number: float) -> float | Node:
    """The default of a parameter, or of a field that a constructor takes; one of many numbers where that is asked."""
    if low.strict:
        given = low.opaque(name, key, differentiable=False)
        given.default = number
        return given
    made = low.opaque(name, key, kind="int" if isinstance(number, int) else "float", differentiable=False)
    made.usual, made.arm = number, True
    return default_of(number, made)


def opened(value: Value) -> Value:
    """What a value is in general."""
    return value.node if isinstance(value, DEFAULTS) else value


def settled(low: Builder, op: str, a: Value, b: Value, truth: bool, at: ast.AST) -> bool | Settled:
    """A comparison of two numbers, of which one may be a default."""
    if low.crowded or not (isinstance(a, DEFAULTS) or isinstance(b, DEFAULTS)):
        return truth
    node = low.node(op, (opened(a), opened(b)), at)
    low.by_default[node] = truth
    return Settled(truth, node)


def here(low: Builder, value: DefaultInt | DefaultFloat) -> Value:
    """What a default is where control stands: its number, unless a condition that it contradicts holds."""
    passed = [condition for condition in low.path_conditions if truth(low, condition) is False]
    return value.node if passed and not set(leaves(*passed)).isdisjoint(leaves(value.node)) else value


def truth(low: Builder, condition: Node | bool) -> bool | None:
    """What a condition is if no parameter is passed that has a default; None where other things decide."""
    if isinstance(condition, bool):
        return None
    if condition not in low.by_default:
        parts = [truth(low, i) for i in condition.inputs] if condition.op in _LOGICAL else []
        low.by_default[condition] = _LOGICAL[condition.op](parts) if parts else None
    return low.by_default[condition]


_LOGICAL: dict[str, Callable[[list[bool | None]], bool | None]] = {
    "logical_not": lambda parts: None if parts[0] is None else not parts[0],
    "logical_and": lambda parts: False if False in parts else None if None in parts else True,
    "logical_or": lambda parts: True if True in parts else None if None in parts else False,
}


def chosen(low: Builder, condition: Node | bool, a: Value, b: Value, at: ast.AST) -> Value:
    """``a if condition else b`` where defaults decide, else None; numbers are defaults again."""
    known = truth(low, condition)
    if known is None:
        return None
    truths = isinstance(a, bool) or isinstance(b, bool)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not truths:
        return default_of(a if known else b, low.node("cond", (condition, opened(a), opened(b)), at))
    computed = all(isinstance(v, (Node, int, float, list, tuple)) for v in (a, b))
    return None if computed else a if known else b
