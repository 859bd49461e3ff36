"""``wherelint init``: the first lines of a configuration and of a pre-commit hook, where there are none yet."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import click

from wherelint.io import disk
from wherelint.io.config import ConfigError, load
from wherelint.report.common import printable

CONFIGURATION = """\
[tool.wherelint]
# Everything is optional; `wherelint explain configuration` shows all keys.
# confidence = "low"                # also what may never occur
# extend-select = ["WL401"]         # rules that are off by default: `wherelint rules`
# extend-exclude = ["old/"]         # patterns as in .gitignore
# not-differentiated = ["tools/"]   # where nobody takes a gradient
# baseline = "known.json"           # old findings: wherelint check --write-baseline known.json
"""
HOOK = """\
- repo: local
  hooks:
    - id: wherelint
      name: wherelint
      entry: wherelint check --force-exclude   # with --fix: applies the safe fixes
      language: system
      types_or: [python, jupyter]
      require_serial: true
"""
_REPOS = re.compile(r"^repos:[ \t]*(?:#.*)?\n((?:[ \t#-].*\n|\n)*)\Z", re.MULTILINE)
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)


class _Unclear(Exception):
    """The end of a list is not where it can be told from the text."""


def configured(text: str | None) -> str | None:
    """A pyproject.toml with a table of ours; None where it has one."""
    if text is None:
        return CONFIGURATION
    if load(Path("pyproject.toml")) is not None:
        return None
    return text.rstrip("\n") + "\n\n" + CONFIGURATION


def hooked(text: str | None) -> str | None:
    """A .pre-commit-config.yaml with our hook; None where it has one. Raises _Unclear where it cannot be added."""
    if text is None:
        return "repos:\n" + HOOK
    if "wherelint" in text:
        return None
    text = text.rstrip("\n") + "\n"
    listed = _REPOS.search(text)
    items = _ITEM.findall(listed[1]) if listed is not None else []
    if not items:
        raise _Unclear
    return text + textwrap.indent(HOOK, min(items, key=len))  # its own items are those that are indented least


def start() -> bool:
    """Write both files, and say what to do next; or stop where one cannot be written. Whether all went well."""
    files: dict[str, Callable[[str | None], str | None]] = {
        "pyproject.toml": configured, ".pre-commit-config.yaml": hooked
    }  # fmt: skip
    for name, change in files.items():
        path = Path(name)
        try:
            before = disk.contents(path).decode() if path.exists() else None
            after = change(before and before.replace("\r\n", "\n"))
            if after is None:
                click.echo(f"{name}: speaks of wherelint already")
                continue
            if before is not None and "\r\n" in before:
                after = after.replace("\n", "\r\n")
            disk.write(path, after.encode())
            click.echo(f"{name}: {'written' if before is None else 'extended'}")
        except _Unclear:
            click.echo(f"error: {name}: left as it is; add this to its list of `repos`:\n\n{HOOK}", err=True)
            return False
        except UnicodeDecodeError:
            click.echo(f"error: {name}: not UTF-8", err=True)
            return False
        except (ConfigError, OSError) as error:
            click.echo(f"error: {printable(str(error))}", err=True)
            return False
    click.echo("Next: wherelint check; or wherelint check --write-baseline known.json where there is much to find;")
    click.echo("and pre-commit install, which has git run the hook.")
    return True
