"""What `wherelint.torch.locate` blames, on the published bugs and in programs of many shapes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from executing import load
from real_gradients import require
from test_cases import CASES, IDS, arrays, lines, read

require("torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from wherelint.companion import Poison  # noqa: E402
from wherelint.torch import locate  # noqa: E402

CASE_IDS = [name for name in IDS if read(name)["framework"] == "torch"]
POISONED = [name for name in CASE_IDS if not name.startswith("neg-")]
#: One element of it meets a factor that happens to be 0, and is differentiated: nothing drops that one.
FACTOR = "kornia-918-focal"
X = torch.arange(4.0)


def inputs(name: str) -> list[Tensor]:
    return [torch.tensor(each) for each in arrays(read(name)["witness"])]


@pytest.mark.parametrize("name", POISONED)
def test_both_lines_of_a_published_bug_are_named(name: str) -> None:
    case = read(name)
    report = locate(load(CASES / name / "unsafe.py").f, *inputs(name))
    assert report.value_finite
    assert not report.gradient_finite
    found = {(p.op_at.row, p.select_at.row) for p in report.findings if p.op_at and p.select_at}
    assert found & {(row, case["select_line"]) for row in lines(case)}, str(report)
    assert report.masked_finite == (not any(p.genuine for p in report.findings))


@pytest.mark.parametrize("name", [name for name in CASE_IDS if read(name).get("witness")])
def test_safe_programs_are_silent(name: str) -> None:
    report = locate(load(CASES / name / "safe.py").f, *inputs(name))
    assert report.ok, str(report)
    assert report.findings == ()


@pytest.mark.parametrize("name", POISONED)
def test_the_masked_gradient_is_that_of_the_repair(name: str) -> None:
    report = locate(load(CASES / name / "unsafe.py").f, *inputs(name))
    if not report.masked_finite:
        assert name == FACTOR or {p.code for p in report.findings} == {"WL301"}
        return
    repaired = locate(load(CASES / name / "safe.py").f, *inputs(name)).gradient
    for masked, expected in zip(report.masked, repaired, strict=True):
        torch.testing.assert_close(masked, expected)


def two(x: Tensor) -> Tensor:
    a = torch.where(x > 0, x.sqrt(), 0.0)
    b = torch.where(x > 0, x.log(), 0.0)
    return (a + b).sum()


def helper(x: Tensor) -> Tensor:
    return x.rsqrt()


def called_twice(x: Tensor) -> Tensor:
    a = torch.where(x > 0, helper(x), 0.0)
    b = helper(x)[1:]
    return a.sum() + b.sum()


def chain(x: Tensor) -> Tensor:
    y = torch.where(x > 0, torch.sqrt(x), 0.0)
    return torch.where(x > -1, y, 1.0).masked_fill(x > 9, 0.0)[:].sum()


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Tensor:
        return cotangents[0] / (2 * ctx.saved_tensors[0].sqrt())


def custom(x: Tensor) -> Tensor:
    y = Root.apply(x)
    return torch.where(x > 0, y, 0.0).sum()


def recomputed(x: Tensor) -> Tensor:
    y = checkpoint(lambda z: z.log(), x, use_reentrant=False)
    return y.masked_fill(x == 0, 0.0).sum()


def assigned(x: Tensor) -> Tensor:
    y = x.log()
    y[x == 0] = 0.0
    return y.sum()


def sliced(x: Tensor) -> Tensor:
    y = x.log()
    y[:1] = 0.0
    return y.sum()


def looped(x: Tensor) -> Tensor:
    total = x.sum()
    for k in range(3):
        y = (x - k).abs().sqrt()
        total = total + torch.where(x > 2, y, 0.0).sum()
    return total


def product(x: Tensor) -> Tensor:
    y = x * x.clamp(min=-1).log()
    return torch.where(x > 0, y, 0.0).sum()


def dropped_again(x: Tensor) -> Tensor:
    mask = (x > 0).float()
    return (mask * x).sqrt().sum()


def in_branches(x: Tensor) -> Tensor:
    roots = x.sqrt()
    y = torch.where(x < 0, -roots, roots * 2)
    return torch.where(x > 0, y, 0.0).sum()


def of_parts(x: Tensor) -> Tensor:
    z = torch.complex(x.cos(), x.sin())
    y = z.imag / x
    return torch.where(x > 0, y, z.real).sum()


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.sqrt_()
    return torch.where(x > 0, y, 0.0).sum()


def vmapped(x: Tensor) -> Tensor:
    def each(v: Tensor) -> Tensor:
        y = v.log()
        return torch.where(v > 0, y, 0.0)

    return torch.func.vmap(each)(x).sum()


PROGRAMS: dict[Callable[[Tensor], Tensor], list[tuple[str, int, str, int]]] = {
    two: [("sqrt", 1, "where", 1), ("log", 2, "where", 2)],
    chain: [("sqrt", 1, "where", 1)],
    custom: [("root", 1, "where", 2)],
    recomputed: [("log", 1, "masked_fill", 2)],
    assigned: [("log", 1, "assignment", 2)],
    sliced: [("log", 1, "assignment", 2)],
    looped: [("sqrt", 3, "where", 4)],
    product: [("log", 1, "where", 2)],
    dropped_again: [("sqrt", 2, "multiply", 2)],
    in_branches: [("sqrt", 1, "where", 3)],
    of_parts: [("divide", 2, "where", 3)],
    in_place: [("sqrt", 2, "where", 3)],
    vmapped: [("log", 2, "where", 3)],
}


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_every_pair_is_named(f: Callable[[Tensor], Tensor]) -> None:
    start = inspect.getsourcelines(f)[1]

    def told(p: Poison) -> tuple[str, int, str | None, int]:
        assert p.op_at is not None
        assert p.select_at is not None
        assert p.op_at.filename == p.select_at.filename == __file__
        return p.op, p.op_at.row - start, p.select, p.select_at.row - start

    report = locate(f, X)
    assert report.poisoned
    assert sorted(map(told, report.findings)) == sorted(PROGRAMS[f])


def test_a_helper_that_is_called_twice_is_blamed_with_both_selections() -> None:
    report = locate(called_twice, X)
    assert {(p.op, p.select) for p in report.findings} == {("rsqrt", "where"), ("rsqrt", "index")}
    assert len({p.op_at for p in report.findings}) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 says no columns")
def test_columns_are_code_points_and_elements_are_counted() -> None:
    (poison,) = locate(lambda x: torch.where(x > 0, ("é" and x.sqrt()), 0.0).sum(), torch.zeros(2, 2)).findings
    source = Path(__file__).read_text("utf-8").splitlines()
    assert poison.op_at is not None
    assert source[poison.op_at.row - 1][poison.op_at.column - 1 : poison.op_at.end_column - 1] == "x.sqrt()"
    assert (poison.index, poison.count, poison.code) == ((0, 0), 4, "WL101")


def test_the_frame_of_a_library_stands_beside_the_users() -> None:
    (poison,) = locate(lambda x: torch.where(x > 0, x.pow(0.5), 0.0).sum(), X).findings
    assert poison.op_within is None
    x = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    report = locate(lambda x: torch.where(x.sum(1) > 0, (x * x).sum(1).sqrt(), 0.0).sum(), x)
    assert [p.op for p in report.findings] == ["sqrt"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("floor", torch.zeros(()))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        y = (self.scale * batch["x"]).sqrt()
        return torch.where(batch["x"] > self.floor, y, 0.0).sum() + batch["n"].sum()


def test_modules_are_differentiated_by_their_parameters_and_nothing_is_changed() -> None:
    model, batch = Model(), {"x": X.clone(), "n": torch.arange(3)}
    with torch.no_grad():
        report = locate(model, batch)
    assert [(p.op, p.select) for p in report.findings] == [("sqrt", "where")]
    assert model.scale.grad is None
    assert not batch["x"].requires_grad
    (masked,) = report.masked
    assert masked.isfinite().all()


def test_a_module_in_training_is_explained_without_a_note_on_what_did_not_matter() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    with torch.no_grad():
        net[4].weight.zero_(), net[4].bias.zero_()

    def entropy(x: Tensor) -> Tensor:
        p = net(x)
        return torch.where(p > 0, -p * p.log(), 0.0).sum()

    report = locate(entropy, torch.randn(4, 3))
    assert [(p.op, p.select, p.count) for p in report.findings] == [("log", "where", 8)]
    assert (report.poisoned, report.note) == (True, "")


def test_a_padded_row_of_attention_is_named_with_its_selection() -> None:
    layer, padded = nn.MultiheadAttention(4, 2, batch_first=True), torch.tensor([[True, True], [False, False]])

    def attend(x: Tensor) -> Tensor:
        y, _ = layer(x, x, x, key_padding_mask=padded)
        return y.masked_fill(padded[:, :, None], 0.0).sum()

    report = locate(attend, torch.arange(16.0).reshape(2, 2, 4))
    assert [(p.op, p.select) for p in report.findings] == [("softmax", "masked_fill")]
    assert report.poisoned


def test_a_spectrum_that_cannot_be_followed_is_noted() -> None:
    def spectrum(x: Tensor) -> Tensor:
        y = torch.stft(x.sqrt(), 4, 2, window=torch.ones(4), return_complex=True).abs()
        return torch.where(y > 9, y, 0.0).sum()

    assert "_fft_c2c" in locate(spectrum, torch.arange(8.0)).note


def test_keywords_are_handed_on() -> None:
    report = locate(lambda x, *, floor: torch.where(x > floor, (x - floor).sqrt(), 0.0), X, floor=X[1])
    assert [(p.op, p.select, p.count) for p in report.findings] == [("sqrt", "where", 2)]


def test_with_argnums_only_these_arguments_are_differentiated() -> None:
    scale = torch.zeros(4, requires_grad=True)

    def f(x: Tensor, y: Tensor) -> Tensor:
        y.mul_(1.0)
        return torch.where(x > 0, x.sqrt(), 0.0).sum() + torch.where(y > 0, (y + scale).log(), 0.0).sum()

    def found(argnums: Any) -> tuple[set[str], list[bool]]:
        report = locate(f, X, X, argnums=argnums)
        return {p.op for p in report.findings}, [each is None for each in report.gradient]

    assert found(None) == ({"sqrt", "log"}, [False, False])
    assert found(0) == ({"sqrt"}, [False])
    assert found([-1]) == ({"log"}, [False])
    assert locate(lambda x: (x + scale.sqrt()).sum(), X).gradient_finite is False
    assert locate(lambda x: (x + scale.sqrt()).sum(), X, argnums=0).ok
    with pytest.raises(ValueError, match="argnums has 2, but the function gets 2 positional arguments"):
        locate(f, X, X, argnums=2)
    with pytest.raises(TypeError, match="no argument of argnums holds floats"):
        locate(lambda x, n: two(x), X, 3, argnums=1)


def test_random_numbers_stay_as_they_are() -> None:
    def thinned(x: Tensor) -> Tensor:
        y = nn.functional.dropout(x, 0.5)
        return torch.where(y > 0, y.sqrt(), 0.0).sum()

    found = set()
    for seed in range(20):
        torch.manual_seed(seed)
        found.add(locate(thinned, X[1:2]).ok)
        assert torch.equal(torch.get_rng_state(), torch.manual_seed(seed).get_state())
    assert found == {True, False}


def test_parameters_may_be_made_and_written_inside() -> None:
    def f(x: Tensor) -> Tensor:
        embedding = nn.Embedding(3, 2, padding_idx=0)  # it fills a view under no_grad
        return embedding.weight.detach().sum() * torch.where(x > 0, x.sqrt(), 0.0).sum()

    assert [(p.op, p.select) for p in locate(f, X).findings] == [("sqrt", "where")]


def test_what_is_singular_in_earnest_has_no_selection() -> None:
    report = locate(lambda x: (x.sqrt() ** 2).sum(), X)
    assert not report.masked_finite
    assert [(p.op, p.genuine, p.select) for p in report.findings] == [("sqrt", True, None)]
    assert "no selection discards the result" in str(report)


def test_values_that_are_not_finite_are_told() -> None:
    assert not locate(lambda x: x.log().sum(), X).value_finite


NO_GRADIENT: dict[str, tuple[Callable[..., Any], Any, type[Exception], str]] = {
    "integers": (
        two,
        torch.zeros(2, dtype=torch.int64),
        TypeError,
        r"of floats; give torch\.tensor\(0\.0\)",
    ),
    "a number": (lambda x: torch.tensor(x).sqrt(), 0.0, TypeError, "no argument is a tensor of floats"),
    "nothing": (lambda x: None, X, TypeError, "the function returns no tensor of floats; return the loss"),
    "a count": (lambda x: (x > 0).sum(), X, TypeError, "the function returns no tensor of floats"),
    "a float": (lambda x: x.sum().item(), X, TypeError, "the function returns no tensor of floats"),
    "detached": (lambda x: two(x.detach()), X, ValueError, "the result has no gradient: leave out the `detach`"),
    "no_grad": (torch.no_grad()(two), X, ValueError, "the result has no gradient"),
}


@pytest.mark.parametrize("name", NO_GRADIENT)
def test_what_has_no_gradient_is_refused(name: str) -> None:
    f, argument, error, told = NO_GRADIENT[name]
    with pytest.raises(error, match=told):
        locate(f, argument)


def test_a_module_of_integers_is_differentiated_by_its_parameters() -> None:
    embedding = nn.Embedding(3, 1)
    with torch.no_grad():
        embedding.weight.zero_()
    report = locate(lambda n: torch.where(n > 0, embedding(n)[:, 0].sqrt(), 0.0), torch.tensor([0, 2]))
    assert [(p.op, p.genuine) for p in report.findings] == [("sqrt", False), ("sqrt", True)]


def test_nan_of_the_data_hides_no_operation() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.where(x.isnan(), 0, torch.sqrt(x) + torch.square(x) * torch.exp(x))

    assert {p.op for p in locate(f, torch.tensor([torch.nan, 1])).findings} >= {"sqrt", "exp"}


def huber(x: Tensor) -> Tensor:
    r = (x * x).sum().sqrt()
    return torch.where(r < 1, 0.5 * r * r, r - 0.5)


def test_of_a_smooth_function_it_says_how_to_write_it() -> None:
    (poison,) = locate(huber, torch.zeros(3)).findings
    assert (poison.op, poison.genuine, poison.smooth) == ("sqrt", True, True)
    assert "the whole function has a finite gradient here: write the root of s as `where(s > 0, sqrt(" in str(poison)
    assert not locate(lambda x: (x * x).sum().sqrt(), torch.zeros(3)).findings[0].smooth
    layer = nn.Linear(3, 3, bias=False)  # it has no double precision
    assert locate(lambda x, n: huber(layer(x)) * n, torch.zeros(3), 2).findings[0].smooth
    assert not locate(lambda: huber(layer.weight * 0.0)).findings[0].smooth  # only arguments are moved
