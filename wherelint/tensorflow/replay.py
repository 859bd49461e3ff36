"""The operations of a traced graph, run again eagerly one by one, so that each can be looked at.

Nothing of the program's Python runs: a graph holds its operations, their attributes, and where they were made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tensorflow as tf

from wherelint.companion import Place
from wherelint.companion.frames import directories, user_and_library
from wherelint.tensorflow import compat
from wherelint.tensorflow.locate import Call

#: TensorFlow, and this package.
_OWN = directories(tf.__file__, os.path.dirname(__file__))
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_READS = {"ReadVariableOp": "", "ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}
#: What reads of a variable is a function of its value.
_OF_VALUES = frozenset({"ResourceGather", "ResourceGatherNd", "VariableShape"})
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "AssignVariableOp": lambda old, new: new,
    "AssignAddVariableOp": lambda old, change: old + change,
    "AssignSubVariableOp": lambda old, change: old - change,
}
_LOOPS = frozenset({"While", "StatelessWhile"})
#: How often a loop is followed.
_LONGEST = 10_000


@dataclass(eq=False)
class Variable:
    """What a handle stands for: what is differentiated, and its value of the moment."""

    source: Any
    value: Any


#: What is known of a graph, by the names of its tensors: eager tensors, variables, and lists for lists of tensors.
Known = dict[str, Any]


@dataclass
class Replay:
    """Runs parts of graphs, and adds what it ran to the calls."""

    calls: list[Call] = field(default_factory=list)
    #: Whether the graph was compiled by XLA, whose derivatives spare no zero.
    compiled: bool = False
    #: Whether what writes to variables is carried out, and what to do at some operations in its place: the tensors that
    #: it takes, and a function of what is known then.
    writes: bool = False
    stops: Mapping[Any, tuple[Sequence[Any], Callable[[Known], None]]] = field(default_factory=dict)

    def run(self, graph: Any, wanted: Iterable[Any], known: Known) -> list[Any]:
        """The values of some tensors of a graph. LookupError where they depend on something that is not known."""
        wanted = list(wanted)
        for operation in self._needed(graph, wanted, known):
            self._run(operation, known)
        return [known[each.name] for each in wanted]

    def _needed(self, graph: Any, wanted: Sequence[Any], known: Known) -> list[Any]:
        """The operations behind tensors, each after those that it needs; what isn't pure and known is an end."""
        first = [each for each in graph.get_operations() if _is_effect(each)] if self.writes else []
        todo = [(each, False) for each in reversed([*first, *(each.op for each in wanted)])]
        seen: set[Any] = set()
        found: list[Any] = []
        while todo:
            operation, ready = todo.pop()
            if ready:
                found.append(operation)
            elif operation not in seen:
                seen.add(operation)
                todo.append((operation, True))
                there = operation.outputs and all(each.name in known for each in operation.outputs)
                if not (there and is_end(operation)):
                    needs = self.stops[operation][0] if operation in self.stops else operation.inputs
                    todo += [(each.op, False) for each in needs]
        return found

    def _run(self, operation: Any, known: Known) -> None:
        if operation in self.stops:
            self.stops[operation][1](known)
            return
        kind, names = operation.type, [each.name for each in operation.outputs]
        if operation.inputs and all(each in known for each in names) and is_end(operation):
            if kind == "ReadVariableOp" and (variable := known.get(operation.inputs[0].name)):
                self._note(operation, kind, (), [variable.source], [known[names[0]]])
            return
        if kind in ("Placeholder", "PlaceholderWithDefault") and names[0] not in known:
            raise LookupError(f"the value of {names[0]} is not known")
        if kind == "Placeholder":
            return
        operands = [known[each.name] for each in operation.inputs]
        if kind in _WRITES:
            self._write(operation, operands)
            return
        if kind == "Identity" and not tf.is_tensor(operands[0]):  # of a list or a variable
            known[names[0]] = operands[0]
            return
        if kind in _CALLS:
            results = self._call(operation, operation.get_attr("f").name, operands, names, known)
        elif kind in _BRANCHES:
            branches = operation.get_attr("branches") if "Case" in kind else [
                operation.get_attr("else_branch"), operation.get_attr("then_branch"),
            ]  # fmt: skip
            results = self._call(operation, branches[int(operands[0])].name, operands[1:], names, known)
        elif kind in _LOOPS:
            results = self._loop(operation, operands)
        elif kind == "Const":
            results = [tf.constant(tf.make_ndarray(operation.get_attr("value")))]
        elif kind in _READS:
            results = self._read(operation, operands)
        elif kind == "VariableShape":
            results = [tf.shape(operands[0].value, operation.get_attr("out_type"))]
        elif kind.startswith(("TensorList", "EmptyTensorList")):
            results = self._list(operation, operands)
        else:
            attributes = attributes_of(operation)
            results = list(compat.run(kind, attributes, operands, len(names)))
            results = [known.get(name, made) for name, made in zip(names, results, strict=True)]
            self._note(operation, kind, attributes, operands, results, self._own(operation, known))
        known.update(zip(names, results, strict=True))

    def _note(
        self, operation: Any, kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any],
        backward: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        computed = operands[: len(results)] if backward else ()
        at = partial(places, operation)
        self.calls.append(Call(kind, attributes, operands, results, at, backward, computed, self.compiled))

    def _own(self, operation: Any, known: Known) -> Callable[..., Any] | None:
        """The backward function that a ``tf.custom_gradient`` brings: it is traced again, of the graph's tensors."""
        gradient = compat.gradient_of(operation)
        if gradient is None:
            return None

        def backward(*cotangents: Any) -> list[Any]:
            with compat.graph_within(operation.graph) as graph:
                given = [tf.compat.v1.placeholder(each.dtype, each.shape) for each in cotangents]
                found = gradient(operation, *given)
                found = found if isinstance(found, list | tuple) else [found]
                wanted = [each for each in found if each is not None]
                wanted = [tf.convert_to_tensor(each) for each in wanted]
            apart = Replay(compiled=self.compiled)
            outer = apart.run(operation.graph, [each for each, _ in graph.captures if not compat.is_eager(each)], known)
            values = iter(outer)
            inner = {to.name: each if compat.is_eager(each) else next(values) for each, to in graph.captures}
            inner |= {each.name: ct for each, ct in zip(given, cotangents, strict=True)}
            made = iter(apart.run(graph, wanted, inner))
            return [None if each is None else next(made) for each in found]

        return backward

    def _call(
        self, operation: Any, name: str, operands: Sequence[Any], names: Sequence[str], known: Known
    ) -> list[Any]:
        """What a function returns; what is known of it already are its results."""
        graph = compat.function_graph(operation.graph, name)
        outputs = graph.outputs[: len(names)]
        inner = {to.name: value for to, value in zip(graph.inputs, operands, strict=True)}
        given = {to.name: known[name] for to, name in zip(outputs, names, strict=True) if name in known}
        return self.run(graph, outputs, given | inner)

    def _loop(self, operation: Any, state: list[Any]) -> list[Any]:
        condition, body = (
            compat.function_graph(operation.graph, operation.get_attr(each).name) for each in ("cond", "body")
        )
        for _ in range(_LONGEST):
            known = {to.name: value for to, value in zip(condition.inputs, state, strict=True)}
            if not bool(Replay().run(condition, condition.outputs[:1], known)[0]):
                return state
            state = self.run(body, body.outputs, {to.name: value for to, value in zip(body.inputs, state, strict=True)})
        raise LookupError(f"a loop runs more than {_LONGEST} times")

    def _read(self, operation: Any, operands: Sequence[Any]) -> list[Any]:
        variable, *rest = operands
        value = tf.identity(variable.value)
        self._note(operation, "ReadVariableOp", (), [variable.source], [value])
        kind = _READS[operation.type]
        if not kind:
            return [value]
        attributes: tuple[Any, ...] = ()
        if kind == "GatherV2":
            attributes, rest = ("batch_dims", operation.get_attr("batch_dims")), [*rest, tf.constant(0)]
        results = compat.run(kind, attributes, [value, *rest], 1)
        self._note(operation, kind, attributes, [value, *rest], results)
        return list(results)

    def _write(self, operation: Any, operands: Sequence[Any]) -> None:
        variable, value = operands
        variable.value = _WRITES[operation.type](variable.value, value)

    def _list(self, operation: Any, operands: Sequence[Any]) -> list[Any]:
        """Lists of tensors: what is in them stays what it is."""
        kind, (first, *rest) = operation.type.removeprefix("TensorList"), operands
        if kind in ("EmptyTensorList", "Reserve"):
            return [[None] * (int(rest[0]) if rest and kind == "Reserve" else 0)]
        if kind == "FromTensor":
            attributes = ("num", first.shape[0], "T", first.dtype, "axis", 0)
            results = compat.run("Unpack", attributes, [first], first.shape[0])
            self._note(operation, "Unpack", attributes, [first], results)
            return [list(results)]
        if kind == "Length":
            return [tf.constant(len(first))]
        if kind == "PushBack":
            return [[*first, rest[0]]]
        if kind == "PopBack":
            return [first[:-1], first[-1]]
        if kind == "Resize":
            return [[*first, *[None] * int(rest[0])][: int(rest[0])]]
        if kind == "SetItem":
            index, item = int(rest[0]), rest[1]
            return [[*first[:index], item, *first[index + 1 :]]]
        shape, dtype = rest[-1], operation.get_attr("element_dtype")
        full = [tf.zeros(_shape(shape, first), dtype) if each is None else each for each in first]
        if kind == "GetItem":
            return [full[int(rest[0])]]
        if kind == "Gather":
            full = [full[int(each)] for each in rest[0]]
        elif kind != "Stack":
            raise LookupError(f"{operation.type} is not known")
        attributes = ("N", len(full), "T", dtype, "axis", 0)
        results = compat.run("Pack", attributes, full, 1)
        self._note(operation, "Pack", attributes, full, results)
        return list(results)


