"""Imports of a file: local names to canonical dotted names."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

#: Spellings of the same thing, longest prefix first when applied.
_SAME = {
    "tensorflow.compat.v1": "tensorflow",
    "tensorflow.compat.v2": "tensorflow",
    # CuPy differentiates nothing.
    "cupy": "numpy",
    "cupyx.scipy": "scipy",
    "tensorflow.python.keras": "tensorflow.keras",
    "tensorflow.keras.ops": "keras.ops",
    "keras.backend": "tensorflow.keras.backend",
    "tf_keras.backend": "tensorflow.keras.backend",
    "tensorflow.keras.activations": "tensorflow.nn",
    "torch.functional": "torch",
    "torch.autograd.function.Function": "torch.autograd.Function",
    "jax.experimental.host_callback": "jax",
    "jax.tree": "jax.tree_util",
    "jax.interpreters.ad": "jax",
    "flax.linen.activation": "jax.nn",
    # The frameworks' own files import each other under these names.
    "jax._src.numpy": "jax.numpy",
    **{f"jax._src.numpy.{part}": "jax.numpy" for part in ("lax_numpy", "ufuncs", "reductions", "array_creation")},
    "jax._src.numpy.linalg": "jax.numpy.linalg",
    "jax._src.numpy.vectorize.vectorize": "jax.numpy.vectorize",
    "jax._src.lax": "jax.lax",
    **{f"jax._src.lax.{part}": "jax.lax" for part in ("lax", "slicing", "control_flow", "convolution", "special")},
    "jax._src.nn.functions": "jax.nn",
    "jax._src.scipy": "jax.scipy",
    "jax._src.random": "jax.random",
    "jax._src.custom_derivatives": "jax",
    "jax._src.api": "jax",
    "tensorflow.python.ops.math_ops": "tensorflow.math",
    "tensorflow.python.ops.array_ops": "tensorflow",
    **{f"tensorflow.python.ops.{part}": "tensorflow.nn" for part in ("nn_ops", "nn", "nn_impl")},
    "tensorflow.python.ops.linalg_ops": "tensorflow.linalg",
    **{f"tensorflow.python.ops.{part}": "tensorflow" for part in ("clip_ops", "control_flow_ops", "cond")},
    "tensorflow.python.ops.check_ops": "tensorflow.debugging",
    "tensorflow.python.ops.custom_gradient": "tensorflow",
}
#: Names that these packages re-export from a framework.
_REEXPORTS = {
    "flax.linen": ("jax.nn", ("relu", "gelu", "silu", "swish", "softplus", "sigmoid", "elu", "celu", "selu", "softmax",
                              "log_softmax", "log_sigmoid", "leaky_relu", "tanh", "relu6", "standardize")),
    "flax.nnx": ("jax.nn", ("relu", "gelu", "silu", "swish", "softplus", "sigmoid", "elu", "celu", "selu", "softmax",
                            "log_softmax", "log_sigmoid", "leaky_relu", "tanh", "relu6")),
}  # fmt: skip


def _longest_first(table: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(table.items(), key=lambda item: -len(item[0]))


_SAME_IN_ORDER = tuple(_longest_first(_SAME))


def canonical(name: str, aliases: Mapping[str, str] | None = None) -> str:
    """The one spelling of a dotted name that the tables use."""
    return _canonical(name, tuple(_longest_first(aliases or {})))


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


FRAMEWORKS = ("jax", "torch", "tensorflow")


def framework_of(name: str) -> str | None:
    """The framework a canonical name belongs to."""
    top = name.split(".", 1)[0]
    if top == "keras":
        return "tensorflow"
    return top if top in FRAMEWORKS else None
