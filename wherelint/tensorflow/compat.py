"""The private names of TensorFlow that the companion uses.

``tests/companion/test_tensorflow_locate.py`` says which one a version of TensorFlow broke.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop, context, execute, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph, op_callbacks, ops
from tensorflow.python.ops import control_flow_util, resource_variable_ops
from tensorflow.python.ops.parallel_for import control_flow_ops

from wherelint.companion.patching import wrap

#: Called with the type of an operation, its attributes, operands and results.
Note = Callable[[str, Any, Sequence[Any], Sequence[Any]], None]


def run(kind: str, attributes: Any, operands: Sequence[Any], results: int) -> Sequence[Any]:
    """Run an operation eagerly; its results."""
    return list(execute.quick_execute(kind, results, list(operands), attributes, context.context()))


def pulled(
    kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any]
) -> Any:
    """The cotangents of the operands by the registered gradient: one or several, or None."""
    return backprop._gradient_function(kind, attributes, len(operands), operands, results, cotangents, (), "")


@contextmanager
def noting(note: Note) -> Iterator[None]:
    """Within the block the operations that this thread runs eagerly are noted."""

    def noted(kind: str | bytes, operands: Any, attributes: Any, results: Any, *_: Any, **more: Any) -> None:
        if more.get("graph") is None:
            note(kind.decode() if isinstance(kind, bytes) else kind, attributes, operands, results)

    op_callbacks.add_op_callback(noted)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(noted)


def function_graph(graph: Any, name: str) -> Any:
    """The graph of a function that another graph calls."""
    return graph._get_function(name).graph


def is_eager(tensor: Any) -> bool:
    """Whether a tensor has a value."""
    return isinstance(tensor, ops.EagerTensor)


def read_type(handle: Any) -> Any:
    """The type of the variable that a handle is of; None if it is of something else."""
    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)


def read(handle: Any) -> Any:
    """The value of that variable; None if there is none."""
    dtype = read_type(handle)
    return None if dtype is None else tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def storage(tensor: Any) -> Any:
    """The same for tensors that share their numbers, and for nothing else; on an accelerator, for the same numbers."""
    if "CPU" not in tensor.backing_device:
        return tensor.dtype, tensor.numpy().tobytes()
    return np.asarray(memoryview(tensor)).__array_interface__["data"][0]


def counter(size: int) -> Any:
    """A variable of so many zeros that tf.function does not take for the program's."""
    with tf.init_scope():
        return resource_variable_ops.ResourceVariable([0] * size, dtype=tf.int64, trainable=False, name="wherelint")


def is_function(graph: Any) -> bool:
    """Whether a graph is that of a tf.function, or of a part of one."""
    return isinstance(graph, func_graph.FuncGraph)


def in_xla(graph: Any) -> bool:
    """Whether XLA compiles what is traced in a graph."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def is_compiled_within() -> bool:
    """Whether XLA compiles the graph that is built."""
    graph = ops.get_default_graph()
    return is_function(graph) and (in_xla(graph.outer_graph) or graph.name.startswith("__forward_"))


def is_compiled(function: Any) -> bool:
    """Whether XLA compiles a function."""
    return bool(function.cached_definition.attr["_XlaMustCompile"].b)


def stop_recording() -> Any:
    """A block in which no tape sees anything."""
    return record.stop_recording()


def around_functions(instead: Callable[..., Any]) -> AbstractContextManager[None]:
    """Within the block ``instead(call, function, graph, arguments)`` does what calling a traced function does."""

    def call_flat(original: Any, function: Any, *args: Any) -> Any:
        return instead(partial(original, function, *args), function, function._cached_graph, args)

    return wrap(atomic_function.AtomicFunction, "call_flat", call_flat)


@contextmanager
def around_tapes(push: Callable[..., Any], pop: Callable[..., Any]) -> Iterator[None]:
    """Within the block ``push(begin, tape)`` and ``pop(end, tape)`` do what begins and ends the recording of a tape."""
    with wrap(tf.GradientTape, "_push_tape", push), wrap(tf.GradientTape, "_pop_tape", pop):
        yield


def around_vectorized(vectorize: Callable[..., Any]) -> AbstractContextManager[None]:
    """Within the block ``vectorize(original, ...)`` vectorizes functions, for ``jacobian`` and ``vectorized_map``."""
    return wrap(control_flow_ops, "_pfor_impl", vectorize)
