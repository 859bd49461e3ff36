"""Watches what `tf.GradientTape.gradient` computes: eagerly, in the functions of `tf.function`, and in those of XLA.

While an eager tape records, what runs is noted, so that a gradient that is not finite is explained at once; how graphs
are watched says ``traced``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from wherelint.companion.frames import Frame, calling, directories, places
from wherelint.companion.patching import wrap
from wherelint.tensorflow import compat
from wherelint.tensorflow.locate import Call, adopt, all_finite, is_floating, with_reads
from wherelint.tensorflow.replay import Replay, Variable
from wherelint.watcher import Imports
from wherelint.watcher.session import Hit, Session, Site, Status, busy, current
from wherelint.watcher.traced import Taken, explanation, in_functions, maybe_finite, saw, trace

#: TensorFlow, and this package.
_OWN = directories(tf.__file__, os.path.dirname(__file__))
_SCALERS = "keras.src.optimizers.loss_scale_optimizer"
_SCALED = "_wherelint_scaled"


@contextmanager
def hook(session: Session, imports: Imports) -> Iterator[None]:
    """Within the block every gradient of a tape is watched."""
    watch = _Watch(session)
    with ExitStack() as undo:
        undo.enter_context(compat.around_tapes(watch.push, watch.pop))
        undo.enter_context(compat.own_gradients(watch.own))
        undo.enter_context(compat.around_functions(watch.call))
        undo.enter_context(compat.counters_saved(busy))
        undo.enter_context(compat.around_vectorized(watch.vectorized))
        undo.enter_context(wrap(tf.GradientTape, "gradient", watch.gradient))
        imports.after(_SCALERS, lambda: undo.enter_context(_scaled_losses()))
        yield


def _scaled_losses() -> AbstractContextManager[None]:
    def scaled(scale_loss: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        loss = scale_loss(*args, **kwargs)
        setattr(loss, _SCALED, True)
        return loss

    return wrap(sys.modules[_SCALERS].LossScaleOptimizer, "scale_loss", scaled)


class _Local(threading.local):
    """What a thread does."""

    def __init__(self) -> None:
        self.tapes: list[Any] = []
        self.noting: Any = None
        self.vectorizing = False
        #: The function that was called last: its graph, arguments and results.
        self.called: tuple[Any, ...] = ()


@dataclass(eq=False)
class _FunctionCall(Call):
    """A call of a traced function; ``inside`` gives what it did."""

    inside: Callable[[], list[Call]] = list


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
                self.local.called = ()

    def note(self, kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Note an operation; those of functions are noted with their gradients."""
        if self.on() and not kind.startswith("__"):
            call = Call(kind, attributes, operands, results, partial(places, calling(_OWN, to_program=True)))
            for tape in self.local.tapes:
                tape._wherelint.append(call)

    def own(self, name: str, operands: Sequence[Any], results: Sequence[Any], backward: Callable[..., Any]) -> None:
        """Note what brings its own gradient."""
        if not (self.local.tapes and self.on() and tf.executing_eagerly()):
            return
        where = partial(places, calling(_OWN, to_program=True))
        call = Call(name, (), operands, results, where, backward)
        if self.local.called and any(each is made for each in results[:1] for made in self.local.called[-1] or ()):
            call = _FunctionCall(
                name, (), operands, results, where, backward, inside=partial(_inside, *self.local.called)
            )
        for tape in self.local.tapes:
            adopt(tape._wherelint, call)

    def call(self, plain: Callable[..., Any], function: Any, graph: Any, arguments: Sequence[Any]) -> Any:
        """Call a traced function, and count what it has counted."""
        if not self.on():
            return plain()
        with in_functions(self.session, function, graph, arguments):
            results = plain()
        if self.local.tapes and tf.executing_eagerly():
            self.local.called = function, graph, arguments, results
        return results

    def vectorized(self, vectorize: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, self.local.vectorizing = self.local.vectorizing, True
        try:
            return vectorize(*args, **kwargs)
        finally:
            self.local.vectorizing = before

    def gradient(
        self, gradient: Callable[..., Any], tape: Any, target: Any, sources: Any, output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
    ) -> Any:  # fmt: skip
        found = gradient(tape, target, sources, output_gradients, unconnected_gradients)
        if not self.on() or compat.is_of_forward_mode(sys._getframe(2).f_code.co_filename):
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

    def _watched(self, target: Any, sources: Any, output_gradients: Any, found: Any, notes: list[Call]) -> Hit | None:
        taken = self._taken(target, sources, output_gradients, found)
        if taken and tf.executing_eagerly():
            return self._look(taken, notes)
        graph = tf.compat.v1.get_default_graph()
        if taken and compat.is_function(graph):
            trace(self.session, taken, graph)
        elif taken:
            self.session.unwatched.setdefault("a gradient", "it runs in a tf.compat.v1.Session")
        return None

    def _taken(self, target: Any, sources: Any, output_gradients: Any, found: Any) -> Taken | None:
        roots = tf.nest.flatten(target, expand_composites=True)
        seeds = [None] * len(roots) if output_gradients is None else tf.nest.flatten(output_gradients)
        pairs = [(root, seed) for root, seed in zip(roots, seeds, strict=False) if is_floating(root)]
        chosen = [
            (getattr(source, "handle", source), _path(source, number), dense)
            for number, (source, got) in enumerate(zip(tf.nest.flatten(sources), tf.nest.flatten(found), strict=True))
            if is_floating(dense := getattr(got, "values", got))
            and (hasattr(source, "handle") or isinstance(source, tf.Tensor))
        ]
        scaled = any(getattr(each, _SCALED, False) for each in tf.nest.flatten(target))
        if not chosen:
            return None
        sources, names, results = (list(each) for each in zip(*chosen, strict=True))
        roots, seeds = [root for root, _ in pairs], [seed for _, seed in pairs]
        return Taken(self._site(), roots, seeds, sources, names, results, scaled)

    def _site(self) -> Site:
        frame = calling(_OWN, to_program=True)[-1]
        name = frame[0].co_name.removeprefix("tf__")
        return self.sites.setdefault(frame, Site("tensorflow", "" if name.startswith("<") else name))

    def _look(self, taken: Taken, notes: list[Call]) -> Hit | None:
        """Count an eager gradient, and explain it if it is not finite."""
        if maybe_finite(taken.found) or all(fine := [all_finite([each]) for each in taken.found]):
            saw(self.session, taken.site, "finite")
            return None
        status: Status = "scaled" if taken.scaled else "gradient" if all_finite(taken.roots) else "value"
        number = saw(self.session, taken.site, status)
        if not number:
            return None
        with busy():
            calls = [part for each in notes for part in _parts(each)]
            calls = with_reads(calls, [each for each in taken.sources if each.dtype == tf.resource])
        explain = partial(explanation, taken, calls, taken.roots, taken.seeds, taken.sources, fine)
        return Hit(taken.site, number, status, explain, now=True)


def _parts(call: Call) -> list[Call]:
    if isinstance(call, _FunctionCall):
        try:
            return call.inside()
        except Exception:  # as one operation
            pass
    return [call]


def _inside(function: Any, graph: Any, arguments: Sequence[Any], results: Sequence[Any]) -> list[Call]:
    """What a traced function did."""
    outputs = graph.outputs[: len(results)]
    known = {to.name: result for to, result in zip(outputs, results, strict=True)}
    for to, each in zip(graph.inputs, arguments, strict=True):
        known[to.name] = Variable(each, compat.read(each)) if each.dtype == tf.resource else each
    replay = Replay(compiled=compat.is_compiled(function))
    for made, result in zip(replay.run(graph, outputs, known), results, strict=True):
        if made is not result and tf.is_tensor(made):
            replay.calls.append(Call("Identity", (), [made], [result]))
    return replay.calls


def _path(source: Any, number: int) -> str:
    try:
        return str(getattr(source, "path", None) or source.name.removesuffix(":0"))
    except AttributeError:  # of an eager tensor
        return f"source {number}"
