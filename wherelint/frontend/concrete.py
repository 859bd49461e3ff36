"""The concrete syntax of what is rewritten: LibCST's tree of a statement, and what stands where in it."""

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import libcst as cst
from libcst.metadata import CodePosition, CodeRange, MetadataWrapper, PositionProvider

from wherelint.finding import Location
from wherelint.frontend.syntax import GiveUp
from wherelint.io.encoding import NOWHERE

#: LibCST takes three times as long for every bracket more around a pattern.
_MOST_NESTED = 7
#: The recursion limit while LibCST writes; Python 3.10 has the stack for several times as much.
_RECURSION = 3_000


class Concrete:
    """Some rows as LibCST parses them. Raises GiveUp where it cannot: it recurses where ``ast`` does not."""

    def __init__(self, text: str) -> None:
        # An indented block parses under an `if`; its rows then count from the row before it.
        self._above = int(text.startswith((" ", "\t")))
        text = "if 1:\n" * self._above + text
        try:
            syntax = ast.parse(text, NOWHERE)
            has_patterns = any(isinstance(node, ast.Match) for node in ast.walk(syntax))
            if _depth(syntax) > _RECURSION or (has_patterns and _nesting(text) > _MOST_NESTED):
                raise GiveUp("it is nested too deeply")
            self.tree = cst.parse_module(text)
        except (SyntaxError, cst.ParserSyntaxError, RecursionError, KeyError, ValueError) as error:
            raise GiveUp(f"LibCST cannot parse this block ({type(error).__name__})") from None

    @cached_property
    def _wrapper(self) -> MetadataWrapper:
        return MetadataWrapper(self.tree, unsafe_skip_copy=True)

    @cached_property
    def _places(self) -> dict[CodeRange, cst.CSTNode]:
        """All that may be an operation or a selection; the innermost of those that stand at one place."""
        found: dict[CodeRange, cst.CSTNode] = {}
        with _deeper():
            for node, span in self._wrapper.resolve(PositionProvider).items():  # those inside others come first
                if isinstance(node, (cst.BaseExpression, cst.AugAssign)):
                    found.setdefault(span, node)
        return found

    def find(self, start: Location, end: Location) -> cst.CSTNode | None:
        """The expression, or the augmented assignment, that stands at a place."""
        first, last = (CodePosition(place.row + self._above, place.column - 1) for place in (start, end))
        return self._places.get(CodeRange(first, last))

    def region(self, node: cst.CSTNode) -> tuple[Location, Location]:
        """Where a node begins and ends, parentheses around it excluded."""
        with _deeper():
            span = self._wrapper.resolve(PositionProvider)[node]
        start, end = (Location(place.line - self._above, place.column + 1) for place in (span.start, span.end))
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        """The source of a node on one line, parentheses around it included."""
        with _deeper():
            return " ".join(self.tree.code_for_node(node).split())


@contextmanager
def _deeper() -> Iterator[None]:
    """Let LibCST visit nodes that are nested as deeply as a sum of hundreds of terms. Raises GiveUp for more."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    except Exception as error:  # LibCST stumbles over something else on the way out of a RecursionError, or of Ctrl-C
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            cause = cause.__context__
        raise GiveUp("it is nested too deeply") from None
    finally:
        sys.setrecursionlimit(before)


def _depth(syntax: ast.AST) -> int:
    """How deeply a node is nested."""
    depth = 0
    level = [syntax]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _nesting(text: str) -> int:
    """How many brackets are open at once in a text; those of strings count, too."""
    depth = most = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth += 1 if bracket in "([{" else -1
        most = max(most, depth)
    return most
