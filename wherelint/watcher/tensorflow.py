"""Watches what `tf.GradientTape.gradient` computes: eagerly, in the functions of `tf.function`, and in those of XLA.

While an eager tape records, what runs is noted, so that a gradient that is not finite is explained at once.

A graph counts its gradients in a variable. Where one is not finite, it hands the numbers that the loss began with to
the host: what it was given, what it read, and what it drew; the operations between are run again from these. XLA hands
nothing over: there the variable also counts what was not finite, and the arguments and the variables of a compiled
function are kept while it runs. (They are not copied, but XLA cannot update them in place: at its end there are two.)
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import tensorflow as tf

from wherelint.companion.frames import Frame, calling, directories, places
from wherelint.companion.patching import override, wrap
from wherelint.tensorflow import compat
from wherelint.tensorflow.locate import (
    Call,
    Known,
    Replay,
    Variable,
    all_finite,
    explain_calls,
    explain_value,
    finite,
    is_end,
    is_floating,
    is_followed,
    with_reads,
)  # fmt: skip
from wherelint.watcher import Imports
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, busy, current, few

#: TensorFlow, and this package.
_OWN = directories(tf.__file__, os.path.dirname(__file__))
_SCALERS = "keras.src.optimizers.loss_scale_optimizer"
_SCALED = "_wherelint_scaled"
_STOPS = "wherelint stops the program here: a gradient is not finite"


@contextmanager
def hook(session: Session, imports: Imports) -> Iterator[None]:
    """Within the block every gradient of a tape is watched."""
    watch = _Watch(session)
    with ExitStack() as undo:
        undo.enter_context(compat.around_tapes(watch.push, watch.pop))
        undo.enter_context(compat.around_functions(watch.call))
        undo.enter_context(compat.around_vectorized(watch.vectorized))
        undo.enter_context(wrap(tf.GradientTape, "gradient", watch.gradient))
        imports.after(_SCALERS, lambda: undo.enter_context(_note_scaling()))
        yield


def _note_scaling() -> AbstractContextManager[None]:
    """Note which losses are scaled: then an overflow is the scaler's business."""

    def scale(original: Callable[..., Any], *args: Any) -> Any:
        loss = original(*args)
        setattr(loss, _SCALED, True)
        return loss

    return wrap(sys.modules[_SCALERS].LossScaleOptimizer, "scale_loss", scale)


class _Local(threading.local):
    """What a thread does."""

    def __init__(self) -> None:
        self.tapes: list[Any] = []
        self.noting: Any = None
        self.vectorizing = False


