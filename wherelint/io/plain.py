"""Dataclasses as JSON and back, by the types of their fields. What comes back is checked: the JSON may be anyone's."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
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
        return _check(lambda value: isinstance(value, str) and value in arguments)
    if origin in (list, tuple):
        return _sequence(origin, decoder(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(decoder(arguments[1]))
    if is_dataclass(kind):
        return _record(kind)
    if kind is str:
        return _check(lambda value: type(value) is str and not _CONTROL.search(value))
    if kind is object:  # the program of a finding is never written
        return _check(lambda value: value is None)
    if kind is int:
        return _check(lambda value: type(value) is int and abs(value) < _MOST)
    return _check(lambda value: type(value) is kind)


def _check(fits: Callable[[Any], bool]) -> Decode:
    def decode(value: Any) -> Any:
        if not fits(value):
            raise ValueError("this is not of the right type")
        return value

    return decode


def _union(options: list[Decode]) -> Decode:
    def decode(value: Any) -> Any:
        for option in options:
            try:
                return option(value)
            except ValueError:
                continue
        raise ValueError("this is none of what it may be")

    return decode


def _sequence(make: Callable[[Any], Any], item: Decode) -> Decode:
    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError("this is no list")
        return make(map(item, value))

    return decode


def _mapping(item: Decode) -> Decode:
    name = decoder(str)

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError("this is no object")
        return {name(key): item(each) for key, each in value.items()}

    return decode


def _record(kind: Any) -> Decode:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]

    def decode(value: Any) -> Any:
        if type(value) is not list or len(value) != len(names):
            raise ValueError("this has not the right fields")
        return kind(*[decoder(hints[name])(each) for name, each in zip(names, value, strict=True)])  # may hold its like

    return decode
