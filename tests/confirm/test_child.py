"""The child's side of the harness by itself: one reply for every request, in a process that has no watch over it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from conftest import environment
from real_gradients import require

from wherelint.confirm.harness import Harness, request
from wherelint.confirm.routine import Snippet
from wherelint.frameworks import FRAMEWORKS
from wherelint.frameworks.base import DeviceError
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: One program for each framework: a reduction, a mask that is a parameter, an element, numbers, a dtype of its own.
PROGRAMS: dict[str, str] = {
    "jax": "import jax.numpy as np\ndef f(x, keep):\n"
           "    y = x.at[0].add(1.0) * 2.0 + x[1]\n"
           "    return np.where(keep & (x > 0), np.sqrt(x), y.sum())\n",
    "torch": "import torch as np\ndef f(x, keep):\n"
             "    y = np.clamp(x, 0.5, 2.0) + np.logical_and(keep, x > 1).float() + x[1]\n"
             "    return np.where(x > 0, np.sqrt(x), np.std(y))\n",
    "tensorflow": "import tensorflow as np\ndef f(x, keep):\n"
                  "    y = np.clip_by_value(x, 0.5, 2.0) + np.cast(x > 1, np.float32) + x[1]\n"
                  "    return np.where(np.logical_and(keep, x > 0), np.sqrt(x), np.reduce_sum(y))\n",
}  # fmt: skip
_CHILD = "import sys; from wherelint.confirm.child import main; main(*sys.argv[1:])"


def snippet(framework: str) -> Snippet:
    (finding,) = check_source(PROGRAMS[framework].encode(), "f.py", Settings(), "offer").findings
    assert isinstance(finding.snippet, Snippet)
    return finding.snippet


def ask(framework: str, device: str, *requests: bytes) -> list[dict[str, Any]]:
    """What a child says to some requests, its greeting first."""
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, framework, device], input=b"".join(requests), env=environment(),
        capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()]


def wrong(**changed: Any) -> bytes:
    """A request that cannot be answered."""
    steps = [["leaf", [], "float", True], *changed.pop("steps")]
    return json.dumps({"before": {"steps": steps, "probes": [[[1.0, 2.0]]], **changed}}).encode() + b"\n"


@pytest.mark.rotated(3)
@pytest.mark.parametrize("framework", PROGRAMS)
def test_every_request_has_its_reply(framework: str) -> None:
    require(framework)
    asked = request(snippet(framework))
    unknown = wrong(steps=[["no operation", [0], "float", None]])
    bad = wrong(steps=[["dot", [0, 0], "float", None]], probes=[[[[1.0, 2.0]], 3.0]])
    number = wrong(steps=[["leaf", [], "float", False], ["power_static", [0, 1], "float", None]], probes=[[[1.0]]] * 2)
    hello, *replies = ask(framework, "cpu", asked, unknown, bad, number, asked)
    assert hello["device"] == "cpu"
    assert hello["version"][0].isdigit()
    assert replies[1] == {"error": f"{framework} has no function for no operation"}
    assert replies[2]["error"].startswith(f"{framework} raises ValueError: ")
    assert replies[3] == {"error": f"{framework} takes a number for operand 2 of power_static"}
    with Harness(framework, "cpu") as harness:
        same = harness.run(snippet(framework))
        assert (harness.version, harness.device) == (hello["version"], "cpu")
    assert json.dumps(replies[0]) == json.dumps(replies[4]) == json.dumps(same)  # nan is spelled as itself
    modes = replies[0]["before"]
    assert all("NaN" not in json.dumps(mode["value"][0]) for mode in modes.values())
    poisoned = {name for name, mode in modes.items() if "NaN" in json.dumps([g[0] for g in mode["gradients"]])}
    assert poisoned == modes.keys() - ({"eager"} if framework == "tensorflow" else set())  # it is XLA that says nan


@pytest.mark.parametrize("framework", PROGRAMS)
def test_a_device_that_is_not_there(framework: str) -> None:
    require(framework)
    backend = FRAMEWORKS[framework].backend
    assert backend is not None
    with pytest.raises(DeviceError, match=rf"^{framework} .* sees no TPU: .*or use --device auto$"):
        backend("tpu")


def test_the_child_says_that_a_device_is_not_there() -> None:
    require("jax")
    (only,) = ask("jax", "tpu")
    assert only.keys() == {"fatal"}
    assert only["fatal"].startswith("jax ")
    assert " sees no TPU: " in only["fatal"]
