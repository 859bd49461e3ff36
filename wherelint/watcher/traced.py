"""Gradients that TensorFlow takes in graphs.

A graph counts its gradients in a variable. Where one is not finite, it hands the numbers that the loss began with to
the host: what it was given, what it read, and what it drew; the operations between are run again from these. XLA hands
nothing over: there the variable also counts what was not finite, and the arguments and the variables of a compiled
function are kept while it runs. (They are not copied, but XLA cannot update them in place: at its end there are two.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import tensorflow as tf

from wherelint.tensorflow import compat
from wherelint.tensorflow.locate import Call, all_finite, explain_calls, finite, first_not_finite
from wherelint.tensorflow.replay import Known, Replay, Variable, is_end, is_followed
from wherelint.tensorflow.script import save
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, current, few

_STOPS = "wherelint stops the program here: a gradient is not finite"


@dataclass(eq=False)
class Taken:
    """A gradient: what is differentiated, by what, and the results, as far as they are floats."""

    site: Site
    roots: list[Any]
    seeds: list[Any]
    sources: list[Any]
    names: list[str]
    found: list[Any]
    scaled: bool = False

    @property
    def tensors(self) -> list[Any]:
        """All that a backward pass begins and ends with."""
        return [each for each in (*self.roots, *self.seeds, *self.sources) if each is not None]

    def known(self, known: Known) -> tuple[list[Any], list[Any], list[Any]]:
        """The values of roots and cotangents, and what stands for the sources."""
        roots = [known[each.name] for each in self.roots]
        seeds = [None if each is None else known[each.name] for each in self.seeds]
        sources = [known[each.name] for each in self.sources]
        return roots, seeds, [each.source if isinstance(each, Variable) else each for each in sources]


@dataclass(eq=False)
class Traced:
    """A gradient that a graph takes whenever it runs."""

    taken: Taken
    graph: Any
    compiled: bool
    #: How often it was taken; where the graph hands nothing over, also how often it was not finite although the value
    #: was, and how often the value was not.
    counter: Any
    #: The operation that counts.
    counts: Any = None
    seen: list[int] = field(default_factory=lambda: [0, 0, 0])
    #: What the graph has handed over since the last count.
    received: list[tuple[Status, Callable[[], Explanation] | None]] = field(default_factory=list)
    #: The inputs of the function that XLA compiled, and its graph, when it was not finite for the first time.
    arguments: tuple[Any, Sequence[Any], Sequence[Any]] | None = None


def maybe_finite(found: Sequence[Any]) -> Any:
    """Whether all are finite; it may be False for very large ones."""
    return tf.math.is_finite(tf.add_n([tf.cast(tf.nn.l2_loss(each), tf.float32) for each in found]))


def explanation(
    taken: Taken, calls: Sequence[Call], roots: Sequence[Any], seeds: Sequence[Any], sources: Sequence[Any],
    fine: Sequence[bool] | None = None,
) -> Explanation:  # fmt: skip
    """Why a gradient is not finite, by the calls between its sources and roots; ``fine`` says which results are."""
    note, saved = "", None
    if not all_finite(roots):
        report = first_not_finite(calls, roots)
        before = {
            id(each.operands[0]) for each in calls if each.kind == "ReadVariableOp" and not all_finite(each.results)
        }
        names = [name for name, source in zip(taken.names, sources, strict=True) if id(source) in before]
        note = f"Not finite before the step: {few(names)}." if names else ""
    else:
        seeds = [tf.ones_like(root) if seed is None else seed for root, seed in zip(roots, seeds, strict=True)]
        report = explain_calls(calls, roots, sources, seeds, fine and ())
        title = "The value is finite, and its gradient is not."
        saved = partial(save, title=title, calls=calls, roots=roots, seeds=seeds, sources=sources, names=taken.names)
    if fine is None:
        fine = [all_finite([each]) for each in report.gradient or ()]
    lost = [name for name, one in zip(taken.names, fine, strict=False) if not one]
    return Explanation(report, lost, len(taken.names), saved, note)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def trace(session: Session, taken: Taken, graph: Any) -> None:
    """Have a graph watch a gradient that it takes."""
    taken.sources = [each if getattr(each, "graph", None) is graph else graph.capture(each) for each in taken.sources]
    traced = Traced(taken, graph, compat.in_xla(graph), compat.counter(3))
    bad = [tf.constant(False)] * 2
    if traced.compiled or taken.scaled:
        fine, value = _all_finite(taken.found), _all_finite(taken.roots)
        bad = [~fine & value, ~fine & ~value]
    else:
        _hand_over(session, traced)
    counted = tf.cast(tf.stack([tf.constant(True), *bad]), tf.int64)
    traced.counts = traced.counter.assign_add(counted, read_value=False)
    _note(graph, [traced])


def _all_finite(tensors: Sequence[Any]) -> Any:
    return tf.reduce_all([tf.reduce_all(finite(each)) for each in tensors])


def _note(graph: Any, traced: Iterable[Traced]) -> None:
    """Remember of a graph, and of all around it, what they take."""
    while compat.is_function(graph):
        graph._wherelint = list(dict.fromkeys([*getattr(graph, "_wherelint", ()), *traced]))
        graph = graph.outer_graph


def _hand_over(session: Session, traced: Traced) -> None:
    """Have a graph hand over the numbers that a gradient was made of, if it is not finite."""
    taken = traced.taken
    numbers, handles = _beginnings(taken.tensors)

    def receive(fine: Any, value: Any, *given: Any) -> None:
        if current() is session and not bool(tf.reduce_all(fine)):
            status: Status = "gradient" if value else "value"
            explain = None
            if status not in [each for each, _ in traced.received]:  # one copy of the numbers
                explain = partial(_explain, traced, [bool(each) for each in fine], numbers, handles, given)
            traced.received.append((status, explain))
            if value and not session.keep_going:
                raise RuntimeError(_STOPS)

    def tell() -> Any:
        fine = tf.stack([tf.reduce_all(finite(each)) for each in taken.found])
        given = [*numbers, *map(compat.read, handles)]
        with tf.control_dependencies([tf.py_function(receive, [fine, _all_finite(taken.roots), *given], [])]):
            return tf.constant(True)

    tf.cond(maybe_finite(taken.found), lambda: tf.constant(False), tell)


def _beginnings(tensors: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """What tensors of a graph begin with, which can't be made of something else; the variables that functions read."""
    numbers: dict[str, Any] = {}
    handles: dict[str, Any] = {}
    todo, seen = [each.op for each in tensors], set()
    while todo:
        operation = todo.pop()
        if operation in seen:
            continue
        seen.add(operation)
        if is_end(operation) or is_followed(operation):
            numbers |= {each.name: each for each in operation.outputs if _is_number(each)}
        if is_end(operation):
            continue
        for each in operation.inputs:
            todo.append(each.op)
            if each.dtype == tf.resource and compat.read_type(each) is not None:
                handles[each.name] = each
    return list(numbers.values()), list(handles.values())


