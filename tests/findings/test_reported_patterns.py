"""What decides about the patterns that people report: each with the nearest program that has to stay silent."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from wherelint.finding import Confirmation, Finding, Outcome
from wherelint.io.config import Settings
from wherelint.report.text import confirmation_sentence
from wherelint.run.check import check_source

HEADER = "import jax\nimport jax.numpy as jnp\nimport torch\n"


def findings(body: str, mode: str = "no") -> tuple[Finding, ...]:
    report = check_source((HEADER + textwrap.dedent(body)).encode(), "model.py", Settings(), mode)  # type: ignore[arg-type]
    assert report.problems == ()
    return report.findings


def test_the_message_says_that_both_arms_read_the_norm() -> None:
    (series,) = findings("""
        def f(v):
            r = jnp.linalg.norm(v)
            return jnp.where(r < 1e-3, 1 - r**2 / 6, jnp.sin(r) / r)
    """)
    assert (series.code, series.op) == ("WL108", "norm")
    assert "both branches of the `where` use the result" in series.message
    (dropped,) = findings("def f(v): return jnp.where(jnp.sum(v * v) > 0, jnp.linalg.norm(v), 0.0)")
    assert "`where` discards the result" in dropped.message


@pytest.mark.parametrize("root", ["jnp.sqrt(jnp.sum(jnp.abs(v)))", "jnp.sqrt(v)", "jnp.sum(v * v) ** 0.25"])
def test_a_root_of_anything_but_squares_is_singular_in_earnest(root: str) -> None:
    assert (
        findings(f"""
        def f(v):
            r = {root}
            return jnp.where(r < 1, r**2, 2 * r - 1)
    """)
        == ()
    )


LOG_RATIO = """
    def f({a}, {b}, advantage, mask):
        ratio = torch.exp({a} - {b})
        return -torch.min(ratio * advantage, torch.clamp(ratio, 0.8, 1.2) * advantage) * mask
