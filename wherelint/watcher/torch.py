"""Watches the backward passes of torch.

What an operation saves for its backward passes through hooks of ours, which note the line that called it. A pass keeps
its graph until the gradients are known to be finite; if they are not, the masked passes of `wherelint.torch` go over
the same graph again, so that nothing is computed anew.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from math import inf
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from wherelint.companion import Report
from wherelint.companion.frames import Frame, is_library
from wherelint.companion.patching import wrap
from wherelint.torch import compat
from wherelint.torch.locate import _BAD, _SPREADS, differentiable, finite, kind, locate
from wherelint.torch.masking import leaves as leaves_of
from wherelint.torch.masking import nodes, users
from wherelint.torch.trace import _KEY
from wherelint.torch.values import explain_value
from wherelint.watcher import Imports, operands
from wherelint.watcher.replay import Calls, note_calls
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, busy, current, few

_HOME = str(Path(__file__).parents[1])
#: So many bytes are little; a tensor that is a larger part of what was saved than this one in so many is freed at once.
_MUCH, _PARTS = 64 << 20, 40
_FURTHER = "It is lost further on, in what torch had freed: run again with --memory full."
_SUBSCRIPTS = frozenset({"BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE"})
_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)
_MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: [{kind} {shape}], "
    "is at version {now}; expected version {then} instead. Hint: enable anomaly detection to find the operation that "
    "failed to compute its gradient, with torch.autograd.set_detect_anomaly(True)."
)


@contextmanager
def hook(session: Session, imports: Imports) -> Iterator[None]:
    """Within the block every backward pass is watched."""
    watcher = _Watcher(session)
    with ExitStack() as stack:
        stack.enter_context(compat.around_saving(watcher.hooks))
        stack.enter_context(compat.around_backward(watcher.backward))
        stack.enter_context(_note_scaling(watcher))
        stack.enter_context(compat.without_donated_buffers())
        stack.enter_context(note_calls(watcher.calls, imports))
        stack.enter_context(compat.around_transforms(watcher.transformed, watcher.unwatched))
        stack.callback(watcher.hooks.refused)
        watcher.hooks.allowed()
        yield


class Saved:
    """A tensor that an operation saved for its backward, and where that was called."""

    __slots__ = ("frames", "freed", "hooked", "size", "tensor", "version")

    def __init__(self, tensor: Any, version: int, frames: tuple[Frame, ...], size: int = 0, hooked: Any = None) -> None:
        self.tensor, self.version, self.frames, self.size = tensor, version, frames, size
        #: Unpacks what other hooks made of the tensor.
        self.hooked = hooked
        self.freed = False

    def unpacked(self) -> Tensor:
        """The tensor, if torch would give it."""
        if self.freed:
            raise RuntimeError(_FREED)
        if self.hooked is not None:
            unpacked: Tensor = self.hooked(self.tensor)
            return unpacked
        tensor: Tensor = self.tensor
        if tensor._version != self.version:
            kind, shape = tensor.type(), list(tensor.shape)
            raise RuntimeError(_MODIFIED.format(kind=kind, shape=shape, now=tensor._version, then=self.version))
        return tensor

    def free(self, *, keep: bool) -> None:
        """Do as torch does once a pass has gone by; ``keep`` what it holds all the same."""
        self.freed = True
        if not keep:
            self.tensor = self.hooked = None


class _Hooks(threading.local):
    """The hooks for saved tensors, in every thread that takes gradients."""

    def __init__(self) -> None:
        #: Whether ours are pushed, and how many others are above them.
        self.ours, self.others = False, 0
        #: What a backward pass unpacked last: what it makes next belongs to the same operation.
        self.last: Saved | None = None
        #: What other hooks have packed is not to be unpacked: a checkpoint would compute it again.
        self.peeking = False
        #: How many bytes were saved since the last pass; from what size on the current pass lets go of a tensor.
        self.bytes, self.limit = 0, inf
        #: What the current pass unpacked; None outside of a pass that is watched.
        self.used: list[Saved] | None = None

    def pack(self, tensor: Tensor) -> Saved:
        size = tensor.numel() * tensor.element_size()
        self.bytes += size
        # The result of an operation would hold the operation that holds it.
        return Saved(tensor if tensor.is_leaf else tensor.detach(), tensor._version, self._frames(), size)

    def unpack(self, saved: Saved) -> Tensor:
        if self.used is not None:
            self.used.append(saved)
        tensor = torch.empty(0) if self.peeking and (saved.hooked or saved.freed) else saved.unpacked()
        self.last = saved  # after what a checkpoint unpacks in between
        if saved.size > self.limit:  # the operation still has it
            saved.free(keep=False)
        return tensor

    def taken(self) -> Saved | None:
        """What was unpacked since this was asked last."""
        last, self.last = self.last, None
        return last

    @contextmanager
    def peeked(self) -> Iterator[None]:
        """Within the block nothing is computed to unpack a tensor: it is empty then."""
        self.peeking = True
        try:
            yield
        finally:
            self.peeking = False

    def _frames(self) -> tuple[Frame, ...]:
        """Where the operation was called: innermost, and in the user's program."""
        if self.used is not None and self.last is not None:
            return self.last.frames
        first: FrameType | None = sys._getframe(2)
        while first is not None and _is_own(first.f_code):
            first = first.f_back
        frame = first
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if first is None or frame is None:
            return ()
        user = frame.f_code, frame.f_lasti
        return (user,) if frame is first else ((first.f_code, first.f_lasti), user)

    def pushed(self, pack: Any, unpack: Any) -> tuple[Any, Any]:
        """Hooks of the program's, which also note the line."""
        self.others += 1

        def packed(tensor: Tensor) -> Saved:
            return Saved(pack(tensor), 0, self._frames(), hooked=unpack)

        return packed, self.unpack

    def popped(self) -> None:
        """Other hooks are gone."""
        self.others -= 1

    def refused(self) -> None:
        """Leave, where nobody may have hooks."""
        if self.ours and not self.others:
            compat.pop_hooks()
            self.ours = False

    def allowed(self) -> None:
        """Come (back)."""
        if not self.ours and not self.others:
            compat.push_hooks(self.pack, self.unpack)
            self.ours = True


