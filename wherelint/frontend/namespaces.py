"""What a file uses as a namespace of array functions, though no import says which: the backend of a project.

``backend.sqrt(x)``, ``nx.where(c, x, y)``: what is called on such a name is read as NumPy has it, whichever framework
is behind it. A method of a tensor takes no operand, so that a tensor is not mistaken for one.
"""

import re
from collections import defaultdict

from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Module

#: Functions of one operand, and the selection; not what groups and manifolds have as well, such as `exp` and `log`.
_FUNCTIONS = frozenset(
    """where sqrt abs square sin cos tan sinh cosh tanh arcsin arccos arctan log1p expm1 log2 log10 floor ceil sign
    isnan isfinite zeros_like ones_like""".split()
)
_CALL = re.compile(rf"\.({'|'.join(sorted(_FUNCTIONS))})\((?=\s*[^\s)])")
_BASE = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*$")
#: No name of a namespace is longer.
_LONGEST = 100
#: How many of them have to be called on a local variable or an attribute; what is imported is no tensor.
_LEAST = 2


def namespaces(module: Module) -> frozenset[str]:
    """The dotted names, as they are written, that are used so: the project's own, attributes, and local variables."""
    if namespaces not in module.kept:
        called = defaultdict(set)
        for call in _CALL.finditer(module.text):
            base = _BASE.search(module.text, max(0, call.start() - _LONGEST), call.start())
            if base is not None:
                called[base[0]].add(call[1])
        module.kept[namespaces] = frozenset(
            base for base, functions in called.items() if _is_own(module, base, len(functions) >= _LEAST)
        )
    known: frozenset[str] = module.kept[namespaces]
    return known


def behind(module: Module) -> list[str]:
    """The frameworks that may be behind the namespaces of a file: those that its repository imports, or speaks of."""
    if not namespaces(module):
        return []
    for said in ("import {}", "from {}"), ("{}",):
        ways = {name: [way.format(p) for p in f.packages for way in said] for name, f in FRAMEWORKS.items()}
        if found := [name for name, told in ways.items() if any(map(module.project.speaks, told))]:
            return found
    return []


def _is_own(module: Module, base: str, often: bool) -> bool:
    """Whether a dotted name is none of another package; one that is not imported has to be used so ``often``."""
    target = module.target(base.partition(".")[0])
    project = module.project
    if target is None:
        return often
    return project.find(target) is not None or project.module(target) is not None
