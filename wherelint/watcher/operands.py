"""A script that shows a poisoned operation of torch, from the operands that it had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wherelint.companion import Poison
from wherelint.io import disk
from wherelint.torch import compat
from wherelint.torch.locate import stem
from wherelint.torch.values import OPERANDS

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


def save(findings: Sequence[Poison], directory: Path) -> list[str]:
    """Write the operands of the first operation that can be run alone, and the script; the names of the files."""
    findings = [poison for poison in findings if poison.node is not None]
    for poison in findings:
        for function, call, operands, options in _calls(poison):
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


def _calls(poison: Poison) -> Iterator[tuple[str, Callable[..., Tensor], list[Any], dict[str, Any]]]:
    """Functions of torch that may be the operation of a node, with operands and options."""
    saved = dict(compat.all_saved(poison.node))
    name = stem(poison.node)
    operands = [each.detach().clone() if isinstance(each, Tensor) else each
                for key in OPERANDS if (each := saved.get(key)) is not None]  # fmt: skip
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
