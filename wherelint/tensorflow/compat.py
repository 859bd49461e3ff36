"""The private names of TensorFlow that the companion uses.

``tests/companion/test_tensorflow_locate.py`` says which one a version of TensorFlow broke.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import backprop, context, execute, record
from tensorflow.python.framework import op_callbacks

#: Called with the type of an operation, its attributes, operands and results.
Note = Callable[[str, Any, Sequence[Any], Sequence[Any]], None]
#: Called with a name, operands and results, and what makes the cotangents of the operands of those of the results.
Own = Callable[[str, Sequence[Any], Sequence[Any], Callable[..., Any]], None]


def run(kind: str, attributes: Any, operands: Sequence[Any], results: int) -> Sequence[Any]:
    """Run an operation eagerly; its results."""
    made: Sequence[Any] = execute.quick_execute(kind, results, list(operands), attributes, context.context())
    return made


def pulled(kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any], given: Sequence[Any]) -> Any:
    """The cotangents of the operands by the registered gradient: one or several, or None."""
    return backprop._gradient_function(kind, attributes, len(operands), operands, results, given, (), "")


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


@contextmanager
def own_gradients(own: Own) -> Iterator[None]:
    """Within the block what brings its own gradient is noted as well: custom gradients, calls of functions."""
    original = record.record_operation

    def recorded(name: str, results: Any, operands: Any, backward: Any, *rest: Any, **more: Any) -> None:
        original(name, results, operands, backward, *rest, **more)
        own(name, operands, results, backward)

    record.record_operation = recorded
    try:
        yield
    finally:
        record.record_operation = original
