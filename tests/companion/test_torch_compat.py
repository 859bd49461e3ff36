"""The private names of torch that the companion uses do what it believes of them; one test for each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from real_gradients import require

require("torch")

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.torch_version import TorchVersion  # noqa: E402

from wherelint.torch import compat  # noqa: E402

VERSION = f"torch {torch.__version__}"


def test_the_current_node_is_known_in_hooks_and_nowhere_else() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.sqrt()
    seen = []
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda cotangents: seen.append(compat.current_node()))
    y.sum().backward()
    assert compat.current_node() is None, VERSION
    assert len(seen) == 1, VERSION


def test_transforms_are_known() -> None:
    levels = []
    torch.func.grad(lambda x: (levels.append(compat.is_transformed(())), x.sum())[1])(torch.ones(2))
    assert levels == [True], VERSION
    assert not compat.is_transformed([torch.ones(2)]), VERSION


def test_what_a_transform_wraps_is_found() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    found = []

    def each(row: torch.Tensor) -> torch.Tensor:
        found.extend(compat.layers(row.sqrt()))
        return row.sum()

    torch.func.vmap(each)(x)
    assert [layer.grad_fn is None for layer in found] == [True, False], VERSION
    assert compat.layers(x) == [x], VERSION


def test_an_alias_shares_its_storage() -> None:
    class Sub(torch.Tensor):
        __torch_function__ = compat.no_torch_function

    x = torch.ones(2)
    made = compat.alias(Sub, x)
    assert type(made) is Sub, VERSION
    assert made.data_ptr() == x.data_ptr(), VERSION


def test_what_a_freed_graph_kept_is_nothing() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.sqrt()
    node = y.grad_fn
    assert node is not None
    assert "result" in dict(compat.all_saved(node)), VERSION
    y.sum().backward()
    assert not dict(compat.all_saved(node)), VERSION


def test_compiled_graphs_are_told_by_name() -> None:
    x = torch.ones(2, requires_grad=True)
    traced = []

    def noted(backward: Any, roots: Any, *rest: Any) -> Any:
        traced.append(compat.is_traced(roots))
        return backward(roots, *rest)

    with compat.around_backward(noted):
        y = torch.compile(lambda z: z.sqrt(), backend="aot_eager")(x)
        x.sqrt().sum().backward()
    assert traced == [True, False], VERSION
    assert compat.is_compiled(y.grad_fn), VERSION
    assert not compat.is_compiled(x.sqrt().grad_fn), VERSION


def test_every_backward_pass_begins_in_one_function() -> None:
    x = torch.ones(2, requires_grad=True)
    seen: list[Any] = []

    def noted(backward: Any, roots: Any, seeds: Any, keep: bool, create: bool, inputs: Any, *rest: Any) -> Any:
        batched = compat.is_transformed(seeds)
        seen.append((len(roots), len(inputs), keep, create, batched))
        return backward(roots, seeds, keep, create, inputs, *rest)

    with compat.around_backward(noted):
        x.sum().backward()
        torch.autograd.grad([x.sum(), x.prod()], [x], retain_graph=True)
        torch.autograd.backward(x.sum(), inputs=[x])
        torch.autograd.grad(x**2, x, torch.eye(2), create_graph=True, is_grads_batched=True)
    x.sum().backward()
    assert seen == [
        (1, 0, False, False, False), (2, 1, True, False, False), (1, 1, False, False, False), (1, 1, True, True, True),
    ], VERSION  # fmt: skip
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3], VERSION


class Seen(TorchFunctionMode):
    """A mode that notes the calls that it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def test_a_block_asks_no_modes() -> None:
    x = torch.ones(2)
    with Seen() as seen, compat.without_modes():
        x.sum()
    assert seen.calls == [], VERSION


def test_what_a_node_has_saved_is_found_by_name() -> None:
    x = torch.ones(2, requires_grad=True)
    quotient, root = x / (x + 1), x.sqrt()
    assert quotient.grad_fn is not None
    assert root.grad_fn is not None
    assert {name for name, _ in compat.all_saved(quotient.grad_fn)} == {"self", "other"}, VERSION
    assert compat.order(quotient.grad_fn) < compat.order(root.grad_fn), VERSION


class Hooks:
    """Hooks that note what is done with hooks."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def pushed(self, pack: Any, unpack: Any) -> tuple[Any, Any]:
        self.seen.append("pushed")
        return pack, unpack

    def popped(self) -> None:
        self.seen.append("popped")

    def refused(self) -> None:
        self.seen.append("refused")

    def allowed(self) -> None:
        self.seen.append("allowed")


def test_hooks_for_saved_tensors_are_seen_and_so_is_who_refuses_them() -> None:
    hooks = Hooks()
    with compat.around_saving(hooks):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            pass
        torch.func.grad(torch.sin)(torch.ones(()))
        compat.push_hooks(lambda x: x, lambda x: x)
        compat.pop_hooks()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass
    assert hooks.seen == ["pushed", "popped", "refused", "allowed"], VERSION


def test_transforms_in_reverse_mode_are_seen() -> None:
    seen: list[Any] = []

    def gradient(original: Any, *args: Any) -> Any:
        seen.append(args[1:])
        return original(*args)

    x = torch.ones(())
    with compat.around_transforms(gradient, seen.append):
        torch.func.grad(torch.sin)(x)
        torch.func.vjp(torch.sin, x)
    torch.func.grad(torch.sin)(x)
    assert seen == [(0, False, (x,), {}), "torch.func.vjp, jacrev and hessian"], VERSION


def test_what_is_compiled_may_keep_its_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin().cos()

    x = torch.ones(2, requires_grad=True)
    with compat.without_donated_buffers():
        y = torch.compile(f, backend="aot_eager")(x).sum()
        y.backward(retain_graph=True)
        y.backward()
    compiled: list[Any] = []
    with compat.not_compiling():
        torch.compile(f, backend=lambda graph, inputs: compiled.append(graph) or graph)(x)
    assert not compiled, VERSION


def test_calls_of_what_is_compiled_are_seen() -> None:
    before, function, seen = torch.nn.Linear(2, 2), torch.sin, list[Any]()
    x, early = torch.ones(2), torch.compile(before, backend="aot_eager")

    def instead(run: Any, model: Any, args: Any, kwargs: Any) -> Any:
        seen.append(model)
        return run(*args, **kwargs)

    with compat.around_compiled(instead):
        model = torch.compile(torch.nn.Linear(2, 2), backend="aot_eager")
        results = [early(x), model(x), torch.compile(function, backend="aot_eager")(x)]
    early(x)
    assert seen == [before, model._orig_mod, function], VERSION
    assert torch.equal(results[0], before(x))


def test_private_names_are_used_in_one_place() -> None:
    package = Path(compat.__file__).parent
    users = {
        path.name
        for path in [*package.glob("*.py"), *(package.parent / "watcher").glob("*.py")]
        if re.search(r"torch\._C|_functorch|_subclasses", path.read_text("utf-8"))
    }
    assert users == {"compat.py"}


def test_the_lowest_version_is_that_of_the_extra() -> None:
    assert torch.__version__ >= TorchVersion("2.4")
    assert '"torch>=2.4"' in (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