def _is_number(tensor: Any) -> bool:
    return tensor.dtype not in (tf.resource, tf.variant)


def _explain(
    traced: Traced, fine: Sequence[bool], numbers: Sequence[Any], handles: Sequence[Any], given: Sequence[Any]
) -> Explanation:
    known: Known = {each.name: value for each, value in zip((*numbers, *handles), given, strict=True)}
    for each in handles:
        known[each.name] = Variable(each, known[each.name])
    for each in traced.taken.sources:
        if each.dtype == tf.resource:
            known.setdefault(each.name, Variable(each, None))
    replay = Replay()
    replay.run(traced.graph, traced.taken.tensors, known)
    return explanation(traced.taken, replay.calls, *traced.taken.known(known), fine)


@contextmanager
def in_functions(session: Session, function: Any, graph: Any, arguments: Sequence[Any]) -> Iterator[None]:
    """Around the call of a traced function: what it counted is counted, and kept what XLA is given."""
    noted: list[Traced] = getattr(graph, "_wherelint", [])
    if not noted:
        yield
        return
    eager, keeper = tf.executing_eagerly(), None
    compiled = [each for each in noted if each.compiled]
    if compiled and compat.is_compiled(function) and not compat.is_compiled_within():
        with session.safely("a function that XLA compiles"), compat.stop_recording():
            keeper = _Keeper(session, compiled, graph, arguments)
    try:
        yield
    except Exception:
        if eager:
            with session.safely("a gradient"):
                _count(session, noted)
            if session.stopping:  # so the graph was ended by `_STOPS`
                session.stop(unwind=True)
        raise
    if keeper:
        with session.safely("a function that XLA compiles"), compat.stop_recording():
            keeper.end()
    with session.safely("a gradient"):
        if eager:
            _count(session, noted)
        else:
            _note(tf.compat.v1.get_default_graph(), noted)


