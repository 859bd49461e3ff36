"""What changed since a revision of git: only findings of changed functions are shown.

Git is asked which rows differ, with what its configuration may run left out; nothing of the project is executed.
"""

import ast
import os
import re
import subprocess
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from wherelint.finding import FileReport, Finding
from wherelint.io.config import ConfigError
from wherelint.io.encoding import parsed

_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


class Changes:
    """The rows that were added or changed since the branch left a revision. Raises ConfigError where git cannot say."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        named = "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"
        # Before the first commit everything is new.
        nothing = revision == "HEAD" and bool(self._git("symbolic-ref", "--quiet", "HEAD", failing=True))
        commit = self._git(*named, failing=nothing).strip() or self._git("hash-object", "-t", "tree", "--stdin").strip()
        # Of a shallow clone the common ancestor may be unknown.
        self._base = (self._git("merge-base", commit, "HEAD", failing=True) or commit).strip()
        self._top = self._git("rev-parse", "--show-toplevel").removesuffix("\n")
        self._new = set(self._named("ls-files", "--others", "--exclude-standard", "--full-name", ":/"))
        self._changed = self._new | set(self._named(*_DIFF, "--name-only", "--diff-filter=d", self._base))

    def below(self, paths: Iterable[str]) -> list[str]:
        """The files with changes among some files and directories."""
        roots = [os.path.realpath(path) for path in paths]
        return sorted(
            os.path.relpath(file)
            for file in self._changed
            if file.endswith((".py", ".pyi", ".ipynb")) and any(file == r or file.startswith(r + os.sep) for r in roots)
        )

    def only(self, report: FileReport) -> FileReport:
        """A report with the findings of which something stands in a changed function, or in a changed row outside."""
        if not report.findings or any(finding.cells for finding in report.findings):  # a notebook's rows are not git's
            return report
        rows = self._rows(report.filename)
        functions = [*_functions(parsed(report.text))]

        def changed(place: Finding) -> bool:
            spans = [
                range(place.location.row, place.end_location.row + 1),
                range(place.select.location.row, place.select.end_location.row + 1),
            ]
            owners = [f for f in functions if any(span.start in f for span in spans)]
            return any(row in rows for span in [*spans, *owners] for row in span)

        return replace(report, findings=tuple(f for f in report.findings if any(map(changed, f.places))))

    def _rows(self, filename: str) -> Container[int]:
        path = os.path.realpath(filename)
        if path in self._new:
            return range(1, 1 << 62)
        hunks = _HUNK.findall(self._git(*_DIFF, "--unified=0", self._base, "--", path).encode(errors="replace"))
        # Where rows were only removed, those around count.
        spans = ((int(first), int(count or 1)) for first, count in hunks)
        return {row for first, count in spans for row in range(first, first + (count or 2))}

    def _named(self, *arguments: str) -> Iterator[str]:
        for name in self._git(*arguments, "-z").split("\0"):
            if name:
                yield os.path.realpath(os.path.join(self._top, name))

    def _git(self, *arguments: str, failing: bool = False) -> str:
        """What git prints; "" where it fails and may."""
        try:
            run = subprocess.run(
                [*_GIT, *arguments], capture_output=True, stdin=subprocess.DEVNULL, encoding="utf-8",
                errors="surrogateescape",
            )  # fmt: skip
        except OSError as error:
            raise ConfigError(f"--since {self._revision}: git cannot be run: {error.strerror}") from None
        if run.returncode and not failing:
            why = next(iter(run.stderr.strip().splitlines()), "git knows no such revision")
            raise ConfigError(f"--since {self._revision}: {why}")
        return "" if run.returncode else run.stdout


def _functions(tree: ast.AST) -> Iterator[range]:
    """The rows of every outermost function and method, its decorators included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min(each.lineno for each in [node, *node.decorator_list])
            yield range(first, (node.end_lineno or first) + 1)
        else:
            yield from _functions(node)
