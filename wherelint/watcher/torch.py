"""Watches the backward passes of torch.

What an operation saves for its backward passes through hooks of ours, which note the line that called it. A pass keeps
its graph until the gradients are known to be finite; if they are not, the masked passes of `wherelint.torch` go over
the same graph again, so that nothing is computed anew.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from wherelint.companion import Poison, Report
from wherelint.companion.frames import Frame, calling, places
from wherelint.companion.patching import override, wrap
from wherelint.io import disk
from wherelint.torch import compat
from wherelint.torch.locate import Traced, differentiable, explain, finite, operation, stem, trace
from wherelint.torch.masking import leaves as leaves_of
from wherelint.torch.masking import nodes
from wherelint.torch.trace import _KEY, Labels, label
from wherelint.watcher import Imports
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, busy, current, few

_HOME = (str(Path(__file__).parents[1]),)
#: So many bytes are little; a tensor that is a larger part of what was saved than this one in so many is freed at once.
_MUCH, _PARTS = 64 << 20, 40
_CALL = "wherelint call"
_FURTHER = "The cause is in a part of the graph that torch has freed: run again with --memory full."
_VALUE = "To see the operation, run with torch.autograd.set_detect_anomaly(True)."
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


#: What the operands of an operation are called, in their order.
_OPERANDS = ("self", "other", "exponent")
#: What the operand was, where a node keeps the result alone.
_FROM_RESULT: dict[str, Callable[[Tensor], Tensor]] = {
    "sqrt": torch.square, "exp": torch.log, "exp2": torch.log2, "expm1": torch.log1p, "tan": torch.atan,
    "tanh": torch.atanh, "reciprocal": torch.reciprocal, "rsqrt": lambda result: result**-2.0, "sinh": torch.asinh,
}  # fmt: skip
_MODULES = (("torch", torch), ("torch.special", torch.special), ("torch.linalg", torch.linalg))
#: Operands that are set by name.
_NAMED = ("ord", "dim", "keepdim")
_SCRIPT = '''\
"""{op} in {place}: the value is finite, and its gradient is not."""

from pathlib import Path

import torch

saved = torch.load(Path(__file__).with_name("operands.pt"))
operands = [each.requires_grad_() if torch.is_tensor(each) else each for each in saved["operands"]]
dropped = saved["dropped"]  # where the selection does not take the result


def value(*operands):
    return torch.where(dropped, 0.0, {function}(*operands{options})).sum()


gradients = torch.autograd.grad(value(*operands), [each for each in operands if torch.is_tensor(each)])
print("the value is", value(*operands).item())
for gradient in gradients:
    for at in (~torch.isfinite(gradient)).nonzero()[:1]:
        print(f"the gradient is {{gradient[tuple(at)]}} at {{at.tolist()}}")
'''


@contextmanager
def hook(session: Session, imports: Imports) -> Iterator[None]:
    """Within the block every backward pass is watched."""
    watcher = _Watcher(session)
    with ExitStack() as stack:
        stack.enter_context(compat.around_saving(watcher.hooks))
        stack.enter_context(compat.around_backward(watcher.backward))
        stack.enter_context(_note_scaling(watcher))
        stack.enter_context(compat.without_donated_buffers())
        stack.enter_context(_note_calls(watcher.calls, imports))
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
        #: What other hooks have packed is empty then, and not unpacked: a checkpoint would compute it again.
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

    def unpacked_last(self) -> Saved | None:
        """What was unpacked since this was asked last."""
        last, self.last = self.last, None
        return last

    def _frames(self) -> tuple[Frame, ...]:
        """Where the operation was called: innermost, and in the user's program."""
        if self.used is not None and self.last is not None:
            return self.last.frames
        frames = calling(_HOME, to_program=True)
        return frames if len(frames) < 2 else (frames[0], frames[-1])

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


@dataclass(eq=False)
class _Call:
    """A call that a graph shows as one node: what `torch.compile` made, or a reentrant checkpoint.

    ``again`` runs it as plain Python, given its node; ``outputs`` are, of its differentiable results, the numbers of
    those that come from the node, and the node's own numbers for them. ``arrived`` are the cotangents that reached the
    node in the current pass.
    """

    again: Callable[[Node], Any]
    outputs: list[tuple[int, int]]
    arrived: Sequence[Tensor | None] = ()


