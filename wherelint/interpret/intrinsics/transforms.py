"""Functions that take functions: jit, vmap, cond, scan, custom derivatives, trees."""

import ast

from wherelint.graph.node import Node, differentiable_inputs
from wherelint.interpret.calls import unknown
from wherelint.interpret.lowering import Lowering, handles
from wherelint.interpret.operations import argument
from wherelint.interpret.resolve import CUSTOM_RULES
from wherelint.interpret.values import MISSING, Args, Dotted, Function, Handler, Kwargs, Partial, Value, nodes_in

#: They return a function that computes the same thing.
_TRANSPARENT = (
    "jax.{jit,vmap,pmap,checkpoint,remat,named_call,shard_map,xmap}", "jax.ad_checkpoint.checkpoint",
    "jax.experimental.{shard_map.shard_map,pjit.pjit}", "jax.numpy.vectorize",
    "equinox.{filter_jit,filter_vmap,filter_pmap,filter_checkpoint}", "torch.{compile,vmap}",
    "torch.func.{vmap,functionalize}", "torch.jit.{script,trace,ignore}",
    "tensorflow.{function,recompute_grad}", "functools.{lru_cache,cache,wraps}",
    "flax.linen.{compact,jit,remat,checkpoint,vmap,nowrap}",
    "flax.nnx.{jit,vmap,remat}", "builtins.{staticmethod,classmethod}",
)  # fmt: skip


