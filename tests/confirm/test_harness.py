"""The child process: what becomes of a snippet when it crashes, hangs, fills the memory or talks nonsense."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import UNSAFE, environment, write
from real_gradients import require

from wherelint import confirm as confirming
from wherelint.cli import main
from wherelint.confirm import harness as harnesses
from wherelint.confirm.harness import HangsError, Harness, HarnessError, Limits, LostError, request
from wherelint.confirm.routine import PROBES, Routine, Snippet, Step
from wherelint.finding import Confirmation, Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: What a stand-in for the child begins with: it says hello.
HELLO = """\
import json, os, signal, sys, time
def say(**message): print(json.dumps(message), flush=True)
def answer(): say(before={"eager": {"value": [[0.0]] * 64, "gradients": [[[float("nan")]] * 64]}})
say(version="1", device="cpu")
"""
#: What it does with every request then: the first is a trial, the others are answered.
EACH = "for n, line in enumerate(sys.stdin):\n    "
#: Limits that a test can wait for.
SHORT = Limits(start=20.0, snippet=1.0, memory=300 << 20)
#: A run that is not stopped is stopped by the test, and fails it.
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The stand-ins need no framework."""
    if "real" not in request.fixturenames:
        monkeypatch.setattr(harnesses, "installed", lambda framework: True)


@pytest.fixture
def real() -> None:
    """What runs the real child."""
    require("jax")


def program(parameters: int = 1) -> Snippet:
    """A snippet of the sum of some parameters."""
    leaves = [Step("leaf", (), "float", True, f"x{i}") for i in range(parameters)]
    sums = [Step("add", (i and parameters + i - 1, i + 1)) for i in range(parameters - 1)]
    routine = Routine((*leaves, *sums), (((0.0,) * 4,) * PROBES,) * parameters)
    return Snippet("jax", "f", routine, None, (True,) * PROBES, ())


