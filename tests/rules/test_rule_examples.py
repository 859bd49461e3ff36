"""The examples of every rule do under the real framework what the documentation says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import code_block
from real_gradients import framework_of, require, value_and_gradient

from wherelint.io.config import Settings
from wherelint.rules import RULES, Rule
from wherelint.run.check import check_source

SEVERED = [rule for rule in RULES if rule.code.startswith("WL4")]
POISONED = [rule for rule in RULES if not rule.code.startswith("WL0") and rule not in SEVERED]


def run(rule: Rule, section: str) -> tuple[np.ndarray, np.ndarray]:
    source = code_block(rule, section)
    require(framework_of(source))
    namespace: dict[str, object] = {}
    exec(compile(source, f"{rule.code} {section}", "exec"), namespace)
    return value_and_gradient(framework_of(source), namespace["f"], rule.example_at)


@pytest.mark.parametrize("rule", POISONED, ids=lambda rule: rule.code)
def test_example_poisons_the_gradient_and_its_replacement_does_not(rule: Rule) -> None:
    value, gradient = run(rule, "Example")
    assert np.isfinite(value)
    assert not np.isfinite(gradient).all()
    good_value, good_gradient = run(rule, "Use instead")
    np.testing.assert_allclose(good_value, value, rtol=1e-6)
    assert np.isfinite(good_gradient).all()


@pytest.mark.parametrize("rule", SEVERED, ids=lambda rule: rule.code)
def test_example_severs_the_gradient_and_its_replacement_does_not(rule: Rule) -> None:
    value, gradient = run(rule, "Example")
    good_value, good_gradient = run(rule, "Use instead")
    np.testing.assert_allclose(good_value, value, rtol=1e-6)
    assert np.isfinite(gradient).all()
    assert np.isfinite(good_gradient).all()
    assert not np.allclose(gradient, good_gradient)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_example_is_found_and_its_replacement_is_not(rule: Rule) -> None:
    settings = Settings(extend_select=(rule.code,), root=Path("/"))
    bad = check_source(code_block(rule, "Example").encode(), "bad.py", settings)
    good = check_source(code_block(rule, "Use instead").encode(), "good.py", settings)
    assert {finding.code for finding in bad.findings} == {rule.code}
    assert good.findings == ()
    assert bad.problems + good.problems == ()


def test_examples_are_spread_over_the_frameworks() -> None:
    used = [framework_of(code_block(rule, "Example")) for rule in RULES]
    assert {"jax", "torch", "tensorflow"} == set(used)
