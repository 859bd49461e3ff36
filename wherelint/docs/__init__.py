"""The documentation that ``wherelint explain`` shows: a page a topic, beside the pages of the rules."""

from pathlib import Path

_PAGES = Path(__file__).parent


def topics() -> tuple[str, ...]:
    """The topics, in alphabetical order."""
    return tuple(sorted(path.stem for path in _PAGES.glob("*.md")))


def page(topic: str) -> str:
    """The page of a topic, as Markdown. Raises KeyError for what is no topic."""
    if topic not in topics():
        raise KeyError(topic)
    return (_PAGES / f"{topic}.md").read_text(encoding="utf-8")
