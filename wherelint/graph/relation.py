"""How closely the condition of a selection speaks of the operand at which an operation is singular."""

from collections.abc import Callable

import numpy as np

from wherelint.graph.node import Const, Leaf, Node, topological
from wherelint.graph.run import Run, at
from wherelint.ops.traits import FINITE_TESTS, ORDERINGS, QUOTIENTS, VIEWS

#: Comparisons of two values.
_TESTS = ORDERINGS | {"isclose"}
_PRODUCTS = frozenset({"multiply", "divide", "multiply_no_nan", "divide_no_nan"})
_SUMS = frozenset({"add", "stack"})
_CHOICES = frozenset({"where", "cond", "pick", "maximum", "minimum", "fmax", "fmin", "compress"})
#: How many operations a tested value may be away from the operand.
_FAR = 24

Key = object


class Relation:
    """What the condition of a selection tests, compared with what an operation fails at; for one witness."""

    def __init__(self, run: Run, p: int, below: frozenset[Node]) -> None:
        self._run = run
        self._p = p
        self._keys: dict[Node, Key] = {}
        self._known: dict[object, int] = {}
        self._matching: dict[Node, bool] = {}
        self._stays: dict[Node, bool] = {}
        self._finite = [n for n in below if n.op in FINITE_TESTS]
        self._tested: set[Key] = set()
        for node in below:
            if node.op in _TESTS:
                self._note(*node.inputs[:2])

    def direct(self, culprit: Node, below: Callable[[Node], frozenset[Node]]) -> bool:
        """Whether the condition compares the operand itself, up to what keeps its zeros: a scale, a power, a norm."""
        key = self._key(culprit)
        if any(n.op == culprit.op and self._key(n) == key for test in self._finite for n in below(test)):
            return True
        operands = culprit.inputs[1:2] if culprit.op in QUOTIENTS else culprit.inputs
        return any(self._matches(n, 0) for n in operands if n.kind != "bool" and n.op != "const")

    def _fixed(self, node: Node) -> bool:
        """Whether a value is a number to this witness: it reads nothing that was moved."""
        if node not in self._stays:
            for each in topological([node]):
                still = all(self._stays[i] for i in each.inputs) if each.inputs else self._still(each)
                self._stays[each] = still
        return self._stays[node]

    def _still(self, node: Node) -> bool:
        """Whether a value is a bound: a constant, or an input that the witness leaves alone."""
        if node.op == "const":
            return True
        return node in self._run.inputs and not self._run.moved(node, self._p)

    def _note(self, a: Node, b: Node) -> None:
        if self._fixed(b):
            self._down(a, 0)
        elif self._fixed(a):
            self._down(b, 0)
        self._tested.add(self._pair(a, b))

    def _down(self, node: Node, depth: int) -> None:
        key = self._key(node)
        if key in self._tested or depth > _FAR:
            return
        self._tested.add(key)
        moving = self._moving(node)
        if len(moving) == 1 or node.op in _PRODUCTS:
            for each in moving:
                self._down(each, depth + 1)

    def _moving(self, node: Node) -> list[Node]:
        """The operands that are no constants; what a view looks at."""
        operands = node.inputs[:1] if node.op in VIEWS else node.inputs
        return [i for i in operands if not self._fixed(i)]

    def _matches(self, node: Node, depth: int) -> bool:
        if node not in self._matching:
            self._matching[node] = False  # until it is known
            self._matching[node] = self._key(node) in self._tested or (depth < _FAR and self._deeper(node, depth + 1))
        return self._matching[node]

    def _deeper(self, node: Node, depth: int) -> bool:
        moving = self._moving(node)
        if node.op in _PRODUCTS and len(moving) > 1:
            return any(self._matches(i, depth) for i in moving if not self._regular(i))
        if node.op in _CHOICES:
            return any(self._matches(i, depth) for i in moving if i.kind == "float")
        if len(moving) == 1:
            return self._matches(moving[0], depth)
        return node.op in _SUMS and bool(moving) and all(self._matches(i, depth) for i in moving)

    def _regular(self, node: Node) -> bool:
        values = at(self._run.values[node], self._p)
        return bool((np.isfinite(values) & (values != 0)).all())

    def _pair(self, a: Node, b: Node) -> Key:
        return "difference", frozenset((self._key(a), self._key(b)))

    def _key(self, node: Node) -> Key:
        """What tells a computation from others: the same one, written twice, has the same key."""
        if node in self._keys:
            return self._keys[node]
        todo = [node]
        while todo:
            each = todo[-1]
            missing = [i for i in each.inputs if i not in self._keys]
            if missing:
                todo += missing
                continue
            todo.pop()
            self._keys[each] = self._made(each)
        return self._keys[node]

    def _made(self, node: Node) -> Key:
        if node.op in VIEWS:
            return self._keys[node.inputs[0]]
        if isinstance(node, Leaf):
            return self._key(node.of[0]) if node.of is not None else id(node)
        if isinstance(node, Const):
            return "const", node.value.tobytes()
        if node.op == "subtract":
            return self._pair(*node.inputs)
        key = node.op, *(self._keys[i] for i in node.inputs)
        return "node", self._known.setdefault(key, len(self._known))
