"""What dead elements become in the operations of a backward pass.

An operation on cotangents is linear in them. Its rule says what it makes of the dead ones: *elementwise* products give
nothing where the cotangent is dead, whatever they multiply it by; *moves* and sums are dead where all that they are
made of is; *selections* kill what no element reaches; *contractions* leave out the terms of dead elements.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from wherelint.torch.masked import EVERY, Break, Call, Dead, Ghost, Masked

_Rule = Callable[[Call], Any]

_VIEWS = """alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose
    unbind unfold unsqueeze view _reshape_alias _unsafe_view view_as_real view_as_complex"""
_MOVES = """cat clone flip gather index index_select masked_select repeat reshape roll stack take rot90 movedim
    contiguous lift_fresh _to_copy"""
_SAME = "neg conj _conj"
_SUMS = "sum mean cumsum nansum avg_pool2d_backward"
_ADDS = "add sub rsub"
#: What they do not pass on is dropped by them. Of `_BY_VALUE` the plain operands say which elements pass.
_WHERE = "where masked_fill"
_SELECTIONS = """select_backward slice_backward diagonal_backward index_put _index_put_impl index_add
    index_copy index_fill scatter scatter_add masked_scatter masked_select_backward select_scatter slice_scatter
    diagonal_scatter as_strided_scatter copy fill zero put tril triu constant_pad_nd diag_embed
    trace_backward unfold_backward"""
_BY_VALUE = """threshold_backward hardtanh_backward max_pool2d_with_indices_backward native_dropout_backward
    embedding_dense_backward nll_loss_backward nll_loss2d_backward hardshrink_backward softshrink_backward
    max_pool3d_with_indices_backward"""
_ELEMENTWISE = """mul div sgn ldexp tanh_backward sigmoid_backward gelu_backward silu_backward
    elu_backward softplus_backward leaky_relu_backward mish_backward logit_backward log_sigmoid_backward
    hardsigmoid_backward hardswish_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward
    binary_cross_entropy_backward _prelu_kernel_backward polar sinc rrelu_with_noise_backward"""
_CONTRACTIONS = "mm bmm mv dot vdot addmm baddbmm addmv convolution_backward outer ger linear matmul"
_ROWS = "_softmax_backward_data _log_softmax_backward_data"
#: Integers as wide as floats of that many bytes.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_BUFFERS = "new_zeros new_empty_strided new_empty zeros_like empty_like"


def apply(call: Call, target: Any) -> Any:
    """The result of one operation of the backward pass, with the masks that follow; it may write to the target."""
    run, rule = call.run, _RULES.get(call.name.rstrip("_"), _unknown)
    if rule is _buffer:
        value = call.value()
        return Masked(value, Ghost(value, _blank(call, value), run, blank=True))
    if not call.in_place and _is_clean(call, rule):
        return _wrap(call, call.value(), rule, {})
    call.keep_ghosts()
    finite = [] if run.breaks is None else [torch.isfinite(each) for each in call.cotangents]
    known = call.masks(rule) if run.eager or call.in_place else None  # before its operands are written
    value = call.value()
    if rule is _contract:
        harmless = _is_harmless(call, value) if run.breaks is None else all(map(_is_finite, call.residuals))
        if not harmless and len(call.cotangents) == 1 and not call.in_place:
            value = _without_dead_terms(call, call.cotangents[0])
    elif rule in _PRODUCTS and (run.breaks is not None or not _is_harmless(call, value)):
        known = _repair(call, rule, value, call.masks(rule) if known is None else known, finite)
    call.settle()
    if rule in (_contract, _rows, _unknown) or (rule is _elementwise and _undifferentiated(call) is None):
        call.forget()
    return _write(target, call, known or {}) if call.in_place else _wrap(call, value, rule, known)


def _is_clean(call: Call, rule: _Rule) -> bool:
    """Whether nothing of a result can be dead, which needs no look at it."""
    if call.run.eager or rule in (_select, _select_by_value, _where) or (rule is _move and call.residuals):
        return False
    if rule is _add:
        return any(each.clean for each in call.operands)
    return all(each.clean for each in call.operands) and (rule is not _elementwise or _undifferentiated(call) is None)


def _is_harmless(call: Call, value: Any) -> bool:
    """Whether nothing dead has met a factor that is not finite: the factor says it, or the product, if that is less."""
    pairs: Iterable[tuple[Any, Tensor]] = ()
    if call.name == "convolution_backward":
        image, weight = call.residuals
        pairs = (value[0], weight), (value[1], image)
    elif call.name in ("mul", "div", "mm", "bmm", "mv") and len(call.residuals) == len(call.operands) == 1:
        pairs = ((value, call.residuals[0]),)
    for product, factor in pairs:
        if product is not None and factor.numel() < product.numel():
            product = 1 / factor if call.name == "div" else factor
        if not _is_finite(product):
            return False
    return bool(pairs) or _is_finite(value)


def _is_finite(value: Any) -> bool:
    """Whether nothing in a result is inf or nan; a sum is quicker than a mask, and errs on the safe side."""
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return True
    return bool(torch.isfinite(value.sum()))


def _wrap(call: Call, value: Any, masks: _Rule, known: dict[Any, Any] | None, number: int | None = None) -> Any:
    """The result with its masks, or with how they are made."""
    if isinstance(value, list | tuple):
        return type(value)([_wrap(call, each, masks, known, i) for i, each in enumerate(value)])
    if not isinstance(value, Tensor) or value.layout != torch.strided:
        return value
    if not (value.is_floating_point() or value.is_complex()):
        return value
    base = _viewed(call) if masks is _view else None
    if known is None:
        return Masked(value, Ghost.later(value, call, masks, number, base))
    dead = {key: each for key, mask in known.items() if (each := mask if number is None else mask[number]) is not None}
    return Masked(value, Ghost(value, dead, call.run, base=base))


def _write(target: Any, call: Call, masks: dict[Any, Tensor]) -> Any:
    """The operand that an operation has written, with the masks that it has now."""
    if not isinstance(target, Masked):  # a plain buffer: its zeros are no news, what they stand for is lost
        if masks:
            call.run.lost[call.name] = None
        return target
    ghost = target.ghost
    if ghost.base is None and not ghost.blank and not call.run.eager:
        target.ghost = Ghost(target.value, masks, call.run)
        return target
    try:
        _overwrite(ghost, call, masks)
    except RuntimeError:  # several elements of the mask share their memory
        call.run.lost[call.name] = None
        for each in (ghost, ghost.base):
            if each is not None:
                each.dead.clear()
    for each in (ghost, ghost.base):
        if each is not None:
            each.version += 1
            each.blank = False
    return target


def _overwrite(ghost: Ghost, call: Call, masks: dict[Any, Tensor]) -> None:
    for key, mask in masks.items():
        if key in ghost.dead:
            ghost.dead[key].copy_(mask)
        elif ghost.base is None:
            ghost.dead[key] = mask.clone()
        elif call.node in ghost.dead:  # its base does not know that selection
            ghost.dead[call.node] |= mask
    for key in ghost.dead.keys() - masks.keys():
        ghost.dead[key].zero_()


def _live(operand: Ghost, key: Any) -> Tensor:
    """1 where an element is alive, as a number of its own type."""
    dead = operand.dead.get(key)
    if dead is not None and not operand.blank:
        return (~dead).to(operand.dtype)
    return torch.full(operand.shape, not operand.blank, dtype=operand.dtype, device=operand.device)


def _viewed(call: Call) -> Ghost:
    """What is viewed: a buffer itself, which may be written through the view."""
    (operand,) = call.operands
    return operand.base if operand.blank and operand.base else operand


def _view(call: Call) -> Any:
    operand = _viewed(call)

    def view(dead: Tensor) -> Any:
        if call.name == "view_as_complex":  # a number is dead where both of its parts are
            if not bool((dead.all(-1) == dead.any(-1)).all()):
                call.run.lost[call.name] = None
            return dead.all(-1)
        return dead[..., None].expand(*dead.shape, 2) if call.name == "view_as_real" else call.over(lambda t: dead)

    operand.dead.update(
        {key: operand.with_strides(dead) for key, dead in operand.dead.items()}
    )  # the base of the views
    return {key: view(dead) for key, dead in operand.dead.items()}


def _same(call: Call) -> Any:
    return dict(call.operands[0].dead)


def _move(call: Call) -> Any:
    """Each element of the result is one of an operand; a plain operand is zeros that stand for a missing cotangent."""
    kwargs = {k: v for k, v in call.kwargs.items() if k != "dtype"}

    def mask(key: Any) -> Any:
        return call.over(lambda t: t.dead_by(key), lambda t: t == 0 if t.is_floating_point() else t, kwargs=kwargs)

    keys, first = call.killers(), call.args[0]
    if isinstance(first, list | tuple) and any(isinstance(t, Tensor) for t in first):
        keys += [key for key in _own(call) if key not in keys]
    return {key: mask(key) for key in keys}


def _add(call: Call) -> Any:
    left, right = call.args[:2]

    def dead(t: Any, key: Any) -> Tensor:
        if isinstance(t, Ghost):
            return t.dead_by(key)
        return torch.as_tensor(t == 0, device=call.operands[0].device)

    return {key: dead(left, key) & dead(right, key) for key in call.killers()}


_NOTHING: Any = object()


def _unreached(call: Call, key: Any, residuals: bool) -> Tensor:
    """Which elements of the result nothing reaches but what is dead by the key.

    Plain operands are zeros that stand for a missing cotangent, or ``residuals`` that say what passes.
    """

    def cotangent(t: Tensor) -> Tensor:
        return (t != 0).to(t.dtype) if t.is_floating_point() and not residuals else t

    found: Tensor = call.over(lambda t: _live(t, key), cotangent) == 0
    return found


def _sum(call: Call) -> Any:
    return {key: _unreached(call, key, False) for key in call.killers()}


def _select(call: Call, residuals: bool = False) -> Any:
    """Of a selection, dead is also what no element reaches."""
    masks = {key: _unreached(call, key, residuals) for key in call.killers()}
    return _kill(call, masks, _unreached(call, _NOTHING, residuals))


def _where(call: Call) -> Any:
    """The same of a condition, which says it more quickly."""
    condition, *arms = call.args if call.name == "where" else (call.args[1], call.args[2], call.args[0])

    def unreached(ghost: Callable[[Ghost], Any]) -> Tensor:
        return _choose(condition, *(_dropped(each, ghost) for each in arms)).expand(_shape(call)).contiguous()

    masks = {key: unreached(lambda t, key=key: t.dead_by(key)) for key in call.killers()}  # type: ignore[misc]
    return _kill(call, masks, unreached(lambda t: False))


def _dropped(arm: Any, ghost: Callable[[Ghost], Any]) -> Any:
    if isinstance(arm, Ghost):
        return arm.blank or ghost(arm)
    return arm == 0 if isinstance(arm, Tensor) and arm.dim() else bool(arm == 0)


def _choose(condition: Tensor, yes: Any, no: Any) -> Tensor:
    """What ``torch.where`` makes of masks and truths, ten times as fast."""
    arms = ((condition, yes), (~condition, no))
    found = [side if arm is True else side & arm for side, arm in arms if arm is not False]
    return functools.reduce(torch.logical_or, found) if found else torch.zeros_like(condition)


def _shape(call: Call) -> torch.Size:
    shapes = {each.shape for each in (*call.operands, *call.residuals) if each.shape}
    return shapes.pop() if len(shapes) == 1 else torch.broadcast_shapes(*shapes)  # which takes long


def _select_by_value(call: Call) -> Any:
    return _select(call, residuals=True)


def _kill(call: Call, masks: dict[Any, Tensor], own: Tensor) -> dict[Any, Tensor]:
    """The masks with what the operation itself drops."""
    if not _any(own):
        return masks
    for key in _own(call):
        masks[key] = masks[key] | own if key in masks else own
    return masks


def _own(call: Call) -> tuple[Any, ...]:
    """The keys of what the operation itself drops."""
    return (EVERY, call.node) if call.run.killers and call.node in call.run.killers else (EVERY,)


def _elementwise(call: Call) -> Any:
    shape = _shape(call)
    masks: dict[Any, Tensor] = {}
    for operand in call.operands:
        for key, mask in operand.dead.items():
            wide = mask.expand(shape) if mask.shape != shape else mask
            masks[key] = masks[key] | wide if key in masks else wide
    factor = _undifferentiated(call)
    return masks if factor is None else _kill(call, masks, (factor == 0).expand(shape))


def _undifferentiated(call: Call) -> Tensor | None:
    """The other factor of a product, if no gradient flows to it: where that is exactly 0, it drops."""
    if not call.name.startswith("mul") or not call.residuals:
        return None
    factor = call.residuals[0]
    product = call.node.name().startswith("MulBackward")
    if factor.is_floating_point() and not (product and any(edge is None for edge, _ in call.node.next_functions)):
        return None
    return factor


def _rows(call: Call) -> Any:
    """Softmax and its logarithm: an element reaches its whole row."""
    (operand, dim) = call.operands[0], call.args[2]
    return {key: mask.all(dim, keepdim=True).expand(operand.shape) for key, mask in operand.dead.items()}


def _contract(call: Call) -> Any:
    """Sums of products: dead is what only dead terms make."""
    if all(node is None or not node.next_functions for node, _ in call.node.next_functions):
        return {}  # nothing but leaves lies upstream: nobody will ask for the masks
    if call.name not in ("mm", "bmm") or len(call.operands) > 1:

        def unreached(key: Any) -> Any:
            return _mapped(torch.logical_not, call.over(lambda t: _live(t, key), torch.ones_like))

        return {key: unreached(key) for key in call.killers()}
    (operand,) = call.operands
    left = call.args[0] is operand
    other: Tensor = call.residuals[0]

    def lines(dead: Tensor) -> Tensor:
        whole = dead.all(-1 if left else -2, keepdim=True)
        shape = list(whole.shape)
        shape[-1 if left else -2] = other.shape[-1 if left else -2]
        return whole.expand(shape)

    return {key: lines(dead) for key, dead in operand.dead.items()}


def _mapped(f: Callable[..., Any], *results: Any) -> Any:
    """The function of one result, or of each of several."""
    if isinstance(results[0], list | tuple):
        return [None if each[0] is None else f(*each) for each in zip(*results, strict=True)]
    return f(*results)


def _buffer(call: Call) -> Any:
    """Zeros that something will be written to."""
    return {}


def _blank(call: Call, value: Tensor) -> Dead:
    """As long as nothing is written to it, all of a buffer is dead; its masks lie as its elements do."""
    return {key: torch.empty_strided(value.shape, value.stride(), dtype=torch.bool, device=value.device).fill_(True)
            for key in _own(call)}  # fmt: skip


def _unknown(call: Call) -> Any:
    """An operation without a rule: what it makes of dead elements is not known, and all of its result is alive."""
    if any(_any(mask) for t in call.operands for mask in t.dead.values()):
        call.run.lost[call.name] = None
    return {}


def _repair(call: Call, rule: _Rule, value: Any, masks: dict[Any, Any], finite: list[Tensor]) -> dict[Any, Any]:
    """Take out of a product what dead elements make of a factor that is not finite; the masks that it has then."""
    if rule is _unknown:
        dead = [t.dead.get(EVERY) for t in call.operands]
        if all(each is not None and bool(each.all()) for each in dead):
            _mapped(lambda t: t.zero_(), value)
            return {EVERY: _mapped(lambda t: torch.ones_like(t, dtype=torch.bool), value)}
        if all(bool(each.all()) for each in finite):
            _mapped(lambda t: note(call, ~torch.isfinite(t), {}), value)
        return masks
    if finite:
        whole = finite[0] & finite[-1]
        whole = whole.all(call.args[2], keepdim=True) if rule is _rows else whole
        note(call, ~torch.isfinite(value) & whole, masks)
    if EVERY in masks:
        _clear(value, masks[EVERY])
    return masks


def _clear(value: Tensor, dead: Tensor) -> None:
    """Set what is dead to 0: whole rows where the mask is the same along them, else by the bits, as is much quicker."""
    if dead.dim() > 1 and not any(dead.stride()[1:]):
        rows = dead[(slice(None), *[0] * (dead.dim() - 1))]
        value.index_fill_(0, rows.nonzero()[:, 0], 0)
    elif value.is_floating_point():
        value.view(_BITS[value.itemsize]).mul_(~dead)
    else:
        value.masked_fill_(dead, 0)


def _any(mask: Tensor) -> bool:
    """Whether a mask has an element; of bytes torch says it thirty times as fast."""
    return bool(mask.view(torch.uint8).any())


def _without_dead_terms(call: Call, cotangent: Tensor) -> Any:
    """The sums of products without the terms of dead elements; a term that is alive and not finite makes a nan."""
    value = call.over(lambda t: cotangent, lambda t: torch.nan_to_num(t, 0.0, 0.0, 0.0))

    def meets(ghost: Callable[[Ghost], Tensor]) -> Any:
        found = call.over(ghost, lambda t: (~torch.isfinite(t)).to(t.dtype))
        return _mapped(lambda t: t != 0, found)

    alive = meets(lambda t: _live(t, EVERY))
    _mapped(lambda v, bad: v.masked_fill_(bad, torch.nan), value, alive)
    if call.run.breaks is not None and isinstance(value, Tensor):

        def broken_by(key: Any) -> Any:
            return meets(lambda t: 1 - _live(t, key)) & ~alive

        broken = {key: broken_by(key) for key in call.killers()}
        note(call, broken.get(EVERY, alive) | alive, broken)
    return value


def note(call: Call, broken: Tensor, masks: dict[Any, Tensor]) -> None:
    """Remember where the operation broke: what is dead there, and what is alive."""
    breaks = call.run.breaks
    dead = masks.get(EVERY)
    if breaks is None or not _any(broken):
        return
    if dead is not None and _any(broken & dead):
        rest = broken & dead
        # The innermost selection that kills an element alone: the last one that the backward pass met.
        for key in reversed([key for key in masks if key is not EVERY]):
            found = rest & masks[key]
            if _any(found):
                breaks.append(Break(call.node, found, key, False))
                rest = rest & ~found
        if _any(rest):
            breaks.append(Break(call.node, rest, None, False))
    alive = broken if dead is None else broken & ~dead
    if _any(alive):
        breaks.append(Break(call.node, alive, None, True))


_RULES: dict[str, _Rule] = {
    name: rule
    for names, rule in {
        _VIEWS: _view, _SAME: _same, _MOVES: _move, _SUMS: _sum, _ADDS: _add, _SELECTIONS: _select, _WHERE: _where,
        _BY_VALUE: _select_by_value, _ELEMENTWISE: _elementwise, _CONTRACTIONS: _contract, _ROWS: _rows,
        _BUFFERS: _buffer,
    }.items()
    for name in names.split()
}  # fmt: skip
#: Of what multiplies cotangents, a result has to be looked at.
_PRODUCTS = frozenset({_elementwise, _rows, _unknown})


Masked.apply = staticmethod(apply)
