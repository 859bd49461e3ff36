"""What other programs call: check a text, check files, fix a text.

Everything that is returned is plain data and can be pickled, so that a scheduler can map these over many machines.
Nothing of what is checked is imported or executed.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from wherelint.finding import FileReport
from wherelint.io import files
from wherelint.io.config import Configuration, Settings
from wherelint.io.files import FixMode
from wherelint.run import check, engine
from wherelint.run.result import Result, add_problems

__all__ = ["check_paths", "check_source", "fix_source"]


def check_source(
    source: str | bytes, filename: str = "<string>", *, settings: Settings | None = None, fixes: bool = False
) -> FileReport:
    """The findings of one text.

    ``filename`` is only a name; one that ends in ``.ipynb`` is a notebook's. ``settings`` default to those of the
    command line without any configuration. ``fixes``: each finding comes with the fix that is offered for it. What
    keeps the text from being checked is in the report's ``problems``; nothing is raised.
    """
    content = source.encode("utf-8", "surrogateescape") if isinstance(source, str) else source
    return check.check_source(content, filename, settings or Settings(), "offer" if fixes else "no")


def fix_source(
    source: str, filename: str = "<string>", *, settings: Settings | None = None, unsafe: bool = False
) -> tuple[str, FileReport]:
    """A text after its safe fixes (``unsafe``: after all), and the report on it: what was fixed, and what is left.

    Where nothing can be fixed, or the text cannot be checked, it comes back as it was.
    """
    content = source.encode("utf-8", "surrogateescape")
    report = check.check_source(content, filename, settings or Settings(), "unsafe" if unsafe else "safe")
    return (report.after.decode("utf-8", "surrogateescape") if report.fixed else source), report


def check_paths(
    paths: Iterable[str | os.PathLike[str]],
    configuration: Configuration | None = None,
    *,
    fix_mode: FixMode = "no",
    force_exclude: bool = False,
    only_shown: bool = False,
    jobs: int | None = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cache: str | os.PathLike[str] | None = None,
    seen: Callable[[FileReport], FileReport] = lambda report: report,
) -> Result:
    """Check files, and what lies below directories; nothing is written but the ``cache``.

    ``configuration`` defaults to what the command line would find. ``fix_mode`` is "no", "offer" (findings come with
    their fixes, programs and plots), or "safe" or "unsafe" (reports have the bytes of the fixed file; those that are
    ``only_shown``, and written nowhere, may come from the cache). ``jobs`` processes (None: as many as seem worth it)
    give the same result as one. ``progress(done, total)`` is called now and then. ``cache`` is the directory that keeps
    reports from one call to the next (None: nothing is kept). ``seen`` gets each report, in the order of the files, as
    soon as it is there; what it returns is in the result. What could not be checked is in the result's
    ``problems``. In a notebook a row is one of the program that its cells make (``notebook.in_cell``).
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError(f"paths must be a list: write [{paths!r}]")
    names, settings = [os.fspath(path) for path in paths], configuration or Configuration()
    targets, problems = files.discover(names, settings, fix_mode, force_exclude=force_exclude, only_shown=only_shown)
    kept = None if cache is None else Path(cache)
    for problem in problems:
        seen(FileReport(problem.filename, problems=(problem,)))
    result = engine.check_targets(targets, jobs, lambda done: progress(done, len(targets)), kept, seen)
    return add_problems(result, problems)
