"""What is printed and saved of the gradients that were not finite."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import process
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from wherelint.watcher.session import Explanation, Hit, Session, busy, few

if TYPE_CHECKING:
    from wherelint.companion import Place, Poison

#: Environment variables by which launchers number the processes of one program.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "JAX_PROCESS_ID")
#: What an earlier run may have left beside its report.
_OF_ANOTHER_RUN = ("arguments.npz", "function.bin", "operands.pt", "repro.py")


class Reporter:
    """Prints the reports of a session to standard error, and saves what reproduces them below a directory."""

    def __init__(
        self, output_dir: Path | None = None, output_format: str = "full", quiet: bool = False, color: bool = False,
        marker: str = "", silent: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        """``options`` are those of the session; ``marker`` is a file that a child process writes if it has a report.

        ``quiet``: nothing but reports is printed; ``silent``: nothing at all.
        """
        self.silent = silent
        self.marker = marker or os.path.join(gettempdir(), f"wherelint-{uuid4()}")
        self.output_dir, self.output_format, self.quiet, self.color = output_dir, output_format, quiet, color
        self._options, self.session = options, Session(**options)
        self.session.report = lambda hit: self.explain([hit])
        self.again()

    def again(self) -> None:
        """Begin anew, in this thread."""
        self.session.begin()
        self.reports: list[Explanation] = []
        self._known: set[object] = set()
        self._explained: set[Hit] = set()

    def options(self) -> dict[str, Any]:
        """What makes another one like this."""
        shown = {name: getattr(self, name) for name in ("output_dir", "output_format", "quiet", "color", "marker")}
        return shown | self._options

    def explain(self, hits: Iterable[Hit]) -> None:
        """Print and save a report for each cause that was not reported before."""
        for hit in hits:
            if hit not in self._explained:
                self._explained.add(hit)
                with busy():
                    self._explain(hit)

    def _explain(self, hit: Hit) -> None:
        try:
            found = hit.explain()
        except Exception as error:
            self._say(f"gradient {hit.number} is not finite; wherelint failed to explain it: {error!r:.500}")
            return
        cause = frozenset((each.op, each.op_at, each.select, each.select_at) for each in found.report.findings)
        if not cause or cause not in self._known:
            self._known.add(cause)
            self.reports.append(found)
            if self.output_format in ("full", "concise"):
                self._say(click.style(_headline(hit), bold=True))
                for line in (*self._report(found), *(() if self.silent else _advice(found.report.findings))):
                    self._line(line)
            else:  # for a program
                self._line(found.report.render(self.output_format))
            self._save(hit, found)

    def _report(self, found: Explanation) -> Iterator[str]:
        if self.output_format == "concise":
            from wherelint.report import text

            for each in found.report.findings:
                yield "".join(part for part, _ in text.concise(each.as_finding()))
        else:
            yield str(found.report)
        if found.note:
            yield found.note
        if found.lost:
            yield f"not finite: {len(found.lost)} of {found.inputs} gradients ({few(found.lost)})"

    def _save(self, hit: Hit, found: Explanation) -> None:
        if self.output_dir is None:
            return
        from wherelint.io import disk

        directory = self.output_dir / _process().replace(" ", "-") / str(len(self.reports))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name in _OF_ANOTHER_RUN:
                (directory / name).unlink(missing_ok=True)
            disk.write(self.output_dir / ".gitignore", b"*\n")
            text = [_headline(hit), str(found.report), found.note, *(f"not finite: {name}" for name in found.lost)]
            disk.write(directory / "report.txt", "".join(f"{line}\n" for line in text if line).encode())
            disk.write(directory / "report.json", found.report.render("json").encode())
            names = [] if found.save is None else list(found.save(directory))
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            self._line(f"could not save {directory}{os.sep}: {why:.300}")
            return
        script = directory / "repro.py"
        again = f" (reproduce: python {script})" if script.name in names else ""
        if self.output_format in ("full", "concise"):
            self._line(f"saved: {directory}{os.sep}{again}")

    def end(self, *, child: bool = False) -> int:
        """Print the last lines, and return how many causes were reported; a ``child`` may have nothing to say."""
        others = self._marked(child=child)
        quiet = self.quiet or self.output_format not in ("full", "concise")
        if not (quiet or (not self.session.gradients and (child or others))):
            self._summarize()
        return len(self.reports) + others

    def _marked(self, *, child: bool) -> bool:
        """Whether a child process has a report; a child that has one says so by the marker."""
        if not child:
            there = os.path.exists(self.marker)
            if there:
                os.unlink(self.marker)
            return there
        if self.reports:
            Path(self.marker).touch()
        return False

    def _summarize(self) -> None:
        session = self.session
        for what, why in session.unwatched.items():
            self._say(f"not watched: {what}: {why}")
        counts = [
            f"{count:,} gradient{'s' * (count != 1)} watched ({name})"
            for name, count in sorted(session.gradients.items())
        ]
        if not counts:
            self._say("JAX, torch and TensorFlow took no gradient in this process")
            return
        first = "all finite"
        if session.first:
            site, number = session.first
            first = f"gradient {number:,}{f' of {site.name}' if site.name else ''} was the first that was not finite"
        more = [f"{session.scaled} overflowed under a loss scaler"] if session.scaled else []
        more += [f"{session.recovered} not finite because the value was not, for a while"] if session.recovered else []
        reports = f"{len(self.reports)} report{'s' * (len(self.reports) != 1)}"
        self._say("; ".join([", ".join(counts), first, *more, reports]))

    def _say(self, text: str) -> None:
        process = _process()
        self._line(f"wherelint{f' ({process})' if process else ''}: {text}")

    def _line(self, text: str) -> None:
        if self.silent:
            return
        with suppress(OSError, ValueError):  # the program closed it
            click.echo(text, file=sys.stderr, color=self.color)


def _headline(hit: Hit) -> str:
    of = f"of {hit.site.name} " if hit.site.name else ""
    gradient = f"gradient {hit.number} {of}({hit.site.framework})"
    return (
        f"{gradient}: the value is not finite"
        if hit.status == "value"
        else f"{gradient} is not finite, but the value is"
    )


def _process() -> str:
    """Which one this is of the processes of a program: ``rank 1``; empty where there is one."""
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), None)
    torch = sys.modules.get("torch.distributed")
    if rank is None and torch is not None and torch.is_available() and torch.is_initialized():
        rank = torch.get_rank()
    if rank is None and process.parent_process() is not None:
        return process.current_process().name
    return "" if rank is None else f"rank {rank}"


def _advice(findings: Iterable[Poison]) -> Iterator[str]:
    """What to do next: read about the rule, and the fix that the linter has for that place."""
    dropped = [each for each in findings if each.select]
    if dropped:
        yield f"next: {'; '.join(dict.fromkeys(f'wherelint explain {each.code}' for each in dropped))}"
    fixes = [fix for each in dropped if each.op_at for fix in _fixes(each.op_at, each.select_at)]
    for fix in dict.fromkeys(fixes):
        yield from fix


def _fixes(op_at: Place, select_at: Place | None) -> Iterator[tuple[str, ...]]:
    """The fix that the linter has for an operation and its selection, if any: sentence and changed lines."""
    from wherelint.api import check_source
    from wherelint.companion.frames import is_library
    from wherelint.io.config import Settings
    from wherelint.report import text

    if is_library(op_at.filename) or not os.path.isfile(op_at.filename):
        return
    content = Path(op_at.filename).read_bytes()
    report = check_source(content, op_at.shown, settings=Settings(level="note"), fixes=True)
    rows = {op_at.row, *([select_at.row] if select_at else [])}
    for finding in report.findings:
        found = any({each.location.row, each.select.location.row} >= rows for each in finding.places)
        if found and finding.fix and finding.fix.offered:
            changes = ("  " + "".join(part for part, _ in line) for line in text.change(report.text, finding))
            yield f"fix ({finding.fix.applicability}): {finding.fix.message}", *changes
            return
