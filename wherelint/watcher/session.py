"""What a watched program was seen to do: gradients counted, those that are not finite, and when to stop.

The modules of the frameworks call `Session.saw` for each gradient, and `Session.hit` for one that is not finite. They
know nothing of each other, nor of how a report is printed.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from wherelint.companion.patching import override

if TYPE_CHECKING:  # the program imports NumPy first: it may set the number of threads before
    from wherelint.companion import Report

#: Of a gradient: all is finite; it is not although the value is; the value is not; it overflowed under a loss scale.
Status = Literal["finite", "gradient", "value", "scaled"]
#: So many values in a row that are not finite are no accident: line searches, first losses and loss scales recover.
_PATIENCE = 20
_OWN = str(Path(__file__).parent)
#: What runs the program, and is not called by it.
_PROGRAM = str(Path(__file__).with_name("program.py"))


class Stop(SystemExit):
    """Unwinds a watched program: no ``except Exception`` of its own holds it up."""


@dataclass(frozen=True)
class Explanation:
    """Why a gradient is not finite.

    ``lost`` names the differentiated inputs (parameters) whose gradients are not finite, of ``inputs``; ``save`` writes
    into a directory what reproduces it, and returns the names of its files. Nothing of it may raise.
    """

    report: Report
    lost: Sequence[str] = ()
    inputs: int = 0
    save: Callable[[Path], Sequence[str]] | None = None
    note: str = ""


def few(names: Sequence[str], most: int = 6) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass(eq=False)
class Site:
    """A place of the program that takes gradients: a loss function, or every ``backward()``."""

    framework: str
    #: What is differentiated; empty where that has no name.
    name: str = ""
    count: int = 0
    #: How many in a row were not finite, and the first of these that came of a value.
    bad: int = 0
    pending: Hit | None = None

    def __str__(self) -> str:
        return self.name or "a function"


@dataclass(frozen=True, eq=False)
class Hit:
    """A gradient that is not finite: the ``number``-th of its site. ``explain`` is called once, outside of any trace.

    ``now``: it may be called at once, in the thread that notes the hit.
    """

    site: Site
    number: int
    status: Status
    explain: Callable[[], Explanation]
    now: bool = False


@dataclass
class Session:
    """One watched program."""

    keep_going: bool = False
    most: int = 10
    #: Frees what a backward pass would have freed as soon as its gradients are known to be finite.
    memory: Literal["low", "full"] = "low"
    #: What prints and saves a report, where that need not wait for the end.
    report: Callable[[Hit], None] | None = None
    #: What waits for gradients that are still being computed.
    barriers: list[Callable[[], object]] = field(default_factory=list)
    #: Files that call the program back, and make another exception of what is raised in there.
    callers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin in this thread, with nothing seen."""
        self.gradients: Counter[str] = Counter()
        self.first: tuple[Site, int] | None = None
        #: Gradients that overflowed under a loss scale, and values that were not finite and recovered.
        self.scaled = self.recovered = 0
        self.hits: list[Hit] = []
        #: What is not watched, and why: each said once.
        self.unwatched: dict[str, str] = {}
        self.stopping = False
        self.began_in = threading.current_thread()
        self._lock = threading.RLock()
        self._sites: dict[Site, None] = {}
        self._over = self._raised = False

    def failed(self, what: str, error: Exception) -> None:
        """Note an exception of the watch itself; the program goes on."""
        self.unwatched.setdefault(what, f"{type(error).__name__}: {error!s:.300}")

    @contextmanager
    def safely(self, what: str) -> Iterator[None]:
        """Within the block an exception is one of the watch itself, and noted."""
        try:
            yield
        except Exception as error:
            self.failed(what, error)

    def saw(self, site: Site, status: Status) -> int:
        """Count a gradient; its number at its site, from 1 on."""
        with self._lock:
            self._sites[site] = None
            self.gradients[site.framework] += 1
            site.count += 1
            if status == "finite":
                self.recovered += site.bad if site.pending else 0
                site.bad, site.pending = 0, None
            elif status == "scaled":
                self.scaled += 1
            else:
                site.bad += 1
                self.first = self.first or (site, site.count)
                self._settle(site, _PATIENCE)
            return site.count

    def hit(self, hit: Hit, *, unwind: bool = True) -> None:
        """Note a gradient that is not finite, and stop the program unless it is to go on.

        A value that is not finite is noted only once it has lasted. ``unwind``: the caller runs in a thread of the
        program, where `Stop` may be raised; else the thread that began the watch is interrupted.
        """
        with self._lock:
            if hit.status == "value":
                if hit.site.bad < 2:  # else it follows from what was not finite before
                    hit.site.pending = hit.site.pending or hit
                self._settle(hit.site, _PATIENCE)
            else:
                self._accept(hit)
            now = hit.now and hit in self.hits
        if now and self.report is not None:
            self.report(hit)
        if self.stopping:
            self.stop(unwind=unwind)

    def _settle(self, site: Site, least: int) -> None:
        if site.pending is not None and site.bad >= least:
            self._accept(site.pending)
            site.pending = None

    def _accept(self, hit: Hit) -> None:
        if not self.stopping and len(self.hits) < self.most:
            self.hits.append(hit)
            self.stopping = not self.keep_going

    def stop(self, *, unwind: bool) -> None:
        """Unwind the program: here, or in the thread that began the watch."""
        if unwind:
            raise Stop(1)
        if not self._over and _SIGNAL and self.began_in is threading.main_thread():
            threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        while not (self._raised or self._over):
            signal.pthread_kill(self.began_in.ident or 0, _SIGNAL)
            sleep(0.005)

    def look(self, frame: FrameType | None) -> None:
        """Unwind the program that is in a frame, if it is to stop and can be."""
        if self.stopping and not (self._raised or self._over or self._held(frame)):
            self._raised = True
            raise Stop(1)

    def _held(self, frame: FrameType | None) -> bool:
        """Whether it is inside of a function of ours, or of one that would make another exception of what is raised."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith((_OWN, *self.callers)) and name != _PROGRAM:
                return True
            frame = frame.f_back
        return False

    def end(self) -> list[Hit]:
        """The program has ended: nothing is raised any more. What there is to report, in its order."""
        for wait in self.barriers:
            wait()
        with self._lock:
            self._over = True
            for site in self._sites:
                self._settle(site, 1)
            return self.hits


#: Ignored by default and used by nobody: it has the main thread look where it is. Windows has none: there the program
#: goes on to its end.
_SIGNAL: Any = getattr(signal, "SIGURG", None)
_state = threading.local()
_sessions: list[Session] = []


def current() -> Session | None:
    """The session that the program is watched by; None outside of any, and while something is being explained."""
    return _sessions[-1] if _sessions and not getattr(_state, "busy", False) else None


@contextmanager
def activate(session: Session) -> Iterator[Session]:
    """Within the block it is the current one, in every thread."""
    _sessions.append(session)
    signals = _SIGNAL is not None and threading.current_thread() is threading.main_thread()
    before = signal.signal(_SIGNAL, lambda _, frame: session.look(frame)) if signals else None
    try:
        yield session
    finally:
        _sessions.remove(session)
        if signals:
            signal.signal(_SIGNAL, before)


def busy() -> AbstractContextManager[None]:
    """Within the block this thread's gradients are the watcher's own."""
    return override(_state, busy=True)
