"""What speaks for a finding and against it: the names, and the programs that they are about."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from conftest import write
from real_gradients import require

from wherelint import docs
from wherelint.evidence import pieces
from wherelint.evidence.pieces import ERROR, LEVELS, WARNING, Evidence, labelled, least, level, why, worth
from wherelint.findings import DetectOptions, analyse, analysis
from wherelint.findings.analysis import Analysis
from wherelint.io.config import Settings
from wherelint.run.check import check_source

_HEADER = "import math\nimport jax.numpy as jnp\nimport torch\n\n"

#: What the condition has to do with the operand that is singular.
RELATIONS: dict[str | None, str] = {
    "direct": """
        def root(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        def scaled(x): return jnp.where(2 * x > 0, jnp.log(x / 3), 0.0)
        def size(x): return jnp.where(jnp.abs(x) > 1e-6, 1 / x, 0.0)
        def squared(x): return jnp.where(x * x > 0, 1 / x, 0.0)
        def norm(x): return jnp.where(jnp.sum(x * x) > 0, 1 / jnp.sqrt(jnp.sum(x**2)), 0.0)
        def norm_of_the_root(x): return jnp.where(jnp.linalg.norm(x) > 0, 1 / jnp.sum(x**2), 0.0)
        def both(x, y): return jnp.where((x == 0) & (y == 0), 0.0, jnp.sqrt(x**2 + y**2))
        def difference(x, y): return jnp.where(x > y, jnp.sqrt(x - y), 0.0)
        def turned(x, y): return jnp.where(jnp.abs(y - x) > 0, 1 / (x - y), 0.0)
        def neighbours(x, i):
            dx = x[i + 1] - x[i]
            return jnp.where(dx == 0, 0.0, 1 / dx)
        def function_of_it(x): return jnp.where(x == 0, 1.0, jnp.sin(x) / jnp.sin(x / 2))
        def factor(x, y): return jnp.where(x > 0, 1 / (x * y), 0.0)
        def infinite(x): return jnp.where(jnp.isfinite(1 / x), 1 / x, 0.0)
        def count(x, n: int): return jnp.where(n > 0, x / n, 0.0)
    """,
    "incidental": """
        def other(x, y): return jnp.where(y > 0, 1 / x, 0.0)
        def far_from_padding(x, mask): return jnp.where(mask > 0, 1 / (x - 3.0), 0.0)
        def whole_number(x, mask, size: int): return jnp.where(mask > 0, x / size, 0.0)
        def number(x, mask, size): return jnp.where(mask > 0, x / math.sqrt(size), 0.0)
    """,
    "padding": """
        def masked(x, mask): return jnp.where(mask > 0, 1 / x, 0.0)
        def pairs(x, valid): return jnp.where(valid, jnp.sqrt(jnp.sum(x * x, -1)), 0.0)
        def tokens(x, length, tokens): return jnp.where(tokens > 0, x / length, 0.0)
    """,
    "factor": """
        def entropy(p, q): return jnp.where(p > 0, p * jnp.log(q), 0.0)
    """,
    None: """
        def angle(x, y): return jnp.where(y > 0, jnp.sqrt(y * y - y * x), 0.0)
        def far(r, cutoff): return jnp.where(r < cutoff, jnp.exp(1 / (r * r - cutoff * r)), 0.0)
        def floor(x): return jnp.maximum(jnp.log(x), -10.0)
        def clipped(x): return jnp.arccos(jnp.clip(x, -1.0, 1.0))
    """,
}
#: Where the condition changes, and where the operation fails.
BOUNDARIES: dict[str | None, str] = {
    "at the boundary": """
        def root(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        def small(x): return jnp.where(x > 1e-6, 1 / x, 0.0)
    """,
    None: """
        def half(x): return jnp.where(x > 0.5, 1 / x, 0.0)
        def overflow(x): return jnp.where(x < 10, jnp.exp(x), x)
    """,
    "another purpose": """
        def shifted(x): return jnp.where(x > 0, jnp.sqrt(x + 1e-3), 0.0)
    """,
}
#: What the operation and the code around the selection say.
STRUCTURE = frozenset(
    {"tolerance", "returned", "root or angle", "quotient", "integers", "geometry", "much geometry"}
    | {"unseen", "unreached"}
)


def analysed(text: str, filename: str = "f.py") -> Analysis:
    made = analyse(_HEADER + textwrap.dedent(text), filename, DetectOptions())
    assert isinstance(made, Analysis)
    return made


@pytest.mark.parametrize(("table", "name"), [(table, name) for table in (RELATIONS, BOUNDARIES) for name in table])
def test_what_the_condition_has_to_do_with_the_operation(table: dict[str | None, str], name: str | None) -> None:
    best = {}
    for finding in analysed(table[name]).findings:
        if finding.function not in best or finding.score > best[finding.function].score:
            best[finding.function] = finding
    assert len(best) == table[name].count("def ")
    for function, finding in best.items():
        assert [each for each in finding.evidence if each in table] == ([name] if name else []), function


def test_a_wider_table_says_what_the_author_meant() -> None:
    """The same operation: guarded by what it divides by, and by something else."""
    direct, other = analysed("""
        def f(x): return jnp.where(x != 0, 1 / x, 0.0)
        def g(x, y): return jnp.where(y > 0, 1 / x, 0.0)
    """).findings
    assert direct.score > 0.5 > other.score
    assert (direct.is_shown, other.is_shown) == (True, False)


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("tests/model.py", "in a test"),
        ("pkg/test_model.py", "in a test"),
        ("pkg/model_test.py", "in a test"),
        ("pkg/metrics/iou.py", "untrained code"),
        ("pkg/evaluation.py", "untrained code"),
        ("pkg/envs/reward.py", "untrained code"),
        ("pkg/data/boxes.py", "untrained code"),
        ("pkg/datapipes/boxes.py", "untrained code"),
        ("pkg/optimizers/sgd.py", "untrained code"),
        ("pkg/post_processing.py", "untrained code"),
        ("pkg/vis.py", "untrained code"),
        ("pkg/lr_schedule.py", "untrained code"),
        ("pkg/input_preprocessors.py", "untrained code"),
        ("pkg/env_matrix.py", None),
        ("pkg/metric_learning/model.py", None),
        ("pkg/attest.py", None),
    ],
)
def test_folders_and_files_that_the_field_reserves(
    filename: str, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / filename
    path.parent.mkdir(parents=True)
    path.write_text(_HEADER + "def f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n")
    (finding,) = analysed(path.read_text()[len(_HEADER) :], filename).findings
    assert {"in a test", "untrained code"} & {*finding.evidence} == ({name} if name else set())
    assert finding.is_shown is not bool(name)


_FAR = """import jax.numpy as jnp
from pkg import base, terms

class Reach(base.{base}):
    def score(self, x): return terms.inside(jnp.sqrt(x), x > 0) + jnp.minimum(x, 9.0)
"""


@pytest.mark.parametrize(("base", "environment"), [("Robot", True), ("Model", False)])
def test_what_a_class_inherits_from_in_other_files(base: str, environment: bool, tmp_path: Path) -> None:
    """It counts for what the class computes, though the selection stands in a helper of another file."""
    write(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/terms.py": "import jax.numpy as jnp\ndef inside(y, ok): return jnp.where(ok, y, 0.0)\n",
            "pkg/base.py": "class Model: ...\nclass SomeEnv: ...\nclass Robot(SomeEnv): ...\n",
            "pkg/reach.py": _FAR.format(base=base),
        },
    )
    path = tmp_path / "pkg/reach.py"
    made = analyse(path.read_text(), str(path), DetectOptions())
    assert isinstance(made, Analysis)
    (finding,) = made.findings
    assert ("untrained code" in finding.evidence) is environment


@pytest.mark.parametrize(
    ("read", "host"),
    [
        ("np.sqrt(x)", True),
        ("np.linalg.norm(x - 1)", True),
        ("x.shape[0] + np.ndim(x)", False),
        ("np.sqrt(jax.lax.stop_gradient(x))", False),
        ("np.sqrt(x) if isinstance(x, np.ndarray) else jnp.sqrt(x)", False),
        ("np.sqrt(2.0)", False),
    ],
)
def test_what_numpy_computes_with(read: str, host: bool) -> None:
    text = f"import numpy as np\nimport jax\ndef f(x):\n    n = {read}\n    return jnp.where(x > 0, n / x, 0.0)"
    (finding, *_) = analysed(text).findings
    assert ("not learned" in finding.evidence) is host


def test_jax_and_torch_hand_nothing_to_numpy_that_is_differentiated() -> None:
    require("jax")
    require("torch")
    import jax
    import torch

    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.grad(lambda x: np.sqrt(x) * x)(2.0)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sqrt(torch.tensor(2.0, requires_grad=True))


@pytest.mark.parametrize(("method", "measures"), [("update", True), ("squared_norm", False)])
def test_a_file_of_riemannian_metrics_is_no_place_of_metrics(method: str, measures: bool) -> None:
    text = f"def f(x): return jnp.where(x > 0, 1 / x, 0.0)\nclass FlatMetric:\n    def {method}(self, x): return x * x"
    (finding,) = analysed(text, "flat_metric.py").findings
    assert ("untrained code" in finding.evidence) is measures


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f(target): return torch.where(target > 0, target.log(), 0.0)", "not learned"),
        ("def f(gt_boxes): return torch.where(gt_boxes > 0, gt_boxes.log(), 0.0)", "not learned"),
        ("def f(numTargets): return torch.where(numTargets > 0, 1 / numTargets, 0.0)", "not learned"),
        ("def f(x, target): return torch.where(x > 0, x.log() * target, 0.0)", None),
        ("def f(x):\n  t = x.get(x.keys.target)\n  return torch.where(t > 0, t.log(), 0.0)", "not learned"),
        ("def f(x): return torch.where(x['target'] > 0, x['target'].log(), 0.0)", "not learned"),
        ("def f(x): return torch.where(f(x, 'target') > 0, f(x, 'target').log(), 0.0)", None),
        ("def f(x):\n  t = made_targets(x)\n  return torch.where(t > 0, t.log(), 0.0)", "not learned"),
        ("def f(x):\n  t = flatten_targets_away(x)\n  return torch.where(t > 0, t.log(), 0.0)", None),
        ("def f(targetless): return torch.where(targetless > 0, targetless.log(), 0.0)", None),
        ("def f(x, eps): return torch.where(eps > 0, 1 / eps, 0.0) * x.sum()", "setting"),
        ("def f(x, grad_output): return grad_output * torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        (
            "def f(x, grad, prev_grad): return x - grad * torch.nan_to_num(grad.sum() / prev_grad.sum(), 0.0)",
            "untrained code",
        ),
        ("def f(x, lr, grad): return x - lr * torch.where(grad > 0, 1 / grad, 0.0)", "untrained code"),
        ("def f(x, lr, grad): return x - lr * jnp.where(grad > 0, 1 / grad, 0.0)", "seldom trained code"),
        ("def f(x, lr): return lr * torch.where(x > 0, 1 / x, 0.0)", None),
        ("def f(x):\n  d = jnp.abs(x + 2j)\n  return jnp.where(d > 0, 1 / d, 0.0)", "doubtful"),
        ("def f(x):\n  d = jnp.abs(x + complex(0, 2))\n  return jnp.where(d > 0, 1 / d, 0.0)", "doubtful"),
        ("def f(gradients): return torch.where(gradients > 0, 1 / gradients, 0.0)", None),
        (
            "def f(x, valid_mask): return x.nansum() * torch.where(valid_mask > 0, 1 / valid_mask, 0.0)",
            "not learned",
        ),
        ("class LossMetric:\n  def update(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("class Losses(tm.Metric):\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("class RiemannianMetric:\n  def norm(self, x): return torch.where(x > 0, 1 / x, 0.0)", None),
        ("class Net:\n  def validation_step(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("class Net:\n  def training_step(self, x): return torch.where(x > 0, 1 / x, 0.0)", None),
        ("def f(dist): return torch.where(dist > 0, torch.log(dist + 1), 0.0)", "doubtful"),
        ("def f(x, target): return torch.where(target < 20, x * torch.exp(target), 0.0)", "unlikely input"),
        ("def f(x, cfg): return torch.where(cfg.width > 0, x / cfg.width, 0.0)", "setting"),
        ("def f(x, fluid_setup): return torch.where(fluid_setup.b > 0, x / fluid_setup.b, 0.0)", "setting"),
        ("def f(x, width: float): return torch.where(width > 0, x / width, 0.0)", "setting"),
        ("def f(x): return torch.where(x > 0, 1 / (x + 1e-6), 0.0)", "unlikely input"),
        ("def _standardize_advantage(x): return torch.where(x > 0, 1 / x, 0.0)", "seldom trained code"),
        ("def norm_targets(x): return torch.where(x > 0, 1 / x, 0.0)", "seldom trained code"),
        ("def GenerateLabel(x): return torch.where(x > 0, 1 / x, 0.0)", "seldom trained code"),
        ("def f(feats): return torch.where(feats['rot'] > 0, 1 / feats['rot'], 0.0)", "not learned"),
        ("def f(feats): return torch.where(feats > 0, 1 / feats, 0.0)", None),
        ("class WarmupSchedule:\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def f(x): return torch.clamp(torch.exp(x), max=10.0)", None),
        ("def masked_softmax(x): return torch.where(x > 0, 1 / x, 0.0)", None),
        ("def visualize(x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def init_state(x): return torch.where(x > 0, 1 / x, 0.0)", "seldom trained code"),
        ("class NonNegConstraint:\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("class Adamant(optim.Optimizer):\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("class Adamant(nn.Module):\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", None),
        (
            "def clip(most):\n  def update_fn(x, state): return torch.where(x > 0, most / x, 1.0), state\n"
            "  return optax.GradientTransformation(init_fn, update_fn)",
            "seldom trained code",
        ),
        ("def f(x, cfg): return torch.where(x > 0, x * (cfg.width // cfg.heads) ** -0.5, 0.0)", "setting"),
        (
            "class Game:\n  def reset(self): pass\n  def step(self, state, action): pass\n"
            "def bounce(x): return torch.where(x > 0, 1 / x, 0.0)",
            "untrained code",
        ),
        (
            "class Solver:\n  def reset(self): pass\n  def step(self, state): pass\n"
            "def bounce(x): return torch.where(x > 0, 1 / x, 0.0)",
            None,
        ),
        ("class WalkSampler:\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def edm_sampler(x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def rate_warmup(x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def write_images(x): return torch.where(x > 0, 1 / x, 0.0)", "untrained code"),
        ("def f(x, cutoff): return torch.where(x < cutoff, x / cutoff, 0.0)", "doubtful"),
        ("def f(x, hyperparams): return torch.where(hyperparams.b > 0, x / hyperparams.b, 0.0)", "setting"),
        ("def f(x, R_cut): return torch.where(x < R_cut, x / R_cut, 0.0)", "doubtful"),
        ("def f(x, d_k): return torch.where(d_k > 0, x / d_k, 0.0)", "doubtful"),
        ("def f(frac): return torch.where(frac > 0, torch.log(frac + 1), 0.0)", "doubtful"),
        ("def f(x):\n  t = multi_apply(get_targets, x)[2]\n  return torch.where(t > 0, t.log(), 0.0)", "not learned"),
        ("def f(x):\n  t = pmap(_get_target_single, x)\n  return torch.where(t > 0, t.log(), 0.0)", "not learned"),
        ("def f(x):\n  t = apply(net, x, targets)\n  return torch.where(t > 0, t.log(), 0.0)", None),
        ("def f(x, y=None): return torch.where(y > 0, x / y, 0.0)", ""),
        ("def f(x): return torch.where(x < 2, 10.0**x, 0.0)", "unlikely input"),
        ("def f(x): return torch.where(x > 0, x**0.5, 0.0)", None),
        ("def f(x, s):\n  s = torch.exp(s)\n  return torch.where(s > 0, torch.log(s), 0.0)", "unlikely input"),
        ("torch.set_default_dtype(torch.float64)\ndef f(x): return torch.where(x < 9, x.exp(), 0.0)", "unlikely input"),
        ("torch.set_default_dtype(torch.float32)\ndef f(x): return torch.where(x < 9, x.exp(), 0.0)", None),
        ("torch.set_default_dtype(torch.float64)\ndef f(x): return torch.where(x > 0, 1 / x, 0.0)", None),
        ("def f(x): return torch.clamp(torch.exp(x), max=1e6)", "no guard"),
        ("def f(x, m):\n  y = torch.where(m, x, x)\n  return torch.where(x > 0, 1 / x, 0.0)", None),
    ],
)
def test_what_else_is_said(text: str, name: str | None) -> None:
    findings = analysed(text).findings
    assert findings
    plain = {*RELATIONS, *BOUNDARIES, *STRUCTURE, "below zero", "no guard"} - {name}
    assert set(findings[0].evidence) - plain == ({name} if name else set())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "def f(x, num_pixels): return x * torch.where(num_pixels != -1, (num_pixels + 1).log(), 0.0)",
            {"doubtful", "not learned"},
        ),
        (
            "class N(torch.nn.Module):\n  def __init__(self, deviations):\n"
            "    self.register_buffer('std', deviations + 1e-6)\n"
            "  def f(self, x): return torch.nan_to_num(x / self.std)",
            {"unlikely input", "setting", "no guard"},
        ),
        (
            "class N(torch.nn.Module):\n  def __init__(self, deviations):\n"
            "    self.register_buffer('std', torch.ones(3))\n"
            "  def f(self, x): return torch.nan_to_num(x / self.std)",
            {"no guard"},
        ),
        ("def f(x): return torch.clamp(10**x, max=100.0)", {"no guard", "unlikely input"}),
    ],
)
def test_what_is_said_together(text: str, names: set[str]) -> None:
    (finding,) = analysed(text).findings
    assert names == {"unlikely input", "setting", "doubtful", "not learned", "no guard"} & {*finding.evidence}


@pytest.mark.parametrize(
    ("method", "names"),
    [
        # The constructor's argument is a setting, whatever array a buffer makes of it.
        ("return torch.where(x > self.width, x / self.width, 0.0)", {"setting"}),
        ("return x * torch.where(self.cfg.width > 0, self.cfg.width.log(), 0.0)", {"not learned"}),
        (
            "return x * torch.where(self.scheduler.beta > 0, self.scheduler.beta.log(), 0.0)",
            {"not learned"},
        ),
        ("return torch.where(self.cfg.width > 0, x / self.cfg.width, 0.0)", set()),
    ],
)
def test_nobody_differentiates_what_is_chosen_for_the_run(method: str, names: set[str]) -> None:
    (finding,) = analysed(
        "class N(torch.nn.Module):\n  def __init__(self, width):\n"
        f"    self.register_buffer('width', torch.Tensor([width]))\n  def f(self, x): {method}"
    ).findings
    assert names <= {*finding.evidence}
    assert ("not learned" in finding.evidence) is ("not learned" in names)


@pytest.mark.parametrize(("drawn", "found"), [("torch.randn_like(x)", False), ("draw(x)", True)])
def test_what_is_drawn_at_random_is_never_nan(drawn: str, found: bool) -> None:
    assert bool(analysed(f"def f(w, x): return torch.nan_to_num(w * {drawn})").findings) is found


@pytest.mark.parametrize(
    ("made", "lasts"),
    [
        ("self.register_buffer('e', torch.tensor(1e-3))", True),
        ("self.register_buffer('e', 1.0 / torch.arange(1, 4))", True),
        ("self.register_buffer('e', torch.zeros(3))", False),
        ("self.register_buffer('e', torch.tensor(1.0))", False),
        ("self.e = torch.nn.Parameter(torch.tensor(1e-3), requires_grad=False)", True),
        ("self.e = torch.nn.Parameter(torch.tensor(1e-3), False)", True),
        ("self.e = torch.nn.Parameter(torch.tensor(1e-3))", False),
        ("self.e = torch.nn.Parameter(torch.tensor(1.0), requires_grad=False)", False),
    ],
)
def test_a_buffer_lasts_unless_it_is_a_beginning(made: str, lasts: bool) -> None:
    method = "def f(self, x): return torch.nan_to_num(x / self.e)"
    text = f"class N(torch.nn.Module):\n  def __init__(self): {made}\n  {method}"
    assert bool(analysed(text).findings) is not lasts


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return jnp.where(jnp.abs(x) < 1 - jnp.finfo(x.dtype).epsneg, jnp.arccos(x), 0.0)",
        "import tensorflow as tf\ndef f(x): return tf.where(x > 1 / x.dtype.max, tf.math.log(x), 0.0)",
    ],
)
def test_the_numbers_of_a_dtype_are_known(text: str) -> None:
    (finding,) = analysed(text).findings
    assert finding.witness is not None
    assert set(finding.witness.inputs) == {"x"}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return torch.log(x)[x > 0]", True),
        ("return torch.log(x) * (x > 0)", True),
        ("return torch.nan_to_num(torch.log(x), neginf=0.0)", True),
        ("y = torch.log(x)\n  y[x <= 0] = 0.0\n  return y", True),
        ("return torch.where(x > 0, torch.log(x), 0.0)", False),
        ("return torch.log(x).masked_fill(x <= 0, 0.0)", False),
        ("return torch.clamp(torch.log(x), min=-10.0)", False),
        # Which elements these drop is plain: the author met them.
        ("return ((x[:, None] - x[None, :]) ** 2).sum(-1).sqrt() * (1.0 - torch.eye(3))", False),
        ("return ((x[:, None] - x[None, :]) ** 2).sum(-1).sqrt().triu(1)", False),
        ("return torch.stack([x, 1 / x])[0]", False),
    ],
)
def test_what_else_drops_elements(body: str, named: bool) -> None:
    found = analysed(f"def f(x):\n  {body}").findings
    assert found
    assert all(("no guard" in finding.evidence) is named for finding in found)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("~jnp.isnan(x)", "missing data"),
        ("jnp.sum(jnp.isfinite(x).astype(x.dtype)) > 2", "missing data"),
        ("jnp.abs(x) < jnp.inf", "missing data"),
        ("x == x", "missing data"),
        # The test replaced what is nan; this selection asks for something else.
        ("jnp.where(jnp.isnan(x), 1.0, x) > 0", "unlikely input"),
    ],
)
def test_data_are_missing_where_the_condition_asks_for_them(condition: str, named: str) -> None:
    text = f"def f(x, w):\n  first = jnp.isnan(x).any()\n  return first, jnp.where({condition}, x * w, 0.0)"
    (finding,) = analysed(text).findings
    assert {"missing data", "unlikely input"} & {*finding.evidence} == {named}


_HELPERS = """
    def inverse(n): return jnp.where(n > 0, 1 / n, 0.0)
    def radius(a, b): return jnp.sqrt(jnp.maximum(jnp.sum((a - b) ** 2), 0.0))
    def {caller}
"""


@pytest.mark.parametrize(
    ("caller", "function", "guarded"),
    [
        ("f(x): return inverse(jnp.maximum(x, 1.0))", "inverse", True),
        ("f(x): return inverse(x)", "inverse", False),
        ("f(x): return inverse(jnp.maximum(x, 1.0)) + inverse(x)", "inverse", False),
        ("f(x): return x", "inverse", False),
        ("f(a, b): return 1 + radius(a, b)", "radius", False),
        ("f(a, b): return 1 + radius(a, a + 1)", "radius", True),
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_what_the_callers_of_a_helper_allow(caller: str, function: str, guarded: bool, private: bool) -> None:
    """Those of a private one are all; of a public one there may be others."""
    text = _HELPERS.format(caller=caller)
    if private:
        text = text.replace(function, f"_{function}")
    (finding,) = (f for f in analysed(text).findings if f.function == f"_{function}"[not private :])
    said = {"shielded by callers", "setting"}.intersection(finding.evidence)
    assert said == ({"shielded by callers" if private else "setting"} if guarded else set())


def test_the_score_adds_up() -> None:
    assert worth([Evidence.DIRECT]) > worth([]) > worth([Evidence.INCIDENTAL])
    assert worth([Evidence.DIRECT, Evidence.DIRECT]) == worth([Evidence.DIRECT])
    assert worth(labelled(["direct", "no such thing"])) == worth([Evidence.DIRECT])


def test_the_level_follows_from_the_score() -> None:
    assert LEVELS == ("error", "warning", "note")
    assert [least(each) for each in LEVELS] == [ERROR, WARNING, 0.0]
    for evidence in [[], *([each] for each in Evidence), [Evidence.DIRECT, Evidence.TEST]]:
        score = worth(evidence)
        assert level(evidence) == ("error" if score >= ERROR else "warning" if score >= WARNING else "note")


@pytest.mark.parametrize("other", Evidence)
def test_what_was_measured_or_said_decides_alone(other: Evidence) -> None:
    assert level([Evidence.NEAR, other]) == ("note" if other is Evidence.NOT_DIFFERENTIATED else "error")
    assert (
        level([Evidence.RAN_WITHOUT, Evidence.DIRECT])
        == level([Evidence.NOT_DIFFERENTIATED, Evidence.DIRECT])
        == "note"
    )
    assert level([Evidence.DIFFERENTIATED, Evidence.DIRECT]) == "error"


def test_why_is_what_speaks_for_it_and_weighs_most_against_it() -> None:
    direct, below, padding = Evidence.DIRECT, Evidence.BELOW_ZERO, Evidence.PADDING
    assert why([]) == ""
    assert why([direct, Evidence.AT_BOUNDARY, Evidence.RETURNED]) == direct.sentence
    assert why([direct, Evidence.AT_BOUNDARY]) == f"{direct.sentence}, but there is little other evidence"
    assert why([direct, below]) == f"{direct.sentence}, but an input must be below zero"
    assert why([direct, padding, below, Evidence.TEST]) == f"{direct.sentence}, but the code is a test"
    assert why([below]) == "an input must be below zero"
    assert why([Evidence.MUCH_GEOMETRY]) == ""  # no word is a reason


def test_the_page_lists_every_piece_of_evidence() -> None:
    rows = re.findall(r"^\| \*(.+)\* \| (\S+) \| (.+) \|$", docs.page("levels"), re.MULTILINE)
    assert rows == [(each.label, f"{each.weight:+g}", each.sentence) for each in Evidence]
    assert len({each.label for each in Evidence}) == len(Evidence) <= 37


COMMENT = "# wherelint: not-differentiated"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"def f(x):  {COMMENT}\n    return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"@decorated  {COMMENT}\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"def f(\n    x,  {COMMENT}\n):\n    return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"class A:  {COMMENT}\n    def f(self, x):\n        return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"{COMMENT}\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"{COMMENT}\n@decorated\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"{COMMENT}\n\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", True),  # of the whole file
        (f"{COMMENT}\ndef g(x):\n    return x\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", False),
        (
            f"class A:\n  {COMMENT}\n  def g(self): ...\n  def f(self, x): return torch.where(x > 0, 1 / x, 0.0)",
            False,
        ),
        (f"class A:\n    {COMMENT}\n    def f(self, x):\n        return torch.where(x > 0, 1 / x, 0.0)", True),
        (f"def f(x):\n    return torch.where(x > 0, 1 / x, 0.0)  {COMMENT}", False),
        (f"def g(x):  {COMMENT}\n    return x\ndef f(x):\n    return torch.where(x > 0, 1 / x, 0.0)", False),
    ],
)
def test_a_comment_says_where_nothing_is_differentiated(text: str, said: bool) -> None:
    (finding,) = analysed(text).findings
    assert ("said not to be differentiated" in finding.evidence) == said
    assert finding.is_shown is not said


def test_what_is_configured_goes_before_everything() -> None:
    settings = Settings(level="note", not_differentiated=("a.py",), differentiated=("test_b.py",))
    text = (_HEADER + "def f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n").encode()
    said = {name: check_source(text, name, settings).findings[0].level for name in ("a.py", "test_b.py", "test_c.py")}
    assert said == {"a.py": "note", "test_b.py": "error", "test_c.py": "note"}


def test_the_level_is_the_least_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "ERROR", 0.95)
    text = _HEADER + "def f(x): return jnp.where(x > 0, 1 / x, 0.0)\ndef g(x, m): return jnp.where(m > 0, 1 / x, 0.0)\n"
    for asked, shown in zip(LEVELS, ([], ["f"], ["f", "g"]), strict=True):
        report = check_source(text.encode(), "a.py", Settings(level=asked))
        assert [finding.function for finding in report.findings] == shown


def test_one_half_of_an_array_may_be_zero() -> None:
    """The root of a ratio of two slices: all elements 0 make the ratio nan, one element leaves the sum above 0."""
    findings = analysed("""
        def f(x):
            ratio = jnp.sum((x[..., 2:] / x[..., :2]) ** 2, axis=-1)
            return jnp.where(ratio > 0, jnp.sqrt(ratio), 0.0)
    """).findings
    assert ("WL101", True) in [(finding.code, finding.is_shown) for finding in findings]


def test_a_function_whose_place_hides_it_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[tuple[str, ...]] = []
    lower = analysis.programs
    monkeypatch.setattr(analysis, "programs", lambda module, name, used: read.append(name) or lower(module, name, used))
    text = _HEADER + "def root(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    shown = DetectOptions(least=WARNING)
    for name, options, expected in [
        ("model.py", shown, [("root",)]),
        ("test_model.py", shown, []),
        ("test_model.py", DetectOptions(), [("root",)]),
        ("test_model.py", DetectOptions(said=("said to be differentiated",), least=0.5), [("root",)]),
    ]:
        read.clear()
        analyse(text, str(tmp_path / name), options)
        assert read == expected, (name, options)
