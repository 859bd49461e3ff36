"""Dataclasses as JSON and back, by the types of their fields. What comes back is checked: the JSON may be anyone's."""

import re
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Decode = Callable[[Any], Any]
#: An integer is smaller.
_MOST = 1 << 63
#: Characters that would garble a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")


def plain(value: Any) -> Any:
    """A value in lists, dictionaries, texts and numbers; a dataclass is the list of its fields."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    return value


@lru_cache(maxsize=64)
def decoder(kind: Any) -> Decode:
    """The function that makes a value of a type from its ``plain`` form, and raises ValueError for any other form."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union([decoder(argument) for argument in arguments])
    if origin is Literal:
        return _checked(lambda value: isinstance(value, str) and value in arguments)
    if origin in (list, tuple):
        item = decoder(arguments[0])
        return _checked(lambda value: type(value) is list, lambda value: origin(map(item, value)))
    if origin is not None and issubclass(origin, Mapping):
        name, item = decoder(str), decoder(arguments[1])
        return _checked(
            lambda value: type(value) is dict, lambda value: {name(key): item(each) for key, each in value.items()}
        )
    if is_dataclass(kind):
        record: Any = kind
        hints = [get_type_hints(record)[field.name] for field in fields(record)]
        return _checked(
            lambda value: type(value) is list and len(value) == len(hints),
            # A record may hold its like.
            lambda value: record(*[decoder(hint)(each) for hint, each in zip(hints, value, strict=True)]),
        )
    if kind is str:
        return _checked(lambda value: type(value) is str and not _CONTROL.search(value))
    if kind is object:  # the program of a finding is never written
        return _checked(lambda value: value is None)
    if kind is int:
        return _checked(lambda value: type(value) is int and abs(value) < _MOST)
    return _checked(lambda value: type(value) is kind)


def _checked(fits: Callable[[Any], bool], make: Decode = lambda value: value) -> Decode:
    def decode(value: Any) -> Any:
        if not fits(value):
            raise ValueError("this is not of the right type")
        return make(value)

    return decode


def _union(options: list[Decode]) -> Decode:
    def decode(value: Any) -> Any:
        for option in options:
            with suppress(ValueError):
                return option(value)
        raise ValueError("this is none of what it may be")

    return decode
