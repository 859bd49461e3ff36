"""Where handlers register: by the type of what they lower, or by the name that is called."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from wherelint.interpret.values import Value

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
