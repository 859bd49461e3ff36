"""Attributes of modules, classes and objects, replaced for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any


@contextmanager
def override(owner: Any, **new: Any) -> Iterator[None]:
    """Within the block an object has other attributes, by name; then those that it had, inherited or own."""
    own = {name: vars(owner)[name] for name in new if name in vars(owner)}
    for name, value in new.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in new:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)


def wrap(owner: Any, name: str, function: Callable[..., Any]) -> AbstractContextManager[None]:
    """Within the block, a function of a module, or a method, is ``function(original, ...)``."""
    original = getattr(owner, name)

    @wraps(original)
    def instead(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    return override(owner, **{name: instead})
