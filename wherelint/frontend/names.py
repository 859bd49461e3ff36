"""Imports of a file: local names to canonical dotted names."""

import ast
from collections.abc import Mapping
from functools import lru_cache

from wherelint.frameworks import FRAMEWORKS

#: Spellings of the same thing, longest prefix first when applied. CuPy differentiates nothing.
_SAME = {"cupy": "numpy", "cupyx.scipy": "scipy"} | {k: v for f in FRAMEWORKS.values() for k, v in f.aliases.items()}
#: Names that these packages re-export from a framework.
_REEXPORTS = {package: names for framework in FRAMEWORKS.values() for package, names in framework.reexports.items()}


def _longest_first(table: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(table.items(), key=lambda item: -len(item[0]))


_SAME_IN_ORDER = tuple(_longest_first(_SAME))


#: What follows the name of a function that another one of the same name comes after, and its number.
OVERLOAD = "#"


def written(name: str) -> str:
    """The name of a function as it is written, whatever number it has among those of one name."""
    return name.partition(OVERLOAD)[0]


def canonical(name: str, aliases: Mapping[str, str] | None = None) -> str:
    """The one spelling of a dotted name that the tables use."""
    return _canonical(name, tuple(_longest_first(aliases)) if aliases else ())


@lru_cache(8192)
def _canonical(name: str, aliases: tuple[tuple[str, str], ...]) -> str:
    for table in aliases, _SAME_IN_ORDER:
        for prefix, target in table:
            if name == prefix or name.startswith(prefix + "."):
                name = target + name[len(prefix) :]
                break
    if ".numpy." in name + "." and not name.startswith(("jax.", "torch.", "tensorflow.", "autograd.", ".")):
        # A package's own `numpy` is an array namespace in the image of NumPy's: read it as JAX's.
        head, _, tail = (name + ".").partition(".numpy.")
        name = f"jax.numpy.{tail}".rstrip(".") if head and head != "numpy" else name
    elif ".jnp." in name + ".":  # ``from project.backend import jnp``, which no file of the project binds
        name = f"jax.numpy.{(name + '.').partition('.jnp.')[2]}".rstrip(".")
    parent, _, last = name.rpartition(".")
    if parent in _REEXPORTS and last in _REEXPORTS[parent][1]:
        return f"{_REEXPORTS[parent][0]}.{last}"
    return name


def imported(statement: ast.Import | ast.ImportFrom, package: str = "") -> dict[str, str]:
    """Local name -> dotted name for one import statement.

    A relative import is resolved against ``package`` (the dotted name of the file's own package); the caller finds
    out whether the project holds it. A star import binds nothing.
    """
    names: dict[str, str] = {}
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                names[alias.asname] = alias.name
            else:
                top = alias.name.split(".")[0]
                names[top] = top
        return names
    prefix = _from(statement, package)
    for alias in statement.names:
        if alias.name != "*":
            names[alias.asname or alias.name] = f"{prefix}.{alias.name}" if prefix != "." else f".{alias.name}"
    return names


def starred(statement: ast.Import | ast.ImportFrom, package: str = "") -> str | None:
    """The dotted name of what ``from ... import *`` takes everything from; None for another import."""
    if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
        return _from(statement, package)
    return None


def _from(statement: ast.ImportFrom, package: str) -> str:
    parts = package.split(".") if package else []
    base = parts[: len(parts) - statement.level + 1] if statement.level else []
    prefix = ".".join([*base, *([statement.module] if statement.module else [])])
    return "." + prefix if statement.level and not package else prefix  # never mistaken for an installed package
