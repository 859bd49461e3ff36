"""The parent's side of the harness: a child process for a framework, bounded, and replaced when it dies."""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wherelint.confirm.routine import Snippet
from wherelint.isolated import command

#: Variables that a framework needs to find its accelerator and its libraries; no other is passed.
_PASSED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
           "XLA_FLAGS", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "HIP_VISIBLE_DEVICES",
           "ROCR_VISIBLE_DEVICES", "TPU_LIBRARY_PATH", "JAX_PLATFORMS")  # fmt: skip
_BOOT = """
from wherelint.confirm.child import main
main(*sys.argv[1:])
"""
#: A child that is busy does not outlive its parent, however that ends; nor does its folder.
_WATCH = """
import os, shutil, threading, time
def watch(parent=os.getppid(), folder=os.getcwd()):
    while os.getppid() == parent: time.sleep(0.5)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
"""
_POLL = 0.05
MALFORMED = "the framework process returned malformed output"


class HarnessError(Exception):
    """A framework cannot be run at all; the message says what to do."""


class LostError(Exception):
    """One snippet has no result: it crashed, or took more than it may."""


class HangsError(LostError):
    """It took more time than it may."""


@dataclass(frozen=True)
class Limits:
    """What a run may take: seconds to start a framework, and for each snippet; bytes of memory."""

    start: float = 180.0
    snippet: float = 60.0
    memory: int = 8 << 30


def installed(framework: str) -> bool:
    """Whether a framework is there; it is not imported to find out."""
    return importlib.util.find_spec(framework) is not None


class Harness:
    """Runs the snippets of one framework in a child process. A context manager: the child ends with it."""

    def __init__(self, framework: str, device: str = "auto", limits: Limits | None = None, boot: str = _BOOT) -> None:
        self._framework = framework
        self._device = device
        self._limits = limits or Limits()
        self._boot = boot
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        #: As the child names them.
        self.version = self.device = ""

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, snippet: Snippet) -> dict[str, Any]:
        """The results of a snippet's routines by mode. Raises LostError, or HarnessError where nothing can be run."""
        if self._process is None:
            self._start()
        reply = self._exchange(request(snippet), self._limits.snippet)
        if "error" in reply:
            raise LostError(str(reply["error"]))
        return reply

    def _start(self) -> None:
        name = self._framework
        if not installed(name):
            raise HarnessError(f"{name} is not installed here: pip install {name} to confirm its findings")
        if sys.platform == "win32":  # selectors know no pipes there
            raise HarnessError("findings cannot be confirmed on Windows: run it in WSL")
        try:
            self._launch()
            hello = self._exchange(b"", self._limits.start)
            if "fatal" not in hello:
                self.version, self.device = str(hello["version"]), str(hello["device"])
                return
            why = str(hello["fatal"])
        except LostError as error:
            why = f"{name} does not start: {error}"
        except OSError as error:
            why = f"{name} does not start: {error.strerror}"
        except KeyError:
            why = f"{name} does not start: {MALFORMED}"
        self._end()
        raise HarnessError(why)

    def _launch(self) -> None:
        """Start the child, in a folder of its own."""
        self._folder = tempfile.TemporaryDirectory(prefix="wherelint-")
        home = self._folder.name
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= {"HOME": home, "TMPDIR": home, "TF_CPP_MIN_LOG_LEVEL": "3",
                        "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # fmt: skip
        if self._device == "cpu":
            environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
        with open(os.path.join(home, "stderr"), "wb") as stderr:
            self._process = subprocess.Popen(
                command(_WATCH + self._boot, self._framework, self._device), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=stderr, bufsize=0, cwd=home, env=environment, start_new_session=True,
            )  # fmt: skip

    def _exchange(self, message: bytes, seconds: float) -> dict[str, Any]:
        """Send a line and read one of JSON. Raises LostError where none comes, with the reason, and ends the child."""
        try:
            with suppress(ValueError, RecursionError):
                if isinstance(answer := json.loads(self._answer(message, seconds)), dict):
                    return answer
            raise LostError(MALFORMED)
        except LostError:
            self._end()
            raise

    def _answer(self, message: bytes, seconds: float) -> bytes:
        process, until, read = self._process, time.monotonic() + seconds, b""
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not read.endswith(b"\n"):
                if time.monotonic() > until:
                    raise HangsError(f"it took more than {seconds:.0f} s")
                if _resident(process.pid) > self._limits.memory:
                    raise LostError(f"it took more than {self._limits.memory / 2**30:.1f} GiB of memory")
                with suppress(OSError):  # a child that died is seen below
                    message = message[process.stdin.write(message) or 0 :] if message else b""
                if selector.select(0.001 if message else _POLL):
                    piece = os.read(process.stdout.fileno(), 1 << 20)
                    if not piece:
                        raise LostError(self._last_words())
                    read += piece
        return read

    def _last_words(self) -> str:
        """Why the process is gone."""
        assert self._process is not None
        assert self._folder is not None
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "the process closed its output"
        if status < 0:
            return f"the process died of {signal.Signals(-status).name}"
        with suppress(OSError):
            lines = Path(self._folder.name, "stderr").read_bytes().decode(errors="replace").strip().splitlines()
            return f"the process ended with {status}{f': {lines[-1][:200]}' if lines else ''}"
        return f"the process ended with {status}"

    def _end(self) -> None:
        """Kill the child with all that it started, and remove its folder."""
        if self._process is not None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(OSError), self._process:  # closes its pipes, and waits
                pass
        with suppress(OSError):
            if self._folder is not None:
                self._folder.cleanup()
        self._process = self._folder = None


def request(snippet: Snippet) -> bytes:
    """A snippet as the child reads it, on one line: operations, numbers and probes, without a name of the author's."""
    routines = {"before": snippet.before, **({"after": snippet.after} if snippet.after is not None else {})}
    sent = {
        name: {
            "steps": [[step.op, step.inputs, step.kind, step.data] for step in routine.steps],
            "probes": routine.probes,
        }
        for name, routine in routines.items()
    }
    return json.dumps(sent).encode() + b"\n"


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
