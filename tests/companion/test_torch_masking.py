"""Masked backward passes of torch: what selections drop receives nothing, and all else stays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from real_gradients import require

require("torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.checkpoint import CheckpointFunction, checkpoint  # noqa: E402

from wherelint.torch import mask_gradients  # noqa: E402

X = torch.arange(4.0)
NAN, ROOTS = float("nan"), 0.5 / torch.arange(1, 4.0).sqrt()
INVERSE = 1 / torch.arange(1, 4.0)


class Root(torch.autograd.Function):
    """A square root with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Tensor:
        return cotangents[0] / (2 * ctx.saved_tensors[0].sqrt())


def assigned(y: Tensor, key: Any, value: Any = 0.0) -> Tensor:
    y[key] = value
    return y


def positive(y: Tensor) -> Tensor:
    return torch.where(y > 0, y, 0.0).sum()


def both(f: Callable[[Tensor], Tensor], x: Tensor = X) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    (plain,) = torch.autograd.grad(f(x), x)
    with mask_gradients():
        (masked,) = torch.autograd.grad(f(x), x)
    assert type(masked) is Tensor
    return plain, masked


POISONED = {
    "where": (lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), ROOTS),
    "masked_fill": (lambda x: x.log().masked_fill(x == 0, 0.0).sum(), INVERSE),
    "slice": (lambda x: x.sqrt()[1:].sum(), ROOTS),
    "index": (lambda x: x.log()[x > 0].sum(), INVERSE),
    "gather": (lambda x: x.log().gather(0, torch.tensor([1, 2, 3])).sum(), INVERSE),
    "index_select": (lambda x: x.log().index_select(0, torch.tensor([1, 2, 3])).sum(), INVERSE),
    "masked_select": (lambda x: x.log().masked_select(x > 0).sum(), INVERSE),
    "unbind": (lambda x: sum(x.log().unbind()[1:]), INVERSE),
    "split": (lambda x: x.log().split([1, 3])[1].sum(), INVERSE),
    "boolean factor": (lambda x: torch.nan_to_num((x > 0) * x.log()).sum(), INVERSE),
    "number factor": (lambda x: ((x > 0).float() * (x.log().clamp(min=-9))).sum(), INVERSE),
    "nan_to_num": (lambda x: torch.nan_to_num(x.log(), neginf=0.0).sum(), INVERSE),
    "clamp": (lambda x: x.log().clamp(min=-1.0).sum(), INVERSE),
    "relu": (lambda x: torch.relu(x.log() + 1).sum(), INVERSE),
    "maximum": (lambda x: torch.maximum(x.log(), torch.tensor(-1.0)).sum(), INVERSE),
    "amax": (lambda x: torch.stack([x.log(), torch.full((4,), -1.0)]).amax(0).sum(), INVERSE),
    "assigned mask": (lambda x: assigned(x.log(), x == 0).sum(), INVERSE),
    "assigned slice": (lambda x: assigned(x.log(), slice(0, 1)).sum(), INVERSE),
    "assigned tensor": (lambda x: assigned(x.log(), slice(0, 1), x[1:2].detach()).sum(), INVERSE),
    "custom function": (lambda x: torch.where(x > 0, Root.apply(x), 0.0).sum(), ROOTS),
    "checkpoint": (
        lambda x: checkpoint(lambda y: torch.where(y > 0, y.sqrt(), 0.0), x, use_reentrant=False).sum(), ROOTS,
    ),
    "in place": (lambda x: torch.where(x > 0, x.clone().sqrt_(), 0.0).mul_(1.0).sum(), ROOTS),
    "a complex number": (
        lambda x: torch.where(x > 0, torch.view_as_real(torch.complex(x.sqrt(), x.log()))[:, 0], 0.0).sum(), ROOTS,
    ),
    "norm of a row": (
        lambda x: torch.where(x > 0, (x[:, None] ** 2).expand(4, 2).sum(1).sqrt(), 0.0).sum(), torch.full((3,), 2**0.5),
    ),
    "matmul": (lambda x: ((x.log()[:, None] @ torch.ones(1, 2))[1:]).sum(), 2 * INVERSE),
    "einsum": (lambda x: torch.einsum("i,j->ij", x.log(), torch.ones(2))[1:].sum(), 2 * INVERSE),
    "softmax of the others": (
        lambda x: torch.where(torch.tensor([[False], [True]]), torch.stack([x.log(), x]).softmax(1), 0.0)[:, 1:].sum()
        - torch.softmax(x, 0)[1:].sum() + torch.where(x > 0, x.log(), 0.0).sum(), INVERSE,
    ),
    "a transposed view": (lambda x: positive(x.sqrt().view(2, 2, 1).transpose(0, 1)), ROOTS),
    "a contiguous copy": (lambda x: positive(x.sqrt().view(2, 2).t().contiguous().view(4)), ROOTS),
    "strides": (lambda x: x.sqrt().as_strided((3,), (1,), 1).sum(), ROOTS),
    "scattered by strides": (
        lambda x: positive(torch.as_strided_scatter(torch.zeros(2, 4), x.sqrt(), (4,), (2,)).t()), ROOTS,
    ),
    "an expanded view": (lambda x: positive(x.sqrt().expand(2, 4).t()), 2 * ROOTS),
    "parts of numbers": (
        lambda x: positive(torch.view_as_real(torch.view_as_complex(x.sqrt().view(4, 1).expand(4, 2).clone()).view(
            2, 2).t())), 2 * ROOTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POISONED)
