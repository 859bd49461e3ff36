"""Small programs, built as graphs without any source."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from wherelint.evidence.judge import EvidenceJudge, Outlook
from wherelint.graph.differentiate import Backward, Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Node, Static, const, leaf, spread, topological
from wherelint.search.simplify import simplest
from wherelint.search.witness import Hazard, Search

EVERYTHING = Outlook()
_TESTS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isfinite"})
_LOGICAL = frozenset({"logical_and", "logical_or", "logical_not"})


def op(
    name: str, *inputs: Any, selection: str | None = None, path_conditions: tuple[Node, ...] = (), **static: Any
) -> Node:
    """An operation; numbers become constants."""
    operands = tuple(i if isinstance(i, Node) else const(i) for i in inputs)
    if name == "stack":
        static.setdefault("lanes", spread(len(operands)))
    kind = "bool" if name in _TESTS | _LOGICAL else "float"
    return Node(name, operands, Static(**static), kind, selection=selection, path_conditions=path_conditions)


def where(condition: Node, a: Any, b: Any, path_conditions: tuple[Node, ...] = ()) -> Node:
    return op("where", condition, a, b, selection="where", path_conditions=path_conditions)


def positive(x: Node) -> Node:
    return op("greater", x, 0.0)


def row(*values: float) -> np.ndarray:
    """One probe: its lanes."""
    return np.array([values], np.float32)


def run(root: Node, inputs: dict[Node, np.ndarray], dtype: Any = np.float32) -> Values:
    cast = {n: v if v.dtype == np.bool_ else v.astype(dtype) for n, v in inputs.items()}
    return evaluate(topological([root]), cast, dtype)


def reverse(root: Node, values: Values, *, symbolic: bool, framework: str = "jax") -> Backward:
    order = topological([root])
    return backward(Tape(order), values, root, framework, symbolic=symbolic)


def gradients(root: Node, inputs: dict[Node, np.ndarray], *, framework: str = "jax") -> tuple[Backward, Backward]:
    """The reverse passes under IEEE and under symbolic-zero arithmetic."""
    values = run(root, inputs)
    return tuple(reverse(root, values, symbolic=s, framework=framework) for s in (False, True))


def hazards(root: Node, framework: str = "jax") -> list[Hazard]:
    """What the search reports, fit to print."""
    found = search(root, framework)
    return [simplest(found, h) for h in found.hazards()]


def search(root: Node, framework: str = "jax", outlook: Outlook = EVERYTHING) -> Search:
    """A search whose hazards are weighed."""
    return Search(root, framework, judge=partial(EvidenceJudge, outlook, framework))


def named(hazard: Hazard) -> dict[str, list[float]]:
    """The witness by the names of the leaves."""
    return {n.name: np.broadcast_to(v, (1, LANES))[0].tolist() for n, v in hazard.inputs.items()}


__all__ = ["LANES", "Node", "const", "gradients", "hazards", "leaf", "named", "op", "positive", "reverse", "row", "run"]
