"""What masked gradients cost in torch: forward and backward, beside the same without.

    python tests/benchmarks/companion_torch.py

Medians of several rounds in which both run in turn, of the ratio, too; `least` is the ratio of the quickest rounds,
which a busy machine changes less. On the CPU seconds of the processor, on a GPU seconds that pass.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from wherelint.torch import mask_gradients

_ROUNDS = 15
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def pairwise() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Distances of all pairs of 512 points, masked on the diagonal, and an MLP on them."""
    mlp = nn.Sequential(nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 1)).to(DEVICE)

    def energy(x: Tensor) -> Tensor:
        squared = ((x[:, None] - x[None, :]) ** 2).sum(-1)
        distance = torch.where(squared > 0, squared.sqrt(), 0.0)
        return mlp(torch.exp(-distance)).sum()

    return energy, torch.randn(512, 3, device=DEVICE)


def transformer() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A block of width 256 and 8 heads on 8 sequences of 128."""
    block = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True).to(DEVICE)
    return lambda x: block(x).square().mean(), torch.randn(8, 128, 256, device=DEVICE)


def convolutions() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Three convolutions with batch norm, ReLU and pooling on 16 images of 64 by 64."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers).to(DEVICE)
    return lambda x: net(x).square().mean(), torch.randn(16, 3, 64, 64, device=DEVICE)


def mixture() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The likelihood of 20,000 points, a tenth missing, under a mixture of 32 Gaussians."""
    points = torch.randn(20_000, 4, device=DEVICE)
    points[::10] = torch.nan
    width = torch.rand(32, 4, device=DEVICE) + 0.5

    def likelihood(centres: Tensor) -> Tensor:
        each = -0.5 * (((points[:, None] - centres) / width) ** 2).sum(-1)
        total = torch.logsumexp(each, 1)
        return torch.where(points[:, 0].isnan(), 0.0, total).sum()

    return likelihood, torch.randn(32, 4, device=DEVICE)


def timed(f: Callable[[Tensor], Tensor], x: Tensor, masked: bool) -> float:
    """Seconds of a forward and a backward pass."""
    x = x.clone().requires_grad_()
    begun = now()
    with mask_gradients() if masked else nullcontext():
        f(x).backward()
    return now() - begun


def now() -> float:
    """Seconds of the processor, or of the clock when the GPU has done all it was asked to."""
    if DEVICE == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)  # those that wait for each other count as busy
    print(f"torch {torch.__version__}, {DEVICE}, one thread")
    print(f"{'program':<16}{'plain':>10}{'masked':>10}{'ratio':>8}{'least':>8}")
    for make in (pairwise, transformer, convolutions, mixture):
        torch.manual_seed(0)
        f, x = make()
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(_ROUNDS + 2):
            for masked in (False, True):
                took = timed(f, x, masked)
                if number > 1:
                    times[masked].append(took)
        plain, masked_ = (statistics.median(times[key]) for key in (False, True))
        ratio = statistics.median(b / a for a, b in zip(times[False], times[True], strict=True))
        least = min(times[True]) / min(times[False])
        print(f"{make.__name__:<16}{plain * 1e3:>7.1f} ms{masked_ * 1e3:>7.1f} ms{ratio:>8.2f}{least:>8.2f}")


if __name__ == "__main__":
    main()