class _Watch:
    def __init__(self, session: Session) -> None:
        self.session, self.local = session, _Local()
        self.sites: dict[Frame, Site] = {}

    def on(self) -> bool:
        return current() is self.session

    def push(self, begin: Callable[[Any], None], tape: Any) -> None:
        fresh = tape._tape is None
        begin(tape)
        if self.on() and tf.executing_eagerly():
            if fresh:
                tape._wherelint = []
            if not self.local.tapes:
                self.local.noting = compat.noting(self.note)
                self.local.noting.__enter__()
            self.local.tapes.append(tape)

    def pop(self, end: Callable[[Any], None], tape: Any) -> None:
        end(tape)
        if any(each is tape for each in self.local.tapes):
            self.local.tapes.remove(tape)
            if not self.local.tapes:
                self.local.noting.__exit__(None, None, None)

    def note(self, kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Note an operation; those of functions are noted with their gradients."""
        if self.on() and not kind.startswith("__"):
            call = Call(kind, attributes, operands, results, partial(places, calling(_OWN, to_program=True)))
            for tape in self.local.tapes:
                tape._wherelint.append(call)

    def call(self, plain: Callable[..., Any], function: Any, graph: Any, arguments: Sequence[Any]) -> Any:
        """Call a traced function, and count what it has counted."""
        if not self.on():
            return plain()
        with in_functions(self.session, function, graph, arguments):
            results = plain()
        if self.local.tapes and tf.executing_eagerly():
            for tape in self.local.tapes:
                tape._wherelint.append(partial(_inside, function, graph, arguments, results))
        return results

    def vectorized(self, vectorize: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with override(self.local, vectorizing=True):
            return vectorize(*args, **kwargs)

    def gradient(
        self, gradient: Callable[..., Any], tape: Any, target: Any, sources: Any, output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
    ) -> Any:  # fmt: skip
        found = gradient(tape, target, sources, output_gradients, unconnected_gradients)
        if not self.on():
            return found
        if self.local.vectorizing:
            self.session.unwatched.setdefault("jacobian, vectorized_map", "TensorFlow vectorizes these gradients")
            return found
        notes = getattr(tape, "_wherelint", [])
        if tape._tape is None:
            tape._wherelint = []
        with self.session.safely("a gradient"):
            with compat.stop_recording():
                hit = self._watched(target, sources, output_gradients, found, notes)
            if hit:
                self.session.hit(hit)
        return found

    def _watched(self, target: Any, sources: Any, output_gradients: Any, found: Any, notes: list[Any]) -> Hit | None:
        vjp = self._vjp(target, sources, output_gradients, found)
        if vjp and tf.executing_eagerly():
            return self._look(vjp, notes)
        graph = tf.compat.v1.get_default_graph()
        if vjp and compat.is_function(graph):
            trace(self.session, vjp, graph)
        elif vjp:
            self.session.unwatched.setdefault("a gradient", "it runs in a tf.compat.v1.Session")
        return None

    def _vjp(self, target: Any, sources: Any, output_gradients: Any, found: Any) -> _Gradient | None:
        roots = tf.nest.flatten(target, expand_composites=True)
        seeds = [None] * len(roots) if output_gradients is None else tf.nest.flatten(output_gradients)
        pairs = [(root, seed) for root, seed in zip(roots, seeds, strict=False) if is_floating(root)]
        chosen = [
            (getattr(source, "handle", source), _path(source, number), dense)
            for number, (source, got) in enumerate(zip(tf.nest.flatten(sources), tf.nest.flatten(found), strict=True))
            if is_floating(dense := getattr(got, "values", got))
            and (hasattr(source, "handle") or isinstance(source, tf.Tensor))
        ]
        if not chosen:
            return None
        sources, names, results = (list(each) for each in zip(*chosen, strict=True))
        roots, seeds = [root for root, _ in pairs], [seed for _, seed in pairs]
        scaled = any(getattr(each, _SCALED, False) for each in roots)
        return _Gradient(self._site(), roots, seeds, sources, names, results, scaled)

    def _site(self) -> Site:
        frame = calling(_OWN, to_program=True)[-1]
        name = frame[0].co_name.removeprefix("tf__")
        return self.sites.setdefault(frame, Site("tensorflow", "" if name.startswith("<") else name))

    def _look(self, vjp: _Gradient, notes: list[Any]) -> Hit | None:
        """Count an eager gradient, and explain it if it is not finite."""
        if maybe_finite(vjp.found) or all(fine := [all_finite([each]) for each in vjp.found]):
            self.session.saw(vjp.site, "finite")
            return None
        status: Status = "gradient" if all_finite(vjp.roots) else "value"
        with busy():
            calls = [part for each in notes for part in ([each] if isinstance(each, Call) else each())]
            calls = with_reads(calls, [each for each in vjp.sources if each.dtype == tf.resource])
        return _hit(
            self.session, vjp, status, partial(explanation, vjp, calls, vjp.roots, vjp.seeds, vjp.sources, fine)
        )


def _inside(function: Any, graph: Any, arguments: Sequence[Any], results: Sequence[Any]) -> list[Call]:
    """What a traced function did."""
    outputs = graph.outputs[: len(results)]
    known = {to.name: result for to, result in zip(outputs, results, strict=True)}
    for to, each in zip(graph.inputs, arguments, strict=True):
        known[to.name] = Variable(each, compat.read(each)) if each.dtype == tf.resource else each
    replay = Replay(compiled=compat.is_compiled(function))
    for computed, result in zip(replay.run(graph, outputs, known), results, strict=True):
        if computed is not result and tf.is_tensor(computed):
            replay.calls.append(Call("Identity", (), [computed], [result]))
    return replay.calls


def _path(source: Any, number: int) -> str:
    try:
        return str(getattr(source, "path", None) or source.name.removesuffix(":0"))
    except AttributeError:  # of an eager tensor
        return f"source {number}"


@dataclass(eq=False)
class _Gradient:
    """A gradient: what is differentiated, by what, and the results, as far as they are floats."""

    site: Site
    roots: list[Any]
    seeds: list[Any]
    sources: list[Any]
    names: list[str]
    found: list[Any]
    #: Whether a root is a loss that Keras has scaled.
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
class _Traced:
    """A gradient that a graph takes whenever it runs."""

    vjp: _Gradient
    graph: Any
    compiled: bool
    #: How often it was taken; where the graph hands nothing over, also how often it was not finite although the value
    #: was, and how often the value was not.
    counter: Any
    seen: list[int] = field(default_factory=lambda: [0, 0, 0])
    #: What the graph has handed over since the last count.
    received: list[tuple[Status, Callable[[], Explanation] | None]] = field(default_factory=list)
    #: The inputs of the function that XLA compiled, and their values, when it was not finite for the first time.
    arguments: tuple[Sequence[Any], Sequence[Any]] | None = None


def maybe_finite(found: Sequence[Any]) -> Any:
    """Whether all are finite; it may be False for very large ones."""
    return tf.math.is_finite(tf.add_n([tf.cast(tf.nn.l2_loss(each), tf.float32) for each in found]))


def _hit(session: Session, vjp: _Gradient, status: Status, explain: Callable[[], Explanation] | None) -> Hit | None:
    """Count a gradient that is not finite; what is to be reported of it."""
    if vjp.scaled and status == "gradient":
        with busy():
            if explain is None or not explain().report.poisoned:
                status = "scaled"
    number = session.saw(vjp.site, status)
    return None if explain is None or status == "scaled" else Hit(vjp.site, number, status, explain, now=True)


def explanation(
    vjp: _Gradient, calls: Sequence[Call], roots: Sequence[Any], seeds: Sequence[Any], sources: Sequence[Any],
    fine: Sequence[bool] = (),
) -> Explanation:  # fmt: skip
    """Why a gradient is not finite, by the calls between its sources and roots; ``fine`` says which results are."""
    lost, note = [name for name, one in zip(vjp.names, fine, strict=False) if not one], ""
    if all_finite(roots):
        seeds = [tf.ones_like(root) if seed is None else seed for root, seed in zip(roots, seeds, strict=True)]
        report = explain_calls(calls, roots, sources, seeds)
        report = replace(report, gradient_finite=report.gradient_finite and not fine)
    else:
        report = explain_value(calls, roots)
        reads = [each for each in calls if each.kind == "ReadVariableOp" and not all_finite(each.results)]
        before = {id(each.operands[0]) for each in reads}
        names = [name for name, source in zip(vjp.names, sources, strict=True) if id(source) in before]
        note = f"Not finite before this step: {few(names)}." if names else ""
    return Explanation(report, lost, len(vjp.names), note=note)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def trace(session: Session, vjp: _Gradient, graph: Any) -> None:
    """Have a graph watch a gradient that it takes."""
    vjp.sources = [each if getattr(each, "graph", None) is graph else graph.capture(each) for each in vjp.sources]
    traced = _Traced(vjp, graph, compat.in_xla(graph), compat.counter(3))
    bad = [tf.constant(False)] * 2
    if traced.compiled:
        fine, value = _all_finite(vjp.found), _all_finite(vjp.roots)
        bad = [~fine & value, ~fine & ~value]
    else:
        _hand_over(session, traced)
    counted = tf.cast(tf.stack([tf.constant(True), *bad]), tf.int64)
    traced.counter.assign_add(counted, read_value=False)
    _note(graph, [traced])


def _all_finite(tensors: Sequence[Any]) -> Any:
    return tf.reduce_all([tf.reduce_all(finite(each)) for each in tensors])


def _note(graph: Any, traced: Iterable[_Traced]) -> None:
    """Remember of a graph, and of all around it, what they take."""
    while compat.is_function(graph):
        graph._wherelint = list(dict.fromkeys([*getattr(graph, "_wherelint", ()), *traced]))
        graph = graph.outer_graph


def _hand_over(session: Session, traced: _Traced) -> None:
    """Have a graph hand over the numbers that a gradient was made of, if it is not finite."""
    vjp = traced.vjp
    tensors, handles = _beginnings(traced.graph)

    def receive(fine: Any, value: Any, *values: Any) -> None:
        if current() is session and not bool(tf.reduce_all(fine)):
            status: Status = "gradient" if value else "value"
            explain = None
            if status not in [each for each, _ in traced.received]:  # one copy of the numbers
                explain = partial(_explain, traced, [bool(each) for each in fine], [*tensors, *handles], values)
            traced.received.append((status, explain))
            if value and not session.keep_going and not vjp.scaled:
                raise RuntimeError(_STOPS)

    def values() -> list[Any]:
        fine = tf.stack([tf.reduce_all(finite(each)) for each in vjp.found])
        return [fine, _all_finite(vjp.roots), *tensors, *map(compat.read, handles)]

    _tell_if(~maybe_finite(vjp.found), receive, values)


def _tell_if(true: Any, receive: Callable[..., None], values: Callable[[], list[Any]]) -> None:
    """Have a graph call a function of Python with some values, if something is true."""

    def tell() -> Any:
        with tf.control_dependencies([tf.py_function(receive, values(), [])]):
            return tf.constant(True)

    tf.cond(true, tell, lambda: tf.constant(False))


def _beginnings(graph: Any) -> tuple[list[Any], list[Any]]:
    """What tensors of a graph begin with, which can't be made of something else; the variables that functions read."""
    operations = graph.get_operations()
    ends = [each for each in operations if is_end(each) or is_followed(each)]
    read = [each for operation in operations if not is_end(operation) for each in operation.inputs]
    handles = {each.name: each for each in read if each.dtype == tf.resource and compat.read_type(each) is not None}
    return [each for end in ends for each in end.outputs if _is_number(each)], list(handles.values())


def _is_number(tensor: Any) -> bool:
    return tensor.dtype not in (tf.resource, tf.variant)


def _explain(traced: _Traced, fine: Sequence[bool], tensors: Sequence[Any], values: Sequence[Any]) -> Explanation:
    """Why a gradient is not finite: what the graph computed from the values of some tensors is run again."""
    pairs = zip(tensors, values, strict=True)
    known: Known = {each.name: Variable(each, x) if each.dtype == tf.resource else x for each, x in pairs}
    for each in (*traced.vjp.sources, *traced.graph.inputs):
        if each.dtype == tf.resource:
            known.setdefault(each.name, Variable(each, None))
    replay = Replay(compiled=traced.compiled)
    replay.run(traced.graph, traced.vjp.tensors, known)
    found = explanation(traced.vjp, replay.calls, *traced.vjp.known(known), fine)
    note = "In eager mode the gradient is finite."
    return replace(found, report=replace(found.report, note=note)) if found.report.ok else found


@contextmanager
def in_functions(session: Session, function: Any, graph: Any, arguments: Sequence[Any]) -> Iterator[None]:
    """Around the call of a traced function: what it counted is counted, and kept what XLA is given."""
    noted: list[_Traced] = getattr(graph, "_wherelint", [])
    if not noted:
        yield
        return
    eager, end = tf.executing_eagerly(), None
    compiled = [each for each in noted if each.compiled]
    if compiled and compat.is_compiled(function) and not compat.is_compiled_within():
        with session.safely("a function that XLA compiles"), compat.stop_recording():
            end = _copies(session, compiled, graph.inputs, arguments)
    try:
        yield
    except Exception:
        if eager:
            with session.safely("a gradient"):
                _count(session, noted)
            if session.stopping:  # so the graph was ended by `_STOPS`
                session.stop(unwind=True)
        raise
    if end:
        with session.safely("a function that XLA compiles"), compat.stop_recording():
            end()
    with session.safely("a gradient"):
        if eager:
            _count(session, noted)
        else:
            _note(tf.compat.v1.get_default_graph(), noted)


def _copies(session: Session, compiled: list[_Traced], inputs: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Keep what a compiled function is given while it runs; what is called at its end keeps it if it is needed."""
    values = [compat.read(each) if each.dtype == tf.resource else each for each in arguments]
    chosen = [(to, each) for to, each in zip(inputs, values, strict=True) if each is not None and _is_number(each)]
    tensors, numbers = [to for to, _ in chosen], [each for _, each in chosen]
    before = None if tf.executing_eagerly() else [each.counter.read_value()[1:] for each in compiled]

    def receive(*received: Any) -> None:
        if current() is not session:
            return
        counts, copies = received[: len(compiled)], received[len(compiled) :]
        for each, many in zip(compiled, counts, strict=True):
            if each.arguments is None and bool(tf.reduce_any(many > 0)):
                each.arguments = tensors, copies
        bad = [many[0] > 0 and not each.vjp.scaled for each, many in zip(compiled, counts, strict=True)]
        if not session.keep_going and any(bad):
            raise RuntimeError(_STOPS)

    def end() -> None:
        if before is None:
            for each in compiled:
                each.arguments = tensors, numbers
            return
        bad = [each.counter.read_value()[1:] - some for each, some in zip(compiled, before, strict=True)]
        _tell_if(tf.reduce_any(tf.stack(bad) > 0), receive, lambda: [*bad, *numbers])

    return end


def _count(session: Session, noted: Sequence[_Traced]) -> None:
    """Count what graphs have counted, and report what they handed over."""
    for each in noted:
        counts = [int(n) for n in each.counter.numpy()]
        new = [now - before for now, before in zip(counts, each.seen, strict=True)]
        received, arguments = each.received, each.arguments
        each.seen, each.received, each.arguments = counts, [], None
        bad: list[tuple[Status, Any]] = [("gradient", None)] * new[1]
        bad += [("value", None)] * new[2]
        if arguments and bad:
            bad[0] = bad[0][0], partial(_explain, each, (), *arguments)
        bad += received
        site = each.vjp.site
        for _ in range(new[0] - len(bad)):
            session.saw(site, "finite")
        for status, explain in bad:
            if (hit := _hit(session, each.vjp, status, explain)) is not None:
                session.hit(hit)
