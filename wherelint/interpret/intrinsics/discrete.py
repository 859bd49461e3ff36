"""Functions that search, rank, count and draw: their integers hand no gradient on to what they were found by."""

import ast

from wherelint.graph.node import Node
from wherelint.interpret.lowering import Lowering, handles, method
from wherelint.interpret.operations import argument, operation
from wherelint.interpret.values import MISSING, Args, Kwargs, Value


def integers(low: Lowering, args: Args, at: ast.AST) -> Node:
    """Integers that a call makes of its arguments."""
    found = low.opaque(low.text(at), tuple(map(low.identity, args)), kind="int")
    found.searched = True
    return found


@handles("{jax.numpy,numpy,torch,tensorflow}.{argsort,searchsorted,digitize,bucketize}",
         "{jax.numpy,numpy}.{argpartition,lexsort}", "torch.{multinomial,randint,randperm,histc}",
         "jax.random.{categorical,randint,poisson,binomial}", "tensorflow.random.{categorical,stateless_categorical}",
         "tensorflow.{histogram_fixed_width,unique_with_counts}")  # fmt: skip
def _integers(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return integers(low, args, at)


@handles("torch.{topk,sort,kthvalue,mode,cummax,cummin}", "jax.lax.top_k", "tensorflow.{math,nn}.top_k")
def _ranked(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """Some of the elements, and where they stood."""
    value = argument(args, kwargs, 0, "input", "operand")
    return _with_indices(low, value, [value, *args[1:]], at) if isinstance(value, Node) else MISSING


@handles("torch.{max,min,median,nanmedian}")
def _extreme(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not isinstance(argument(args, kwargs, 1, "dim"), int):
        return MISSING
    value = operation(low, name, args, kwargs, at)
    return MISSING if value is None else _with_indices(low, value, args, at)


@method("topk", "kthvalue", "mode", "cummax", "cummin")
def _ranked_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return _with_indices(low, receiver, [receiver, *args], at) if isinstance(receiver, Node) else MISSING


@method("sort")
def _sort_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return MISSING if "jax" in low.frameworks else _ranked_method(low, receiver, args, kwargs, at)


@method("median", "nanmedian")
def extreme_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """``x.max(dim)`` of torch, which ranks; of JAX it is the maximum alone."""
    name = at.func.attr if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) else ""
    if "jax" in low.frameworks or not isinstance(receiver, Node):
        return MISSING
    return _extreme(low, f"torch.{name}", [receiver, *args], kwargs, at)


def _with_indices(low: Lowering, value: Value, args: Args, at: ast.AST) -> Value:
    return low.node("identity", (value,), at), integers(low, args, at)
