"""What dead elements become in the operations of a backward pass.

An operation on cotangents is linear in them. Its rule says what it makes of the dead ones: *elementwise* products give
nothing where the cotangent is dead, whatever they multiply it by; *moves* and sums are dead where all that they are
made of is; *selections* kill what no element reaches; *contractions* leave out the terms of dead elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from wherelint.torch.masked import EVERY, Break, Call, Dead, Masked

_Rule = Callable[[Call], Any]

_VIEWS = """alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose
    unbind unfold unsqueeze view _reshape_alias _unsafe_view view_as_real view_as_complex"""
_MOVES = """cat clone flip gather index index_select masked_select repeat reshape roll stack take rot90 movedim
    contiguous lift_fresh _to_copy"""
_SUMS = "sum mean cumsum nansum avg_pool2d_backward"
_ADDS = "add sub rsub"
#: What they do not pass on is dropped by them. Of `_BY_VALUE` the plain operands say which elements pass.
_SELECTIONS = """where masked_fill select_backward slice_backward diagonal_backward index_put _index_put_impl index_add
    index_copy index_fill scatter scatter_add masked_scatter masked_select_backward select_scatter slice_scatter
    diagonal_scatter as_strided_scatter copy fill zero put tril triu constant_pad_nd diag_embed
    trace_backward unfold_backward"""
_BY_VALUE = """threshold_backward hardtanh_backward max_pool2d_with_indices_backward native_dropout_backward
    embedding_dense_backward nll_loss_backward nll_loss2d_backward hardshrink_backward softshrink_backward
    max_pool3d_with_indices_backward"""
_ELEMENTWISE = """mul div neg conj _conj sgn ldexp tanh_backward sigmoid_backward gelu_backward silu_backward
    elu_backward softplus_backward leaky_relu_backward mish_backward logit_backward log_sigmoid_backward
    hardsigmoid_backward hardswish_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward
    binary_cross_entropy_backward _prelu_kernel_backward polar sinc rrelu_with_noise_backward"""
_CONTRACTIONS = "mm bmm mv dot vdot addmm baddbmm addmv convolution_backward outer ger linear matmul"
_ROWS = "_softmax_backward_data _log_softmax_backward_data"
_BUFFERS = "new_zeros new_empty_strided new_empty zeros_like empty_like"


def apply(call: Call) -> Any:
    """The result of one operation of the backward pass, with the masks that follow."""
    return _RULES.get(call.name.rstrip("_"), _unknown)(call)


def _live(operand: Masked, key: Any) -> Tensor:
    """1 where an element is alive, as a number of its own type."""
    if operand.blank:
        return torch.zeros_like(operand.value)
    dead = operand.dead.get(key)
    return torch.ones_like(operand.value) if dead is None else (~dead).to(operand.value.dtype)


def _not_live(key: Any, operand: Masked) -> Tensor:
    return 1 - _live(operand, key)


def _wrap(call: Call, value: Any, masks: dict[Any, Any], *, base: Masked | None = None) -> Any:
    """The result with its masks: for every key a mask, or one for each of several results."""
    if call.in_place:
        return _write(call, masks)
    if isinstance(value, Tensor):
        if not (value.is_floating_point() or value.is_complex()) or value.layout != torch.strided:
            return value
        return Masked(value, masks, call.run, base=base)
    if isinstance(value, list | tuple):
        return type(value)(
            [_wrap(call, each, {key: mask[i] for key, mask in masks.items() if mask[i] is not None}, base=base)
             for i, each in enumerate(value)]
        )  # fmt: skip
    return value


def _write(call: Call, masks: dict[Any, Tensor]) -> Any:
    target = call.args[0]
    if not isinstance(target, Masked):  # a plain buffer: its zeros are no news, what they stand for is lost
        if masks:
            call.run.lost[call.name] = None
        return target
    for key, mask in masks.items():
        if key in target.dead:
            target.dead[key].copy_(mask)
        elif target.base is None:
            target.dead[key] = mask.clone()
        elif call.node in target.dead:  # its base does not know that selection
            target.dead[call.node] |= mask
    for key in target.dead.keys() - masks.keys():
        target.dead[key].zero_()
    target.blank = False
    if target.base is not None:
        target.base.blank = False
    return target


def _view(call: Call) -> Any:
    (operand,) = call.operands

    def view(dead: Tensor) -> Any:
        return call.over(lambda t, masked: dead if masked else t)

    return _wrap(call, call.value(), {key: view(dead) for key, dead in operand.dead.items()}, base=operand)


def _move(call: Call) -> Any:
    """Each element of the result is one of an operand; a plain operand is zeros that stand for a missing cotangent."""

    def mask(key: Any) -> Any:
        def of(t: Tensor, masked: bool) -> Tensor:
            if masked:
                assert isinstance(t, Masked)
                dead = t.dead.get(key)
                return torch.zeros(t.shape, dtype=torch.bool, device=t.device) if dead is None else dead
            return t == 0 if t.is_floating_point() else t

        kwargs = {k: v for k, v in call.kwargs.items() if k != "dtype"}
        return call.over(of, kwargs=kwargs)

    keys = call.killers()
    if any(isinstance(t, Tensor) and not isinstance(t, Masked) for t in _members(call)) and EVERY not in keys:
        keys.append(EVERY)
    masks = {key: mask(key) for key in keys}
    return _wrap(call, call.value(), masks)


def _members(call: Call) -> list[Any]:
    first = call.args[0]
    return list(first) if isinstance(first, list | tuple) else []


def _reached(call: Call, key: Any, *, residuals: bool) -> Any:
    """Which elements of the result nothing alive reaches; ``key`` None with ``own``: nothing at all."""

    def of(t: Tensor, masked: bool) -> Tensor:
        if masked:
            assert isinstance(t, Masked)
            return _live(t, key)
        return (t != 0).to(t.dtype) if t.is_floating_point() and not residuals else t

    return tree_map(lambda t: t == 0 if isinstance(t, Tensor) else t, call.over(of))


def _add(call: Call) -> Any:
    value = call.value()

    def dead(t: Any, key: Any) -> Tensor:
        if isinstance(t, Masked):
            return t.dead.get(key, torch.zeros((), dtype=torch.bool, device=value.device))
        return torch.as_tensor(t == 0, device=value.device)

    left, right = call.args[:2]
    return _wrap(call, value, {key: (dead(left, key) & dead(right, key)).expand(value.shape) for key in call.killers()})


_NOTHING = object()


def _unreached(call: Call, key: Any, residuals: bool) -> Tensor:
    """Which elements of the result nothing reaches but what is dead by the key.

    Plain operands are zeros that stand for a missing cotangent, or ``residuals`` that say what passes.
    """

    def live(t: Tensor, masked: bool) -> Tensor:
        if isinstance(t, Masked):
            return _live(t, key)
        return (t != 0).to(t.dtype) if t.is_floating_point() and not residuals else t

    found: Tensor = call.over(live) == 0
    return found


def _sum(call: Call) -> Any:
    masks = {key: _unreached(call, key, False) for key in call.killers()}
    return _wrap(call, call.value(), masks)


def _select(call: Call, residuals: bool = False) -> Any:
    """Of a selection, dead is also what no element reaches."""
    masks = {key: _unreached(call, key, residuals) for key in call.killers()}
    own = _unreached(call, _NOTHING, residuals)
    if bool(own.any()):
        for key in masks.keys() - {EVERY}:
            masks[key] &= ~own
        _kill(call, masks, own)
    return _wrap(call, call.value(), masks)


def _select_by_value(call: Call) -> Any:
    return _select(call, residuals=True)


def _kill(call: Call, masks: dict[Any, Tensor], own: Tensor) -> None:
    """What the operation itself drops."""
    for key in (EVERY, call.node):
        if key is EVERY or (call.run.killers and key in call.run.killers):
            masks[key] = masks[key] | own if key in masks else own


def _elementwise(call: Call) -> Any:
    before = [torch.isfinite(t.value) for t in call.operands] if call.run.breaks is not None else []
    value = call.value()
    if not isinstance(value, Tensor):
        return _unknown(call)
    masks: dict[Any, Tensor] = {}
    for operand in call.operands:
        for key, mask in operand.dead.items():
            wide = mask.expand(value.shape) if mask.shape != value.shape else mask
            masks[key] = masks[key] | wide if key in masks else wide
    own = _undifferentiated_zero(call)
    if own is not None and bool(own.any()):
        _kill(call, masks, own.expand(value.shape))
    for finite in before[:1]:
        note(call, ~torch.isfinite(value) & (finite & before[-1]), masks)
    if EVERY in masks:
        value.masked_fill_(masks[EVERY], 0)
    return _wrap(call, value, masks)


def _undifferentiated_zero(call: Call) -> Tensor | None:
    """Where a product's other factor is exactly 0 and no gradient flows to it: a mask."""
    if not call.name.startswith("mul") or len(call.args) < 2:
        return None
    factor = next((t for t in call.args[:2] if isinstance(t, Tensor) and not isinstance(t, Masked)), None)
    if factor is None:
        return None
    product = call.node.name().startswith("MulBackward")
    if factor.is_floating_point() and not (product and any(edge is None for edge, _ in call.node.next_functions)):
        return None
    return factor == 0


