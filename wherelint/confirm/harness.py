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


class HarnessError(Exception):
    """A framework cannot be run at all; the message says what to do."""


class LostError(Exception):
    """What became of one snippet: it crashed, or took more than it may."""


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
        self._child: subprocess.Popen[bytes] | None = None
        self._room: tempfile.TemporaryDirectory[str] | None = None
        self._buffer = b""
        #: Seconds that were spent so far, by other frameworks too.
        self.spent = spent
        #: What the child said of itself.
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
            if self._child is not None and not self._quiet():
                self._end()  # it died meanwhile, or talks unasked: that is no fault of this snippet
            if self._child is None:
                self._start()
            reply = self._exchange(request(snippet), self._limits.snippet)
        finally:
            self.spent += time.monotonic() - begun
        if "error" in reply:
            raise LostError(str(reply["error"]))
        return reply

    def _start(self) -> None:
        if not installed(self._framework):
            name = self._framework
            raise HarnessError(f"{name} is not installed here: pip install {name} to confirm its findings")
        if sys.platform == "win32":  # selectors know no pipes there
            raise HarnessError("findings cannot be confirmed on Windows: run it in WSL")
        try:
            self._open()
            hello = self._exchange(b"", self._limits.start)
            if "fatal" not in hello:
                self.version, self.device = str(hello["version"]), str(hello["device"])
                return
        except LostError as error:
            raise HarnessError(f"{self._framework} does not start: {error}") from None
        except OSError as error:
            self._end()
            raise HarnessError(f"{self._framework} does not start: {error.strerror}") from None
        except KeyError:
            self._end()
            raise HarnessError(f"{self._framework} does not start: its first answer is not understood") from None
        self._end()
        raise HarnessError(str(hello["fatal"]))

    def _open(self) -> None:
        """Start the child, in a folder of its own."""
        self._room = tempfile.TemporaryDirectory(prefix="wherelint-")
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= {"HOME": self._room.name, "TMPDIR": self._room.name, "TF_CPP_MIN_LOG_LEVEL": "3",
                        "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # fmt: skip
        if self._device == "cpu":
            environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
        self._buffer = b""
        with open(os.path.join(self._room.name, "stderr"), "wb") as said:
            self._child = subprocess.Popen(
                command(_WATCH + self._boot, self._framework, self._device),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, bufsize=0,
                cwd=self._room.name, env=environment, close_fds=True, start_new_session=True,
            )  # fmt: skip

    def _quiet(self) -> bool:
        """Whether the child waits for a request; what it said that nobody asked for is forgotten."""
        assert self._child is not None
        assert self._child.stdout is not None
        self._buffer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            said = bool(selector.select(0))
            rest = os.read(self._child.stdout.fileno(), 1 << 20) if said else b""
            return not said or (rest != b"" and not selector.select(0))

    def _exchange(self, message: bytes, seconds: float) -> dict[str, Any]:
        """Send some bytes and read one line. Raises LostError where none comes; the child is gone then."""
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        until = time.monotonic() + seconds
        os.set_blocking(self._child.stdin.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            if message:
                selector.register(self._child.stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._buffer:
                if time.monotonic() > until:
                    raise self._lost(f"it took more than {seconds:.0f} s")
                if _resident(self._child.pid) > self._limits.memory:
                    raise self._lost(f"it took more than {self._limits.memory / 2**30:.1f} GiB of memory")
                for key, _ in selector.select(_POLL):
                    if key.fileobj is self._child.stdin:
                        message = self._send(message)
                        if not message:
                            selector.unregister(self._child.stdin)
                    else:
                        read = os.read(self._child.stdout.fileno(), 1 << 20)
                        if not read:
                            raise self._lost(self._died())
                        self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._lost("its answer is not understood")
        return found

    def _send(self, message: bytes) -> bytes:
        """Write what the pipe takes; what is left."""
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            return message[os.write(self._child.stdin.fileno(), message) :]
        except BlockingIOError:
            return message
        except OSError:
            return b""  # it died meanwhile; what it said last is read all the same

    def _lost(self, reason: str) -> LostError:
        self._end()
        return LostError(reason)

    def _died(self) -> str:
        """Why the child is gone, in its own last words if it had any."""
        assert self._child is not None
        assert self._room is not None
        try:
            status = self._child.wait(1)
        except subprocess.TimeoutExpired:
            return "the process hung up"
        if status < 0:
            try:
                return f"the process died of {signal.Signals(-status).name}"
            except ValueError:
                return f"the process died of signal {-status}"
        try:
            lines = Path(self._room.name, "stderr").read_bytes().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"the process ended with {status}{f': {lines[-1][:200]}' if lines else ''}"

    def _end(self) -> None:
        if self._child is not None:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except (OSError, AttributeError):
                self._child.kill()
            with suppress(OSError), self._child:  # closes its pipes, and waits
                pass
            self._child = None
        if self._room is not None:
            with suppress(OSError):
                self._room.cleanup()
            self._room = None


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