class _Calls:
    """The calls that the current pass goes through; each is run again if a gradient is not finite."""

    def __init__(self) -> None:
        self.seen: list[_Call] = []

    def note(self, again: Callable[[Node], Any], results: Any) -> None:
        """Note a call that has been made."""
        tensors = _differentiable(results)
        for node in dict.fromkeys(each.grad_fn for each in tensors):
            if node is not None and _CALL not in node.metadata:  # else of an inner call
                outputs = [(i, each.output_nr) for i, each in enumerate(tensors) if each.grad_fn is node]
                node.metadata[_CALL] = call = _Call(again, outputs)
                node.register_prehook(partial(self._arrive, call))

    def _arrive(self, call: _Call, cotangents: Sequence[Tensor | None]) -> None:
        self.seen.append(call)
        call.arrived = cotangents

    def forget(self) -> None:
        """The pass is over."""
        for call in self.seen:
            call.arrived = ()
        self.seen = []

    def explain(
        self, roots: Sequence[Any], seeds: Sequence[Any], leaves: Sequence[Any],
        label: Callable[[Sequence[Any]], set[Node]], cut: Collection[Node],
    ) -> Report | None:  # fmt: skip
        """The report on the part of a graph that breaks its gradient; None where none of them does.

        ``label`` is called with the roots of what is run again; no part goes through the nodes of ``cut``.
        """
        graph = nodes(roots)
        ends = frozenset(node for node in graph if _CALL in node.metadata or node in cut)
        if not ends:
            return _broken(Traced(list(roots), list(leaves), [], len(leaves), list(seeds)))
        own = [
            (root, seed) for root, seed in zip(roots, seeds, strict=True)
            if (root.node if isinstance(root, GradientEdge) else root.grad_fn) not in ends
        ]  # fmt: skip
        if own and (report := _before(ends, *map(list, zip(*own, strict=True)))):
            return report
        for node in graph:
            if _CALL in node.metadata and (report := self._inside(node.metadata[_CALL], node, label)):
                return report
        return None

    def _inside(self, call: _Call, node: Node, label: Any) -> Report | None:
        """The report on a call, and on what lies behind it up to the next ones."""
        if not call.arrived or not finite(call.arrived):
            return None
        with Labels():  # for what saves nothing
            results = _differentiable(call.again(node))
        pairs = [
            (results[i], ct) for i, at in call.outputs if i < len(results) and (ct := call.arrived[at]) is not None
        ]
        if not pairs:
            return None
        roots, seeds = map(list, zip(*pairs, strict=True))
        freed = label(roots)
        return _before(freed.union(each for each in nodes(roots) if _CALL in each.metadata), roots, seeds)


def _before(ends: Collection[Node], roots: list[Any], seeds: list[Any]) -> Report | None:
    """The report on the part of a graph from some roots to some ends."""
    before = nodes(roots, ends)
    after = [GradientEdge(n, i) for node in ends for n, i in node.next_functions if n is not None]
    beyond = {id(each) for each in leaves_of(nodes(after))}
    here = [each for each in leaves_of(before) if id(each) not in beyond]
    # What hands a cotangent to a leaf that is also reached from beyond is where this part ends.
    last = {node for node, found in before.items() if any(id(getattr(n, "variable", None)) in beyond for n in found)}
    ends_here = last.union(ends)
    edges = dict.fromkeys(GradientEdge(n, i) for node in before for n, i in node.next_functions if n in ends_here)
    return _broken(Traced(roots, [*edges, *here], [], 0, seeds, frozenset(ends)))


def _differentiable(results: Any) -> list[Tensor]:
    """Those that have a gradient."""
    found = [each for each in tree_leaves(results) if isinstance(each, Tensor)]
    return [each for each in found if each.requires_grad and each.grad_fn is not None]


