"""What leaves a function so that its gradient matters, what is only written down, and what is written over."""

from __future__ import annotations

import textwrap

import pytest

from wherelint.findings import DetectOptions, detect

_ROOT = "torch.where(x > 0, x.sqrt(), 0.0).sum()"


def found(text: str) -> list[str]:
    """The codes of what is shown of a file by default."""
    findings, _ = detect("import torch\n" + textwrap.dedent(text), "a.py", DetectOptions())
    return [finding.code for finding in findings if finding.is_shown]


@pytest.mark.parametrize(
    "statement",
    [
        f"return {_ROOT}", f"{_ROOT}.backward()", f"self.add_loss({_ROOT})", f"self.sow('losses', 'a', {_ROOT})",
        f"losses.append({_ROOT})", f"losses['a'] = {_ROOT}", f"self.last = {_ROOT}", f"optimise(torch.log({_ROOT}))",
    ],
)  # fmt: skip
def test_what_matters_to_others(statement: str) -> None:
    assert "WL101" in found(f"class Net:\n    def f(self, x, losses):\n        {statement}\n")


@pytest.mark.parametrize(
    "statement",
    [
        f"self.log('loss', {_ROOT})", f"self.log_dict({{'loss': {_ROOT}}})", f"print({_ROOT})",
        f"writer.add_scalar('loss', {_ROOT}, 3)", f"logging.info('%s', {_ROOT})",
        f"self.register_buffer('last', {_ROOT})", f"return solve(self.b, tol={_ROOT})",
    ],
)  # fmt: skip
def test_what_is_only_written_down(statement: str) -> None:
    assert found(f"class Net:\n    def f(self, x, losses):\n        {statement}\n") == []


@pytest.mark.parametrize("field", ["weight = None", "weight: float | None = None", "weight: 'Other' = None"])
@pytest.mark.parametrize("test", ["is not None", "is None"])
def test_a_field_that_is_none_by_default_may_be_something(field: str, test: str) -> None:
    assert found(f"""
        class Net:
            {field}
            def f(self, x):
                if self.weight {test}:
                    return {_ROOT}
                return x
    """) == ["WL101"]


@pytest.mark.parametrize("index", ["x == 0", "(x == 0).nonzero()", "torch.nonzero(x == 0)"])
def test_what_is_written_over_before_it_is_divided_by(index: str) -> None:
    text = "def f(x):\n    zero = x == 0\n    y = x * 2\n    y[{}] = 1\n    return torch.where(zero, 0.0, 1 / y)\n"
    assert found(text.format(index)) == []
    assert found(text.format("0")) == ["WL103"]


@pytest.mark.parametrize(("test", "codes"), [("angle < 1e-6", []), ("angle > 9", ["WL301"])])
def test_an_early_return_takes_the_arm_that_does_not_read_the_operation(test: str, codes: list[str]) -> None:
    """At the witness, an angle of 0, nothing flows back into the arccos."""
    assert (
        found(f"""
        def slerp(a, b, t):
            dot = torch.dot(a, b).abs()
            angle = torch.acos(torch.clamp(dot, -1.0, 1.0))
            if {test}:
                return (1 - t) * a + t * b
            return torch.sin(t * angle) * b + torch.cos(t * angle) * a
    """)
        == codes
    )
