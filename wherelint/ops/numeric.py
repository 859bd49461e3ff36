"""NumPy and SciPy, imported when something is computed: the catalogue is read for its words before that."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["direct", "np", "shortest", "special"]


class _Function:
    """A function of a module that was not there yet when it was named."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self.__name__ = name
        self._found: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.found(*args, **kwargs)

    @property
    def imported(self) -> bool:
        """Whether its module is there."""
        return self._module in sys.modules

    @property
    def found(self) -> Any:
        """The function itself; its module is imported for it."""
        if self._found is None:
            self._found = getattr(import_module(self._module), self.__name__)
        return self._found


def direct(function: Any) -> Any:
    """A function without the way through this module, if its own module has been imported."""
    return function.found if isinstance(function, _Function) and function.imported else function


class _Module:
    """What a module has; before it is imported, functions alone."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if self._name not in sys.modules:
            return _Function(self._name, name)
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Module("numpy")
special: Any = _Module("scipy.special")


def shortest(array: Any, kind: str = "float") -> float | list[float]:
    """The elements in the fewest digits that tell a float32 of that kind; one number where all are the same."""
    with np.errstate(over="ignore"):
        numbers = [float(str(number)) for number in np.asarray(array, np.float32).reshape(-1)]
    written = {"bool": bool, "int": int}.get(kind, float)
    numbers = [written(number) if number.is_integer() else number for number in numbers]
    first = numbers[0]
    same = all(number == first or (number != number and first != first) for number in numbers)
    return first if same else numbers
