"""Statements: assignments, definitions, imports. A handler returns True where control does not go on."""

import ast

from wherelint.frontend.names import imported
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, named_methods
from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.annotations import annotated, annotation_kind
from wherelint.interpret.arithmetic import binary
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import external, make_class, make_function
from wherelint.interpret.tables import statement
from wherelint.interpret.targets import assign
from wherelint.interpret.values import Function


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
