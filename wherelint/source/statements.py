"""Statements: assignment, control flow, definitions. A handler returns True where control does not go on."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

import libcst as cst

from wherelint.encoding import NOWHERE
from wherelint.graph.node import Node
from wherelint.source import indexing
from wherelint.source.attributes import last_name
from wherelint.source.expressions import binary, elements
from wherelint.source.lowering import STATEMENTS, Lowering
from wherelint.source.names import imported
from wherelint.source.resolve import NO_GRAD, external, make_class, make_function
from wherelint.source.values import Dotted, Function, Instance, Method, Value

MAX_UNROLL = 4


def _line(low: Lowering, node: cst.SimpleStatementLine) -> bool:
    return low.run(node.body)


def _expression(low: Lowering, node: cst.Expr) -> bool:
    low.expression(node.value)
    return False


def _assign(low: Lowering, node: cst.Assign) -> bool:
    value = low.expression(node.value)
    for target in node.targets:
        assign(low, target.target, value)
    return False


def _annotated(low: Lowering, node: cst.AnnAssign) -> bool:
    if node.value is not None:
        assign(low, node.target, low.expression(node.value))
    elif isinstance(node.target, cst.Name) and low.frame.owner is not None:
        # A field without a default: `sigma: float` of a dataclass, a NamedTuple or a module. The body of a class runs
        # once, without gradient; what the field will hold is another matter.
        name = node.target.value
        kind = annotation_kind(node.annotation.annotation)
        made = low.opaque(
            f"self.{name}", (low.identity(low.frame.owner), name), kind="float" if kind in (None, "static") else kind
        )
        made.differentiable = kind is None
        low.frame.scope.names[name] = made
    return False


_KINDS = {"int": "int", "bool": "bool", "str": "static", "Callable": "static", "LongTensor": "int", "IntTensor": "int",
          "BoolTensor": "bool", "Literal": "static", "Type": "static", "type": "static"}  # fmt: skip
#: jaxtyping's array types, by what their elements are.
_ELEMENTS = {"Int": "int", "Integer": "int", "UInt": "int", "Int32": "int", "Int64": "int", "Bool": "bool"}
_CONTAINERS = frozenset(
    {"tuple", "Tuple", "list", "List", "Sequence", "Iterable", "Optional", "Union", "Final", "ClassVar"}
)


def annotation_kind(annotation: cst.BaseExpression) -> Any:
    """The kind of value an annotation promises: "int", "bool", "static", or None for a float or what is not known."""
    if isinstance(annotation, (cst.Name, cst.Attribute)):
        return _KINDS.get(last_name(annotation))
    if isinstance(annotation, cst.SimpleString):
        return _KINDS.get(annotation.value.strip("'\""))
    if isinstance(annotation, cst.BinaryOperation):  # int | None
        return _agreed([annotation.left, annotation.right])
    if isinstance(annotation, cst.Subscript):
        head = last_name(annotation.value)
        if head in _CONTAINERS:
            return _agreed([s.slice.value for s in annotation.slice if isinstance(s.slice, cst.Index)])
        return _ELEMENTS.get(head, "static" if _KINDS.get(head) == "static" else None)
    return None


def _agreed(parts: list[cst.BaseExpression]) -> Any:
    """The kind that all parts have, None aside."""
    parts = [
        p for p in parts if not (isinstance(p, cst.Name) and p.value == "None") and not isinstance(p, cst.Ellipsis)
    ]
    kinds = {annotation_kind(p) for p in parts}
    return kinds.pop() if len(kinds) == 1 else None


def assign(low: Lowering, target: cst.BaseExpression, value: Value) -> None:
    """Bind a value to a target of any form."""
    if isinstance(target, cst.Name):
        low.frame.scope.bind(target.value, value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        starred = next((i for i, e in enumerate(target.elements) if isinstance(e, cst.StarredElement)), None)
        if starred is not None and isinstance(value, (list, tuple)):
            after = len(target.elements) - starred - 1
            value = [*value[:starred], list(value[starred : len(value) - after]), *value[len(value) - after :]]
        items = indexing.unpack(low, value, len(target.elements), target)
        for element, item in zip(target.elements, items, strict=False):
            assign(low, element.value, item)
    elif isinstance(target, cst.StarredElement):
        assign(low, target.value, value)
    elif isinstance(target, cst.Attribute):
        receiver = low.expression(target.value)
        if isinstance(receiver, Instance):
            receiver.attributes[target.attr.value] = value
        low.leaves_function(value)
    elif isinstance(target, cst.Subscript):
        _assign_item(low, target, value)


def _assign_item(low: Lowering, target: cst.Subscript, value: Value) -> None:
    base = low.expression(target.value)
    if isinstance(base, (dict, list)) and len(target.slice) == 1 and isinstance(target.slice[0].slice, cst.Index):
        key = low.expression(target.slice[0].slice.value)
        if isinstance(base, dict):
            base[key if isinstance(key, (str, int, float, bool)) else low.text(target)] = value
            return
        if isinstance(key, int) and -len(base) <= key < len(base):
            base[key] = value
            return
    if not isinstance(base, Node):
        low.leaves_function(value)
        return
    mask = indexing.where_written(low, target.slice)
    if mask.op == "const" and mask.params["value"].all():
        assign(low, target.value, low.node("identity", (value,), target))
        return
    assign(low, target.value, low.select(mask, value, base, target, "assignment"))


def _augmented(low: Lowering, node: cst.AugAssign) -> bool:
    if isinstance(node.target, cst.Subscript):
        base = low.expression(node.target.value)
        if isinstance(base, Node):
            # `x[m] op= y` computes on the selected elements alone: lazy, no zero meets the others.
            mask = indexing.where_written(low, node.target.slice)
            updated = binary(low, type(node.operator), base, low.expression(node.value), node)
            assign(low, node.target.value, low.node("cond", (mask, updated, base), node))
            return False
    value = binary(low, type(node.operator), low.expression(node.target), low.expression(node.value), node)
    assign(low, node.target, value)
    return False


def _return(low: Lowering, node: cst.Return) -> bool:
    value = low.expression(node.value) if node.value is not None else None
    frame = low.frame
    frame.returns.append((tuple(low.facts[frame.facts_at_entry :]), value))
    return True


def _raise(low: Lowering, node: cst.Raise) -> bool:
    return True


def _jump(low: Lowering, node: cst.CSTNode) -> bool:
    return True


def _assert(low: Lowering, node: cst.Assert) -> bool:
    test = low.condition(low.expression(node.test), node.test)
    hold(low, test)
    return test is False


def hold(low: Lowering, fact: Node | bool) -> None:
    """From here on a predicate holds, for the caller too where nothing else conditions it."""
    if isinstance(fact, Node):
        frame = low.frame
        if all(f in frame.lasting for f in low.facts[frame.facts_at_entry :]):
            frame.lasting.append(fact)
        low.facts.append(fact)


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
    returned = len(low.frame.returns)
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
        # What follows runs only where the test failed. A raise binds the caller as well, a return does not.
        if len(low.frame.returns) == returned:
            hold(low, against)
        elif isinstance(against, Node):
            low.facts.append(against)
        return False
    if other_ended:
        scope.names = then
        if isinstance(test, Node):
            low.facts.append(test)
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


def _for(low: Lowering, node: cst.For) -> bool:
    items = low.expression(node.iter)
    if isinstance(items, (list, tuple)) and len(items) <= MAX_UNROLL:
        for item in items:
            assign(low, node.target, item)
            if low.run(list(node.body.body)):
                return False
        return _otherwise(low, node)
    _any_iteration(low, node.body)
    for element in elements(low, items, node.iter)[:1]:
        assign(low, node.target, element)
    low.run(list(node.body.body))
    return _otherwise(low, node)


def _while(low: Lowering, node: cst.While) -> bool:
    if low.condition(low.expression(node.test), node.test) is False:
        return _otherwise(low, node)
    _any_iteration(low, node.body)
    test = low.condition(low.expression(node.test), node.test)
    with low.assuming(test):
        low.run(list(node.body.body))
    if not low.block.chunk.once(_breaks, node.body):
        after = low.negation(low.condition(low.expression(node.test), node.test), node.test)
        if isinstance(after, Node):
            low.facts.append(after)
    return _otherwise(low, node)


def _otherwise(low: Lowering, node: cst.For | cst.While) -> bool:
    """The ``else`` of a loop, which is run unless the loop is left; whether it ends the function."""
    if node.orelse is None:
        return False
    return low.run(list(node.orelse.body.body)) and not low.block.chunk.once(_breaks, node.body)


def _breaks(body: cst.BaseSuite) -> bool:
    """Whether a loop may end although its test holds."""
    found = _Breaks()
    body.visit(found)
    return found.any


class _Breaks(cst.CSTVisitor):
    any = False

    def visit_Break(self, node: cst.Break) -> None:
        self.any = True


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
    assigned = _Assigned()
    body.visit(assigned)
    return assigned.names


class _Assigned(cst.CSTVisitor):
    """The names that a loop body assigns, and whether only elements of what they stand for are written."""

    def __init__(self) -> None:
        self.names: dict[str, bool] = {}

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._targets(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._targets(node.target)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def _targets(self, target: cst.BaseExpression, *, in_place: bool = False) -> None:
        if isinstance(target, cst.Name):
            self.names[target.value] = self.names.get(target.value, True) and in_place
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._targets(element.value)
        elif isinstance(target, cst.Subscript):
            self._targets(target.value, in_place=True)


def _with(low: Lowering, node: cst.With) -> bool:
    severed = 0
    for item in node.items:
        expression = item.item
        callee = expression.func if isinstance(expression, cst.Call) else expression
        name = low.expression(callee)
        pauses = isinstance(name, Method) and name.name == "stop_recording"  # of a GradientTape
        if pauses or (isinstance(name, Dotted) and name.name in NO_GRAD):
            severed += 1
        value = low.opaque(low.text(expression), differentiable=False)
        if item.asname is not None:
            assign(low, item.asname.name, value)
    low.severed += severed
    try:
        return low.run(list(node.body.body))
    finally:
        low.severed -= severed


def _try(low: Lowering, node: cst.Try) -> bool:
    ended = low.run(list(node.body.body))
    if node.orelse is not None and not ended:
        ended = low.run(list(node.orelse.body.body))
    if node.finalbody is not None:
        ended = low.run(list(node.finalbody.body.body)) or ended
    return ended


def _match(low: Lowering, node: cst.Match) -> bool:
    low.expression(node.subject)
    scope = low.frame.scope
    before = dict(scope.names)
    arms: list[tuple[Node, dict[str, Value]]] = []
    ends = []
    for i, case in enumerate(node.cases):
        scope.names = dict(before)
        taken = low.opaque(f"case {low.text(case.pattern)}", (low.identity(node), i), kind="bool")
        for name in _captures(case.pattern):
            scope.names[name] = low.opaque(name, (low.identity(case), name))
        with low.assuming(taken):
            ended = low.run(list(case.body.body))
        ends.append(ended)
        if not ended:
            arms.append((taken, scope.names))
    scope.names = before
    for taken, names in reversed(arms):
        scope.names = _merge(low, taken, names, scope.names, node)
    return (
        bool(ends)
        and all(ends)
        and any(isinstance(c.pattern, cst.MatchAs) and c.pattern.pattern is None for c in node.cases)
    )


def _captures(pattern: cst.CSTNode) -> list[str]:
    names: list[str] = []
    for child in pattern.children:
        names += _captures(child)
    if isinstance(pattern, (cst.MatchAs, cst.MatchStar)) and pattern.name is not None:
        names.append(pattern.name.value)
    return names


def _function(low: Lowering, node: cst.FunctionDef) -> bool:
    frame = low.frame
    made = make_function(low, node, frame.scope, frame.block, frame.function, frame.owner)
    frame.scope.names[node.name.value] = made
    if isinstance(made, Function) and frame.owner is None:
        made.facts = tuple(low.facts)
        low.closures.append(made)
    return False


def _class(low: Lowering, node: cst.ClassDef) -> bool:
    made = make_class(low, node, low.frame.scope, low.block, low.frame.function)
    low.frame.scope.names[node.name.value] = made
    low.closures += [each for each in made.members.values() if isinstance(each, Function) and each.owner is made]
    return False


def _import(low: Lowering, node: cst.Import | cst.ImportFrom) -> bool:
    statement = _parsed(low.block.tree.code_for_node(node).strip())
    module = low.frame.scope.module
    for local, name in module.resolve(imported(statement, module.package)).items():
        low.frame.scope.names[local] = external(low, module, name)
    return False


@lru_cache(1024)
def _parsed(text: str) -> ast.Import | ast.ImportFrom:
    return ast.parse(text, NOWHERE).body[0]  # type: ignore[return-value]


def _given_away(low: Lowering, node: cst.Nonlocal | cst.Global) -> bool:
    low.frame.scope.outer |= {item.name.value for item in node.names}
    return False


def _delete(low: Lowering, node: cst.Del) -> bool:
    if isinstance(node.target, cst.Name):
        low.frame.scope.names.pop(node.target.value, None)
    return False


STATEMENTS.update({
    cst.SimpleStatementLine: _line, cst.Expr: _expression, cst.Assign: _assign, cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented, cst.Return: _return, cst.Raise: _raise, cst.Break: _jump, cst.Continue: _jump,
    cst.Assert: _assert, cst.If: _if, cst.For: _for, cst.While: _while, cst.With: _with, cst.Try: _try,
    cst.TryStar: _try, cst.Match: _match, cst.FunctionDef: _function, cst.ClassDef: _class, cst.Import: _import,
    cst.ImportFrom: _import, cst.Del: _delete, cst.Nonlocal: _given_away, cst.Global: _given_away,
})  # fmt: skip