def pid_of(harness: Harness) -> int:
    """The child of a harness that has one."""
    assert harness._process is not None
    return harness._process.pid


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process ends in time (a zombie has ended; its new parent may not care)."""
    until = time.monotonic() + seconds
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.02)


@contextmanager
def unhurried(harness: Harness) -> Iterator[None]:
    """Kill a child that the harness waits for too long, and fail."""

    def kill() -> None:
        late.append(True)
        if harness._process is not None:
            os.kill(harness._process.pid, signal.SIGKILL)

    late: list[bool] = []
    timer = threading.Timer(PATIENCE, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
    assert not late, "the harness waited for ever"


def lost(harness: Harness, snippet: Snippet | None = None) -> str:
    """Why a run came to nothing."""
    with unhurried(harness), pytest.raises(LostError) as caught:
        harness.run(snippet or program())
    return str(caught.value)


# -- one bad run ------------------------------------------------------------------------------------------------------

BAD = {
    "abort": ("os.abort()", "the process died of SIGABRT"),
    "exit": ("os._exit(3)", "the process ended with 3"),
    "segfault": ("os.kill(os.getpid(), signal.SIGSEGV)", "the process died of SIGSEGV"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "the process died of SIGKILL"),
    "exception": ("raise ValueError('a bad day')", "the process ended with 1: ValueError: a bad day"),
    "binary-words": (r"os.write(2, b'\xff\xfe\n'); os._exit(9)", "the process ended with 9: \ufffd\ufffd"),
    "long-words": ("sys.exit('x' * 100000)", f"the process ended with 1: {'x' * 200}"),
    "quiet-end": ("sys.exit(0)", "the process ended with 0"),
    "half-a-line": ("sys.stdout.write('{\"before\": {'); sys.stdout.flush(); os._exit(4)", "the process ended with 4"),
    "hang": ("time.sleep(60)", "it took more than 1 s"),
    "hang-deaf": (
        "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 13, 15)]; time.sleep(60)",
        "it took more than 1 s",
    ),
    "hang-half-a-line": ("sys.stdout.write('{'); sys.stdout.flush(); time.sleep(60)", "it took more than 1 s"),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", "it took more than 1 s"),
    "no-end-of-line": ("\n        while True: os.write(1, b' ' * 4096); time.sleep(0.01)", "it took more than 1 s"),
    "memory": ("held = b'x' * (600 << 20); time.sleep(60)", "it took more than 0.3 GiB of memory"),
}


def trial(tmp_path: Path, bad: str) -> str:
    """A stand-in that does something bad at the first request that any child of it gets."""
    path = str(tmp_path / "tried")
    first = f"if not os.path.exists({path!r}):\n        open({path!r}, 'w').close(); "
    return f"{HELLO}{EACH}{first}{bad}\n    answer()\n"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_run_costs_itself_only(tmp_path: Path, name: str) -> None:
    bad, message = BAD[name]
    if name == "memory" and sys.platform != "linux":
        pytest.skip("reads /proc")
    # Where the machine is busy, 600 MB take more than a second.
    limits = replace(SHORT, snippet=30.0) if name == "memory" else SHORT
    with Harness("jax", limits=limits, boot=trial(tmp_path, bad)) as harness:
        assert lost(harness) == message
        assert harness.run(program())["before"]["eager"]["value"][0] == [0.0]
        first = pid_of(harness)
        assert harness.run(program())["before"]
        assert pid_of(harness) == first  # the child is kept while it is well
    assert gone(first)


@pytest.mark.parametrize(
    "answer",
    ["junk", "[1]", "3", "null", '"error"', "", "[" * 100_000, '{"before": NaN,}', "\udcff"],
    ids=["junk", "list", "number", "null", "string", "empty", "deep", "broken", "not-utf-8"],
)
def test_an_answer_that_is_none_costs_its_run_only(tmp_path: Path, answer: str) -> None:
    said = answer.encode(errors="surrogateescape") + b"\n"
    with Harness("jax", limits=SHORT, boot=trial(tmp_path, f"os.write(1, {said!r}); continue")) as harness:
        assert lost(harness) == "the framework process returned malformed output"
        assert harness.run(program())["before"]


@pytest.mark.parametrize(
    ("value", "infinite", "expected"),
    [(0.0, False, "confirmed"), (-np.inf, True, "confirmed"), (-np.inf, False, "not-reproduced"),
     (np.nan, True, "not-reproduced")],
)  # fmt: skip
def test_the_infinity_that_the_author_wrote_is_a_value(value: float, infinite: bool, expected: str) -> None:
    answer = {"value": [[value], *[[np.nan]] * (PROBES - 1)], "gradients": [[[np.nan]] * PROBES]}
    snippet = replace(program(), infinite=infinite)
    assert confirming.verdict(snippet, {"before": {"eager": answer}}, "1", "cpu").verdict == expected


def test_a_child_that_hangs_up_without_ending(tmp_path: Path) -> None:
    with Harness("jax", limits=SHORT, boot=trial(tmp_path, "os.close(1); time.sleep(60)")) as harness:
        assert lost(harness)
        assert harness.run(program())["before"]


def test_a_child_that_does_not_read(tmp_path: Path) -> None:
    big = program(100)
    assert len(request(big)) > 1 << 17  # more than a pipe holds
    deaf = HELLO + f"if not os.path.exists('{tmp_path}/x'): open('{tmp_path}/x', 'w'); time.sleep(60)\n{EACH}answer()\n"
    with Harness("jax", limits=SHORT, boot=deaf) as harness:
        assert lost(harness, big) == "it took more than 1 s"
        assert harness.run(big)["before"]


@pytest.mark.parametrize("nth", [1, 3])
def test_only_the_nth_request_is_bad(nth: int) -> None:
    boot = f"{HELLO}{EACH}os._exit(7) if n == {nth} else answer()\n"
    with Harness("jax", limits=SHORT, boot=boot) as harness:
        for n in range(2 * nth + 2):
            if n % (nth + 1) == nth:
                assert lost(harness) == "the process ended with 7"
            else:
                assert harness.run(program())["before"]


def test_an_error_is_no_reason_for_another_child() -> None:
    boot = f"{HELLO}{EACH}say(error='jax raises TypeError: no') if n == 0 else answer()\n"
    with Harness("jax", limits=SHORT, boot=boot) as harness:
        assert lost(harness) == "jax raises TypeError: no"
        first = pid_of(harness)
        assert harness.run(program())["before"]
        assert pid_of(harness) == first


def test_what_is_printed_is_no_answer(real: None) -> None:
    """The real child hands its standard output to standard error, that of C libraries included."""
    noise = "import os; from wherelint.frameworks import FRAMEWORKS; jax = FRAMEWORKS['jax']; made = jax.backend; "
    noise += "noisy = lambda device: (print('junk'), os.write(1, b'junk\\n'), made(device))[2]; "
    noise += "object.__setattr__(jax, 'backend', noisy); "
    boot = harnesses._BOOT.replace("from wherelint", noise + "from wherelint")
    with Harness("jax", "cpu", boot=boot) as harness:
        found = harness.run(program(2))
        assert harness.device == "cpu"
    assert found["before"]["jit"]["value"] == [[0.0] * 4] * PROBES
    assert found["before"]["jit"]["gradients"] == [[[1.0] * 4] * PROBES] * 2


# -- the beginning ----------------------------------------------------------------------------------------------------

STARTS = {
    "missing": ("import no_such_framework", "the process ended with 1: ModuleNotFoundError: No module named"),
    "crash": ("import os; os.abort()", "the process died of SIGABRT"),
    "hang": ("import time; time.sleep(60)", "it took more than 1 s"),
    "memory": ("import time; held = b'x' * (600 << 20); time.sleep(60)", "it took more than 0.3 GiB of memory"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_framework_that_does_not_start(name: str) -> None:
    if name == "memory" and sys.platform != "linux":
        pytest.skip("reads /proc")
    boot, message = STARTS[name]
    limits = Limits(start=1.0 if name == "hang" else 20.0, memory=300 << 20)
    with Harness("jax", limits=limits, boot=boot) as harness, unhurried(harness):
        with pytest.raises(HarnessError) as caught:
            harness.run(program())
        assert harness._process is None
    assert str(caught.value).startswith(f"jax does not start: {message}")


@pytest.mark.parametrize("said", ["junk", "{}", "[]", '{"version": 1}', "7"])
def test_a_greeting_that_is_none(said: str) -> None:
    """A module of the environment that prints while Python starts, say."""
    boot = f"import time; print({said!r}, flush=True); time.sleep(60)"
    with Harness("jax", limits=SHORT, boot=boot) as harness, unhurried(harness):
        with pytest.raises(HarnessError, match="jax does not start"):
            harness.run(program())
        assert harness._process is None


def test_a_device_that_is_not_there_ends_the_child() -> None:
    with Harness("jax", "tpu", SHORT, "import json; print(json.dumps({'fatal': 'no TPU'}), flush=True)") as harness:
        with pytest.raises(HarnessError, match="no TPU"):
            harness.run(program())
        assert harness._process is None


def test_what_is_not_installed_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harnesses, "installed", lambda framework: False)
    with Harness("torch", boot="raise AssertionError") as harness:
        with pytest.raises(HarnessError) as caught:
            harness.run(program())
        assert harness._process is None
    assert str(caught.value) == ("torch is not installed here: pip install torch to confirm its findings")


# -- the end ----------------------------------------------------------------------------------------------------------


@LINUX
def test_nothing_is_left_behind() -> None:
    """Neither the child nor what it started, nor the folder that it ran in."""
    boot = f"""{HELLO}
