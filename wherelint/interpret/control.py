"""Control flow: branches, loops, exceptions, patterns. A handler returns True where control does not go on."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from wherelint.frontend.syntax import below
from wherelint.graph.node import Node
from wherelint.interpret.comparisons import compare
from wherelint.interpret.expressions import elements
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import NO_GRADIENT
from wherelint.interpret.tables import statement
from wherelint.interpret.targets import assign
from wherelint.interpret.values import Dotted, Method, Value

MAX_UNROLL = 4


@statement(cst.Return)
def _return(low: Lowering, node: cst.Return) -> bool:
    value = low.expression(node.value) if node.value is not None else None
    frame = low.frame
    frame.returns.append((tuple(low.path_conditions[frame.conditions_at_entry :]), value))
    return True


@statement(cst.Raise)
def _raise(low: Lowering, node: cst.Raise) -> bool:
    return True


@statement(cst.Break, cst.Continue)
def _jump(low: Lowering, node: cst.Break | cst.Continue) -> bool:
    low.frame.jumps.append(type(node))
    return True


@statement(cst.Assert)
def _assert(low: Lowering, node: cst.Assert) -> bool:
    test = low.condition(low.expression(node.test), node.test)
    hold(low, test)
    return test is False


def hold(low: Lowering, condition: Node | bool) -> None:
    """From here on a predicate holds, for the caller too where nothing else conditions it."""
    if isinstance(condition, Node):
        frame = low.frame
        if all(f in frame.postconditions for f in low.path_conditions[frame.conditions_at_entry :]):
            frame.postconditions.append(condition)
        low.path_conditions.append(condition)


@statement(cst.If)
def _if(low: Lowering, node: cst.If) -> bool:
    # A ladder of `elif`s nests as deep as it is long; beyond some rungs the rest cannot matter to one selection.
    test = low.condition(low.expression(node.test), node.test)
    otherwise = node.orelse
    rest: list[cst.CSTNode] = (
        [] if otherwise is None else [otherwise] if isinstance(otherwise, cst.If) else list(otherwise.body.body)
    )
    if isinstance(test, bool):
        return low.run(list(node.body.body) if test else rest)
    scope = low.frame.scope
    before = dict(scope.names)
    returned, jumped = len(low.frame.returns), len(low.frame.jumps)
    with low.assuming(test):
        ended = low.run(list(node.body.body))
    then = scope.names
    scope.names = dict(before)
    against = low.negation(test, node.test)
    with low.assuming(against):
        other_ended = low.run(rest)
    if ended and other_ended:
        return True
    if ended:
        # What follows runs only where the test failed. A raise binds the caller as well, a return does not, and what
        # `continue` and `break` leave out is the rest of the iteration.
        if len(low.frame.jumps) > jumped and isinstance(against, Node):
            low.frame.passing.append(against)
        if len(low.frame.returns) == returned and len(low.frame.jumps) == jumped:
            hold(low, against)
        elif isinstance(against, Node):
            low.path_conditions.append(against)
        return False
    if other_ended:
        scope.names = then
        if isinstance(test, Node):
            low.path_conditions.append(test)
        return False
    scope.names = _merge(low, test, then, scope.names, node)
    return False


def _merge(
    low: Lowering, test: Node | bool, a: dict[str, Value], b: dict[str, Value], at: cst.CSTNode
) -> dict[str, Value]:
    merged = dict(b)
    for name, value in a.items():
        if name not in b:
            merged[name] = value
        elif b[name] is not value:
            merged[name] = low.choose(test, value, b[name], at)
    return merged


@statement(cst.For)
def _for(low: Lowering, node: cst.For) -> bool:
    items = low.expression(node.iter)
    if isinstance(items, (list, tuple)) and len(items) <= MAX_UNROLL:
        for item in items:
            assign(low, node.target, item)
            if _iteration(low, node.body):
                return False
        return _otherwise(low, node)
    _any_iteration(low, node.body)
    for element in elements(low, items, node.iter)[:1]:
        assign(low, node.target, element)
    _iteration(low, node.body)
    return _otherwise(low, node)


def _iteration(low: Lowering, body: cst.BaseSuite) -> bool:
    """Run the body of a loop once; whether no other iteration follows."""
    frame = low.frame
    around = frame.jumps, frame.passing
    frame.jumps, frame.passing = [], []
    try:
        ended = low.run(list(body.body))
        low.path_conditions[:] = [f for f in low.path_conditions if f not in frame.passing]
        return ended and cst.Continue not in frame.jumps
    finally:
        frame.jumps, frame.passing = around


@statement(cst.While)
def _while(low: Lowering, node: cst.While) -> bool:
    if low.condition(low.expression(node.test), node.test) is False:
        return _otherwise(low, node)
    _any_iteration(low, node.body)
    test = low.condition(low.expression(node.test), node.test)
    with low.assuming(test):
        _iteration(low, node.body)
    if not low.block.chunk.once(_breaks, node.body):
        after = low.negation(low.condition(low.expression(node.test), node.test), node.test)
        if isinstance(after, Node):
            low.path_conditions.append(after)
    return _otherwise(low, node)


def _otherwise(low: Lowering, node: cst.For | cst.While) -> bool:
    """The ``else`` of a loop, which is run unless the loop is left; whether it ends the function."""
    if node.orelse is None:
        return False
    if not low.block.chunk.once(_breaks, node.body):
        return low.run(list(node.orelse.body.body))
    scope = low.frame.scope
    before = dict(scope.names)
    exhausted = low.opaque("(not left)", low.identity(node), kind="bool")
    with low.assuming(exhausted):
        ended = low.run(list(node.orelse.body.body))
    scope.names = before if ended else _merge(low, exhausted, scope.names, before, node)
    return False


def _breaks(body: cst.BaseSuite) -> bool:
    """Whether a loop may end although its test holds."""
    return any(isinstance(node, cst.Break) for node in below(body))


def _any_iteration(low: Lowering, body: cst.BaseSuite) -> None:
    """A variable that the loop assigns is its initial value or anything."""
    scope = low.frame.scope
    for name, in_place in low.block.chunk.once(_assigned, body).items():
        if name not in scope.names:
            continue
        initial = scope.names[name]
        if isinstance(initial, bool) or not isinstance(initial, (Node, int, float)):
            continue
        tensor = low.tensor(initial, body)
        # An array written in place keeps its dtype; a name bound anew may come to stand for something else.
        kept = isinstance(initial, int) or tensor.kind != "int" or in_place or "torch" in low.frameworks
        kind = tensor.kind if kept else "float"
        later = low.opaque(name, ("loop", low.identity(body), name), kind=kind, differentiable=tensor.kind == "float")
        first = low.opaque("(first iteration)", ("loop", low.identity(body)), kind="bool")
        scope.names[name] = low.node("cond", (first, tensor, later), body)


def _assigned(body: cst.BaseSuite) -> dict[str, bool]:
    """The names that a loop body assigns, and whether only elements of what they stand for are written."""
    names: dict[str, bool] = {}

    def note(target: cst.BaseExpression, in_place: bool = False) -> None:
        if isinstance(target, cst.Name):
            names[target.value] = names.get(target.value, True) and in_place
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                note(element.value)
        elif isinstance(target, cst.Subscript):
            note(target.value, in_place=True)

    for node in below(body, but=(cst.FunctionDef,)):
        if isinstance(node, (cst.AssignTarget, cst.AugAssign)):
            note(node.target)
    return names


@statement(cst.With)
def _with(low: Lowering, node: cst.With) -> bool:
    severed = False
    for item in node.items:
        expression = item.item
        callee = expression.func if isinstance(expression, cst.Call) else expression
        name = low.expression(callee)
        if isinstance(name, Method):
            severed |= name.name == "stop_recording"  # of a GradientTape
        elif isinstance(name, Dotted):
            last = name.name.rpartition(".")[2]
            severed |= last in NO_GRADIENT or (last == "set_grad_enabled" and _is_off(expression))
        low.expression(expression)
        value = low.opaque(low.text(expression), differentiable=False)
        if item.asname is not None:
            assign(low, item.asname.name, value)
    with low.without_gradient(severed):
        return low.run(list(node.body.body))


def _is_off(switch: cst.BaseExpression) -> bool:
    """Whether a call says False, as it stands there."""
    return isinstance(switch, cst.Call) and any(
        isinstance(a.value, cst.Name) and a.value.value == "False" for a in switch.args
    )


@statement(cst.Try, cst.TryStar)
def _try(low: Lowering, node: cst.Try | cst.TryStar) -> bool:
    """The body, or else one of the handlers with what was known before the body, any part of which may have raised."""
    scope, frame = low.frame.scope, low.frame
    before, known, postconditions, first = (
        dict(scope.names),
        len(low.path_conditions),
        len(frame.postconditions),
        len(frame.returns),
    )
    ended = low.run(list(node.body.body)) or (node.orelse is not None and low.run(list(node.orelse.body.body)))
    names, learnt, returned = scope.names, low.path_conditions[known:], len(frame.returns)
    del low.path_conditions[known:]
    handled: list[tuple[Node, dict[str, Value]]] = []
    passed: list[Node] = []
    handlers: Sequence[cst.ExceptHandler | cst.ExceptStarHandler] = node.handlers
    for i, handler in enumerate(handlers):
        raised = low.opaque("(exception)", (low.identity(node), i), kind="bool", preferred=False)
        raised.arm = True
        passed.append(low.node("logical_not", (raised,), node))
        scope.names = dict(before)
        if handler.name is not None:
            assign(low, handler.name.name, low.opaque("(exception)", low.identity(handler), differentiable=False))
        with low.assuming(raised):
            if not low.run(list(handler.body.body)):
                handled.append((raised, scope.names))
    if len(frame.returns) > returned:  # what the body returns it returns where nothing was raised
        frame.returns[first:returned] = [((*passed, *path), value) for path, value in frame.returns[first:returned]]
    if handled or len(frame.returns) > returned:
        del frame.postconditions[postconditions:]
    if not handled:
        low.path_conditions += learnt
    elif ended:
        condition, names = handled.pop(0)
        low.path_conditions += [] if handled else [condition]
        ended = False
    scope.names = names
    for condition, caught in handled:
        numbers = {k: v for k, v in caught.items() if k not in scope.names or isinstance(v, (Node, int, float))}
        scope.names = _merge(low, condition, numbers, scope.names, node)
    if node.finalbody is not None:
        ended = low.run(list(node.finalbody.body.body)) or ended
    return ended


@statement(cst.Match)
def _match(low: Lowering, node: cst.Match) -> bool:
    subject = low.expression(node.subject)
    scope = low.frame.scope
    before = dict(scope.names)
    arms: list[tuple[Node | bool, dict[str, Value]]] = []
    ends = []
    for i, case in enumerate(node.cases):
        scope.names = dict(before)
        taken = _taken(low, case, i, subject, node)
        if taken is False:
            continue
        with low.assuming(taken):
            ended = low.run(list(case.body.body))
        ends.append(ended)
        if not ended:
            arms.append((taken, scope.names))
        if taken is True:
            break
    scope.names = before
    for taken, names in reversed(arms):
        scope.names = _merge(low, taken, names, scope.names, node)
    return bool(ends) and all(ends) and (taken is True or _is_anything(node.cases[-1]))


def _taken(low: Lowering, case: cst.MatchCase, number: int, subject: Value, node: cst.Match) -> Node | bool:
    """Whether a case is the one; what it captures is bound."""
    pattern = case.pattern
    taken: Node | bool = low.opaque(f"case {low.text(pattern)}", (low.identity(node), number), kind="bool")
    for name in _captures(pattern):
        low.frame.scope.names[name] = low.opaque(name, (low.identity(case), name))
    if isinstance(pattern, cst.MatchAs) and pattern.pattern is None and pattern.name is not None:
        low.frame.scope.names[pattern.name.value] = subject
    elif isinstance(pattern, cst.MatchValue) and isinstance(subject, (Node, bool, int, float, str)):
        taken = low.condition(compare(low, cst.Equal, subject, low.expression(pattern.value), pattern), pattern)
    if case.guard is None or taken is False:
        return taken
    guard = low.condition(low.expression(case.guard), case.guard)
    if isinstance(guard, bool):
        return guard and taken
    return low.node("logical_and", (taken, guard), case.guard)


def _is_anything(case: cst.MatchCase) -> bool:
    return case.guard is None and isinstance(case.pattern, cst.MatchAs) and case.pattern.pattern is None


def _captures(pattern: cst.CSTNode) -> list[str]:
    names: list[str] = []
    for child in pattern.children:
        names += _captures(child)
    if isinstance(pattern, (cst.MatchAs, cst.MatchStar)) and pattern.name is not None:
        names.append(pattern.name.value)
    return names
