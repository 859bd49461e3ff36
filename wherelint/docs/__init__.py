"""The pages that ``wherelint explain`` prints and the site shows. ``mkdocs.yml`` builds the site from them."""

from pathlib import Path

_PAGES = Path(__file__).parent / "pages"
#: What somebody may call a page, or used to.
_OTHER_NAMES = {
    "accuracy": ("evaluation", "precision"),
    "ci": ("pre-commit", "since"),
    "command-line": ("check", "running", "options", "exit codes", "exit status"),
    "decided": ("witness",),
    "fixes": ("fix",),
    "gradient-is-nan": ("nan", "tutorial"),
    "levels": ("evidence", "score"),
    "mask-gradients": ("mask_gradients",),
    "performance": ("speed", "cache"),
    "setup": ("contributing", "dependencies"),
    "start": ("index", "install"),
    "suppressing": ("baseline", "noqa", "ruff"),
}


def topics() -> tuple[str, ...]:
    """The topics, in alphabetical order."""
    return tuple(sorted(_paths()))


def path(topic: str) -> Path:
    """The file of a topic. Raises KeyError if there is none."""
    return _paths()[next((name for name, others in _OTHER_NAMES.items() if topic in others), topic)]


def page(topic: str) -> str:
    """The page of a topic, as Markdown. Raises KeyError if there is none."""
    return path(topic).read_text(encoding="utf-8")


def _paths() -> dict[str, Path]:
    return {"start" if each.stem == "index" else each.stem: each for each in _PAGES.rglob("*.md")}
