"""Lowers one function of a file, with everything it calls, to a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wherelint.frontend.module import Module
from wherelint.graph.node import Leaf, Node, flowing_back, inputs_in, topological
from wherelint.graph.work import Work
from wherelint.interpret import intrinsics  # noqa: F401  (with it every handler is registered)
from wherelint.interpret.builder import Frame
from wherelint.interpret.calls import inline, root_arguments
from wherelint.interpret.lowering import CallSite, Lowering
from wherelint.interpret.objects import self_of
from wherelint.interpret.resolve import NO_GRADIENT, global_scope, global_value, member
from wherelint.interpret.values import (
    Bound,
    Class,
    Function,
    Handler,
    Instance,
    Method,
    Origin,
    Partial,
    Super,
    Value,
    closed_over,
    nodes_in,
)

#: What a step costs, in node evaluations.
_STEP = 3


@dataclass(frozen=True, eq=False)
class Program:
    """The graph of one function: what leaves it, and the selections and singular operations on the way."""

    name: str
    #: In the order they were written; only nodes from which a gradient can flow back.
    made: tuple[Node, ...]
    #: What leaves the function.
    outputs: tuple[Node, ...] = ()
    #: The functions that were lowered inside, and the nodes of theirs that a gradient flows back to.
    inlined: tuple[tuple[str, tuple[Node, ...]], ...] = ()
    #: How many impure calls it makes, where they are told apart.
    opaque_calls: int = 0
    #: Values whose shape is read.
    measured: tuple[Node, ...] = ()

    @cached_property
    def order(self) -> list[Node]:
        """Everything that the floating point values leaving the function read."""
        return topological(s for s in self.outputs if s.kind == "float")

    @cached_property
    def inputs(self) -> list[Leaf]:
        """The inputs among them."""
        return list(inputs_in(self.order))


def expression_id(node: Node) -> int:
    """The expression that a node was written as, whatever call it was lowered for."""
    origin = node.origin
    return id(origin.node) if isinstance(origin, Origin) else id(node)


def spot(node: Node) -> tuple[int, int]:
    """The expression that a node was written as, and the call of the checked file that led to it."""
    call = node.origin.call if isinstance(node.origin, Origin) else None
    return expression_id(node), id(call.node) if call is not None else 0


def programs(module: Module, name: tuple[str, ...], used: Sequence[str], strict: bool = False) -> list[Program]:
    """Lower a function or method, inherited or not, then every function inside it that nothing in it calls.

    Functions that it gets from other files are left out unless they hold something of this one. ``strict``: no two
    impure calls give the same, and a default is only one of the numbers that a parameter may be.
    Raises GiveUp where it is too much to follow.
    """
    low = Lowering(module, used, strict=strict)
    low.frames.append(Frame(global_scope(module), "", module.definitions[name[0]].block, 0))
    value = global_value(low, module, name[0])
    cls = value if isinstance(value, Class) else None
    if cls is not None:
        value = member(cls, name[-1])
        if not isinstance(value, Function) or value.owner is None:
            return []
    found: list[Program] = []
    todo: list[Value] = [value]
    done: set[int] = set()
    if not isinstance(value, Function):
        todo = [f for f in reversed(low.closures) if _concerns(f, module)]
    try:
        while todo:
            function = todo.pop(0)
            if not isinstance(function, Function) or id(function.definition) in done or (found and function.called):
                continue
            done.add(id(function.definition))
            low.closures.clear()
            low.frames[:] = [Frame(function.scope, function.name, function.block, 0)]
            if function.opaque and not function.jvp_rule:
                continue
            found.append(_lower(low, function, cls or function.owner))
            if not function.decorators & NO_GRADIENT:  # what is inside runs without one, too
                todo += [f for f in reversed(low.closures) if _concerns(f, module)]  # a later one may call earlier ones
    finally:
        Work.count(_STEP * (low.steps + low.shared_steps))
    return found


def lowered(module: Module, name: tuple[str, ...], used: Sequence[str], strict: bool = False) -> list[Program]:
    """The same, lowered once for all who ask about a text."""
    return module.once(programs, name, tuple(used), strict)


def own_programs(module: Module, name: tuple[str, ...], used: Sequence[str], strict: bool = False) -> list[Program]:
    """Those of a function and of the functions inside it: not of a lambda that it was the first to make something of,
    in the body of a class.
    """
    found, written = lowered(module, name, used, strict), ".".join(name)
    inside = [p for p in found if p.name == written or p.name.startswith(f"{written}.")]
    return inside or found


def _concerns(function: Function, module: Module) -> bool:
    """Whether a function is written in a file, or closes over something that is: a function, a computation."""
    todo: list[Value] = [function]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Function, Class)):
            if value.block.module is module:
                return True
            scope = value.scope
            while scope.parent is not None:
                todo += scope.names.values()
                scope = scope.parent
        elif isinstance(value, Node):
            if value.inputs and value.origin.block.module is module:
                return True
            todo += value.inputs
        elif isinstance(value, (dict, list, tuple)):
            todo += value.values() if isinstance(value, dict) else value
        elif isinstance(value, (Bound, Instance, Method, Partial, Super)):
            todo += vars(value).values()
        elif isinstance(value, Handler):
            return True  # nobody knows what is inside
    return False


def _lower(low: Lowering, function: Function, owner: Class | None) -> Program:
    low.opaque_calls = low.count = 0
    low.outputs.clear()
    low.captured.clear()
    low.made.clear()
    low.measured.clear()
    low.inlined.clear()
    low.path_conditions[:] = function.path_conditions
    function_opaque, function.opaque = function.opaque, False
    try:
        arguments = root_arguments(low, function)
        names = list(arguments)
        kinds = function.decorators
        if function.owner is not None and owner is not None and names and "staticmethod" not in kinds:
            receiver = self_of(low, owner)
            low.path_conditions += receiver.path_conditions
            arguments[names[0]] = owner if "classmethod" in kinds else receiver
        if function.jvp_rule:
            # The rule is transposed with respect to the tangents; the primals are constants to it.
            for name in names[:-1]:
                arguments[name] = low.opaque(name, ("primal", low.identity(function)), differentiable=False)
        result = inline(low, function, CallSite("", (), arguments, function.definition))
    finally:
        function.opaque = function_opaque
    outputs = [*low.outputs, *nodes_in(result)]
    known = set(topological(outputs))
    outputs += [n for n in (*low.captured, *closed_over(result)) if n not in known]
    live = flowing_back(outputs)
    while passed := [
        n for drawn, given in low.given.items() if drawn in live for n in nodes_in(given) if n not in live
    ]:
        outputs += passed
        live = flowing_back(outputs)
    inlined = tuple(
        (f.name, tuple(n for n in low.made[a:b] if n in live)) for f, a, b in low.inlined if f is not function
    )
    made = tuple(n for n in low.made if n in live)
    return Program(function.name, made, tuple(dict.fromkeys(outputs)), inlined, low.opaque_calls, tuple(low.measured))
