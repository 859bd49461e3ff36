"""``wherelint init``: the first lines of a configuration and of a pre-commit hook, where there are none yet."""

from pathlib import Path

import click

from wherelint.io import disk
from wherelint.io.config import load

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
    project, hooks = Path("pyproject.toml"), Path(".pre-commit-config.yaml")
    if load(project) is None:
        before = disk.contents(project) if project.exists() else b""
        text = before.rstrip() + b"\n\n" if before else b""
        disk.write(project, text + CONFIGURATION.encode())
        click.echo(f"{project}: {'extended' if before else 'written'}")
    else:
        click.echo(f"{project}: already configures wherelint; left alone")
    if hooks.exists():
        click.echo(f"{hooks}: left alone; to run wherelint, add this hook:\n\n{HOOK}")
    else:
        disk.write(hooks, f"repos:\n{HOOK}".encode())
        click.echo(f"{hooks}: written")
    click.echo("Next: wherelint check, or wherelint check --write-baseline known.json to accept old findings.")
    click.echo("Then: pre-commit install, so that git runs the hook.")