import subprocess
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
for line in sys.stdin: say(other=other.pid, room=os.getcwd(), files=os.listdir())
"""
    with Harness("jax", limits=SHORT, boot=boot) as harness:
        found = harness.run(program())
        child = pid_of(harness)
        assert Path(found["room"]).is_dir()
        assert not gone(found["other"], 0.1)
    assert gone(child)
    assert gone(found["other"])
    assert not Path(found["room"]).exists()
    assert found["files"] == ["stderr"]


@LINUX
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_parent_ends_the_child(error: type[BaseException]) -> None:
    children: list[int] = []

    def run() -> None:
        with Harness("jax", limits=SHORT, boot=f"{HELLO}{EACH}answer()\n") as harness:
            harness.run(program())
            children.append(pid_of(harness))
            raise error

    with pytest.raises(error):
        run()
    assert gone(children[0])


@LINUX
def test_an_interruption_in_mid_run_ends_the_child() -> None:
    children: list[int] = []

    def interrupt() -> None:
        children.append(pid_of(harness))
        os.kill(os.getpid(), signal.SIGINT)

    def run() -> None:
        with harness:
            timer.start()
            harness.run(program())

    timer = threading.Timer(0.7, interrupt)
    harness = Harness("jax", limits=Limits(start=20.0, snippet=20.0), boot=f"{HELLO}{EACH}time.sleep(60)\n")
    with pytest.raises(KeyboardInterrupt):
        run()
    timer.join()
    assert gone(children[0])


HERE = str(Path(__file__).parent)


def with_tests() -> dict[str, str]:
    """For a process that imports this module."""
    made = environment()
    return made | {"PYTHONPATH": os.pathsep.join([made["PYTHONPATH"], str(Path(__file__).parent.parent)])}


PARENT = """\
import sys
from wherelint.confirm import harness as harnesses
harnesses.installed = lambda framework: True
sys.path.insert(0, {here!r})
from test_harness import EACH, HELLO, pid_of, program
with harnesses.Harness("jax", boot=HELLO + EACH + "time.sleep(60)\\n") as harness:
    harness._start()
    print(pid_of(harness), flush=True)
    harness.run(program())