@handles(*_TRANSPARENT)
def _transparent(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    function = argument(args, kwargs, 0, "fun", "f", "func", "function", "pyfunc")
    if function is not None:
        return function
    return Handler(lambda low, args, kwargs, at: args[0] if args else None)  # `@jit(static_argnums=0)`


@handles("functools.partial", "jax.tree_util.Partial", "jax.util.Partial")
def _partial(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not args:
        return MISSING
    if isinstance(args[0], Dotted) and args[0].name in CUSTOM_RULES:
        return args[0]
    return Partial(args[0], tuple(args[1:]), dict(kwargs))


@handles("jax.{custom_jvp,custom_vjp,custom_gradient}", "tensorflow.custom_gradient")
def _custom(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    function = argument(args, kwargs, 0, "fun", "f")
    if isinstance(function, Function):
        function.opaque = True
    return function if function is not None else Handler(lambda low, args, kwargs, at: args[0] if args else None)


@handles("jax.lax.cond", "tensorflow.cond")
def _cond(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    predicate = argument(args, kwargs, 0, "pred")
    yes, no = argument(args, kwargs, 1, "true_fun", "true_fn"), argument(args, kwargs, 2, "false_fun", "false_fn")
    if predicate is None or yes is None or no is None:
        return MISSING
    operands: Args = args[3:] or ([kwargs["operand"]] if kwargs.get("operand") is not None else [])
    test = low.condition(predicate, at)
    a, of_a = _arm(low, test, yes, operands, at)
    b, of_b = _arm(low, low.negation(test, at), no, operands, at)
    return low.choose(test, a, b, at, _apart(of_a, of_b))


def _arm(low: Lowering, test: Node | bool, function: Value, operands: Args, at: ast.AST) -> tuple[Value, list[Node]]:
    """What an arm computes, and what it reads of what was computed before it."""
    depth = len(low.path_conditions)
    with low.assuming(test):
        value = low.invoke(function, operands, {}, at)
    read: list[Node] = []
    seen: set[Node] = set()
    todo = list(nodes_in(value)) if isinstance(test, Node) else []
    while todo:
        node = todo.pop()
        if node in seen or not differentiable_inputs(node):
            continue
        seen.add(node)
        if node.path_conditions[depth : depth + 1] == (test,):
            todo += [node.inputs[i] for i in differentiable_inputs(node)]
        else:
            read.append(node)
    return value, read


def _apart(a: list[Node], b: list[Node]) -> tuple[list[Node], list[Node]]:
    """What only the one and what only the other reads."""
    return [n for n in a if n not in b], [n for n in b if n not in a]


@handles("jax.lax.switch", "tensorflow.switch_case")
def _switch(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 2 or not isinstance(args[1], (list, tuple)) or not args[1]:
        return MISSING
    result: Value = None
    of_rest: list[Node] = []
    for i, branch in reversed(list(enumerate(args[1]))):
        test = low.condition(low.node("equal", (args[0], i), at), at)
        value, read = _arm(low, test, branch, args[2:], at)
        result = value if i == len(args[1]) - 1 else low.choose(test, value, result, at, _apart(read, of_rest))
        of_rest = list(dict.fromkeys([*read, *of_rest]))
    return result


@handles("jax.numpy.piecewise")
def _piecewise(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 3 or not isinstance(args[1], (list, tuple)) or not isinstance(args[2], (list, tuple)):
        return MISSING
    x, conditions, functions = args[0], args[1], list(args[2])
    result: Value = 0.0
    if len(functions) > len(conditions):
        result = _piece(low, functions[-1], x, args[3:], kwargs, at)
    for condition, function in reversed(list(zip(conditions, functions, strict=False))):
        test = low.condition(condition, at)
        with low.assuming():
            result = low.choose(test, _piece(low, function, x, args[3:], kwargs, at), result, at)
    return result


def _piece(low: Lowering, function: Value, x: Value, rest: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return function if isinstance(function, (int, float, Node)) else low.invoke(function, [x, *rest], kwargs, at)


@handles("jax.lax.scan")
def _scan(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    function, carry = argument(args, kwargs, 0, "f"), argument(args, kwargs, 1, "init")
    xs = argument(args, kwargs, 2, "xs")
    if function is None:
        return MISSING
    result = low.invoke(function, [any_step(low, carry, at), xs], {}, at)
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return tuple(result)
    return (low.opaque(f"{low.text(at)}[0]", low.identity(at)), low.opaque(f"{low.text(at)}[1]", low.identity(at)))


@handles("jax.lax.fori_loop")
def _fori(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 4:
        return MISSING
    index = low.opaque("(loop index)", low.identity(at), kind="int")
    return low.invoke(args[2], [index, any_step(low, args[3], at)], {}, at)


@handles("jax.lax.while_loop", "tensorflow.while_loop")
def _while_loop(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    body, initial = argument(args, kwargs, 1, "body_fun", "body"), argument(args, kwargs, 2, "init_val", "loop_vars")
    if body is None:
        return MISSING
    if name.startswith("tensorflow"):
        state = [any_step(low, v, at) for v in initial] if isinstance(initial, (list, tuple)) else [initial]
        return low.invoke(body, state, {}, at)
    with low.without_gradient():  # JAX refuses to transpose a loop of unknown length
        return low.invoke(body, [any_step(low, initial, at)], {}, at)


def any_step(low: Lowering, value: Value, at: ast.AST) -> Value:
    """The state of a loop in some iteration: the initial one, or anything."""
    if isinstance(value, (tuple, list)):
        return type(value)(any_step(low, v, at) for v in value)
    if isinstance(value, dict):
        return {k: any_step(low, v, at) for k, v in value.items()}
    if not isinstance(value, (Node, int, float)) or isinstance(value, bool):
        return value
    tensor = low.tensor(value, at)
    later = low.opaque("(loop state)", ("state", low.identity(tensor)), kind=tensor.kind)
    first = low.opaque("(first iteration)", ("loop", low.identity(at)), kind="bool")
    return low.node("cond", (first, tensor, later), at)


@handles("jax.lax.{map,associative_scan}", "tensorflow.{map_fn,vectorized_map}", "jax.{tree_map,tree_multimap}",
         "jax.tree_util.{tree_map,map}", "tensorflow.nest.map_structure", "torch.utils._pytree.tree_map",
         "builtins.map", "optree.tree_map")  # fmt: skip
def _map(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 2:
        return MISSING
    if name.endswith("associative_scan"):
        return low.invoke(args[0], [args[1], args[1]], {}, at)
    return mapped(low, args[0], list(args[1:]), at, descend=not name.startswith(("jax.lax", "tensorflow.map_fn")))


def mapped(low: Lowering, function: Value, trees: list[Value], at: ast.AST, *, descend: bool) -> Value:
    """``function`` on every leaf of trees of one structure."""
    first = trees[0]
    if descend and isinstance(first, (list, tuple)) and len(first) <= 8:
        rows = [t for t in trees if isinstance(t, (list, tuple)) and len(t) == len(first)]
        if len(rows) == len(trees):
            return type(first)(mapped(low, function, list(row), at, descend=True) for row in zip(*rows, strict=True))
    if descend and isinstance(first, dict):
        tables = [t for t in trees if isinstance(t, dict) and t.keys() == first.keys()]
        if len(tables) == len(trees):
            return {k: mapped(low, function, [t[k] for t in tables], at, descend=True) for k in first}
    return low.invoke(function, trees, {}, at)


@handles("jax.tree_util.{tree_reduce,reduce}", "functools.reduce", "jax.tree_reduce")
def _reduce(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) < 2:
        return MISSING
    items = _flat(args[1])
    if not items:
        return args[2] if len(args) > 2 else kwargs.get("initializer", MISSING)
    result = args[2] if len(args) > 2 else kwargs.get("initializer", items[0])
    for item in items if len(args) > 2 or "initializer" in kwargs else items[1:] or items:
        result = low.invoke(args[0], [result, item], {}, at)
    return result


@handles("jax.tree_util.{tree_leaves,leaves}", "jax.tree_leaves", "tensorflow.nest.flatten")
def _leaves(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return _flat(args[0]) if args else MISSING


def _flat(tree: Value) -> list[Value]:
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in _flat(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _flat(item)]
    return [tree]


@handles("jax.{grad,value_and_grad,jacfwd,jacrev,hessian,vjp,jvp,linearize}",
         "torch.func.{grad,grad_and_value,jacrev,jacfwd,vjp,jvp}",
         "equinox.{filter_grad,filter_value_and_grad}")  # fmt: skip
def _gradient(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """The function is differentiated, and analysed on its own; its gradient is not followed."""

    def result(low: Lowering, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
        return unknown(low, Dotted(name), args, kwargs, at)

    if name.endswith((".vjp", ".jvp", ".linearize")):
        return MISSING
    return Handler(result)
