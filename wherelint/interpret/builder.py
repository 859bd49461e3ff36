"""The state of lowering one function, and the primitives that build the graph."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Block, Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import (
    LANES,
    PLAIN,
    Const,
    Kind,
    Leaf,
    Node,
    Static,
    const,
    differentiable_inputs,
    leaf,
    spread,
)
from wherelint.interpret.values import (
    Class,
    Contents,
    Dotted,
    Function,
    Handler,
    Instance,
    Method,
    Origin,
    Scope,
    Settled,
    Shape,
    Value,
    closed_over,
    nodes_in,
)
from wherelint.ops import OPERATIONS


@dataclass
class Frame:
    """One call being lowered: its variables, and what it has returned so far."""

    scope: Scope
    function: str
    block: Block
    conditions_at_entry: int
    returns: list[tuple[tuple[Node, ...], Value]] = field(default_factory=list)
    #: Predicates that hold after the call: its unconditional asserts and raises.
    postconditions: list[Node] = field(default_factory=list)
    #: The function whose body is being run.
    definition: ast.AST | None = None
    #: The class whose body is being run.
    owner: Class | None = None
    #: The class that defines the method being run, and the object it was called on.
    method_of: Class | None = None
    receiver: Value = None
    #: How the iteration of the innermost loop was left so far, and what holds for the rest of it alone.
    jumps: list[type] = field(default_factory=list)
    passing: list[Node] = field(default_factory=list)
    #: The call of the checked file that led into another file, while that is being lowered.
    call: Origin | None = None


#: Operations whose result is an integer only if their operands are.
_OF_THE_SAME_DTYPE = frozenset({"max", "min", "maximum", "minimum", "identity", "lane", "gather", "pick", "cond"})

#: Nodes that are no operations of the catalogue, and hand on what they are given.
_STRUCTURAL = frozenset({"stack", "cond", "pick", "lane", "gather", "compress"})
_LABEL = 48


class Builder:
    """Builds the graph of one function (and what it calls): its state, and what can be said of values."""

    def __init__(self, module: Module, frameworks: Sequence[str], *, strict: bool = False) -> None:
        self.module = module
        self.budget = module.budget
        #: Whether impure calls are told apart, each an input of its own, and defaults that are numbers are inputs.
        self.strict = strict
        #: How many impure calls were read.
        self.opaque_calls = 0
        self.frameworks = list(frameworks)
        self.frames: list[Frame] = []
        #: Values of the top level that were read, and hold again what they held at first.
        self.restored: set[Contents] = set()
        self.path_conditions: list[Node] = []
        #: Nodes that leave the function: returned, stored, handed to a call that could not be followed.
        self.outputs: list[Node] = []
        #: What calls were given that draw random numbers: it matters where these do.
        self.given: dict[Leaf, list[Value]] = {}
        #: What functions close over that leave it.
        self.captured: list[Node] = []
        #: Every selection and every coded operation, in the order they were written.
        self.made: list[Node] = []
        #: Values whose shape was read.
        self.measured: list[Node] = []
        self.closures: list[Function] = []
        #: By how many places each index that is not known moves the elements.
        self.rotations: dict[Node, int] = {}
        #: What was asked of a value: whether it is this or that text.
        self.texts: dict[object, dict[object, Node]] = {}
        #: Functions inlined so far, each with the range of ``made`` that its body produced.
        self.inlined: list[tuple[Function, int, int]] = []
        self.severed = 0
        #: How many values the function computes so far.
        self.count = 0
        self.steps = 0
        #: What was done once for every function of the file that asks for it.
        self.shared_steps = 0
        self._leaves: dict[object, Leaf] = {}
        #: What ``identity`` was asked about: an object that is gone would leave its identity to another one.
        self._held: dict[int, object] = {}
        #: Objects of which only the class is known, by what tells them from others.
        self.objects: dict[object, Value] = {}
        #: Whether a derivative with respect to anything reaches a value, as far as that was asked.
        self._flowing: dict[Node, bool] = {}
        #: Which products and differences are 0 in some places by construction, as far as that was asked.
        self.masks: dict[Node, bool] = {}
        #: What conditions are if no parameter is passed that has a default, None where other things decide.
        self.by_default: dict[Node, bool | None] = {}

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def block(self) -> Block:
        return self.frames[-1].block

    def origin(self, node: ast.AST) -> Origin:
        frame = self.frame
        return Origin(frame.block, node, frame.function, frame.call)

    def text(self, node: ast.AST) -> str:
        """A short label in the author's spelling."""
        text = self.block.text(node)
        return text if len(text) <= _LABEL else text[: _LABEL - 3] + "..."

    @property
    def crowded(self) -> bool:
        """Whether so much was computed already that further calls are better not followed."""
        return self.count > self.budget.nodes // 2

    def step(self, count: int = 1) -> None:
        """Count what is done, whether or not a value comes of it. Raises GiveUp where that is too much."""
        self.steps += count
        if self.steps > self.budget.steps:
            raise GiveUp("it takes too many steps (analysis budget exceeded)")

    @contextmanager
    def shared(self) -> Iterator[None]:
        """What is lowered inside counts for no function: whichever needs it first is read as the others are."""
        before = self.count, self.steps
        self.count = self.steps = 0
        try:
            yield
        finally:
            self.shared_steps += self.steps
            self.count, self.steps = before

    def node(
        self,
        op: str,
        inputs: Sequence[Value],
        at: ast.AST,
        *,
        selection: str | None = None,
        framework: str | None = None,
        static: Static = PLAIN,
    ) -> Node:
        """A new operation on tensors (numbers and sequences are converted)."""
        self.count += 1
        if self.count > self.budget.nodes:
            raise GiveUp("it computes too many values (analysis budget exceeded)")
        operands = tuple([i if isinstance(i, Node) else self.tensor(i, at) for i in inputs])
        kind, conditions = _kind(op, operands), tuple(self.path_conditions)
        made = Node(op, operands, static, kind, self.origin(at), selection, framework, conditions)
        entry = OPERATIONS.get(op)
        if selection is not None or (entry is not None and entry.code is not None):
            self.made.append(made)
        return self.stop(made, at) if self.severed and made.kind == "float" else made

    def copy(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The same operation on other operands."""
        made = replace(node, inputs=inputs)
        if node in self.made:
            self.made.append(made)
        return made

    def stop(self, value: Value, at: ast.AST, kind: Kind = "float", static: Static = PLAIN) -> Node:
        """The value without its derivative."""
        self.step()
        tensor = self.tensor(value, at)
        kind, conditions = "bool" if tensor.kind == "bool" else kind, tuple(self.path_conditions)
        return Node("stop", (tensor,), static, kind, self.origin(at), path_conditions=conditions)

    def overwritten(self, value: Value, at: ast.AST) -> Value:
        """A value before some of its elements are written in place: torch refuses to differentiate a saved result."""
        if not isinstance(value, Node):
            return value
        framework = FRAMEWORKS.get(value.framework or "")
        return self.stop(value, at) if framework is not None and value.op in framework.saved else value

    def opaque(
        self,
        text: str,
        key: object = None,
        *,
        kind: Kind = "float",
        differentiable: bool = True,
        preferred: bool | None = None,
        fixed: bool = False,
    ) -> Leaf:
        """An input that stands for whatever could not be followed; the same key gives the same input."""
        key = (text, key, kind)
        if key not in self._leaves:
            node = leaf(text, kind=kind, differentiable=differentiable and not self.severed)
            node.fixed, node.preferred, node.given = fixed, preferred, tuple(self._named_by(key))
            self._leaves[key] = node
        return self._leaves[key]

    def inputs(self) -> tuple[dict[object, Leaf], dict[int, object]]:
        """The inputs made so far, by what they are told apart by."""
        return self._leaves, self._held

    def recall(self, leaves: Mapping[object, Leaf], held: Mapping[int, object]) -> None:
        """Take up inputs that another function of the file made: what is read again is the same."""
        self._leaves = {**leaves, **self._leaves}
        self._held.update(held)

    def imaginary(self, at: ast.AST) -> Leaf:
        """A complex number, of which no more is known than that it is one."""
        made = self.opaque(self.text(at), differentiable=False)
        made.imaginary = True
        return made

    def _named_by(self, key: object) -> Iterator[Node]:
        """The values by whose identity an input is told from others."""
        todo = [key]
        while todo:
            part = todo.pop()
            if isinstance(part, tuple):
                todo += part
            elif isinstance(part, int) and isinstance(held := self._held.get(part), (Node, tuple, list, dict)):
                yield from nodes_in(held)

    def identity(self, value: object) -> object:
        """What tells a value from others in the key of an input: a number or a string is itself."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return type(value), value
        self._held[id(value)] = value
        return id(value)

    def entry(self, tensor: Leaf, name: str, view: Node, numbers: Sequence[int]) -> Leaf:
        """``m[i, j]`` of a matrix, or of a view of it: another input for every other index."""
        made = self.element(tensor, name, numbers[-1], (self.identity(view), *numbers))
        made.entry = True
        return made

    def element(self, tensor: Leaf, name: str, index: int, key: object = None) -> Leaf:
        """``x[index]`` of an input: an input of its own, unless x is one of the same computation."""
        key, flows = ("element", self.identity(tensor), key or index), tensor.differentiable
        made = self.opaque(name, key, kind=tensor.kind, differentiable=flows, fixed=tensor.fixed)
        made.of = (tensor, index)
        if tensor.kept is not None:  # rows or columns of the indices where a mask holds
            made.kept = tensor.kept
            tensor.pairs = tensor.pairs or index != 0
        return made

    def measure(self, *values: Value) -> None:
        """Note that the shapes of some values are read."""
        self.measured += nodes_in(*values)

    def size(self, text: str) -> Leaf:
        """A length: of an array without elements nothing is differentiated, so it is at least 1."""
        made = self.opaque(text, "size", kind="int")
        made.least = 1
        return made

    def is_size(self, *values: Value) -> None:
        """Note that inputs count something, since they are used as lengths: integers, at least 1."""
        todo = list(nodes_in(*(value for value in values if isinstance(value, (Node, tuple, list)))))
        seen = set[Node]()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, Leaf) and value.kind != "bool":
                self.not_differentiated(value)
                value.kind = "int"
                value.least = 1 if value.least is None else value.least
            elif value.op in _OF_THE_SAME_DTYPE:
                todo += value.inputs

    def tensor(self, value: Value, at: ast.AST) -> Node:
        """Any value as a node."""
        if isinstance(value, Node):
            return value
        value = value.truth if isinstance(value, Settled) else value
        if isinstance(value, (bool, int, float)):
            return const(value, origin=self.origin(at))
        if isinstance(value, (list, tuple)) and value:
            numbers = self.static_numbers(value)
            if numbers:  # of an array without elements nothing is known
                return self.numbers(numbers, at)
            if len(value) == 1:
                return self.tensor(value[0], at)
            if len(value) <= 64:
                return self.concatenated([self.tensor(v, at) for v in value[:LANES]], at)
        if isinstance(value, Method):
            kind: Kind = "int" if value.name == "size" else "float"
            return self.opaque(value.text, self.identity(value.receiver), kind=kind)
        if isinstance(value, Shape):
            return self.size(value.of)
        if isinstance(value, Instance):
            return self.opaque(value.name, self.identity(value))
        if isinstance(value, Dotted):
            return self.opaque(value.name, differentiable=False, fixed=True)
        static = value is None or isinstance(value, (str, bytes, Function, Class, Handler, list, tuple, dict))
        return self.opaque(self.text(at), self.identity(value), differentiable=not static, fixed=static)

    def static_numbers(self, value: Sequence[Value]) -> list[Any] | None:
        """A nested sequence of numbers as one list, None where something in it is not known."""
        self.step(len(value))
        out: list[Any] = []
        for item in value:
            if isinstance(item, (bool, int, float)):
                out.append(item)
            elif isinstance(item, (list, tuple)):
                inner = self.static_numbers(item)
                if inner is None:
                    return None
                out += inner
            else:
                return None
        return out

    def numbers(self, values: Sequence[Any], at: ast.AST) -> Node:
        """A constant array."""
        made = const(values, origin=self.origin(at))
        made.single = len(values) == 1
        return made

    def concatenated(self, parts: Sequence[Node], at: ast.AST) -> Node:
        """Arrays one after the other."""
        single = [i for i, part in enumerate(parts) if _single(part)]
        return self.node("stack", parts, at, static=Static(lanes=spread(len(parts), single)))

    @contextmanager
    def inside(self, frame: Frame) -> Iterator[Frame]:
        """What is lowered inside belongs to a frame."""
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()

    def assume(self, *path_conditions: Node | bool) -> None:
        """Note that predicates hold from here on, unless they are settled."""
        self.path_conditions += [condition for condition in path_conditions if isinstance(condition, Node)]

    @contextmanager
    def assuming(self, *path_conditions: Node | bool) -> Iterator[None]:
        """Predicates that hold inside."""
        before = len(self.path_conditions)
        self.assume(*path_conditions)
        try:
            yield
        finally:
            del self.path_conditions[before:]

    @contextmanager
    def without_gradient(self, severed: bool = True) -> Iterator[None]:
        """Everything computed inside is a constant for reverse mode."""
        self.severed += severed
        try:
            yield
        finally:
            self.severed -= severed

    def leaves_function(self, value: Value) -> None:
        """Note that a value escapes, so that its gradient matters; so does what a function closes over."""
        self.outputs += nodes_in(value)
        self.captured += closed_over(value)

    def not_differentiated(self, source: Leaf) -> None:
        """Note that nothing is differentiated with respect to an input after all."""
        source.differentiable = False
        self._flowing.clear()

    def reads_gradient(self, nodes: Iterable[Node]) -> bool:
        """Whether a derivative with respect to anything reaches one of these values."""
        return any(self._flows(node) for node in nodes if node.kind == "float")

    def _flows(self, node: Node) -> bool:
        known = self._flowing
        todo = [node]
        while todo:
            each = todo.pop()
            if each in known:
                continue
            operands = [each.inputs[i] for i in differentiable_inputs(each)]
            missing = [operand for operand in operands if operand not in known]
            if isinstance(each, Leaf) or not missing or any(map(known.get, operands)):
                known[each] = each.differentiable if isinstance(each, Leaf) else any(map(known.get, operands))
            else:
                todo += [each, *missing]
        return known[node]


def _single(node: Node) -> bool:
    """Whether a value is known to have one element."""
    if node.op == "gather":
        return len(set(node.static.lanes)) == 1
    if node.op in ("identity", "stop"):
        return _single(node.inputs[0])
    return node.op in ("lane", "pick") or (isinstance(node, Const) and node.single)


def _kind(op: str, operands: tuple[Node, ...]) -> Kind:
    entry = OPERATIONS.get(op)
    result = "same" if op in _STRUCTURAL else entry.result if entry is not None else "float"
    if result == "bool" or result == "int":
        return result
    kinds = {o.kind for o in (operands[1:3] if op in ("where", "cond", "compress") else operands)}
    if result == "float" or "float" in kinds:
        return "float"
    return "bool" if "int" not in kinds and op not in ("sum", "add", "multiply") else "int"
