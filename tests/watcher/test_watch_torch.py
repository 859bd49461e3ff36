"""Every backward pass of torch is watched, whatever it goes through, and the program is what it is without."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from real_gradients import require

require("torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from wherelint.watcher import torch as watcher  # noqa: E402
from wherelint.watcher import watching  # noqa: E402
from wherelint.watcher.session import Explanation, Hit, Session, Stop, busy  # noqa: E402

GOOD, BAD = torch.ones(3, 2), torch.tensor([[1.0, 1.0], [1.0, -1.0], [2.0, 1.0]])


@contextmanager
def watched(**options: Any) -> Iterator[Session]:
    session = Session(**options)
    with watching(session):
        with suppress(Stop):
            yield session
        session.end()


def explained(hit: Hit) -> Explanation:
    return hit.explain()


def rows(found: Explanation) -> set[tuple[str, str | None]]:
    """The comments that stand at the lines of operations and selections."""

    def remark(place: Any) -> str | None:
        return None if place is None else place.line.rpartition("# ")[2]

    return {(remark(each.op_at), remark(each.select_at)) for each in found.report.findings}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x).square()
        return y


def distances(x: Tensor, y: Tensor) -> Tensor:
    apart = (x.sum(1, keepdim=True) * y).abs()
    root = apart.sqrt()  # the root
    root = torch.where(apart > 0, root, 0.0)  # the selection
    return root.sum()


def plain(net: Net, x: Tensor) -> None:
    distances(x, net(x)).backward()


def accumulated(net: Net, x: Tensor) -> None:
    for each in (GOOD, x):
        distances(each, net(each)).backward()


def by_grad(net: Net, x: Tensor) -> None:
    torch.autograd.grad(distances(x, net(x)), list(net.parameters()))


def second_order(net: Net, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    (force,) = torch.autograd.grad(distances(x, net(x)), x, create_graph=True)
    (force**2).sum().backward()


def recomputed(net: Net, x: Tensor) -> None:
    checkpoint(lambda x: distances(x, net(x)), x, use_reentrant=False).backward()


def recomputed_reentrant(net: Net, x: Tensor) -> None:
    checkpoint(lambda x: distances(x, net(x)), x.clone().requires_grad_(), use_reentrant=True).backward()


def compiled(net: Net, x: Tensor) -> None:
    torch.compile(lambda x: distances(x, net(x)), backend="aot_eager")(x).backward()


def compiled_net(net: Net, x: Tensor) -> None:
    distances(x, torch.compile(net, backend="aot_eager")(x)).backward()


def functional(net: Net, x: Tensor) -> None:
    def loss(parameters: Any) -> Tensor:
        return distances(x, torch.func.functional_call(net, parameters, (x,)))

    torch.func.grad(loss)(dict(net.named_parameters()))


STYLES: list[Callable[[Net, Tensor], None]] = [
    plain, accumulated, by_grad, second_order, recomputed, recomputed_reentrant, compiled, compiled_net, functional,
]  # fmt: skip


@pytest.mark.parametrize("step", STYLES, ids=lambda step: step.__name__)
def test_a_poisoned_gradient_is_explained(step: Callable[[Net, Tensor], None]) -> None:
    net = Net()
    with watched() as session:
        step(net, GOOD)
        assert not session.hits
        step(net, BAD)
        pytest.fail("it was not stopped")
    (hit,) = session.hits
    found = explained(hit)
    assert rows(found) == {("the root", "the selection")}
    assert found.report.poisoned
    assert found.lost
    assert not session.unwatched


@pytest.mark.parametrize("step", STYLES, ids=lambda step: step.__name__)
def test_a_program_is_what_it_is_without(step: Callable[[Net, Tensor], None]) -> None:
    def trained() -> str:
        net = Net()
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            step(net, GOOD)
            optimizer.step()
        numbers = [each.detach().numpy().tobytes() for each in net.parameters()]
        return hashlib.sha256(b"".join(numbers) + torch.rand(3).numpy().tobytes()).hexdigest()

    expected = trained()
    with watched() as session:
        found = trained()
    assert found == expected
    assert session.gradients["torch"] >= 3
    assert not session.hits


def test_parameters_are_named() -> None:
    net = Net()
    with watched() as session:
        plain(net, BAD)
    assert set(explained(session.hits[0]).lost) >= {"body.0.weight", "body.3.bias"}


def test_a_graph_is_freed_as_ever() -> None:
    net = Net()
    messages = []
    for watch in (False, True):
        with watched() if watch else torch.enable_grad():
            loss = distances(GOOD, net(GOOD))
            loss.backward(retain_graph=True)
            loss.backward()
            with pytest.raises(RuntimeError) as error:
                loss.backward()
            messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_an_operand_that_was_written_is_refused_as_ever() -> None:
    with watched():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_results_do_not_hold_themselves() -> None:
    import gc
    import weakref

    with watched():
        gc.collect()
        gc.disable()
        try:
            x = torch.ones(3, requires_grad=True)
            y = x.exp()
            seen = weakref.ref(y)
            del y
            assert seen() is None
        finally:
            gc.enable()


def test_hooks_of_the_program_are_called_as_ever() -> None:
    def counted() -> list[str]:
        calls: list[str] = []
        x = torch.ones(3, requires_grad=True)

        def pack(tensor: Tensor) -> Tensor:
            calls.append("pack")
            return tensor

        def unpack(tensor: Tensor) -> Tensor:
            calls.append("unpack")
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (x * x).sin()
        x.register_hook(lambda grad: calls.append("leaf"))
        y.register_hook(lambda grad: calls.append("result"))
        y.sum().backward()
        return calls

    expected = counted()
    with watched():
        assert counted() == expected


def test_an_overflow_under_a_scale_is_counted_alone() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    with watched() as session:
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = (net(GOOD) * 100).square().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert session.scaled > 0
    assert not session.hits


def of_values(values: list[float]) -> Session:
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(1.0)
    with watched() as session:
        for value in values:
            net.zero_grad()
            torch.log(net(torch.tensor([[value]]))).sum().backward()  # the logarithm
    return session


def test_a_value_that_recovers_is_no_report() -> None:
    session = of_values([1.0, 0.0, 0.0, 1.0])
    assert not session.hits
    assert session.recovered == 2


@pytest.mark.parametrize("values", [[1.0, *[0.0] * 20, 1.0], [1.0, 0.0]], ids=["lasts", "is the last"])
def test_a_value_that_lasts_is_explained(values: list[float]) -> None:
    (hit,) = of_values(values).hits
    found = explained(hit)
    assert hit.number == 2
    assert rows(found) == {("the logarithm", None)}
    assert "returns the first value that is not finite" in str(found.report)


def test_a_value_of_a_transform_is_explained() -> None:
    def loss(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        return (x.log() * scale).sum(), x  # the logarithm

    with watched() as session:
        gradient, _ = torch.func.grad_and_value(loss, has_aux=True)(torch.zeros(2), scale=2.0)
    assert not gradient.isfinite().any()
    found = explained(session.hits[0])
    assert (session.hits[0].status, found.inputs) == ("value", 1)
    assert rows(found) == {("the logarithm", None)}


def test_operations_that_keep_no_result_are_found_by_their_operands() -> None:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with watched() as session:
        y = x / (1 * x)  # the division
        (y + 1).square().sum().backward()
    assert rows(explained(session.hits[0])) == {("the division", None)}


def test_parameters_that_a_value_has_ruined_are_reported_though_gradients_recover() -> None:
    weight = torch.zeros(1, requires_grad=True)
    with watched() as session:
        for value in (1.0, float("inf"), 1.0, 1.0):
            weight.grad = None
            torch.exp(weight * value).sum().backward()
            with torch.no_grad():
                weight.copy_(torch.tensor([float("-inf")]) if value > 1 else weight)
    assert [hit.status for hit in session.hits] == ["value"]


def test_a_mean_of_nothing_is_named() -> None:
    x = torch.zeros(2, requires_grad=True)
    chosen = x > 1
    with watched() as session:
        mean = (x * chosen).sum() / chosen.sum()  # the division
        (mean + 1).backward()
    assert rows(explained(session.hits[0])) == {("the division", None)}


def test_data_that_were_not_finite_are_named() -> None:
    net = nn.Linear(2, 1)
    with watched() as session:
        net(torch.full((3, 2), float("nan"))).sum().backward()
    assert "data was not finite before" in explained(session.hits[0]).report.note


def test_parameters_that_were_not_finite_are_named() -> None:
    net = Net()
    with watched() as session:
        with torch.no_grad():
            net.body[3].bias.fill_(float("nan"))
        net(GOOD).sum().backward()
    assert explained(session.hits[0]).report.note == "Not finite before this step: body.3.bias."


def test_what_no_selection_drops_is_explained() -> None:
    x = torch.zeros(1, requires_grad=True)
    with watched() as session:
        x.sqrt().sum().backward()  # the root
    found = explained(session.hits[0])
    assert rows(found) == {("the root", None)}
    assert "no selection discards the result" in str(found.report)


def test_each_cause_is_kept_while_the_program_goes_on() -> None:
    net = Net()
    with watched(keep_going=True, most=2) as session:
        for _ in range(5):
            net.zero_grad()
            plain(net, BAD)
    assert session.gradients["torch"] == 5
    assert len(session.hits) == 2


def test_no_exception_handler_of_the_program_holds_it_up() -> None:
    net = Net()
    after = False
    with watched() as session:
        try:
            plain(net, BAD)
        except Exception:
            after = True
    assert session.hits
    assert not after


def test_a_defect_of_the_watch_is_noted_once_and_the_program_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(roots: object) -> list[Tensor]:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(watcher, "_leaves", broken)
    net = Net()
    with watched() as session:
        for _ in range(2):
            plain(net, GOOD)
    assert net.body[0].weight.grad is not None
    assert session.unwatched == {"a backward pass": "ZeroDivisionError: of ours"}


def test_a_defect_while_a_graph_is_read_leaves_the_program_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(node: object) -> None:
        raise ZeroDivisionError("of ours")

    net = Net()
    with watched() as session:
        monkeypatch.setattr(watcher.compat, "all_saved", broken)
        plain(net, BAD)
        net.zero_grad()
        recomputed(net, GOOD)  # its tensors are unpacked by hooks of torch
    assert net.body[0].weight.grad is not None
    assert net.body[0].weight.grad.abs().sum() > 0
    assert session.unwatched == {"a backward pass": "ZeroDivisionError: of ours"}


def test_a_thread_is_watched_from_its_second_pass_on() -> None:
    net, passed = Net(), []

    def train() -> None:
        with suppress(Stop):
            for x in (GOOD, GOOD, BAD):
                net.zero_grad()
                plain(net, x)
                passed.append(x)

    with watched() as session:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert len(passed) == 2
    assert rows(explained(session.hits[0])) == {("the root", "the selection")}


def test_what_is_not_watched_is_said_by_name() -> None:
    with watched() as session:
        torch.func.vmap(torch.func.grad(lambda x: x.sin()))(torch.ones(3))
        torch.func.jacrev(torch.sin)(torch.ones(3))
    assert {*session.unwatched} == {
        "torch.func.grad inside another transform", "torch.func.vjp, jacrev and hessian"
    }  # fmt: skip


def test_large_tensors_are_freed_while_the_pass_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "_MUCH", 0)
    monkeypatch.setattr(watcher, "_PARTS", 10)
    freed = {}
    for memory in ("low", "full"):
        with watched(memory=memory) as session:
            x = torch.zeros(1000, requires_grad=True)
            y = x.sin().sin()  # the operands of these are large
            small = torch.where(x[:2] > 0, x[:2].sqrt(), 0.0).sum()
            (y.sum() + small).backward()
        freed[memory] = [str(explained(hit).report) for hit in session.hits]
    assert "`where` discards the result" in freed["full"][0]
    assert "`where` discards the result" in freed["low"][0]
    with watched() as session:
        x = torch.zeros(1000, requires_grad=True)
        torch.where(x > 0, x.sqrt(), 0.0).sin().sum().backward()
    assert "--memory full" in str(explained(session.hits[0]).report)


def test_what_a_compiled_function_counts_is_not_counted_twice() -> None:
    norm = nn.BatchNorm1d(2)
    net = torch.compile(norm, backend="aot_eager")
    with watched() as session:
        y = net(BAD)
        torch.where(y > 9, (y - y.detach()).sqrt(), 0.0).sum().backward()
    assert session.hits
    assert int(norm.num_batches_tracked) == 1


def test_the_operands_show_it_in_another_process(tmp_path: Path) -> None:
    names: list[str] = []

    def saved(hit: Hit) -> None:
        with busy():
            names.extend((hit.explain().save or list)(tmp_path))

    net = Net()
    with watched() as session:
        session.report = saved
        plain(net, BAD)
    assert {*names} == {"operands.pt", "repro.py"}
    command = [sys.executable, str(tmp_path / "repro.py")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
    assert "the value is" in output
    assert "the gradient is nan at [1, 0]" in output
