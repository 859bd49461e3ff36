"""Operations of whole matrices, and what moves elements on the way to a selection: no number is put in by element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixes import checked, executed, gradients, program, tensor
from real_gradients import require, value_and_gradient

from wherelint.fix.messages import MATRIX
from wherelint.io.config import Settings
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import MATRICES, SINGULAR
from wherelint.run.check import check_source

_SLOGDET = "linalg.slogdet(a)[1]"
#: The singular operations of matrices, as each framework calls them.
CALLS = {
    "jax": {
        "inv": "jnp.linalg.inv(a)", "solve": "jnp.linalg.solve(a, b)", "cholesky": "jnp.linalg.cholesky(a)",
        "slogdet": f"jnp.{_SLOGDET}", "solve_triangular": "jax.scipy.linalg.solve_triangular(a, b)",
    },
    "torch": {
        "inv": "torch.linalg.inv(a)", "solve": "torch.linalg.solve(a, b)", "cholesky": "torch.linalg.cholesky(a)",
        "slogdet": f"torch.{_SLOGDET}", "logdet": "torch.logdet(a)",
        "solve_triangular": "torch.linalg.solve_triangular(a, b, upper=True)",
    },
}  # fmt: skip
_NAMESPACE = {"jax": "jnp", "torch": "torch"}
EACH = [(framework, op) for framework, calls in CALLS.items() for op in calls]
#: A matrix that is singular for each of them.
SINGULAR_MATRIX = np.array([[1.0, 1.0], [0.0, 0.0]], np.float32)


def selecting(framework: str, op: str, more: str = "") -> str:
    namespace, call = _NAMESPACE[framework], CALLS[framework][op]
    body = f"return {namespace}.where({namespace}.linalg.det(a) != 0, {call}{more}, 0.0).sum()"
    return program(framework, f"def f(a, b):\n    {body}\n")


def test_every_singular_operation_of_a_matrix_is_here() -> None:
    assert set(CALLS["torch"]) == MATRICES & SINGULAR


@pytest.mark.parametrize(("framework", "op"), EACH)
def test_it_is_reported_where_the_framework_has_a_value(framework: str, op: str, tmp_path: Path) -> None:
    """PyTorch raises at a singular matrix rather than lose a gradient: for that there is no witness."""
    text = selecting(framework, op)
    found = checked(text).findings
    _, f, _ = executed(framework, text, tmp_path)
    given = [SINGULAR_MATRIX, np.ones((2, 2))]
    if framework in OPERATIONS[op].raises:
        with pytest.raises(RuntimeError, match=r"singular|inversion|not positive-definite"):
            value_and_gradient(framework, f, given)
        assert found == ()
        return
    value, gradient = value_and_gradient(framework, f, given)
    assert value == 0
    assert not np.isfinite(gradient).all()
    assert [finding.code for finding in found] == ["WL110"]


@pytest.mark.parametrize(("framework", "op"), EACH)
@pytest.mark.parametrize("more", ["", " + {}.sqrt(b)", " * {}.log(a)"])
def test_no_number_is_put_in_place_of_a_matrix(framework: str, op: str, more: str) -> None:
    text = selecting(framework, op, more.format(_NAMESPACE[framework]))
    call = CALLS[framework][op]
    assert call in (checked(text, "unsafe").after or text.encode()).decode()
    for finding in checked(text, "offer").findings:
        if finding.code == "WL110":
            assert finding.fix is not None
            assert finding.fix.message.endswith(MATRIX)
            assert not finding.fix.edits


@pytest.mark.parametrize(("fill", "right"), [("1.0", False), ("0.0", False), ("jnp.eye(2)", True)])
def test_a_number_does_not_make_a_matrix_regular(fill: str, right: bool, tmp_path: Path) -> None:
    masked = f"jnp.linalg.solve(jnp.where(jnp.linalg.det(a) != 0, a, {fill}), b)"
    text = selecting("jax", "solve").replace(CALLS["jax"]["solve"], masked)
    _, f, _ = executed("jax", text, tmp_path, fixes="offer")
    _, gradient = value_and_gradient("jax", f, [np.ones((2, 2)), np.ones((2, 2))])
    assert np.isfinite(gradient).all() == right


#: The condition has the shape of the result, in which elements have other places than in the operand.
MOVED = {
    "einsum": ("jax", "jnp.einsum('ij->ji', {})"),
    "einsum of torch": ("torch", "torch.einsum('ij->ji', {})"),
    "einsum that sums": ("jax", "jnp.einsum('ijk->kj', {}[:, :, None] * jnp.ones(3))"),
    "transposed": ("jax", "jnp.transpose({})"),
    "permuted": ("torch", "{}.permute(1, 0)"),
    "rotated": ("torch", "torch.rot90({})"),
    "rolled": ("jax", "jnp.roll({}, 1)"),
    "a product": ("torch", "torch.matmul({}, torch.ones(3, 3))"),
    "side by side": ("jax", "jnp.hstack([{}, {}])"),
    "on top of each other": ("torch", "torch.cat([{}, {}], dim=1)"),
    "stacked and turned": ("jax", "jnp.transpose(jnp.stack([{}, {}]))"),
    "a new axis": ("jax", "jnp.stack([{}, {}])"),
    "a last axis": ("torch", "torch.stack([{}, {}], -1)"),
}  # fmt: skip
SQUARE = np.array([[4.0, 0.0, 1.0], [9.0, 1.0, 0.0], [-1.0, 0.25, 1.0]], np.float32)


@pytest.mark.parametrize("why", MOVED)
def test_a_condition_of_the_result_does_not_mask_the_operand(why: str, tmp_path: Path) -> None:
    framework, form = MOVED[why]
    namespace = _NAMESPACE[framework]
    arm = form.replace("{}", f"{namespace}.sqrt(x)")
    body = f"def f(x):\n    y = {form.replace('{}', 'x')}\n    return {namespace}.where(y > 0, {arm}, 0.0)\n"
    report, before, after = executed(framework, program(framework, body), tmp_path, fixes="unsafe")
    assert report.fixed
    x = tensor(framework, SQUARE)
    old, new = np.asarray(before(x)), np.asarray(after(x))
    assert old.shape == new.shape
    np.testing.assert_array_equal(new[np.isfinite(old)], old[np.isfinite(old)])
    assert not np.isfinite(gradients(framework, before, x)).all()
    assert np.isfinite(gradients(framework, after, x)).all()


def test_a_condition_of_no_axis_masks_whatever_is_stacked(tmp_path: Path) -> None:
    body = "def f(x):\n    n = x.sum()\n    return jnp.where(n > 0, jnp.stack([jnp.sqrt(n), n]), 0.0)\n"
    report, _, after = executed("jax", program("jax", body), tmp_path, fixes="unsafe")
    assert "jnp.sqrt(jnp.where(n > 0, n, 1.0))" in report.after.decode()
    assert np.isfinite(gradients("jax", after, tensor("jax", np.zeros(3, np.float32)))).all()


def test_no_mask_of_a_matrix_where_an_outer_product_is_yet_to_come(tmp_path: Path) -> None:
    """A mask of its elements has another shape than the diagonal that they are divided by."""
    text = program(
        "jax",
        "def f(cov):\n    v = jnp.sqrt(jnp.diag(cov))\n    outer = jnp.outer(v, v)\n    mask = cov == 0\n"
        "    return jnp.where(mask, 0.0, cov / outer).sum()\n",
    )
    report, before, after = executed("jax", text, tmp_path)
    assert report.fixed
    for given in (np.array([[1.0, 0.0], [0.0, 0.0]]), np.eye(3) + 0.1):
        value, gradient = value_and_gradient("jax", after, [given])
        assert value == value_and_gradient("jax", before, [given])[0]
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("bounds", [":n", ":8", "2:n", "..., :n"])
def test_a_mask_of_a_slice_is_none_of_the_whole(bounds: str) -> None:
    require("jax")
    text = f"""
import jax.numpy as jnp

def f(s, n, least=1e-8):
    return 1.0 / jnp.sqrt(s[{bounds}]) * (jnp.abs(s[{bounds}]) > least)
"""
    report = check_source(text.encode(), "f.py", Settings(level="note"), "safe")
    scope: dict[str, Any] = {}
    exec(compile(report.after, "f.py", "exec"), scope)
    given = (np.array([4.0, 0.0, 1.0, 4.0, 9.0, 1.0, 1.0, 4.0, 1.0, 1.0], np.float32), 5)
    before: dict[str, Any] = {}
    exec(compile(text, "f.py", "exec"), before)
    old, new = (np.asarray(each["f"](*given)) for each in (before, scope))
    assert old.shape == new.shape
    np.testing.assert_allclose(new[np.isfinite(old)], old[np.isfinite(old)])