"""


@LINUX
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGKILL,
    ],
    ids=lambda number: number.name,
)
def test_a_busy_child_does_not_outlive_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(here=HERE)],
        env=with_tests() | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
    try:
        time.sleep(0.3)
        parent.send_signal(number)
        assert parent.wait(20) != 0
        assert gone(child, 3.0)
        assert os.listdir(tmp_path) == []  # the folder that it was given
    finally:
        if not gone(child, 0.0):
            os.kill(child, signal.SIGKILL)


# -- what the child is given ------------------------------------------------------------------------------------------

LOOK = f"""{HELLO}
{EACH}say(environment=dict(os.environ), flags=sys.flags.isolated, path=sys.path, cwd=os.getcwd(), argv=sys.argv,
          files={{fd: os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd")
                 if os.path.exists(f"/proc/self/fd/{{fd}}")}}, session=os.getsid(0) == os.getpid())
"""


@LINUX
def test_the_child_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"secret.txt": "", "jax.py": "raise SystemExit('pwned')\n"})
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_PRELOAD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN",
                 "JAX_ENABLE_X64", "JAX_DEBUG_NANS", "TF_XLA_FLAGS", "https_proxy", "HOME", "TMPDIR"):  # fmt: skip
        if name not in ("PYTHONHOME", "LD_PRELOAD", "TMPDIR"):
            monkeypatch.setenv(name, str(tmp_path))
    handle = os.open(tmp_path / "secret.txt", os.O_RDWR)
    try:
        os.set_inheritable(handle, True)
        with Harness("jax", limits=SHORT, boot=LOOK) as harness:
            found = harness.run(program())
    finally:
        os.close(handle)
    passed = {*harnesses._PASSED, "HOME", "TMPDIR", "TF_CPP_MIN_LOG_LEVEL", "XLA_PYTHON_CLIENT_PREALLOCATE",
              "TF_FORCE_GPU_ALLOW_GROWTH", "LC_CTYPE"}  # fmt: skip
    assert set(found["environment"]) <= passed
    assert str(tmp_path) not in json.dumps({**found, "environment": {**found["environment"], "PATH": ""}})
    assert found["environment"]["HOME"] == found["cwd"]
    assert found["flags"] == 1
    assert found["session"] is True
    assert "" not in found["path"]
    # The three streams, and what lists them.
    assert [fd for fd in found["files"] if int(fd) > 2 and "/proc/" not in found["files"][fd]] == []
    assert found["files"]["2"].startswith(found["cwd"])


# -- findings ---------------------------------------------------------------------------------------------------------


def found_in(text: str, filename: str = "a.py") -> tuple[Finding, ...]:
    """The findings of a text with their snippets."""
    return check_source(text.encode(), filename, Settings(), "offer").findings


def findings(count: int = 3) -> list[Finding]:
    """Findings of one file, each of another function."""
    functions = (f"def f{i}(x):\n    return jnp.where(x > {i}, jnp.sqrt(x - {i}), 0.0)\n" for i in range(count))
    made = found_in("import jax.numpy as jnp\n" + "".join(functions))
    assert len(made) == count
    return list(made)


def test_a_comment_is_nothing_that_runs() -> None:
    made = found_in("import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.abs(x)  # noqa: WL101\n")
    assert [finding.code for finding in made] == ["WL001"]
    assert confirming.confirm(made) == (list(made), [])


def outcomes(made: Sequence[Finding]) -> list[Confirmation]:
    """The confirmations of findings that have one."""
    found = [finding.confirmation for finding in made if finding.confirmation is not None]
    assert len(found) == len(made)
    return found


class Struck(Harness):
    """A real harness whose child is killed in the middle of the second run."""

    runs = 0

    def run(self, snippet: Snippet) -> dict[str, Any]:
        Struck.runs += 1
        if Struck.runs != 2:
            return super().run(snippet)
        child = pid_of(self)
        os.kill(child, signal.SIGSTOP)  # so that it has not answered before it is killed
        timer = threading.Timer(0.3, os.kill, (child, signal.SIGKILL))
        timer.start()
        try:
            return super().run(snippet)
        finally:
            timer.join()


def test_killing_the_real_child_loses_no_finding(real: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "Harness", Struck)
    monkeypatch.setattr(Struck, "runs", 0)
    made, problems = confirming.confirm(findings(3), "cpu")
    assert problems == []
    assert [outcome.verdict for outcome in outcomes(made)] == ["confirmed", "not-runnable", "confirmed"]
    assert outcomes(made)[1].reason == "the process died of SIGKILL"
    assert (outcomes(made)[1].device, outcomes(made)[1].framework_version) == (
        outcomes(made)[0].device,
        outcomes(made)[0].framework_version,
    )


class Hanging(Harness):
    """A real harness whose child hangs at every input but the witness."""

    def run(self, snippet: Snippet) -> dict[str, Any]:
        if all(probe == probes[0] for probes in snippet.before.probes for probe in probes):
            return super().run(snippet)
        self._end()
        raise HangsError("it took more than 60 s")


def test_an_input_that_hangs_does_not_keep_the_witness(real: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "Harness", Hanging)
    made, problems = confirming.confirm(findings(1), "cpu")
    assert problems == []
    (outcome,) = outcomes(made)
    assert (outcome.verdict, outcome.after_fix, outcome.at) == ("confirmed", None, made[0].witness.inputs)  # type: ignore[union-attr]
    assert outcome.against_fix  # at other inputs nobody knows


def confirmed_by(boot: str, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> tuple[list[Confirmation], list[str]]:
    """What becomes of some findings with a stand-in for the child."""
    monkeypatch.setattr(confirming, "Harness", functools.partial(Harness, boot=boot))
    made, problems = confirming.confirm(findings(count), limits=SHORT)
    return outcomes(made), problems


def test_every_snippet_may_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    made, problems = confirmed_by(f"{HELLO}{EACH}os.abort()\n", monkeypatch)
    assert problems == []
    assert {(c.verdict, c.reason) for c in made} == {("not-runnable", "the process died of SIGABRT")}


def test_a_framework_that_does_not_start_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = f"open({str(tmp_path / 'starts')!r}, 'a').write('.'); raise ImportError('libcuda')"
    made, problems = confirmed_by(boot, monkeypatch)
    assert problems == ["jax does not start: the process ended with 1: ImportError: libcuda"]
    assert {(c.verdict, c.reason) for c in made} == {("not-runnable", problems[0])}
    assert (tmp_path / "starts").read_text() == "."


NUMBERS = [[0.0]] * PROBES
ANSWERS: dict[str, object] = {
    "empty": {},
    "no-modes": {"before": {}},
    "words": {"before": {"eager": {"value": "zero", "gradients": "nan"}}},
    "ragged": {"before": {"eager": {"value": [[0.0], [0.0, 1.0]], "gradients": [NUMBERS]}}},
    "short": {"before": {"eager": {"value": [[0.0]], "gradients": [[[0.0]]]}}},
    "one-gradient-too-many": {"before": {"eager": {"value": NUMBERS, "gradients": [NUMBERS, NUMBERS]}}},
    "other-numbers": {"before": {"eager": {"value": [[0.0]] * 3, "gradients": [[[0.0]] * 5]}}},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_another_shape_loses_no_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = f"{HELLO}{EACH}print({json.dumps(ANSWERS[name])!r}, flush=True)\n"
    made, problems = confirmed_by(boot, monkeypatch)
    assert problems == []
    assert {c.verdict for c in made} == {"not-runnable"}


@pytest.mark.parametrize(
    ("value", "reason"), [(0.0, "the gradient is finite there"), (float("inf"), "the value itself is not finite there")]
)
def test_a_finding_that_the_framework_does_not_share(
    value: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"before": {"eager": {"value": [[value]] * PROBES, "gradients": [NUMBERS]}}}
    made, problems = confirmed_by(f"{HELLO}{EACH}print({json.dumps(answer)!r}, flush=True)\n", monkeypatch)
    assert problems == []
    assert {(c.verdict, c.reason, c.device) for c in made} == {("not-reproduced", reason, "cpu")}
    assert all(outcome.modes["eager"].gradient == {"x": 0.0} for outcome in made)


def failing(*_: object, **__: object) -> object:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("what", [(harnesses.tempfile, "TemporaryDirectory"), (harnesses.subprocess, "Popen")], ids=str)
def test_a_machine_without_room_loses_no_finding(what: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*what, failing)
    made, problems = confirming.confirm(findings(3))
    assert len(problems) == 1
    assert "No space left on device" in problems[0]
    assert {c.verdict for c in outcomes(made)} == {"not-runnable"}


def test_one_framework_does_not_keep_another(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\ndef g(x):\n    return torch.where(x > 0, torch.sqrt(x), 0.0)\n"
    boot = f"{HELLO}{EACH}say(error='no') if sys.argv[1] == 'torch' else os._exit(1)\n"
    boot = "if sys.argv[1] == 'jax': raise SystemExit('no jax')\n" + boot
    monkeypatch.setattr(confirming, "Harness", functools.partial(Harness, boot=boot))
    made, problems = confirming.confirm([*findings(2), *found_in(text), *findings(1)], limits=SHORT)
    assert problems == ["jax does not start: the process ended with 1: no jax"]
    assert [c.reason for c in outcomes(made)] == [problems[0], problems[0], "no", problems[0]]


# -- the command ------------------------------------------------------------------------------------------------------

Wherelint = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def wherelint(project: Path, capsys: pytest.CaptureFixture[str]) -> Wherelint:
    """``status, output, lines of standard error = wherelint("check", "a.py")`` in a project with two findings."""
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE})

    def run(*arguments: str) -> tuple[int, str, list[str]]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err.splitlines()

    return run


@pytest.mark.parametrize("option", ["--confirm", "--only-confirmed"])
def test_a_framework_that_is_not_there_is_one_line(
    wherelint: Wherelint, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harnesses, "installed", lambda framework: False)
    status, output, errors = wherelint("check", option, "--output-format", "concise")
    only = option == "--only-confirmed"
    assert errors == [
        f"{'error' if only else 'warning'}: jax is not installed here: pip install jax to confirm its findings"
    ]
    assert status == (2 if only else 1)
    assert output.count("WL101") == (0 if only else 2)
    assert ("2 unconfirmed findings are hidden." if only else "2 not run.") in output.splitlines()


def test_a_device_that_is_not_there_is_one_line(wherelint: Wherelint, real: None) -> None:
    status, output, errors = wherelint("check", "--confirm", "--device", "tpu", "--output-format", "concise")
    assert status == 2
    (line,) = errors
    assert line.startswith("error: jax 0.")
    assert "sees no TPU" in line
    assert "'jax[tpu]'" in line
    assert line.endswith("or use --device auto")
    assert output.count("(not run)") == 2


@pytest.mark.parametrize(
    "platform",
    [
        "no_such_platform",
        pytest.param("cuda"),
    ],
)
def test_a_platform_that_does_not_start_is_one_line(
    wherelint: Wherelint, real: None, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    if platform == "cuda" and any(find_spec(f"jax_cuda{version}_plugin") for version in (12, 13)):
        pytest.skip("there may be one")
    monkeypatch.setenv("JAX_PLATFORMS", platform)
    status, output, errors = wherelint("check", "--confirm", "--output-format", "concise")
    assert status == 1
    (line,) = errors
    assert "AUTO" not in line
    assert "finds no device" in line
    assert output.count("(not run)") == 2


@LINUX
def test_an_interrupted_confirmation_prints_one_line(project: Path, real: None) -> None:
    write(project, {"a.py": UNSAFE})
    process = subprocess.Popen(
        [sys.executable, "-m", "wherelint", "check", "--confirm", "a.py"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.02)
    time.sleep(0.2)  # the framework is being started
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (130, "", "wherelint: interrupted\n")
    assert gone(int(found[0]))
