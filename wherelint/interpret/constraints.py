"""What a distribution says of its parameters: ``arg_constraints = {"scale": constraints.positive}``."""

import ast
from collections.abc import Iterator

from wherelint.graph.node import Node
from wherelint.interpret.annotations import last_name
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import MISSING, Class, Instance

#: Comparisons that a constraint stands for, by the name that PyTorch, Pyro and NumPyro give it.
_COMPARISONS: dict[str, tuple[tuple[str, float], ...]] = {
    "positive": (("greater", 0.0),),
    "softplus_positive": (("greater", 0.0),),
    "nonnegative": (("greater_equal", 0.0),),
    "unit_interval": (("greater_equal", 0.0), ("less_equal", 1.0)),
    "simplex": (("greater_equal", 0.0), ("less_equal", 1.0)),
    "positive_integer": (("greater", 0.0),),
    "nonnegative_integer": (("greater_equal", 0.0),),
}


def constrain(low: Lowering, made: Instance) -> None:
    """Add what the class declares of its parameters to the path conditions of an object."""
    for name, constraint in _declared(made.cls):
        value = made.attributes.get(name, MISSING)
        value = low.opaque(f"{made.name}.{name}", (low.identity(made), name)) if value is MISSING else value
        if isinstance(value, Node):
            made.attributes[name] = value
            comparisons = _COMPARISONS.get(constraint, ())
            made.path_conditions += tuple(
                low.node(op, (value, bound), made.cls.definition) for op, bound in comparisons
            )


def _declared(cls: Class) -> Iterator[tuple[str, str]]:
    """Parameter and constraint, of the nearest class that declares any."""
    for ancestor in cls.ancestry():
        for statement in ancestor.definition.body:
            if isinstance(statement, ast.Assign) and [*map(last_name, statement.targets)] == ["arg_constraints"]:
                yield from _entries(statement.value)
                return


def _entries(declared: ast.expr) -> Iterator[tuple[str, str]]:
    entries = zip(declared.keys, declared.values, strict=True) if isinstance(declared, ast.Dict) else ()
    for key, value in entries:
        if isinstance(key, ast.Constant):
            yield str(key.value), last_name(value)