class _Keeper:
    """Keeps what a compiled function is given while it runs, and longer if a gradient is not finite."""

    def __init__(self, session: Session, compiled: list[Traced], graph: Any, arguments: Sequence[Any]) -> None:
        self.session, self.compiled, self.graph = session, compiled, graph
        values = [compat.read(each) if each.dtype == tf.resource else each for each in arguments]
        chosen = [
            (to, each) for to, each in zip(graph.inputs, values, strict=True) if each is not None and _is_number(each)
        ]
        self.inputs, self.values = [to for to, _ in chosen], [each for _, each in chosen]
        self.before = [] if tf.executing_eagerly() else self._counts()

    def _counts(self) -> list[Any]:
        return [each.counter.read_value()[1:] for each in self.compiled]

    def end(self) -> None:
        if tf.executing_eagerly():
            for each in self.compiled:
                each.arguments = self.graph, self.inputs, self.values
            return
        bad = [after - before for after, before in zip(self._counts(), self.before, strict=True)]

        def receive(*given: Any) -> None:
            if current() is not self.session:
                return
            counts, values = given[: len(bad)], given[len(bad) :]
            for each, many in zip(self.compiled, counts, strict=True):
                if each.arguments is None and bool(tf.reduce_any(many > 0)):
                    each.arguments = self.graph, self.inputs, values
            if not self.session.keep_going and any(many[0] > 0 for many in counts):
                raise RuntimeError(_STOPS)

        def tell() -> Any:
            with tf.control_dependencies([tf.py_function(receive, [*bad, *self.values], [])]):
                return tf.constant(True)

        tf.cond(tf.reduce_any(tf.stack(bad) > 0), tell, lambda: tf.constant(False))


def _count(session: Session, noted: Sequence[Traced]) -> None:
    """Count what graphs have counted, and report what they handed over."""
    for each in noted:
        counts = [int(n) for n in each.counter.numpy()]
        new = [now - before for now, before in zip(counts, each.seen, strict=True)]
        received, arguments = each.received, each.arguments
        each.seen, each.received, each.arguments = counts, [], None
        statuses: tuple[tuple[Status, int], ...] = (("gradient", new[1]), ("value", new[2]))
        bad: list[tuple[Status, Any]] = [
            ("scaled" if each.taken.scaled else status, None) for status, count in statuses for _ in range(count)
        ]
        if arguments and bad and not each.taken.scaled:
            bad[0] = bad[0][0], partial(_replay, each, *arguments)
        bad += received
        site = each.taken.site
        for _ in range(new[0] - len(bad)):
            saw(session, site, "finite")
        for status, explain in bad:
            number = saw(session, site, status)
            if number and explain is not None:
                session.hit(Hit(site, number, status, explain, now=True))


def saw(session: Session, site: Site, status: Status) -> int:
    """Count a gradient; its number if it is to be explained: of values that are not finite, the first in a row."""
    again = status == "value" and site.bad
    number = session.saw(site, status)
    return 0 if again or status in ("finite", "scaled") else number


class _Found(Exception):
    """Ends a replay: the gradient that was looked for has been explained."""


def _replay(traced: Traced, graph: Any, inputs: Sequence[Any], values: Sequence[Any]) -> Explanation:
    """Why a gradient in a function that XLA compiled is not finite: the function is run again up to there."""
    known: Known = dict(zip((each.name for each in inputs), values, strict=True))
    for to in graph.inputs:
        if to.dtype == tf.resource:
            known[to.name] = Variable(to, known.get(to.name))
    seen: list[Explanation] = []

    def look(known: Known) -> None:
        seen.append(explanation(traced.taken, replay.calls, *traced.taken.known(known)))
        if not seen[-1].report.ok:
            raise _Found

    replay = Replay(compiled=True, writes=True, stops={traced.counts: (traced.taken.tensors, look)})
    try:
        replay.run(graph, [], known)
    except _Found:
        return seen[-1]
    return replace(seen[-1], note="Operation by operation, as eager TensorFlow computes it, the gradient is finite.")
