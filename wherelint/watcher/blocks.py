"""The same watch around a block, and a notebook's cell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherelint.watcher import watching
from wherelint.watcher.report import Reporter
from wherelint.watcher.session import Stop

if TYPE_CHECKING:
    from wherelint.companion import Report


class Watched:
    """What a block was seen to do."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    @property
    def reports(self) -> list[Report]:
        """A report for each cause, so far of those that could be explained at once, in the end of all."""
        return [each.report for each in self._reporter.reports]

    @property
    def gradients(self) -> int:
        """How many gradients were taken."""
        return self._reporter.session.gradients.total()


@contextmanager
def watch(
    *, keep_going: bool = False, max_reports: int = 10, output_dir: str | Path | None = None, quiet: bool = False
) -> Iterator[Watched]:
    """Watch every gradient that is taken in the block, in every thread.

    The first that is not finite although the value is ends the block: PoisonedGradient, whose ``report`` says why. With
    ``keep_going`` nothing is raised; each cause is printed once on standard error (not if ``quiet``), and its report is
    in the ``reports`` of what the block is given. ``output_dir`` is where reports are saved, with what reproduces them.

    JAX compiles anew what it has compiled before, which could not be seen.
    """
    directory = None if output_dir is None else Path(output_dir)
    reporter = Reporter(directory, quiet=quiet, silent=quiet or not keep_going, keep_going=keep_going, most=max_reports)
    with watching(reporter.session), report_at_end(reporter):
        yield Watched(reporter)


@contextmanager
def report_at_end(reporter: Reporter) -> Iterator[None]:
    """Report at the end of a block, and raise PoisonedGradient in place of what unwound it."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Stop) and not reporter.session.stopping:
            reporter.session.end()
            raise
    reporter.explain(reporter.session.end())
    if reporter.reports and not reporter.session.keep_going:
        from wherelint.companion import PoisonedGradient

        raise PoisonedGradient(reporter.reports[0].report)


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic ``%%watch`` to a notebook: its cell runs as it is, and a report is printed."""

    def run(line: str, cell: str) -> Any:
        from wherelint.companion import PoisonedGradient

        source = shell.transform_cell(cell)
        name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            with watch():
                exec(compile(tree, name, "exec"), shell.user_ns)
                if last is not None:
                    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
        except PoisonedGradient as error:
            print(error)
        return None

    shell.register_magic_function(run, magic_kind="cell", magic_name="watch")
