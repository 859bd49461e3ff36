"""WL001: suppression comments that silence nothing any more, and their removal."""

from collections.abc import Collection, Iterable, Iterator

from wherelint import rules
from wherelint.finding import Edit, Finding, Fix, Location, Selection
from wherelint.io.edits import Source
from wherelint.suppress.noqa import Comment, Suppressions

CODE = "WL001"


def unused(
    text: str, filename: str, noqa: Suppressions, findings: Iterable[Finding], codes: Collection[str], framework: str
) -> Iterator[Finding]:
    """A finding for each comment with codes of ours that silence none of ``findings``, all that there are.

    Only rules that are on (``codes``) can be said to find nothing.
    """
    lines = Source(text).lines
    for comment, idle in noqa.idle(findings):
        named = [code for code in idle if code.startswith("WL") and _asked(code, codes)]
        if not named:
            continue
        start, end = (Location(comment.row, column) for column in comment.span)
        yield Finding(
            code=CODE,
            name=rules.get(CODE).name,
            message=rules.get(CODE).sentence.format(op=", ".join(named)),
            filename=filename,
            location=start,
            end_location=end,
            select=Selection("noqa", start, end),
            function="",
            framework=framework,
            op="noqa",
            confidence="high",
            witness=None,
            noqa_row=comment.row,
            fix=Fix("safe", "remove what silences nothing", (_removal(lines[comment.row - 1], comment, named),)),
        )


def _asked(prefix: str, codes: Collection[str]) -> bool:
    """Whether every rule that a prefix stands for was asked; one that stands for none silences nothing."""
    return all(code in codes for code in rules.codes() if code.startswith(prefix) and code != CODE)


def _removal(line: str, comment: Comment, idle: list[str]) -> Edit:
    """The edit that leaves the codes that count, or nothing of the comment."""
    first, last = comment.span
    kept = [code for code in comment.codes if code not in idle]
    if kept:
        before = line[first - 1 : last - 1].partition(":")[0]
        before = line[first - 1 : last - 1].rpartition(":")[0] if comment.file else before
        return Edit(f"{before}: {', '.join(kept)}", Location(comment.row, first), Location(comment.row, last))
    code, rest = line[: first - 1], line[last - 1 :].rstrip("\r\n")
    if not code.strip() and not rest.strip():
        return Edit("", Location(comment.row, 1), Location(comment.row + 1, 1))
    if not rest.strip():
        return Edit("", Location(comment.row, len(code.rstrip()) + 1), Location(comment.row, last + len(rest)))
    following = rest.lstrip()
    if following.startswith("#"):  # another comment goes on
        return Edit("", Location(comment.row, first), Location(comment.row, last + len(rest) - len(following)))
    return Edit("#", Location(comment.row, first), Location(comment.row, last))  # words that explained it
