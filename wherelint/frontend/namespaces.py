"""What a file uses as a namespace of array functions, though no import says which: the backend of a project.

``backend.sqrt(x)``, ``nx.where(c, x, y)``: what is called on such a name is read as NumPy has it, whichever framework
is behind it. A method of a tensor takes no operand, so that a tensor is not mistaken for one. A package from elsewhere
is read so too if it selects (``hax.where``), unless it is known to compute without a derivative, or in kernels.
"""

import re
import sys
from collections import defaultdict

from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.module import Module

#: Functions of one operand, and the selection; not what groups and manifolds have as well, such as `exp` and `log`.
_FUNCTIONS = frozenset(
    """where sqrt abs square sin cos tan sinh cosh tanh arcsin arccos arctan log1p expm1 log2 log10 floor ceil sign
    isnan isfinite zeros_like ones_like""".split()
)
_CALL = re.compile(rf"\.({'|'.join(sorted(_FUNCTIONS))})\((?=\s*[^\s)])")
_BASE = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*$")
#: Packages that select as well, on the host or in kernels, or for another framework.
_ELSEWHERE = sys.stdlib_module_names | frozenset(
    """numpy scipy pandas polars xarray dask cupy awkward sparse numba sympy mlx paddle mindspore mxnet jittor oneflow
    triton warp taichi tilelang cutlass pyspark sqlalchemy ibis""".split()
)
#: No name of a namespace is longer.
_LONGEST = 100
#: How many of them have to be called on a local variable or an attribute; what is imported is no tensor.
_LEAST = 2


def namespaces(module: Module) -> frozenset[str]:
    """The dotted names, as they are written, that are used so: the project's own, attributes, and local variables."""
    called = defaultdict(set)
    for call in _CALL.finditer(module.text):
        base = _BASE.search(module.text, max(0, call.start() - _LONGEST), call.start())
        if base is not None:
            called[base[0]].add(call[1])
    return frozenset(base for base, functions in called.items() if _is_namespace(module, base, functions))


def behind(module: Module) -> list[str]:
    """The frameworks that may be behind the namespaces of a file: those that its repository imports, or speaks of."""
    if not module.once(namespaces) and not module.once(selecting):
        return []
    for said in ("import {}", "from {}"), ("{}",):
        ways = {name: [way.format(p) for p in f.packages for way in said] for name, f in FRAMEWORKS.items()}
        if found := [name for name, told in ways.items() if any(map(module.project.speaks, told))]:
            return found
    return ["jax"] if "array_namespace" in module.text else []  # whatever it is called with


def selecting(module: Module) -> frozenset[str]:
    """The packages from elsewhere of which a file imports ``where``, and with it other functions of arrays."""
    parents = {name.removesuffix(".where") for name in module.imports.values() if name.endswith(".where")}
    return frozenset(parent for parent in parents if _selects(module, parent))


def _is_namespace(module: Module, base: str, functions: set[str]) -> bool:
    """Whether a dotted name is one, by what is called on it; a local variable has to be used so often."""
    target = module.target(base.partition(".")[0])
    if target is None:
        return len(functions) >= _LEAST
    return _is_own(module, target) or ("where" in functions and _selects(module, target))


def _selects(module: Module, name: str) -> bool:
    """Whether what a package from elsewhere selects may be differentiated by a framework."""
    return not (_is_own(module, name) or framework_of(name) or name.partition(".")[0] in _ELSEWHERE)


def _is_own(module: Module, name: str) -> bool:
    """Whether the project defines a name, or is one of its files."""
    return module.project.find(name) is not None or module.project.module(name) is not None
