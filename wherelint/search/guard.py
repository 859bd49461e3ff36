"""What a selection decides by, and which inputs a search for its hazards moves."""

import numpy as np

from wherelint.graph.node import DIAGONAL, Const, Leaf, Node, leaves, matrix, topological, whole
from wherelint.ops import OPERATIONS
from wherelint.search.dependence import Dependence
from wherelint.search.probes import Inputs


class Guard:
    """A selection, the operands that decide what it drops, and the inputs that these read."""

    def __init__(self, root: Node, order: list[Node], dependence: Dependence) -> None:
        self.root = root
        self.order = order
        self.dependence = dependence
        self._known = set(order)
        #: The operands that decide what is dropped; empty for a clip, which decides by its operands' values.
        self.condition: list[Node] = []
        if root.selection == "multiply":
            self.condition = [root.inputs[1 - root.static.operand]]
        elif root.op in ("where", "cond", "compress"):
            self.condition = [root.inputs[0]]

    def movable(self) -> list[Leaf]:
        """The leaves that the selection's own condition reads; all of them where it reads none.

        An index reads none either, but says little: that another element is special is believed only of a pair, of an
        array with a constant among its parts, and of one that has a constant written into it.
        """
        if self.root.op == "lane":
            return []
        if self.root.op == "pick" and len(self.root.inputs) > 2 and not any(i.op == "const" for i in self.root.inputs):
            return []
        read = {matrix(n) for n in self._inputs_of(*(self.condition or [self.root])) if not n.fixed}
        every = [n for n in self._inputs_of(*self.order) if not n.fixed]
        return [n for n in every if matrix(n) in read] or every

    def _inputs_of(self, *nodes: Node) -> list[Leaf]:
        """The inputs that nodes read; an element of an input that is there itself stands for the whole."""
        return list(dict.fromkeys(whole(n, self._known) for n in leaves(*nodes)))

    def held_elements(self) -> list[Inputs]:
        """For each constant array that the condition reads, its zero and another element, standing at every place.

        Lanes model one axis; a constant mask over pairs can meet any element of what is reduced over another axis.
        """
        held: list[Inputs] = []
        pairs = any(map(is_diagonal, topological(self.condition)))
        others = [i for i in self.root.inputs if i not in self.condition]
        if any(_spread_out(i) and not (pairs and i.op == "norm") for i in others):
            return held  # one number meets every element of the mask; of pairs, each has a norm of its own
        constants = [n for n in self.order if isinstance(n, Const) and n.value.size > 1]
        for node in topological(self.condition):
            if isinstance(node, Const) and node in constants:
                values = node.value.reshape(-1)
                alike = [n for n in constants if np.array_equal(n.value, node.value)]
                for value in dict.fromkeys([0.0 if (values == 0).any() else values[0], values.max()]):
                    full = np.full((1, 1), bool(value) if values.dtype == np.bool_ else np.float32(value))
                    held.append(dict.fromkeys(alike, full))  # written twice, it is one array all the same
        return held[:4]


def is_diagonal(mask: Node) -> bool:
    return isinstance(mask, Const) and np.array_equal(mask.value[0], DIAGONAL)


def _spread_out(node: Node) -> bool:
    """Whether a value has one element for many of what it is combined with: ``s[:, None]``, a reduction's result."""
    while node.op == "identity":
        if node.static.spread:
            return True
        node = node.inputs[0]
    return node.op in OPERATIONS and OPERATIONS[node.op].mixes
