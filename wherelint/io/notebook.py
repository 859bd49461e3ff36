"""Jupyter notebooks: their code cells as one program, and the way from the program back to the cells.

In the program a row of its own, a comment that occurs in no cell, stands before every cell of whatever type, so that
the cells can be told apart after a fix. Lines that are not Python hide behind such comments as well, row for row.
"""

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from wherelint.finding import FileReport, Finding, Fix, Location, Problem
from wherelint.io.edits import physical_lines
from wherelint.io.encoding import UndecodableError, parsed

#: Cell magics below which there is Python, in the namespace of the notebook.
_PYTHON_CELLS = frozenset({"capture", "debug", "ipytest", "prun", "time", "timeit"})
#: ``x = %time f()``, ``files = !ls``.
_ASSIGNED = re.compile(r"(.*?[^=!<>]=\s*)[%!]")
#: ``%time f()``, ``!ls``, ``?f``, ``f?``; and what IPython takes for a magic although it has no sign.
_MAGIC = re.compile(
    r"""(\s*)(?: [%!?] | [\w.*\[\]]+\?\??\s*$
    | (?:cat|cd|conda|cp|load_ext|ls|mamba|man|matplotlib|mkdir|mv|pip|reload_ext|rm|run|time|timeit)\s+[^\s=] )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\r\n]*")
#: A character as JSON spells it.
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_DECODER = json.JSONDecoder()


def in_cell(place: Location, cells: Sequence[int]) -> tuple[int | None, Location]:
    """The number of the cell that a place of the program lies in, and the place in that cell.

    ``cells`` has for every cell the row of the program at which it begins. It is empty for what is no notebook, where
    a place is what it is.
    """
    if not cells:
        return None, place
    number = max(bisect_right(cells, place.row), 1)
    return number, Location(place.row - cells[number - 1] + 1, place.column)


def spelled(place: Location, cells: Sequence[int]) -> str:
    """``cell 3:5:12``, or ``5:12`` outside of notebooks."""
    number, place = in_cell(place, cells)
    return f"{'' if number is None else f'cell {number}:'}{place.row}:{place.column}"


class Cells:
    """Cells of a notebook as one ``program``; of those that are empty no row is in it."""

    def __init__(self, sources: Sequence[str]) -> None:
        #: Lines that are not Python, and (cell, row in the cell, column, why) for the cells that are not.
        self._hidden: list[str] = []
        self.broken: list[tuple[int, int, int, str]] = []
        longest = max(map(len, re.findall("#+", "".join(sources))), default=0)
        self._mark = "#" * (longest + 2)  # longer than the comments of the author, and than one that a fix writes
        self.program = "".join(f"{self._mark}\n{self._python(n, source)}" for n, source in enumerate(sources, 1))

    def cells(self, program: str) -> tuple[int, ...]:
        """For every cell the row at which it begins in the program, as it is now."""
        rows = enumerate(physical_lines(program), 1)
        return tuple(row + 1 for row, line in rows if line == f"{self._mark}\n")

    def changed(self, program: str) -> list[tuple[str, str]]:
        """Every cell as the program has it, and a changed one. Raises ValueError where these are not the same cells."""
        marks = re.compile(rf"{self._mark}\d*")
        if marks.findall(program) != marks.findall(self.program):
            raise ValueError("a fix reached for what is not Python in a notebook")
        # The last end of a line is one that only the program has.
        before, after = ([cell[:-1] for cell in text.split(f"{self._mark}\n")[1:]] for text in (self.program, program))
        return list(zip(before, after, strict=True))

    def _python(self, number: int, source: str) -> str:
        """The rows of a cell in the program."""
        lines = physical_lines(source)
        first = next((line for line in map(str.strip, lines) if line and not line.startswith("#")), "")
        if not source or (first.startswith("%%") and first[2:].split(" ")[0] not in _PYTHON_CELLS):
            return ""
        try:
            try:
                parsed(f"{self._mark}\n{source}")
            except SyntaxError:
                lines = self._without_magics(lines)
                parsed(f"{self._mark}\n{''.join(lines)}")
            return "".join(lines)
        except SyntaxError as error:
            row, column = min(max((error.lineno or 0) - 1, 1), len(lines)), max(error.offset or 1, 1)
            why = f"does not parse as Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}"
        except ValueError as error:  # a null character, or half of a surrogate pair
            row, column, why = 1, 1, f"does not parse as Python: {error}"
        except (RecursionError, MemoryError):
            row, column, why = 1, 1, "too deeply nested to analyse"
        self.broken.append((number, row, column, f"{why}; wherelint skips this cell"))
        return "".join(self._hide(line) for line in lines)

    def _without_magics(self, lines: list[str]) -> list[str]:
        """A cell in which something else stands for the lines that only IPython understands."""
        found, goes_on = [], False
        for line in lines:
            assigned, magic = _ASSIGNED.match(line), _MAGIC.match(line)
            stand_in = f"{assigned[1]}get_ipython()  " if assigned else f"{magic[1]}pass  " if magic else ""
            hidden = goes_on or bool(stand_in)
            found.append(self._hide(line, "" if goes_on else stand_in) if hidden else line)
            goes_on = hidden and line.rstrip("\r\n").endswith("\\")
        return found

    def _hide(self, line: str, stand_in: str = "") -> str:
        """A line of Python for one that is not, with the same end."""
        code = line.rstrip("\r\n")
        self._hidden.append(code)
        return f"{stand_in}{self._mark}{len(self._hidden) - 1}{line[len(code) :]}"

    def restored(self, program: str) -> str:
        """The program with the lines that are hidden in it."""
        return re.sub(rf"[^\r\n]*{self._mark}(\d+)", lambda match: self._hidden[int(match[1])], program)


class Notebook(Cells):
    """A notebook, whose program is empty for another language. Raises UndecodableError for what is none."""

    def __init__(self, text: str, filename: str) -> None:
        super().__init__(_sources(text))
        self._text = text
        self._filename = filename

    def rewritten(self, program: str) -> str:
        """The notebook with the cells of a changed program; everything else stays as it is, to the byte."""
        text = self._text
        spans = list(_items(text, _members(text, _after_blanks(text, 0))["cells"][0]))
        for (_, start, _), (old, new) in reversed(list(zip(spans, self.changed(program), strict=True))):
            if old != new:
                start, end = _members(text, start)["source"]
                text = text[:start] + _as_json(text, start, end, self.restored(new)) + text[end:]
        return text

    def report(self, report: FileReport) -> FileReport:
        """The report on the program as one on the notebook."""
        cells = self.cells(self.program)
        problems = [
            Problem(self._filename, why, Location(cells[number - 1] + row - 1, column), error=False, cells=cells)
            for number, row, column, why in self.broken
        ]
        findings = tuple(map(_within_cells, report.findings))
        return replace(
            report, findings=findings, problems=(*problems, *report.problems), text=self.restored(report.text)
        )


def _within_cells(finding: Finding) -> Finding:
    """The finding without a fix that cannot be told cell by cell."""
    edits = finding.fix.edits if finding.fix is not None else ()
    if all(in_cell(e.location, finding.cells)[0] == in_cell(e.end_location, finding.cells)[0] for e in edits):
        return finding
    return replace(finding, fix=Fix("display", "no fix is offered: it would cross cells", ()))


def _sources(text: str) -> list[str]:
    """The source of every cell, empty for those without code; none at all for another language than Python."""
    try:
        notebook = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = Location(error.lineno, error.colno)
        raise UndecodableError(f"not a notebook: it is not JSON: {error.msg}", place) from None
    except ValueError as error:  # a number with too many digits
        raise UndecodableError(f"not a notebook: {error}") from None
    version, cells = _get(notebook, "nbformat"), _get(notebook, "cells")
    if isinstance(version, int) and version < 4:
        raise UndecodableError(f"a notebook of the old format {version}: open it in Jupyter and save it again")
    if not isinstance(version, int) or not isinstance(cells, list):
        raise UndecodableError("not a notebook: it has no format or no cells")
    languages = ("kernelspec", "language"), ("language_info", "name")
    if not all(_is_python(_get(notebook, "metadata", *keys)) for keys in languages):
        return []
    return [_code(cell, number) for number, cell in enumerate(cells, 1)]


def _code(cell: Any, number: int) -> str:
    if _get(cell, "cell_type") != "code" or not _is_python(_get(cell, "metadata", "vscode", "languageId")):
        return ""
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise UndecodableError(f"not a notebook: cell {number} has no source")
    return "".join(lines)


def _is_python(language: Any) -> bool:
    """Whether a language is Python, or not given."""
    return not isinstance(language, str) or language.lower().startswith(("python", "ipython"))


def _get(value: Any, *keys: str) -> Any:
    """What lies below some keys; None where there is nothing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _items(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """The items of the JSON array or object that begins somewhere: key ("" in an array), start and end of the value."""
    keyed = text[at] == "{"
    at = _after_blanks(text, at + 1)
    while text[at] not in "]}":
        key = ""
        if keyed:
            key, at = _DECODER.raw_decode(text, at)
            at = _after_blanks(text, _after_blanks(text, at) + 1)  # over the colon
        end = _DECODER.raw_decode(text, at)[1]
        yield key, at, end
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Where the values of the object that begins somewhere lie; of several with one key the last, as JSON has it."""
    return {key: (start, end) for key, start, end in _items(text, at)}


def _after_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _as_json(text: str, start: int, end: int, source: str) -> str:
    """The JSON of a source, as a string or in lines, with the blanks and the escapes of the value that it replaces."""
    lines = [(start, end)] if text[start] == '"' else [(first, last) for _, first, last in _items(text, start)]
    spelling = {character: json.dumps(character, ensure_ascii=text.isascii())[1:-1] for character in set(source)}
    for escape in set(_ESCAPE.findall("".join(text[first + 1 : last - 1] for first, last in lines))):
        spelling[json.loads(f'"{escape}"')] = escape
    table = str.maketrans(spelling)

    def string(line: str) -> str:
        return f'"{line.translate(table)}"'

    if text[start] == '"':
        return string(source)
    before, after = text[start : lines[0][0]], text[lines[-1][1] : end]
    between = text[lines[0][1] : lines[1][0]] if len(lines) > 1 else f",{before[1:]}"
    return before + between.join(map(string, source.splitlines(keepends=True))) + after