def note(call: Call, broken: Tensor, masks: dict[Any, Tensor]) -> None:
    """Remember where the operation broke: what is dead there, and what is alive."""
    breaks = call.run.breaks
    dead = masks.get(EVERY)
    if breaks is None or not bool(broken.any()):
        return
    if dead is not None and bool((broken & dead).any()):
        rest = broken & dead
        # The innermost selection that kills an element alone: the last one that the backward pass met.
        for key in reversed([key for key in masks if key is not EVERY]):
            found = rest & masks[key]
            if bool(found.any()):
                breaks.append(Break(call.node, found, key, False))
                rest = rest & ~found
        if bool(rest.any()):
            breaks.append(Break(call.node, rest, None, False))
    alive = broken if dead is None else broken & ~dead
    if bool(alive.any()):
        breaks.append(Break(call.node, alive, None, True))


def _contract(call: Call) -> Any:
    """Sums of products: a term whose cotangent is dead is left out, which matters where its factor is not finite."""
    masks = {key: _reached_by_factors(call, key) for key in call.killers()} if not _ends(call) else {}
    bad = any(
        not bool(torch.isfinite(t).all())
        for t in (*call.args, *call.kwargs.values())
        if isinstance(t, Tensor) and not isinstance(t, Masked) and t.is_floating_point()
    )
    if not bad or len(call.operands) > 1 or call.in_place:
        return _wrap(call, call.value(), masks)
    value = call.over(lambda t, m: t.value if m else torch.nan_to_num(t, 0.0, 0.0, 0.0))

    def meets(of: Callable[[Masked], Tensor]) -> Any:
        def each(t: Tensor, masked: bool) -> Tensor:
            return of(t) if masked and isinstance(t, Masked) else (~torch.isfinite(t)).to(t.dtype)

        return tree_map(lambda t: t != 0 if isinstance(t, Tensor) else t, call.over(each))

    alive = meets(lambda t: _live(t, EVERY))
    tree_map(lambda v, m: v.masked_fill_(m, torch.nan) if isinstance(v, Tensor) else v, value, alive)
    if call.run.breaks is not None:
        broken: dict[Any, Any] = {key: meets(partial(_not_live, key)) for key in call.killers()}
        if isinstance(value, Tensor):
            note(call, broken.get(EVERY, alive) | alive, {k: m & ~alive for k, m in broken.items()})
    return _wrap(call, value, masks)