class _Watcher:
    """What is looked at after each backward pass."""

    def __init__(self, session: Session) -> None:
        self.session, self.hooks = session, _Hooks()
        self.site, self.calls = Site("torch"), _Calls()
        self.scaling = False
        self._inner: list[Tensor] = []

    def backward(
        self, run: compat.Backward, roots: Sequence[Any], seeds: Sequence[Any], keep: bool, create_graph: bool,
        inputs: Sequence[Any] = (), *rest: Any,
    ) -> Any:  # fmt: skip
        hooks = self.hooks
        within = compat.current_node() is not None
        if current() is not self.session or within or compat.is_traced(roots) or compat.is_transformed(seeds):
            if within:  # a reentrant checkpoint: the graph outside does not lead to its parameters
                self._inner += _leaves(roots)
            with override(hooks, used=None if within else hooks.used):
                return run(roots, seeds, keep, create_graph, inputs, *rest)
        known = hooks.ours
        hooks.allowed()  # in a new thread
        hooks.used = used = list[Saved]()
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

    def unwatched(self, what: str, why: str = "wherelint cannot read their graph") -> None:
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
            self.unwatched("torch.func.grad inside another transform", "wherelint cannot read its values")
            return found
        with self.session.safely("torch.func.grad"), torch.no_grad(), busy():
            if finite(tree_leaves(grads)):
                self.session.saw(self.site, "finite")
                return found
            status: Status = "gradient" if finite([rest[0] if has_aux else rest]) else "value"
            number = self.session.saw(self.site, status)

            def explanation() -> Explanation:
                first = (lambda *args: f(*args, **kwargs)[0]) if has_aux else partial(f, **kwargs)
                with torch.enable_grad(), Labels():
                    traced = trace(first, args, argnums)
                    report = explain(traced) if status == "gradient" else _value_report(traced.roots)
                named = [(keystr(path).lstrip("."), each) for path, each in tree_flatten_with_path(grads)[0]]
                return Explanation(report, [name for name, each in named if not finite([each])], len(named))

            self.session.hit(Hit(self.site, number, status, explanation, now=status != "value"))
        return found

    def _look(self, roots: Sequence[Any], seeds: Sequence[Any], inputs: Sequence[Any], found: Any) -> None:
        with self.session.safely("a backward pass"), torch.no_grad(), busy():
            with compat.without_modes():
                leaves = list(inputs) or [*_leaves(roots), *self._inner]
                grads = found or [each.grad for each in leaves]
                if finite(grads):
                    # Parameters that a value has ruined may still give finite gradients.
                    ruined = self.site.pending is not None and not finite(leaves)
                    self.session.saw(self.site, "value" if ruined else "finite")
                    return
            self._hit(roots, seeds, leaves, grads)

    def _hit(self, roots: Sequence[Any], seeds: Sequence[Any], leaves: Sequence[Any], grads: Sequence[Any]) -> None:
        values = [each for each in roots if isinstance(each, Tensor)]
        status: Status = "gradient" if finite(values) and finite(seeds) else "value"
        if status == "value" and self.site.pending:
            self.session.saw(self.site, status)
            return
        report: Report | None
        named, freed = _named(leaves, grads), label_graph(self.hooks, roots)
        if status == "value":
            before = [name for name, each, _ in named if not finite([each])]
            note = f"Not finite before this step: {few(before)}."
            report = Report(False, False, False, note=note) if before else _value_report(roots)
        else:
            with torch.enable_grad():
                report = self.calls.explain(roots, seeds, leaves, partial(label_graph, self.hooks), freed)
        if report is None and freed:
            report = Report(True, False, False, note=_FURTHER)
        if report is None:  # a hook made it so, or another process
            return
        if status == "gradient" and not report.poisoned and self.scaling:
            self.session.saw(self.site, "scaled")
            return
        number = self.session.saw(self.site, status)
        lost = [name for name, _, grad in named if not finite([grad])]
        found = Explanation(report, lost, len(named), partial(_save, report.findings))
        self.session.hit(Hit(self.site, number, status, lambda: found, now=status != "value"))


def label_graph(hooks: _Hooks, roots: Sequence[Any]) -> set[Node]:
    """Have the nodes of a graph know where they were made; those of which something has been freed."""
    freed = set[Node]()
    with override(hooks, peeking=True):
        hooks.unpacked_last()
        for node in nodes(roots):
            frames = node.metadata.get(_KEY, ())
            for _ in compat.all_saved(node):
                if (last := hooks.unpacked_last()) is not None:
                    frames = frames or last.frames
                    freed |= {node} if last.freed else set()
            node.metadata[_KEY] = frames
    return freed


def _value_report(roots: Sequence[Any]) -> Report:
    """The report on a value that is not finite: the first operation that made it so of finite numbers.

    Without a finding where a parameter or the data were not finite before, or where the graph does not show it.
    """
    for node in sorted((node for node in nodes(roots) if node.next_functions), key=compat.order):
        everything = dict(compat.all_saved(node))
        saved = {name: each for name, each in everything.items() if differentiable(each)}
        results = [saved.pop("result")] if "result" in saved else []
        if stem(node) == "div" and everything.get("self") is None and everything.get("other") is not None:
            results = [1 / everything["other"]]  # the numerator is not kept
        first: Node | None = None
        if finite(saved.values()):
            for _, call, operands, options in () if results else _calls(node):
                with suppress(RuntimeError, TypeError, ValueError):
                    results.append(call(*operands, **options))
            first = None if finite(results[:1]) else node
        elif makers := [each.grad_fn for each in saved.values() if not finite([each]) and each.grad_fn is not None]:
            first = makers[0]  # it keeps nothing itself: a sum
        else:
            at, _ = places(label(node))
            note = f"A parameter or the data was not finite before {at or 'this step'}."
            return Report(False, False, False, note=note)
        if first is not None:
            at, within = places(label(first))
            poison = Poison(operation(first), at, op_within=within, framework="torch", value=True)
            return Report(False, False, False, (poison,))
    return Report(False, False, False, note=_VALUE)


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


def _broken(traced: Traced) -> Report | None:
    if not traced.leaves:
        return None
    report = explain(traced)
    return None if report.gradient_finite else report


