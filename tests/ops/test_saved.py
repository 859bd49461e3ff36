"""Which results torch keeps for its backward pass: writing into one of them makes the pass raise."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from real_gradients import require

from wherelint.findings import DetectOptions, detect
from wherelint.frameworks import FRAMEWORKS
from wherelint.ops import SIGNATURES

SAVED = FRAMEWORKS["torch"].saved


def refuses(function: Any, operand: Any) -> bool | None:
    """Whether the backward pass raises after a write into the result; None where the function takes something else."""
    try:
        out = function(operand * 1)
        out.clone().sum().backward()
    except (TypeError, RuntimeError, AttributeError, ValueError, IndexError, NotImplementedError):
        return None
    if out.dim() == 0:
        return None
    out = function(operand * 1)
    out[0] = 0.0
    try:
        out.sum().backward()
    except RuntimeError as error:
        return "inplace operation" in str(error)
    return False


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_saved_is_what_torch_saves() -> None:
    require("torch")
    import torch

    saved, free = set(), set()
    for name, signature in SIGNATURES.items():
        function: Any = torch
        for part in name.split(".")[1:] if name.startswith("torch.") else ():
            function = getattr(function, part, None)
        if name.startswith("torch.Tensor") or function is torch or not callable(function):
            continue
        for start in (0.5, 1.5):
            answer = refuses(function, torch.tensor([start, start + 0.1, start + 0.2], requires_grad=True))
            if answer is not None:
                (saved if answer else free).add(signature.op)
    # Written by other means (a slope for each sign, a copy) in some of torch's functions of that name.
    assert saved - free - SAVED == set()
    assert free & SAVED == set()
    assert len(saved & SAVED) > 12


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y = torch.sqrt(x)\ny[x <= 0] = 0.0", False),
        ("y = torch.sqrt(x).clone()\ny[x <= 0] = 0.0", True),
        ("y = 1 / x\ny[x == 0] = 0.0", True),
        ("y = x.reciprocal()\ny[x == 0] = 0.0", False),
        ("y = x.sqrt().masked_fill_(x <= 0, 0.0)", False),
        ("y = x.sqrt().masked_fill(x <= 0, 0.0)", True),
    ],
)
def test_a_write_into_a_saved_result_is_no_finding(text: str, found: bool) -> None:
    """The program raises before anybody sees a nan."""
    require("torch")
    import torch

    source = f"import torch\n\ndef f(x):\n{textwrap.indent(text, '    ')}\n    return y\n"
    findings, _ = detect(source, "f.py", DetectOptions())
    assert bool(findings) == found
    scope: dict[str, Any] = {}
    exec(compile(source, "f.py", "exec"), scope)
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    if found:
        scope["f"](x).sum().backward()
        assert torch.isnan(x.grad[0])
    else:
        with pytest.raises(RuntimeError, match="inplace operation"):
            scope["f"](x).sum().backward()