"""


def test_a_ratio_of_probabilities_overflows_at_an_improbable_one() -> None:
    (found,) = findings(LOG_RATIO.format(a="logps", b="old_logps"), "offer")
    assert "log ratio" in found.evidence
    assert found.witness is not None
    assert found.witness.inputs["old_logps"] < 0 < 10 >= found.witness.inputs["logps"]  # type: ignore[operator]
    assert found.fix is not None
    assert found.fix.applicability == "unsafe"  # a live element that overflows gets another value
    assert any("80.0" in edit.content for edit in found.fix.edits)


@pytest.mark.parametrize(("a", "b"), [("time", "start"), ("logps.clamp(-5, 0)", "old_logps.clamp(-5, 0)")])
def test_other_differences_are_no_ratios_of_probabilities(a: str, b: str) -> None:
    names = {a: a.partition(".")[0], b: b.partition(".")[0]}
    text = LOG_RATIO.format(a=a, b=b).replace(f"def f({a}, {b}", f"def f({names[a]}, {names[b]}")
    assert findings(text) == ()


def test_an_action_is_not_improbable_to_the_policy_that_it_was_drawn_from() -> None:
    text = LOG_RATIO.format(a="log_prob", b="old_log_prob")
    assert findings(text)
    assert findings(text.replace(", mask", "").replace(" * mask", "")) == ()


def test_a_flag_of_the_program_hides_nothing() -> None:
    """With the correction the value is infinite itself; without it, it is finite, and the gradient is nan."""
    (found,) = findings("""
        class Trainer:
            def loss(self, logps, ref_logps, advantage):
                ratio = torch.exp(logps - ref_logps)
                kl = (logps - ref_logps) ** 2
                if self.args.use_correction:
                    kl = kl * ratio
                return kl - torch.min(ratio * advantage, torch.clamp(ratio, 0.8, 1.2) * advantage)
    """)
    assert found.op == "exp"


def test_neither_of_two_flags_raised_is_tried_as_well() -> None:
    (found,) = findings("""
        def f(x, kind):
            if kind == "first":
                y = x
            elif kind == "second":
                y = x**2
            else:
                y = jnp.sqrt(x)
            return jnp.where(x > 0, y, 0.0)
    """)
    assert found.op == "sqrt"


def test_a_path_that_returns_none_hides_no_other() -> None:
    (found,) = findings("""
        def f(x, name):
            if name == "standard":
                return None
            return jnp.where(x > 0, jnp.log(x), 0.0)
    """)
    assert found.code == "WL102"


@pytest.mark.parametrize(
    ("body", "is_shown"),
    [
        ("jnp.where(mask, 1 / jnp.linalg.norm(x, axis=-1), 0.0)", True),
        ("jnp.where(mask, 1 / jnp.linalg.norm(x - 1.0, axis=-1), 0.0)", False),  # padding is 0
        ("jnp.where(other > 0.5, 1 / jnp.linalg.norm(x, axis=-1), 0.0)", False),
    ],
)
def test_a_mask_guards_what_is_computed_from_padding(body: str, is_shown: bool) -> None:
    found = findings(f"def f(x, mask, other): return {body}")
    assert any("padding" in each.evidence or each.is_shown for each in found) is is_shown


def test_layers_are_followed() -> None:
    (found,) = findings("""
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.last = torch.nn.Linear(3, 3)

            def forward(self, offset, mask):
                r = torch.sqrt((offset * offset).sum(-1, keepdim=True))
                return torch.where(mask, self.last(r), 0.0)
    """)
    assert found.op == "sqrt"


def test_the_backend_of_a_project_may_bind_jnp() -> None:
    text = "from project.backend import fori_loop, jnp\n\n\ndef f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    (found,) = check_source(text.encode(), "a.py", Settings(), "no").findings
    assert found.framework == "jax"


def test_a_confirmation_names_the_calls_that_were_not_run() -> None:
    (found,) = findings("""
        def f(x, spectrum):
            y = spectrum.of(x)
            return jnp.where(y > 0, jnp.sqrt(y), 0.0)
    """)
    assert found.witness is not None
    nan = Outcome(0.0, dict.fromkeys(found.witness.gradient, float("nan")))
    confirmed = Confirmation("confirmed", None, "cpu", "0.10.2", found.witness.inputs, {"jit": nan})
    label, sentence = confirmation_sentence(replace(found, confirmation=confirmed))
    assert label == "confirmed"
    assert "`spectrum.of(...)` is replaced by an input of any value" in sentence


@pytest.mark.parametrize(
    "choice",
    [
        "np if isinstance(x, np.ndarray) else jnp",
        "jnp if hasattr(x, 'device') else np",
        "namespace_of(x)",
        "array_namespace(x)",
    ],
)
def test_a_namespace_that_is_picked_at_run_time_is_the_frameworks(choice: str) -> None:
    (found,) = findings(f"""
        import numpy as np
        from array_api_compat import array_namespace

        def namespace_of(x):
            if isinstance(x, np.ndarray):
                return np
            return jnp

        def f(x):
            xp = {choice}
            return xp.where(x > 0, xp.sqrt(x), 0.0)
    """)
    assert (found.op, found.framework) == ("sqrt", "jax")


def test_numpy_alone_is_no_framework() -> None:
    assert (
        findings("""
        import numpy as np

        def f(x):
            xp = np if isinstance(x, list) else np
            return xp.where(x > 0, xp.sqrt(x), 0.0)
    """)
        == ()
    )


def test_an_input_may_equal_a_setting_that_a_caller_passes() -> None:
    (found,) = findings("""
        def _log_size(x):
            return jnp.where(jnp.abs(x) < 1e3, jnp.log1p(x**2), 2 * jnp.log(jnp.abs(x)))

        class Likelihood:
            def __init__(self, loc, scale):
                self.loc = loc
                self.scale = scale

            def value(self, x):
                return _log_size((x - self.loc) / self.scale)
    """)
    assert found.op == "log"
    assert found.is_shown


@pytest.mark.parametrize(("method", "is_setting"), [("log_prob", False), ("value", True)])
def test_the_parameters_of_a_distribution_are_no_settings(method: str, is_setting: bool) -> None:
    (found,) = findings(f"""
        class Family:
            def __init__(self, rate=None):
                self.rate = rate

            def {method}(self, x):
                return jnp.where(self.rate > 0, jnp.log(self.rate) * x, 0.0)
    """)
    assert ("setting" in found.evidence) is is_setting


def test_an_epsilon_that_is_passed_is_small() -> None:
    (found,) = findings("""
        def log1mexp(x, eps):
            return torch.where(x > -0.7, (-torch.expm1(x)).log(), (-x.exp() + eps).log1p())
    """)
    assert found.op == "log1p"


def test_a_probability_that_is_tested_for_zero_has_a_score_of_minus_infinity() -> None:
    found = findings("""
        def kl(logits, others):
            p = jax.nn.softmax(logits)
            ratio = jax.nn.log_softmax(logits) - jax.nn.log_softmax(others)
            return jnp.sum(jnp.where(p == 0, 0.0, p * ratio))

        def cross(logits, others):
            p = jax.nn.softmax(logits)
            ratio = jax.nn.log_softmax(logits) - jax.nn.log_softmax(others)
            return jnp.sum(jnp.where(others == 0, 0.0, p * ratio))
    """)
    assert [each.function for each in found] == ["kl"]
    assert "below zero" not in found[0].evidence


@pytest.mark.parametrize(("more", "is_shown"), [("", True), (", points", False)])
def test_a_function_of_numbers_alone_takes_arrays_without_axes(more: str, is_shown: bool) -> None:
    found = findings(f"def f(x: float, y: float{more}): return jnp.where(x > 0, y * jnp.sqrt(x), 0.0)")
    assert bool(found) is is_shown


def test_two_log_probabilities_that_differ_are_no_coincidence() -> None:
    (found,) = findings("""
        def f(curr_logprobs, data, advantages, mask):
            ratio = torch.exp(curr_logprobs - data["prev_logprobs"])
            return torch.max(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)) * mask
    """)
    assert "unlikely input" not in found.evidence