def test_what_is_dropped_receives_nothing(name: str) -> None:
    f, expected = POISONED[name]
    plain, masked = both(f)
    assert not plain[0].isfinite()
    torch.testing.assert_close(masked, torch.cat([torch.zeros(1), expected]))


SINGULAR = {
    "the root of a square": lambda x: (x.sqrt() ** 2).sum(),
    "a perfect fit": lambda x: ((x.sqrt() - x.sqrt().detach()) ** 2).sum(),
    "a distance": lambda x: (x[:1] - x[:1].detach()).pow(2).sum().sqrt(),
    "a clip onto the edge": lambda x: x.clamp(min=0.0).sqrt().sum(),
    "a sum": lambda x: (x.sqrt() + 1).sum(),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_what_is_singular_in_earnest_stays(name: str) -> None:
    plain, masked = both(SINGULAR[name])
    torch.testing.assert_close(masked, plain, equal_nan=True)
    assert not masked[0].isfinite()


FINITE = {
    "mlp": lambda x: nn.functional.mse_loss(torch.tanh(x[:, None] @ torch.ones(1, 3)).relu() @ torch.ones(3), x + 1),
    "norms": lambda x: x.norm() + x.std() + x.var() + x.logsumexp(0) + x.cumsum(0).prod() + torch.atan2(x, x + 1).sum(),
    "convolution": lambda x: nn.functional.max_pool1d(
        nn.functional.conv1d(x[None, None], torch.ones(2, 1, 2)).relu(), 2
    ).sum(),
    "losses": lambda x: nn.functional.cross_entropy(x[None], torch.tensor([1])) + nn.functional.huber_loss(x, 2 * x),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(*3 * [x.reshape(1, 2, 2)]).sum(),
    "normalized": lambda x: (nn.functional.layer_norm(x, (4,)) * x).sum() + nn.functional.normalize(x, dim=0)[1],
    "copied": lambda x: assigned(x.clone(), slice(0, 2), x[2:] ** 2).prod() + x.flip(0)[1:].diff().pow(2).sum(),
    "sorted": lambda x: (x.sort(descending=True).values * X).sum() + x.median() + x.topk(2).values.prod(),
    "strides": lambda x: (
        torch.as_strided_scatter(torch.ones(3, 4), x**2, (4,), (3,)).t().cumsum(0).prod()
        + (x**2).as_strided((2, 2), (1, 2)).t().prod(0).sum()
    ),
    "pairs": lambda x: torch.cdist(x[:, None], x[:, None] + 3).sum() + torch.outer(x, x).triu().sum() + x @ x,
}


@pytest.mark.parametrize("name", FINITE)
def test_finite_gradients_stay_as_they_are(name: str) -> None:
    plain, masked = both(FINITE[name])
    assert plain.isfinite().all()
    torch.testing.assert_close(masked, plain, rtol=1e-6, atol=1e-7)


def test_finite_gradients_stay_beside_one_that_is_lost() -> None:
    for name, f in FINITE.items():
        plain = both(f)[0]
        masked = both(lambda x, f=f: f(x) + torch.where(x > 9, (x - 9).sqrt(), 0.0).sum())[1]  # type: ignore[misc]
        torch.testing.assert_close(masked, plain, rtol=1e-6, atol=1e-7, msg=name)


class Model(nn.Module):
    """Parameters, a buffer, and a poisoned branch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4, affine=False)
        self.register_buffer("floor", torch.zeros(()))
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return torch.where(y > self.floor, y.sqrt(), 0.0).sum() + self.norm(torch.stack([x, x + 1])).sum()


@pytest.mark.parametrize("reentrant", [False, True])
def test_backward_accumulates_plain_gradients_of_a_module(reentrant: bool) -> None:
    model = Model()
    model.layer.weight.grad = kept = torch.ones(4, 4)
    seen = []
    model.layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(type(p.grad)))
    x = X.clone().requires_grad_()
    loss = checkpoint(model, x, use_reentrant=reentrant)
    with mask_gradients(loss):
        loss.backward()
    assert model.layer.weight.grad is kept
    assert seen == [Tensor]
    assert type(model.layer.bias.grad) is Tensor
    assert kept.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    torch.testing.assert_close(x.grad[1:], ROOTS)


def test_a_checkpoint_may_begin_its_pass_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine's own threads do on a GPU."""
    backward = CheckpointFunction.backward

    def elsewhere(*arguments: Any) -> Any:
        with ThreadPoolExecutor() as pool:
            return pool.submit(backward, *arguments).result()

    monkeypatch.setattr(CheckpointFunction, "backward", staticmethod(elsewhere))
    model, x = Model(), X.clone().requires_grad_()
    with mask_gradients(loss := checkpoint(model, x, use_reentrant=True)):
        loss.backward()
    assert x.grad is not None
    for grad in (x.grad, model.layer.weight.grad, model.layer.bias.grad):
        assert type(grad) is Tensor
        assert grad.isfinite().all()
    torch.testing.assert_close(x.grad[1:], ROOTS)


def test_with_tensors_only_their_passes_are_masked() -> None:
    x = X.clone().requires_grad_()
    one, other = (torch.where(x > 0, x.sqrt(), 0.0).sum() for _ in range(2))
    with mask_gradients(one):
        assert torch.autograd.grad(one, x)[0].isfinite().all()
        assert torch.autograd.grad(other, x)[0].isnan().any()


def test_all_ways_to_begin_a_backward_pass() -> None:
    def poisoned() -> tuple[Tensor, Tensor]:
        x = X.clone().requires_grad_()
        return x, torch.where(x > 0, x.sqrt(), 0.0)

    def gradient(begin: Callable[[Tensor, Tensor], Any]) -> Tensor:
        x, y = poisoned()
        with mask_gradients():
            begin(x, y)
        assert type(x.grad) is Tensor
        return x.grad

    expected = torch.cat([torch.zeros(1), ROOTS])
    for begin in (
        lambda x, y: y.backward(torch.ones(4)),
        lambda x, y: y.sum().backward(),
        lambda x, y: y.sum().backward(inputs=[x]),
        lambda x, y: torch.autograd.backward(y.sum()),
        lambda x, y: torch.autograd.backward([y, y], [torch.ones(4), torch.zeros(4)]),
    ):
        torch.testing.assert_close(gradient(begin), expected)


def test_hooks_of_the_user_run_once_and_may_compute() -> None:
    x = X.clone().requires_grad_()
    y = x.log()
    y.retain_grad()
    norms = []
    y.register_hook(lambda cotangent: norms.append(float(cotangent.norm())))
    with mask_gradients():
        torch.where(x > 0, y, 0.0).sum().backward()
    assert norms == pytest.approx([3**0.5])
    assert y.grad is not None
    assert type(y.grad * 2) is Tensor
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_what_it_cannot_do_is_an_error() -> None:
    x = X.clone().requires_grad_()
    with mask_gradients():
        with pytest.raises(NotImplementedError, match=r"second derivatives \(create_graph=True"):
            torch.autograd.grad((x**2).sum(), x, create_graph=True)
        with pytest.raises(NotImplementedError, match="and is_grads_batched=True: use"):
            torch.autograd.grad(x**2, x, torch.eye(4), is_grads_batched=True)
        with pytest.raises(NotImplementedError, match=r"transforms of torch\.func"):
            torch.func.grad(lambda y: (y**2).sum())(X)
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            (x**2).backward()


@pytest.mark.parametrize("wrong", [torch.sqrt, [X], [], nn.Linear(1, 1), 0.0])
def test_what_is_no_tensor_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"`with mask_gradients\(loss\): loss.backward\(\)`, and takes tensors, not"):
        mask_gradients(wrong)


def test_compiled_graphs_are_refused() -> None:
    x = X.clone().requires_grad_()
    compiled = torch.compile(lambda y: torch.where(y > 0, y.sqrt(), 0.0).sum(), backend="aot_eager")
    with mask_gradients(), pytest.raises(NotImplementedError, match=r"a function from torch\.compile"):
        compiled(x).backward()


def test_a_gradient_that_could_not_be_followed_is_an_error() -> None:
    x = X.clone().requires_grad_()
    y = torch.where(x > 0, torch.logcumsumexp(x.log(), 0), 0.0)
    with mask_gradients(), pytest.raises(NotImplementedError, match="cannot follow discarded elements through"):
        y.sum().backward()


def test_masks_follow_a_chain_that_is_longer_than_the_stack() -> None:
    x = X.clone().requires_grad_()
    y = x.log()
    for _ in range(3000):
        y = y * 1.0
    with mask_gradients():
        torch.where(x > 0, y, 0.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.cat([torch.zeros(1), INVERSE]))
