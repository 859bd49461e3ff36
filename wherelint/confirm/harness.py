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
#: A child that is busy does not outlive its parent, however that ends; nor does the folder that it was given.
_WATCH = """
import os, shutil, threading, time
def watch(parent=os.getppid(), room=os.getcwd()):
    while os.getppid() == parent: time.sleep(0.5)
    shutil.rmtree(room, ignore_errors=True)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
"""
_POLL = 0.05
MALFORMED = "the framework process returned malformed output"


class HarnessError(Exception):
    """A framework cannot be run at all; the message says what to do."""


class LostError(Exception):
    """One snippet has no result: it crashed, or took more than it may."""


@dataclass(frozen=True)
class Limits:
    """What a run may take: seconds to start a framework, for each snippet and for all; bytes of memory."""

    start: float = 180.0
    snippet: float = 60.0
    run: float = 1800.0
    memory: int = 8 << 30


def installed(framework: str) -> bool:
    """Whether a framework is there; it is not imported to find out."""
    return importlib.util.find_spec(framework) is not None


class Harness:
    """Runs the snippets of one framework. A context manager: the child ends with it."""

    def __init__(
        self, framework: str, device: str = "auto", limits: Limits | None = None, boot: str = _BOOT, spent: float = 0.0
    ) -> None:
        self._framework = framework
        self._device = device
        self._limits = limits or Limits()
        self._boot = boot
        self._child: _Child | None = None
        #: Seconds that were spent so far, by other frameworks too.
        self.spent = spent
        #: As the child names them.
        self.version = self.device = ""

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, snippet: Snippet) -> dict[str, Any]:
        """The results of a snippet's routines by mode. Raises LostError, or HarnessError where nothing can be run."""
        if self.spent > self._limits.run:
            raise LostError(f"the run took more than {self._limits.run:.0f} s")
        begun = time.monotonic()
        try:
            if self._child is not None and not self._child.quiet():
                self._end()  # it died meanwhile, or writes unasked: that is no fault of this snippet
            if self._child is None:
                self._start()
            reply = self._exchange(request(snippet), self._limits.snippet)
        finally:
            self.spent += time.monotonic() - begun
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
            self._child = _Child(command(_WATCH + self._boot, name, self._device), self._device)
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

    def _exchange(self, message: bytes, seconds: float) -> dict[str, Any]:
        assert self._child is not None
        try:
            return self._child.exchange(message, seconds, self._limits.memory)
        except LostError:
            self._end()
            raise

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """A process in a folder of its own, which answers a line with a line of JSON."""

    def __init__(self, arguments: list[str], device: str) -> None:
        self._room = tempfile.TemporaryDirectory(prefix="wherelint-")
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= {"HOME": self._room.name, "TMPDIR": self._room.name, "TF_CPP_MIN_LOG_LEVEL": "3",
                        "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # fmt: skip
        if device == "cpu":
            environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
        try:
            with open(os.path.join(self._room.name, "stderr"), "wb") as stderr:
                self._process = subprocess.Popen(
                    arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0,
                    cwd=self._room.name, env=environment, close_fds=True, start_new_session=True,
                )  # fmt: skip
        except OSError:
            self._room.cleanup()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._unread = b""

    def quiet(self) -> bool:
        """Whether it lives and waits for a request, and wrote nothing unasked."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            return not self._unread and not selector.select(0)

    def exchange(self, message: bytes, seconds: float, memory: int) -> dict[str, Any]:
        """Send some bytes and read one line. Raises LostError where none comes, with the reason."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if message:
                selector.register(self._input, selectors.EVENT_WRITE)
            while b"\n" not in self._unread:
                if time.monotonic() > until:
                    raise LostError(f"it took more than {seconds:.0f} s")
                if _resident(self.pid) > memory:
                    raise LostError(f"it took more than {memory / 2**30:.1f} GiB of memory")
                for key, _ in selector.select(_POLL):
                    if key.fd == self._input:
                        try:
                            message = message[os.write(self._input, message) :]
                        except BlockingIOError:
                            continue
                        except OSError:  # it died meanwhile; its last answer is read all the same
                            message = b""
                        if not message:
                            selector.unregister(self._input)
                    elif read := os.read(self._output, 1 << 20):
                        self._unread += read
                    else:
                        raise LostError(self._last_words())
        line, _, self._unread = self._unread.partition(b"\n")
        with suppress(ValueError, RecursionError):
            if isinstance(answer := json.loads(line), dict):
                return answer
        raise LostError(MALFORMED)

    def _last_words(self) -> str:
        """Why the process is gone."""
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "the process hung up"
        if status < 0:
            numbers = {number.value: number.name for number in signal.Signals}
            return f"the process died of {numbers.get(-status, f'signal {-status}')}"
        lines: list[str] = []
        with suppress(OSError):
            lines = Path(self._room.name, "stderr").read_bytes().decode(errors="replace").strip().splitlines()
        return f"the process ended with {status}{f': {lines[-1][:200]}' if lines else ''}"

    def end(self) -> None:
        """Kill it with all that it started, and remove its folder."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            self._process.kill()
        with suppress(OSError), self._process:  # closes its pipes, and waits
            pass
        with suppress(OSError):
            self._room.cleanup()


def request(snippet: Snippet) -> bytes:
    """A snippet as the child reads it, on one line: operations, numbers and probes, without a name of the author's."""
    routines = {"before": snippet.before, **({"after": snippet.after} if snippet.after is not None else {})}
    sent = {
        name: {
            "steps": [[step.op, step.inputs, step.kind, step.data] for step in routine.steps],
            "probes": [probes.tolist() for probes in routine.probes],
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
