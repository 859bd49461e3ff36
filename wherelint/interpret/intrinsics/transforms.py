"""Functions that take functions: jit, vmap, cond, scan, custom derivatives, trees."""

from wherelint.graph.node import Node, differentiable_inputs
from wherelint.interpret.calls import unknown
from wherelint.interpret.lowering import CallSite, Lowering, handles
from wherelint.interpret.resolve import CUSTOM_RULES
from wherelint.interpret.values import MISSING, Args, Dotted, Function, Handler, Partial, Value, nodes_in

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


@handles(*_TRANSPARENT, "jax.{custom_jvp,custom_vjp,custom_gradient}", "tensorflow.custom_gradient",
         operands="fun|f|func|function|pyfunc?")  # fmt: skip
def _wrapped(low: Lowering, call: CallSite, function: Value) -> Value:
    """The function itself; without one, as in ``@jit(static_argnums=0)``, a decorator that gives it."""
    if call.last.startswith("custom_") and isinstance(function, Function):
        function.opaque = True
    decorator = Handler(lambda low, call: call.args[0] if call.args else None)
    return decorator if function is None else function


@handles("functools.partial", "jax.tree_util.Partial", "jax.util.Partial")
def _partial(low: Lowering, call: CallSite) -> Value:
    if not call.args:
        return MISSING
    function, *args = call.args
    if isinstance(function, Dotted) and function.name in CUSTOM_RULES:
        return function
    return Partial(function, tuple(args), dict(call.kwargs))


@handles("jax.lax.cond", "tensorflow.cond", operands="pred true_fun|true_fn false_fun|false_fn")
def _cond(low: Lowering, call: CallSite, predicate: Value, yes: Value, no: Value) -> Value:
    operand = call.kwargs.get("operand")
    operands: Args = call.args[3:] or ([] if operand is None else [operand])
    test = low.condition(predicate, call.at)
    a, of_a = _arm(low, call, test, yes, operands)
    b, of_b = _arm(low, call, low.negation(test, call.at), no, operands)
    return low.choose(test, a, b, call.at, _apart(of_a, of_b))


def _arm(low: Lowering, call: CallSite, test: Node | bool, function: Value, operands: Args) -> tuple[Value, list[Node]]:
    """What an arm computes, and what it reads of what was computed before it."""
    depth = len(low.path_conditions)
    with low.assuming(test):
        value = low.invoke(function, operands, {}, call.at)
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


@handles("jax.lax.switch", "tensorflow.switch_case", operands="index|branch_index branches|branch_fns")
def _switch(low: Lowering, call: CallSite, index: Value, branches: Value) -> Value:
    if not isinstance(branches, (list, tuple)) or not branches:
        return MISSING
    result: Value = None
    of_rest: list[Node] = []
    for i, branch in reversed(list(enumerate(branches))):
        test = low.condition(low.node("equal", (index, i), call.at), call.at)
        value, read = _arm(low, call, test, branch, call.args[2:])
        last = i == len(branches) - 1
        result = value if last else low.choose(test, value, result, call.at, _apart(read, of_rest))
        of_rest = list(dict.fromkeys([*read, *of_rest]))
    return result


@handles("jax.numpy.piecewise", operands="x condlist funclist")
def _piecewise(low: Lowering, call: CallSite, x: Value, conditions: Value, functions: Value) -> Value:
    if not isinstance(conditions, (list, tuple)) or not isinstance(functions, (list, tuple)):
        return MISSING

    def piece(function: Value) -> Value:
        constant = isinstance(function, (int, float, Node))
        return function if constant else low.invoke(function, [x, *call.args[3:]], call.kwargs, call.at)

    result = piece(functions[-1]) if len(functions) > len(conditions) else 0.0
    for condition, function in reversed(list(zip(conditions, functions, strict=False))):
        result = low.choose(low.condition(condition, call.at), piece(function), result, call.at)
    return result


@handles("jax.lax.scan", operands="f init? xs?")
def _scan(low: Lowering, call: CallSite, function: Value, carry: Value, xs: Value) -> Value:
    result = low.invoke(function, [_any_step(low, call, carry), xs], {}, call.at)
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return tuple(result)
    return tuple(low.opaque(f"{low.text(call.at)}[{i}]", low.identity(call.at)) for i in range(2))


