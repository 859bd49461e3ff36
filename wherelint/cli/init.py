"""``wherelint init``: the first lines of a configuration and of a pre-commit hook, where there are none yet."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wherelint.io import disk
from wherelint.io.config import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONFIGURATION = """\
[tool.wherelint]
# Everything is optional; `wherelint explain configuration` shows all keys.
# level = "note"                    # also show inputs that may never occur
# fail-on = "warning"               # exit with 1 for warnings, too
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


def start() -> None:
    """Write what is not there, and say what to do next. Raises ConfigError, OSError and UnicodeDecodeError."""
    project, hooks, done = Path("pyproject.toml"), Path(".pre-commit-config.yaml"), False
    if load(project) is None:
        before = disk.contents(project) if project.exists() else b""
        text = before.rstrip() + b"\n\n" if before else b""
        disk.write(project, text + CONFIGURATION.encode())
        click.echo(f"{project}: {'extended' if before else 'written'}")
    else:
        done = hooks.exists() and b"wherelint" in disk.contents(hooks)
        click.echo(f"{project}: left unchanged, it already has [tool.wherelint]")
    for told in _keep_comments(project):
        done = False
        click.echo(told)
    if done:
        click.echo(f"{hooks}: left unchanged, it already runs wherelint\nThere is nothing to do.")
        return
    if hooks.exists():
        click.echo(f"{hooks}: left unchanged; to run wherelint before each commit, add this hook:\n\n{HOOK}")
    else:
        disk.write(hooks, f"repos:\n{HOOK}".encode())
        click.echo(f"{hooks}: written")
    click.echo("Next: run wherelint check. To accept old findings, run wherelint check --write-baseline known.json.")
    click.echo("Then: run pre-commit install, so that git runs the hook.")


def _keep_comments(project: Path) -> Iterator[str]:
    """Tell ruff that the codes of wherelint are none of its own, or it removes their comments; what was done."""
    line = 'external = ["WL"]'
    for name in ("ruff.toml", ".ruff.toml"):
        if Path(name).exists():
            yield f"{name}: write {line} below [lint], so that ruff keeps `# noqa: WL101`"
    text = disk.contents(project).decode()
    ruff = tomllib.loads(text).get("tool", {}).get("ruff")
    if ruff is None or "WL" in ruff.get("lint", {}).get("external", []):
        return
    head = re.compile(r"^\[tool\.ruff\.lint\][^\S\n]*(#.*)?$", re.MULTILINE)
    added = head.sub(lambda match: f"{match[0]}\n{line}", text, count=1)
    if added == text:
        added = f"{text.rstrip()}\n\n[tool.ruff.lint]\n{line}\n"
    if _external(added) == ["WL"]:
        disk.write(project, added.encode())
        yield f"{project}: added {line}, so that ruff keeps `# noqa: WL101`"
    else:
        yield f'{project}: add "WL" to lint.external of ruff, so that it keeps `# noqa: WL101`'


def _external(text: str) -> Any:
    """The codes that a configuration tells ruff to leave alone; None where it is none."""
    try:
        return tomllib.loads(text)["tool"]["ruff"]["lint"]["external"]
    except (tomllib.TOMLDecodeError, LookupError, TypeError):
        return None
