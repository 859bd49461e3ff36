"""What the code around a selection looks like: which conditions, functions and words stand with findings that matter.

None of this proves anything. Each trait was counted among judged findings, and its weight is fitted with the others'.
"""

import ast
import re
from collections.abc import Iterator

from wherelint.evidence.pieces import Evidence
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, last_name
from wherelint.graph.node import Node
from wherelint.interpret.values import Origin

#: A bound of a condition that is no larger is a tolerance, and so is what is called one.
_TOLERANCE = 1e-3
_TOLERANCES = re.compile(r"eps|tol|small|tiny", re.IGNORECASE)
_INTEGERS = frozenset("argmax argmin argsort bincount histogram int32 int64 long searchsorted topk unique".split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Words of functions whose findings matter, and of those whose findings do not, among those judged.
_GEOMETRY = frozenset(
    """abs acos angle arctan axes cos depth differentiable distance divide keepdims light loss matrices norm point
    points quaternion quaternions radius rotation safe sin sqrt stack theta trace valid vector vectors""".split()
)
_BOOKKEEPING = frozenset(
    """add asarray astype calculate data dist estimate fill inf init logits mean normalization num ones order prior prob
    range rate ratio scale shift sigma size start state std step transpose update values velocity weights""".split()
)
#: By how many one kind of words has to prevail.
_FEW, _MANY = 2, 5


def by_structure(select: Node) -> frozenset[Evidence]:
    """What the code around a selection says for and against any finding there."""
    origin = select.origin
    if not isinstance(origin, Origin):
        return frozenset()
    return origin.block.module.once(_by_structure, origin.node)


#: What may speak for a finding by its place.
FOR = frozenset({Evidence.TOLERANCE, Evidence.RETURNED, Evidence.GEOMETRY, Evidence.MUCH_GEOMETRY})


def _by_structure(module: Module, node: ast.AST) -> frozenset[Evidence]:
    function = _enclosing(module, node)
    if function is None:
        return frozenset(_of_condition(None, node))
    returned = (each for each in ast.walk(function) if isinstance(each, ast.Return))
    is_returned = any(inner is node for each in returned for inner in ast.walk(each))
    pieces = {Evidence.RETURNED} if is_returned else set()
    return module.once(_by_names, function).union(pieces, _of_condition(function, node))


def _enclosing(module: Module, node: ast.AST) -> FunctionDef | None:
    """The innermost function around a node of a file."""
    row = getattr(node, "lineno", 0)
    found = None
    for statement, block in module.blocks:
        if block.first <= row <= block.last:
            for each in ast.walk(statement):
                if isinstance(each, FUNCTION_DEFS) and each.lineno <= row <= (each.end_lineno or 0):
                    found = each
    return found


def _by_names(_: Module, function: FunctionDef) -> frozenset[Evidence]:
    """What the names in a function say of any finding there."""
    names = {name for each in ast.walk(function) if (name := _name(each))}
    found = set() if names.isdisjoint(_INTEGERS) else {Evidence.INTEGERS}
    words = {word.lower() for name in names for word in _WORD.findall(name.replace("_", " "))}
    prevail = len(words & _GEOMETRY) - len(words & _BOOKKEEPING)
    if prevail >= _FEW:
        found.add(Evidence.GEOMETRY if prevail < _MANY else Evidence.MUCH_GEOMETRY)
    return frozenset(found)


def _name(node: ast.AST) -> str | None:
    """What a node of a function's syntax names."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, (ast.arg, ast.keyword)):
        return node.arg
    return node.name if isinstance(node, FUNCTION_DEFS) else None


def _of_condition(function: FunctionDef | None, node: ast.AST) -> Iterator[Evidence]:
    if not isinstance(node, ast.Call) or last_name(node.func) not in ("cond", "select", "where") or not node.args:
        return
    condition = node.args[0]
    if isinstance(condition, ast.Name) and function is not None:
        assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
        values = [each.value for each in assigned if condition.id in map(last_name, each.targets)]
        condition = values[-1] if values else condition
    compared = next((each for each in ast.walk(condition) if isinstance(each, ast.Compare)), None)
    if compared is not None and _is_tolerance(compared.comparators[0]):
        yield Evidence.TOLERANCE


def _is_tolerance(bound: ast.expr) -> bool:
    if isinstance(bound, ast.Constant) and isinstance(bound.value, (int, float)):
        return 0 < abs(bound.value) <= _TOLERANCE
    return any(_TOLERANCES.search(last_name(each)) for each in ast.walk(bound))