@handles("jax.lax.fori_loop", operands="lower? upper? body_fun init_val")
def _fori(low: Lowering, call: CallSite, lower: Value, upper: Value, body: Value, initial: Value) -> Value:
    index = low.opaque("(loop index)", low.identity(call.at), kind="int")
    return low.invoke(body, [index, _any_step(low, call, initial)], {}, call.at)


@handles("jax.lax.while_loop", "tensorflow.while_loop", operands="cond? body_fun|body init_val|loop_vars?")
def _while_loop(low: Lowering, call: CallSite, test: Value, body: Value, initial: Value) -> Value:
    if call.framework == "tensorflow":
        state = [_any_step(low, call, v) for v in initial] if isinstance(initial, (list, tuple)) else [initial]
        return low.invoke(body, state, {}, call.at)
    with low.without_gradient():  # JAX refuses to transpose a loop of unknown length
        return low.invoke(body, [_any_step(low, call, initial)], {}, call.at)


def _any_step(low: Lowering, call: CallSite, value: Value) -> Value:
    """The state of a loop in some iteration: the initial one, or anything."""
    if isinstance(value, (tuple, list)):
        return type(value)(_any_step(low, call, v) for v in value)
    if isinstance(value, dict):
        return {k: _any_step(low, call, v) for k, v in value.items()}
    if not isinstance(value, (Node, int, float)) or isinstance(value, bool):
        return value
    tensor = low.tensor(value, call.at)
    later = low.opaque("(loop state)", ("state", low.identity(tensor)), kind=tensor.kind)
    first = low.opaque("(first iteration)", ("loop", low.identity(call.at)), kind="bool")
    return low.node("cond", (first, tensor, later), call.at)


@handles("jax.lax.{map,associative_scan}", "tensorflow.{map_fn,vectorized_map}", "jax.{tree_map,tree_multimap}",
         "jax.tree_util.{tree_map,map}", "tensorflow.nest.map_structure", "torch.utils._pytree.tree_map",
         "builtins.map", "optree.tree_map")  # fmt: skip
def _map(low: Lowering, call: CallSite) -> Value:
    if len(call.args) < 2:
        return MISSING
    function, *trees = call.args
    if call.last == "associative_scan":
        return low.invoke(function, [trees[0], trees[0]], {}, call.at)
    if call.name in ("jax.lax.map", "tensorflow.map_fn"):
        return low.invoke(function, trees, {}, call.at)
    return _mapped(low, call, function, trees)


def _mapped(low: Lowering, call: CallSite, function: Value, trees: list[Value]) -> Value:
    """``function`` on every leaf of trees of one structure."""
    first = trees[0]
    if isinstance(first, (list, tuple)) and len(first) <= 8:
        rows = [t for t in trees if isinstance(t, (list, tuple)) and len(t) == len(first)]
        if len(rows) == len(trees):
            return type(first)(_mapped(low, call, function, list(row)) for row in zip(*rows, strict=True))
    if isinstance(first, dict):
        tables = [t for t in trees if isinstance(t, dict) and t.keys() == first.keys()]
        if len(tables) == len(trees):
            return {k: _mapped(low, call, function, [t[k] for t in tables]) for k in first}
    return low.invoke(function, trees, {}, call.at)


@handles("jax.tree_util.{tree_reduce,reduce}", "functools.reduce", "jax.tree_reduce",
         operands="function tree initializer?")  # fmt: skip
def _reduce(low: Lowering, call: CallSite, function: Value, tree: Value, result: Value) -> Value:
    items = _flat(tree)
    if result is None:
        if not items:
            return MISSING
        result, *items = items if len(items) > 1 else items * 2
    for item in items:
        result = low.invoke(function, [result, item], {}, call.at)
    return result


@handles("jax.tree_util.{tree_leaves,leaves}", "jax.tree_leaves", "tensorflow.nest.flatten", operands="tree")
def _leaves(low: Lowering, call: CallSite, tree: Value) -> Value:
    return _flat(tree)


def _flat(tree: Value) -> list[Value]:
    if isinstance(tree, (list, tuple, dict)):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in _flat(part)]
    return [tree]


@handles("jax.{grad,value_and_grad,jacfwd,jacrev,hessian}", "torch.func.{grad,grad_and_value,jacrev,jacfwd}",
         "equinox.{filter_grad,filter_value_and_grad}")  # fmt: skip
def _gradient(low: Lowering, call: CallSite) -> Value:
    """The function is differentiated, and analysed on its own; its gradient is not followed."""
    name = Dotted(call.name)
    return Handler(lambda low, call: unknown(low, name, call))