def is_followed(operation: Any) -> bool:
    """Whether an operation runs functions that can be looked into."""
    return operation.type in _CALLS or operation.type in _BRANCHES or operation.type in _LOOPS


def is_end(operation: Any) -> bool:
    """Whether an operation can't be run again: it is no function of its operands."""
    if operation.type in _OF_VALUES or is_followed(operation):
        return False
    return bool(operation.type == "Placeholder" or operation.op_def.is_stateful)


def _is_effect(operation: Any) -> bool:
    if operation.type in _WRITES or operation.type in _READS:
        return True
    return bool(operation.op_def.is_stateful and is_followed(operation))


def attributes_of(operation: Any) -> tuple[Any, ...]:
    """The attributes of an operation, as an eager one has them."""
    found: list[Any] = []
    for each in operation.op_def.attr:
        if each.type not in ("func", "list(func)", "tensor"):
            value = operation.get_attr(each.name)
            if each.type == "shape":
                value = tf.TensorShape(value)
            found += [each.name, value.decode() if isinstance(value, bytes) else value]
    return tuple(found)


def places(operation: Any) -> tuple[Place | None, Place | None]:
    """Where the user's program stands that has made an operation, and where a library, if that is further in."""
    frames = [each for each in reversed(operation.traceback) if not each.filename.startswith(_OWN)]
    found = [Place(each.filename, each.lineno, function=each.name.removeprefix("tf__")) for each in frames]
    return user_and_library(found)


def _shape(given: Any, elements: Sequence[Any]) -> Any:
    known = next((each.shape for each in elements if each is not None), None)
    return known if known is not None else given