@contextmanager
def _note_calls(calls: _Calls, imports: Imports) -> Iterator[None]:
    """Within the block, such calls are noted as they are made."""

    def compiled(run: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return run(*args, **kwargs)
        again = _replayed(model, args, kwargs)
        results = run(*args, **kwargs)
        calls.note(again, results)
        return results

    with ExitStack() as undo, compat.around_compiled(compiled):
        imports.after("torch.utils.checkpoint", lambda: undo.enter_context(_checkpoints(calls)))
        yield


def _checkpoints(calls: _Calls) -> AbstractContextManager[None]:
    function = torch.utils.checkpoint.CheckpointFunction
    original = function.apply

    def apply(*args: Any) -> Any:
        results = original(*args)
        if torch.is_grad_enabled():
            calls.note(_checkpoint_again, results)
        return results

    return override(function, apply=staticmethod(apply))


def _checkpoint_again(node: Any) -> Any:
    """Run the function of a reentrant checkpoint as its backward does."""
    tensors = dict(zip(node.tensor_indices, node.saved_tensors, strict=True))
    inputs = [tensors.get(i, each) for i, each in enumerate(node.inputs)]
    state = node.fwd_cpu_state if node.preserve_rng_state else torch.get_rng_state()
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", **node.cpu_autocast_kwargs):
        torch.set_rng_state(state)
        return node.run_function(*inputs)


def _replayed(function: Callable[..., Any], args: Any, kwargs: Any) -> Callable[[Node], Any]:
    """Runs a call again, as plain Python, in the random state and under the autocast of now."""
    state = torch.get_rng_state()
    cast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def again(_: Node) -> Any:
        buffers = [(each, each.clone()) for each in _buffers(function)]
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", cast[1], enabled=cast[0]):
            torch.set_rng_state(state)
            try:
                with compat.not_compiling():
                    return function(*args, **kwargs)
            finally:
                with torch.no_grad():
                    for each, value in buffers:
                        each.copy_(value)

    return again


def _buffers(function: Any) -> list[Tensor]:
    owner = getattr(function, "__self__", function)
    return list(owner.buffers()) if isinstance(owner, torch.nn.Module) else []


def _save(findings: Sequence[Poison], directory: Path) -> list[str]:
    """Write the operands of the first operation that can be run alone, and the script; the names of the files."""
    findings = [poison for poison in findings if poison.node is not None]
    for poison in findings:
        for function, call, operands, options in _calls(poison.node):
            if (dropped := _dropped(poison.elements, call, operands, options)) is not None:
                torch.save({"operands": operands, "dropped": dropped}, directory / "operands.pt")
                shown = "".join(f", {name}={value!r}" for name, value in options.items())
                place = str(poison.op_at or "a library")
                text = _SCRIPT.format(op=poison.op, place=place, function=function, options=shown)
                disk.write(directory / "repro.py", text.encode())
                return ["operands.pt", "repro.py"]
    for poison in findings[:1]:
        torch.save(dict(compat.all_saved(poison.node)), directory / "operands.pt")
        return ["operands.pt"]
    return []


def _calls(node: Node) -> Iterator[tuple[str, Callable[..., Tensor], list[Any], dict[str, Any]]]:
    """Functions of torch that may be the operation of a node, with operands and options."""
    saved = dict(compat.all_saved(node))
    name = stem(node)
    operands = [each.detach().clone() if isinstance(each, Tensor) else each
                for key in _OPERANDS if (each := saved.get(key)) is not None]  # fmt: skip
    if not operands and name in _FROM_RESULT and isinstance(saved.get("result"), Tensor):
        operands = [_FROM_RESULT[name](saved["result"].detach())]
    options = {key: saved[key] for key in _NAMED if saved.get(key) is not None}
    for prefix, module in _MODULES:
        for short in dict.fromkeys((name, name.removeprefix("special_"), name.removeprefix("linalg_"))):
            if operands and (call := getattr(module, short, None)) is not None:
                yield f"{prefix}.{short}", call, operands, options


def _dropped(
    elements: Tensor, call: Callable[..., Tensor], operands: Sequence[Any], options: dict[str, Any]
) -> Tensor | None:
    """Which results the selection did not take; None where the call alone does not show the bug."""
    leaves = [each.clone().requires_grad_() if isinstance(each, Tensor) else each for each in operands]
    try:
        with torch.enable_grad():
            result = call(*leaves, **options)
            dropped = elements
            while dropped.dim() > result.dim():
                dropped = dropped.any(-1)
            if dropped.shape != result.shape:
                return None
            value = torch.where(dropped, 0.0, result).sum()
            grads = torch.autograd.grad(value, [each for each in leaves if isinstance(each, Tensor)])
    except (RuntimeError, TypeError, ValueError):
        return None
    shown = bool(torch.isfinite(value)) and not all(bool(torch.isfinite(each).all()) for each in grads)
    return dropped if shown else None
