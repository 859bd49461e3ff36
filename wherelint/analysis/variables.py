"""What becomes of a value in the function that computes it: where it flows to, and whether it is differentiated."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from wherelint.analysis.receivers import Path, named
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef

#: What differentiates what it is given, or what it is called on: ``loss.backward()``, ``jax.value_and_grad(loss)``.
_DIFFERENTIATES = re.compile(
    r"(?!(no|zero|stop|enable)_)(\w+_)?(backward|gradients?|grads?|hessian|hvp|jacfwd|jacobian|jacrev|jvp|linearize|minimize|vjp)"
)


def is_differentiated(path: Path) -> bool:
    """Whether the function around a place differentiates what is computed there, whatever becomes of its result."""
    if any(_differentiates(node) for node in path):
        return True
    around = [node for node in path if isinstance(node, FUNCTION_DEFS)]
    if not around:
        return False
    flows = flowing(around[0], {*_written(path), *(inner.name for inner in around[1:])})
    return any(_differentiates(node) and flows & variables(node) for node in ast.walk(around[0]))


def of_primals(path: Path) -> bool:
    """Whether a call stands in a rule of ``custom_jvp`` and reads no tangent: only those are differentiated there."""
    rules = [n for n in path if isinstance(n, FUNCTION_DEFS) and _is_jvp_rule(n)]
    call = next((node for node in reversed(path) if isinstance(node, ast.Call)), None)
    if not rules or call is None or not rules[-1].args.args:
        return False
    return not flowing(rules[-1], {rules[-1].args.args[-1].arg}) & variables(call)


def flowing(function: FunctionDef, names: Iterable[str]) -> set[str]:
    """Some variables of a function, and those that are computed from them."""
    found = set(names)
    steps = [(read, written) for node in ast.walk(function) for read, written in _flow(node)]
    while any(read & found and not written <= found for read, written in steps):
        found.update(*(written for read, written in steps if read & found))
    return found


def variables(node: ast.AST) -> set[str]:
    """The variables that an expression reads."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _flow(node: ast.AST) -> Iterator[tuple[set[str], set[str]]]:
    """What a statement reads, and what it sets from it; a list is set by what is put into it."""
    if isinstance(node, ast.Assign):
        yield variables(node.value), set().union(*map(variables, node.targets))
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
        yield variables(node.value), variables(node.target)
    elif isinstance(node, ast.For):
        yield variables(node.iter), variables(node.target)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield set().union(*map(variables, node.value.args)), variables(node.value.func)
    elif isinstance(node, FUNCTION_DEFS):
        yield set().union(*map(variables, node.body)), {node.name}


def _written(path: Sequence[ast.AST]) -> set[str]:
    """The variables that the statement of a place sets."""
    statement = next((node for node in reversed(path) if isinstance(node, ast.stmt)), None)
    return set().union(*(written for _, written in _flow(statement))) if statement is not None else set()


def _differentiates(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _DIFFERENTIATES.fullmatch(named(node)) is not None


def _is_jvp_rule(function: FunctionDef) -> bool:
    return any(named(each) == "defjvp" for each in function.decorator_list)
