"""Statements and control flow. A handler returns True where control does not go on."""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from wherelint.frontend.names import imported
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, below, named_methods
from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.annotations import annotated, annotation_kind
from wherelint.interpret.arithmetic import binary, compare
from wherelint.interpret.expressions import elements
from wherelint.interpret.indexing import assign
from wherelint.interpret.lowering import Lowering, statement
from wherelint.interpret.resolve import NO_GRADIENT, external, make_class, make_function
from wherelint.interpret.values import Dotted, Function, Method, Value


@statement(ast.Expr)
def _expression(low: Lowering, node: ast.Expr) -> bool:
    low.expression(node.value)
    return False


@statement(ast.Assign)
def _assign(low: Lowering, node: ast.Assign) -> bool:
    value = low.expression(node.value)
    for target in node.targets:
        assign(low, target, value)
    return False


@statement(ast.AnnAssign)
def _annotated(low: Lowering, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(low, node.target, low.expression(node.value))
    elif isinstance(node.target, ast.Name) and low.frame.owner is not None:
        # A field without a default: `sigma: float` of a dataclass, a NamedTuple or a module. The body of a class runs
        # once, without gradient; what the field will hold is another matter.
        name, annotation = node.target.id, node.annotation
        made = annotated(low, f"self.{name}", (low.identity(low.frame.owner), name), annotation)
        made.differentiable = annotation_kind(annotation) is None
        low.frame.scope.names[name] = made
    return False


@statement(ast.AugAssign)
def _augmented(low: Lowering, node: ast.AugAssign) -> bool:
    if isinstance(node.target, ast.Subscript):
        base = low.expression(node.target.value)
        if isinstance(base, Node):
            # `x[m] op= y` computes on the selected elements alone: lazy, no zero meets the others.
            mask = indexing.where_written(low, node.target.slice)
            base = low.overwritten(base, node)
            updated = binary(low, type(node.op), base, low.expression(node.value), node)
            assign(low, node.target.value, low.node("cond", (mask, updated, base), node))
            return False
    before = low.overwritten(low.expression(node.target), node)
    assign(low, node.target, binary(low, type(node.op), before, low.expression(node.value), node))
    return False


@statement(*FUNCTION_DEFS)
def _function(low: Lowering, node: FunctionDef) -> bool:
    frame = low.frame
    made = make_function(low, node, frame.scope, frame.block, frame.function, frame.owner)
    siblings = {} if frame.owner is None else frame.block.chunk.once(named_methods, frame.owner.definition)
    frame.scope.names[siblings.get(node, node.name)] = made
    if isinstance(made, Function) and frame.owner is None:
        made.path_conditions = tuple(low.path_conditions)
        low.closures.append(made)
    return False


@statement(ast.ClassDef)
def _class(low: Lowering, node: ast.ClassDef) -> bool:
    made = make_class(low, node, low.frame.scope, low.block, low.frame.function)
    low.frame.scope.names[node.name] = made
    low.closures += [each for each in made.members.values() if isinstance(each, Function) and each.owner is made]
    return False


@statement(ast.Import, ast.ImportFrom)
def _import(low: Lowering, node: ast.Import | ast.ImportFrom) -> bool:
    module = low.frame.scope.module
    for local, name in module.resolve(imported(node, module.package)).items():
        low.frame.scope.names[local] = external(low, module, name)
    return False


@statement(ast.Nonlocal, ast.Global)
def _given_away(low: Lowering, node: ast.Nonlocal | ast.Global) -> bool:
    low.frame.scope.outer |= set(node.names)
    return False


@statement(ast.Delete)
def _delete(low: Lowering, node: ast.Delete) -> bool:
    for target in node.targets:
        if isinstance(target, ast.Name):
            low.frame.scope.names.pop(target.id, None)
    return False


MAX_UNROLL = 4
_Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While


@statement(ast.Return)
def _return(low: Lowering, node: ast.Return) -> bool:
    value = low.expression(node.value) if node.value is not None else None
    frame = low.frame
    frame.returns.append((tuple(low.path_conditions[frame.conditions_at_entry :]), value))
    return True


@statement(ast.Raise, ast.Break, ast.Continue)
def _jump(low: Lowering, node: ast.Raise | ast.Break | ast.Continue) -> bool:
    if not isinstance(node, ast.Raise):
        low.frame.jumps.append(type(node))
    return True


@statement(ast.Assert)
def _assert(low: Lowering, node: ast.Assert) -> bool:
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


@statement(ast.If)
def _if(low: Lowering, node: ast.If) -> bool:
    test = low.condition(low.expression(node.test), node.test)
    if isinstance(test, bool):
        return low.run(node.body if test else node.orelse)
    scope = low.frame.scope
    before = dict(scope.names)
    returned, jumped = len(low.frame.returns), len(low.frame.jumps)
    with low.assuming(test):
        ended = low.run(node.body)
    then = scope.names
    scope.names = dict(before)
    against = low.negation(test, node.test)
    with low.assuming(against):
        other_ended = low.run(node.orelse)
    if ended and other_ended:
        return True
    if ended:
        # What follows runs only where the test failed. A raise binds the caller as well, a return does not, and what
        # `continue` and `break` leave out is the rest of the iteration.
        if len(low.frame.jumps) > jumped and isinstance(against, Node):
            low.frame.passing.append(against)
        if len(low.frame.returns) == returned and len(low.frame.jumps) == jumped:
            hold(low, against)
        else:
            low.assume(against)
    elif other_ended:
        scope.names = then
        low.assume(test)
    else:
        scope.names = _merge(low, test, then, scope.names, node)
    return False


def _merge(low: Lowering, test: Node | bool, a: dict[str, Value], b: dict[str, Value], at: ast.AST) -> dict[str, Value]:
    merged = dict(b)
    for name, value in a.items():
        if name not in b:
            merged[name] = value
        elif b[name] is not value:
            merged[name] = low.choose(test, value, b[name], at)
    return merged


@statement(ast.For, ast.AsyncFor)
def _for(low: Lowering, node: ast.For | ast.AsyncFor) -> bool:
    items = low.expression(node.iter)
    if isinstance(items, (list, tuple)) and len(items) <= MAX_UNROLL:
        for item in items:
            assign(low, node.target, item)
            if _iteration(low, node.body):
                return False
        return _otherwise(low, node)
    with _any_iteration(low, node):
        for element in elements(low, items, node.iter)[:1]:
            assign(low, node.target, element)
        _iteration(low, node.body)
    return _otherwise(low, node)


def _iteration(low: Lowering, body: list[ast.stmt]) -> bool:
    """Run the body of a loop once; whether no other iteration follows."""
    frame = low.frame
    around = frame.jumps, frame.passing
    frame.jumps, frame.passing = [], []
    try:
        ended = low.run(body)
        low.path_conditions[:] = [f for f in low.path_conditions if f not in frame.passing]
        return ended and ast.Continue not in frame.jumps
    finally:
        frame.jumps, frame.passing = around


@statement(ast.While)
def _while(low: Lowering, node: ast.While) -> bool:
    if low.condition(low.expression(node.test), node.test) is False:
        return _otherwise(low, node)
    with _any_iteration(low, node), low.assuming(low.condition(low.expression(node.test), node.test)):
        _iteration(low, node.body)
    if not low.block.chunk.once(_breaks, node):
        low.assume(low.negation(low.condition(low.expression(node.test), node.test), node.test))
    return _otherwise(low, node)


def _otherwise(low: Lowering, node: _Loop) -> bool:
    """The ``else`` of a loop, which is run unless the loop is left; whether it ends the function."""
    if not node.orelse:
        return False
    if not low.block.chunk.once(_breaks, node):
        return low.run(node.orelse)
    scope = low.frame.scope
    before = dict(scope.names)
    exhausted = low.opaque("(not left)", low.identity(node), kind="bool")
    with low.assuming(exhausted):
        ended = low.run(node.orelse)
    scope.names = before if ended else _merge(low, exhausted, scope.names, before, node)
    return False


def _breaks(loop: _Loop) -> bool:
    """Whether a loop may end although its test holds."""
    return any(isinstance(node, ast.Break) for node in below(loop.body))


@contextmanager
def _any_iteration(low: Lowering, loop: _Loop) -> Iterator[None]:
    """Inside, a variable that the loop assigns is its initial value or anything."""
    scope = low.frame.scope
    carried = []
    for name, in_place in low.block.chunk.once(_assigned, loop).items():
        if name not in scope.names:
            continue
        initial = scope.names[name]
        if isinstance(initial, bool) or not isinstance(initial, (Node, int, float)):
            continue
        tensor = low.tensor(initial, loop)
        # An array written in place keeps its dtype; a name bound anew may come to stand for something else.
        kept = isinstance(initial, int) or tensor.kind != "int" or in_place or "torch" in low.frameworks
        kind = tensor.kind if kept else "float"
        later = low.opaque(name, ("loop", low.identity(loop), name), kind=kind, differentiable=tensor.kind == "float")
        first = low.opaque("(first iteration)", ("loop", low.identity(loop)), kind="bool")
        scope.names[name] = low.node("cond", (first, tensor, later), loop)
        carried.append(name)
    yield
    # The next iteration reads what this one leaves, such as the direction of a conjugate gradient.
    low.leaves_function([value for name in carried if isinstance(value := scope.names.get(name), Node)])


def _assigned(loop: _Loop) -> dict[str, bool]:
    """The names that a loop body assigns, and whether only elements of what they stand for are written."""
    names: dict[str, bool] = {}

    def note(target: ast.expr, in_place: bool = False) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = names.get(target.id, True) and in_place
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                note(element.value if isinstance(element, ast.Starred) else element)
        elif isinstance(target, ast.Subscript):
            note(target.value, in_place=True)

    for node in below(loop.body, but=FUNCTION_DEFS):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                note(target)
        elif isinstance(node, ast.AugAssign):
            note(node.target)
    return names


@statement(ast.With, ast.AsyncWith)
def _with(low: Lowering, node: ast.With | ast.AsyncWith) -> bool:
    severed = False
    for item in node.items:
        expression = item.context_expr
        callee = expression.func if isinstance(expression, ast.Call) else expression
        name = low.expression(callee)
        if isinstance(name, Method):
            severed |= name.name == "stop_recording"  # of a GradientTape
        elif isinstance(name, Dotted):
            last = name.name.rpartition(".")[2]
            severed |= last in NO_GRADIENT or (last == "set_grad_enabled" and _is_off(expression))
        low.expression(expression)
        value = low.opaque(low.text(expression), differentiable=False)
        if item.optional_vars is not None:
            assign(low, item.optional_vars, value)
    with low.without_gradient(severed):
        return low.run(node.body)


def _is_off(switch: ast.expr) -> bool:
    """Whether a call says False, as it stands there."""
    given = [*switch.args, *(k.value for k in switch.keywords)] if isinstance(switch, ast.Call) else []
    return any(isinstance(a, ast.Constant) and a.value is False for a in given)


@statement(ast.Try, getattr(ast, "TryStar", ast.Try))
def _try(low: Lowering, node: ast.Try) -> bool:
    """The body, or else one of the handlers with what was known before the body, any part of which may have raised."""
    scope, frame = low.frame.scope, low.frame
    before, known = dict(scope.names), len(low.path_conditions)
    postconditions, first = len(frame.postconditions), len(frame.returns)
    ended = low.run(node.body) or low.run(node.orelse)
    names, learnt, returned = scope.names, low.path_conditions[known:], len(frame.returns)
    del low.path_conditions[known:]
    handled: list[tuple[Node, dict[str, Value]]] = []
    passed: list[Node] = []
    for i, handler in enumerate(node.handlers):
        raised = low.opaque("(exception)", (low.identity(node), i), kind="bool", preferred=False)
        raised.arm = True
        passed.append(low.node("logical_not", (raised,), node))
        scope.names = dict(before)
        if handler.name is not None:
            scope.bind(handler.name, low.opaque("(exception)", low.identity(handler), differentiable=False))
        with low.assuming(raised):
            if not low.run(handler.body):
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
    return low.run(node.finalbody) or ended


@statement(ast.Match)
def _match(low: Lowering, node: ast.Match) -> bool:
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
            ended = low.run(case.body)
        ends.append(ended)
        if not ended:
            arms.append((taken, scope.names))
        if taken is True:
            break
    scope.names = before
    for taken, names in reversed(arms):
        scope.names = _merge(low, taken, names, scope.names, node)
    return bool(ends) and all(ends) and (taken is True or _is_anything(node.cases[-1]))


def _taken(low: Lowering, case: ast.match_case, number: int, subject: Value, node: ast.Match) -> Node | bool:
    """Whether a case is the one; what it captures is bound."""
    pattern = case.pattern
    taken: Node | bool = low.opaque(f"case {low.text(pattern)}", (low.identity(node), number), kind="bool")
    for part in ast.walk(pattern):
        if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name is not None:
            low.frame.scope.names[part.name] = low.opaque(part.name, (low.identity(case), part.name))
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is not None:
        low.frame.scope.names[pattern.name] = subject
    elif isinstance(pattern, ast.MatchValue) and isinstance(subject, (Node, bool, int, float, str)):
        taken = low.condition(compare(low, ast.Eq, subject, low.expression(pattern.value), pattern), pattern)
    if case.guard is None or taken is False:
        return taken
    guard = low.condition(low.expression(case.guard), case.guard)
    if isinstance(guard, bool):
        return guard and taken
    return low.node("logical_and", (taken, guard), case.guard)


def _is_anything(case: ast.match_case) -> bool:
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
