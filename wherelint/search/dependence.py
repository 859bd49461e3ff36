"""What every node of a graph depends on, worked out once for all questions that are asked about it."""

from collections.abc import Iterable, Iterator, Sequence

from wherelint.graph.node import Leaf, Node, differentiated, topological, whole


class Dependence:
    """The nodes and the inputs that each node of ``order`` reads, itself included; as bits, by their place in it."""

    def __init__(self, order: Sequence[Node]) -> None:
        self._order = order
        #: The nodes from which something that is differentiated can be reached.
        self.requires_grad = differentiated(order)
        self._bits: dict[Node, int] = {}
        self._leaves = 0
        for place, node in enumerate(order):
            bits = 1 << place
            if isinstance(node, Leaf):
                self._leaves |= bits
            for operand in node.inputs:
                bits |= self._bits[operand]
            self._bits[node] = bits
        self._below: dict[Node, frozenset[Node]] = {}
        self._orders: dict[tuple[Node, ...], list[Node]] = {}
        self._inputs: dict[Node, frozenset[Node]] = {}

    def reads(self, node: Node, other: Node) -> bool:
        """Whether a node depends on another, or is it."""
        bits = self._bits[other]
        return self._bits[node] & bits == bits

    def order(self, nodes: Iterable[Node]) -> list[Node]:
        """Some nodes and all that they read, operands first."""
        key = tuple(nodes)
        if key not in self._orders:
            self._orders[key] = topological(key)
        return self._orders[key]

    def decides(self, flag: Node, nodes: Sequence[Node]) -> bool:
        """Whether some nodes read a flag, or a lazy choice between them and another arm does."""
        choices = (n for n in self._order if n.op == "cond" and self.reads(n.inputs[0], flag))
        return any(self.reads(n, flag) for n in nodes) or any(
            self.reads(arm, n) for choice in choices for arm in choice.inputs[1:] for n in nodes
        )

    def below(self, node: Node) -> frozenset[Node]:
        """Everything that a node reads, and itself."""
        if node not in self._below:
            self._below[node] = frozenset(self._nodes(self._bits[node]))
        return self._below[node]

    def inputs(self, node: Node) -> frozenset[Node]:
        """The inputs that a node reads; an element of an input that is there itself stands for the whole."""
        if node not in self._inputs:
            read = self._nodes(self._bits[node] & self._leaves)
            self._inputs[node] = frozenset(whole(n, self._bits) for n in read if isinstance(n, Leaf))
        return self._inputs[node]

    def _nodes(self, bits: int) -> Iterator[Node]:
        digits = bin(bits)[:1:-1]
        place = digits.find("1")
        while place >= 0:
            yield self._order[place]
            place = digits.find("1", place + 1)