@cache
def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(_HOME)


class _Watcher:
    """What is looked at after each backward pass."""

    def __init__(self, session: Session) -> None:
        self.session, self.hooks = session, _Hooks()
        self.site, self.calls = Site("torch"), Calls()
        self.scaling = False
        self._inner: list[Tensor] = []

    def backward(
        self, run: compat.Backward, roots: Sequence[Any], seeds: Sequence[Any], keep: bool, create_graph: bool,
        inputs: Sequence[Any] = (), *rest: Any,
    ) -> Any:  # fmt: skip
        hooks = self.hooks
        within = compat.current_node() is not None
        if current() is not self.session or within or compat.is_traced(roots) or compat.is_transformed(seeds):
            used, hooks.used = hooks.used, None if within else hooks.used
            if within:  # a reentrant checkpoint: the graph outside does not lead to its parameters
                self._inner += _leaves(roots)
            try:
                return run(roots, seeds, keep, create_graph, inputs, *rest)
            finally:
                hooks.used = used
        known = hooks.ours
        hooks.allowed()  # in a new thread
        hooks.used = used = []
        if not keep and hooks.bytes > _MUCH and self.session.memory == "low":
            hooks.limit = hooks.bytes / _PARTS
        hooks.bytes = 0
        try:
            found = run(roots, seeds, keep or known, create_graph, inputs, *rest)
            hooks.used, hooks.limit = None, inf
            self._look(roots, seeds, inputs, found)
            return found
        finally:
            hooks.used, hooks.last, hooks.limit = None, None, inf
            self.calls.forget()
            self._inner = []
            for each in () if keep else used:
                each.free(keep=self.session.memory == "full")

    def unwatched(self, what: str, why: str = "they have no graph to look at") -> None:
        """Say once what cannot be watched."""
        if current() is self.session and not torch.compiler.is_compiling():
            self.session.unwatched[what] = why

    def transformed(
        self, run: Any, f: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The gradient of `torch.func`: the function is called again if that is not finite."""
        grads, rest = found = run(f, argnums, has_aux, args, kwargs)
        if current() is not self.session or torch.compiler.is_compiling():
            return found
        if compat.is_transformed(()):
            self.unwatched("torch.func.grad inside of another transform", "its numbers are not known there")
            return found
        hit = None
        with self.session.safely("torch.func.grad"), torch.no_grad(), busy():
            value, lost = (rest[0] if has_aux else rest), tree_leaves(grads)
            if finite(lost):
                self.session.saw(self.site, "finite")
                return found
            status: Status = "gradient" if finite([value]) else "value"
            number = self.session.saw(self.site, status)
            first = (lambda *args: f(*args, **kwargs)[0]) if has_aux else partial(f, **kwargs)
            explain = partial(self._of_a_function, first, args, argnums, grads)
            hit = Hit(self.site, number, status, explain, now=status != "value")
        if hit is not None:
            self.session.hit(hit)
        return found

    def _of_a_function(self, f: Any, args: tuple[Any, ...], argnums: Any, grads: Any) -> Explanation:
        with torch.enable_grad():
            report = locate(f, *args, argnums=argnums)
        named = [(keystr(path).lstrip("."), each) for path, each in tree_flatten_with_path(grads)[0]]
        return Explanation(report, [name for name, each in named if not finite([each])], len(named))

    def _look(self, roots: Sequence[Any], seeds: Sequence[Any], inputs: Sequence[Any], found: Any) -> None:
        hit = None
        with self.session.safely("a backward pass"), torch.no_grad(), busy():
            with compat.without_modes():
                leaves = list(inputs) or [*_leaves(roots), *self._inner]
                grads = found or [each.grad for each in leaves]
                if finite(grads):
                    # Parameters that a value has ruined may still give finite gradients.
                    ruined = self.site.pending is not None and not finite(leaves)
                    self.session.saw(self.site, "value" if ruined else "finite")
                    return
            hit = self._hit(roots, seeds, leaves, grads)
        if hit is not None:
            self.session.hit(hit)

    def _hit(
        self, roots: Sequence[Any], seeds: Sequence[Any], leaves: Sequence[Any], grads: Sequence[Any]
    ) -> Hit | None:
        values = [each for each in roots if isinstance(each, Tensor)]
        status: Status = "gradient" if finite(values) and finite(seeds) else "value"
        if status == "value" and self.site.pending:
            self.session.saw(self.site, status)
            return None
        freed = label_graph(self.hooks, roots)
        named = _named(leaves, grads)
        if status == "value":
            before = [name for name, each, _ in named if not finite([each])]
            note = f"Not finite before: {few(before)}." if before else ""
            report: Report | None = Report(False, False, False, note=note) if before else explain_value(roots)
        else:
            with torch.enable_grad():
                report = self.calls.explain(roots, seeds, leaves, partial(label_graph, self.hooks), freed)
        if report is None and freed:
            report = Report(True, False, False, note=_FURTHER)
        if report is None:  # a hook made it so, or another process
            return None
        if status == "gradient" and not report.poisoned and self.scaling:
            self.session.saw(self.site, "scaled")
            return None
        number = self.session.saw(self.site, status)
        lost = [name for name, _, grad in named if not finite([grad])]
        found = Explanation(report, lost, len(named), partial(operands.save, report.findings))
        return Hit(self.site, number, status, lambda: found, now=status != "value")


def label_graph(hooks: _Hooks, roots: Sequence[Any]) -> set[Node]:
    """Have the nodes of a graph know where they were made, and which operands and results are inf or nan.

    Returns those of which something has been freed.
    """
    graph = nodes(roots)
    with hooks.peeked():
        return _label_nodes(hooks, graph)


def _label_nodes(hooks: _Hooks, graph: dict[Node, list[Node]]) -> set[Node]:
    freed = set[Node]()
    hooks.taken()
    for node in graph:
        bad, frames = [], node.metadata.get(_KEY, ())
        for name, each in compat.all_saved(node):
            if (last := hooks.taken()) is not None:
                frames = frames or last.frames
                freed |= {node} if last.freed else set()
            if differentiable(each) and name != "result":
                bad += [~torch.isfinite(each)]
        node.metadata[_KEY], node.metadata[_BAD] = frames, [each for each in bad if each.any()]
    _place_the_rest(sorted((node for node in graph if node.next_functions), key=compat.made_at))
    for node, nearer in users(graph).items():
        result = compat.saved(node, "result")
        bad_result = isinstance(result, Tensor) and not finite([result])
        node.metadata[_SPREADS] = bad_result or any(each.metadata[_BAD] for each in nearer)
    return freed


def _place_the_rest(made: Sequence[Node]) -> None:
    """Give a place to indices that save nothing: the subscript that ran between what was called before and after."""
    for i, node in enumerate(made):
        if node.metadata[_KEY] or kind(node) not in ("index", "assignment"):
            continue
        before = next((frames[-1] for each in reversed(made[:i]) if (frames := each.metadata[_KEY])), None)
        after = next((frames[-1] for each in made[i + 1 :] if (frames := each.metadata[_KEY])), None)
        for frame, other, forwards in ((before, after, True), (after, before, False)):
            found = [at for at in _subscripts(frame[0]) if (at > frame[1]) == forwards] if frame else []
            if frame and other and frame[0] is other[0]:
                found = [at for at in found if (at < other[1]) == forwards]
            if frame and found:
                node.metadata[_KEY] = ((frame[0], found[0 if forwards else -1]),)
                break


def _subscripts(code: CodeType) -> list[int]:
    """Where a function reads or writes a part of something: offsets of its instructions."""
    return [
        each.offset for each in dis.get_instructions(code)
        if each.opname in _SUBSCRIPTS or (each.opname == "BINARY_OP" and each.argrepr == "[]")
    ]  # fmt: skip


def _leaves(roots: Sequence[Any]) -> list[Tensor]:
    """The leaves behind some tensors, each once."""
    return [each for each in roots if isinstance(each, Tensor) and each.grad_fn is None] + leaves_of(nodes(roots))


def _named(leaves: Sequence[Any], grads: Sequence[Any]) -> list[tuple[str, Any, Any]]:
    """Some leaves and every parameter: what the program's modules call them, they themselves, and their gradients."""
    names: dict[int, str] = {}
    found: dict[int, tuple[str, Any, Any]] = {}
    for module in [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]:
        for name, parameter in module.named_parameters():
            names[id(parameter)] = max(names.get(id(parameter), ""), name, key=len)
            if parameter.grad is not None:
                found[id(parameter)] = names[id(parameter)], parameter, parameter.grad
    for each, grad in zip(leaves, grads, strict=True):
        shape = f"a tensor of shape {tuple(getattr(each, 'shape', ()))}"
        found[id(each)] = names.get(id(each), shape), each, grad
    return list(found.values())


def _note_scaling(watcher: _Watcher) -> AbstractContextManager[None]:
    """Note whether a loss is scaled: then an overflow is the scaler's business."""

    def scale(original: Any, scaler: Any, outputs: Any) -> Any:
        watcher.scaling = scaler.is_enabled()
        return original(scaler, outputs)

    return wrap(torch.amp.GradScaler, "scale", scale)