def _ends(call: Call) -> bool:
    """Whether nothing but leaves lies upstream: nobody will ask for the masks."""
    return all(node is None or not node.next_functions for node, _ in call.node.next_functions)


def _reached_by_factors(call: Call, key: Any) -> Any:
    if call.name in ("mm", "bmm") and len(call.operands) == 1:
        (operand,) = call.operands
        dead = operand.dead.get(key)
        left = call.args[0] is operand
        other: Tensor = call.args[1] if left else call.args[0]
        if dead is None:
            return None
        rows = dead.all(-1 if left else -2, keepdim=True)
        shape = list(rows.shape)
        shape[-1 if left else -2] = other.shape[-1 if left else -2]
        return rows.expand(shape)
    reached = call.over(lambda t, m: _live(t, key) if m and isinstance(t, Masked)
                        else torch.ones_like(t) if t.is_floating_point() else t)  # fmt: skip
    return tree_map(lambda t: t == 0 if isinstance(t, Tensor) else t, reached)


def _rows(call: Call) -> Any:
    """Softmax and its logarithm: an element reaches its whole row."""
    (operand, dim) = call.operands[0], call.args[2]
    value = call.value()
    masks = {key: mask.all(dim, keepdim=True).expand(value.shape) for key, mask in operand.dead.items()}
    if call.run.breaks is not None:
        rows = torch.isfinite(operand.value).all(dim, keepdim=True)
        note(call, ~torch.isfinite(value) & rows, masks)
    if EVERY in masks:
        value.masked_fill_(masks[EVERY], 0)
    return _wrap(call, value, masks)


def _buffer(call: Call) -> Any:
    value = call.value()
    dead: Dead = {}
    for key in (EVERY, *((call.node,) if call.run.killers and call.node in call.run.killers else ())):
        dead[key] = torch.empty_strided(value.shape, value.stride(), dtype=torch.bool, device=value.device).fill_(True)
    return Masked(value, dead, call.run, blank=True)


def _unknown(call: Call) -> Any:
    """An operation without a rule: what it makes of dead elements is not known, and all of its result is alive."""
    value = call.value()
    if all(EVERY in t.dead and bool(t.dead[EVERY].all()) for t in call.operands):
        tree_map(lambda t: t.zero_() if isinstance(t, Tensor) and t.is_floating_point() else t, value)
        shared = set.intersection(*({k for k, m in t.dead.items() if bool(m.all())} for t in call.operands))
        masks = {key: tree_map(lambda t: torch.ones_like(t, dtype=torch.bool) if isinstance(t, Tensor) else t, value)
                 for key in shared}  # fmt: skip
        return _wrap(call, value, masks)
    if any(bool(mask.any()) for t in call.operands for mask in t.dead.values()):
        call.run.lost[call.name] = None
    if call.run.breaks is not None:
        finite = all(bool(torch.isfinite(t.value).all()) for t in call.operands)
        for each in value if isinstance(value, list | tuple) else (value,):
            if finite and isinstance(each, Tensor) and each.is_floating_point():
                note(call, ~torch.isfinite(each), {})
    return _wrap(call, value, {})


_RULES: dict[str, _Rule] = {
    name: rule
    for names, rule in {
        _VIEWS: _view, _MOVES: _move, _SUMS: _sum, _ADDS: _add, _SELECTIONS: _select, _BY_VALUE: _select_by_value,
        _ELEMENTWISE: _elementwise, _CONTRACTIONS: _contract, _ROWS: _rows, _BUFFERS: _buffer,
    }.items()
    for name in names.split()
}  # fmt: skip
