"""Statements: assignments, definitions, imports. A handler returns True where control does not go on."""

from __future__ import annotations

import ast
from functools import lru_cache

import libcst as cst

from wherelint.frontend.names import imported
from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.annotations import annotated, annotation_kind
from wherelint.interpret.arithmetic import binary
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import external, make_class, make_function
from wherelint.interpret.tables import statement
from wherelint.interpret.targets import assign
from wherelint.interpret.values import Function
from wherelint.io.encoding import NOWHERE


@statement(cst.SimpleStatementLine)
def _line(low: Lowering, node: cst.SimpleStatementLine) -> bool:
    return low.run(node.body)


@statement(cst.Expr)
def _expression(low: Lowering, node: cst.Expr) -> bool:
    low.expression(node.value)
    return False


@statement(cst.Assign)
def _assign(low: Lowering, node: cst.Assign) -> bool:
    value = low.expression(node.value)
    for target in node.targets:
        assign(low, target.target, value)
    return False


@statement(cst.AnnAssign)
def _annotated(low: Lowering, node: cst.AnnAssign) -> bool:
    if node.value is not None:
        assign(low, node.target, low.expression(node.value))
    elif isinstance(node.target, cst.Name) and low.frame.owner is not None:
        # A field without a default: `sigma: float` of a dataclass, a NamedTuple or a module. The body of a class runs
        # once, without gradient; what the field will hold is another matter.
        name, annotation = node.target.value, node.annotation.annotation
        made = annotated(low, f"self.{name}", (low.identity(low.frame.owner), name), annotation)
        made.differentiable = annotation_kind(annotation) is None
        low.frame.scope.names[name] = made
    return False


@statement(cst.AugAssign)
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


@statement(cst.FunctionDef)
def _function(low: Lowering, node: cst.FunctionDef) -> bool:
    frame = low.frame
    made = make_function(low, node, frame.scope, frame.block, frame.function, frame.owner)
    frame.scope.names[node.name.value] = made
    if isinstance(made, Function) and frame.owner is None:
        made.path_conditions = tuple(low.path_conditions)
        low.closures.append(made)
    return False


@statement(cst.ClassDef)
def _class(low: Lowering, node: cst.ClassDef) -> bool:
    made = make_class(low, node, low.frame.scope, low.block, low.frame.function)
    low.frame.scope.names[node.name.value] = made
    low.closures += [each for each in made.members.values() if isinstance(each, Function) and each.owner is made]
    return False


@statement(cst.Import, cst.ImportFrom)
def _import(low: Lowering, node: cst.Import | cst.ImportFrom) -> bool:
    statement = _parsed(low.block.tree.code_for_node(node).strip())
    module = low.frame.scope.module
    for local, name in module.resolve(imported(statement, module.package)).items():
        low.frame.scope.names[local] = external(low, module, name)
    return False


@lru_cache(1024)
def _parsed(text: str) -> ast.Import | ast.ImportFrom:
    return ast.parse(text, NOWHERE).body[0]  # type: ignore[return-value]


@statement(cst.Nonlocal, cst.Global)
def _given_away(low: Lowering, node: cst.Nonlocal | cst.Global) -> bool:
    low.frame.scope.outer |= {item.name.value for item in node.names}
    return False


@statement(cst.Del)
def _delete(low: Lowering, node: cst.Del) -> bool:
    if isinstance(node.target, cst.Name):
        low.frame.scope.names.pop(node.target.value, None)
    return False
