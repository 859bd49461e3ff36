"""Where a value that is not finite was made, by what the graph has saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from wherelint.companion import Poison, Report
from wherelint.companion.frames import places
from wherelint.torch import compat
from wherelint.torch.locate import differentiable, finite, operation, stem
from wherelint.torch.masking import nodes
from wherelint.torch.trace import label

#: What the operands of an operation are called, in their order.
OPERANDS = ("self", "other", "exponent")


def explain_value(roots: Sequence[Any]) -> Report:
    """The report on a value that is not finite: the first operation that made it so of finite numbers.

    Without a finding where a parameter or the data were not finite before, or where the graph does not show it.
    """
    made = sorted((node for node in nodes(roots) if node.next_functions), key=compat.made_at)
    for node in made:
        saved = {name: each for name, each in compat.all_saved(node) if differentiable(each)}
        result = saved.pop("result", None)
        if finite(saved.values()):
            if not finite([_made_again(node, saved) if result is None else result]):
                return _report(node)
        elif makers := [each.grad_fn for each in saved.values() if not finite([each]) and each.grad_fn is not None]:
            return _report(makers[0])  # it keeps nothing itself: a sum
        else:
            at, _ = places(label(node))
            note = f"A parameter or the data were not finite before{f' {at}' if at else ''}."
            return Report(False, False, False, note=note)
    return Report(False, False, False, note="Run with torch.autograd.set_detect_anomaly(True) to see which operation.")


def _made_again(node: Node, saved: Mapping[str, Tensor]) -> Tensor | None:
    """The result of an operation, from the operands that it keeps; None where they do not say it."""
    function = getattr(torch, stem(node).removeprefix("special_").removeprefix("linalg_"), None)
    operands = [each for name in OPERANDS if (each := compat.saved(node, name)) is not None]
    try:
        made = function(*operands) if function and operands else None
    except (RuntimeError, TypeError, ValueError):
        return None
    return made if differentiable(made) else None


def _report(node: Node) -> Report:
    at, within = places(label(node))
    return Report(False, False, False, (Poison(operation(node), at, op_within=within, framework="torch", value=True),))
