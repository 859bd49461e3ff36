"""``wherelint init``: the first lines of a configuration and of a pre-commit hook, where there are none yet."""

from pathlib import Path

import click

from wherelint.io import disk
from wherelint.io.config import load

CONFIGURATION = """\
[tool.wherelint]
# Everything is optional; `wherelint explain configuration` shows all keys.
# level = "note"                    # show also what may never occur
# fail-on = "warning"               # the exit status is 1 for warnings as well
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
        click.echo(f"{project}: has a table of wherelint already")
    if hooks.exists():
        click.echo(f"{hooks}: left as it is; the hook, if you want it:\n\n{HOOK}")
    else:
        disk.write(hooks, f"repos:\n{HOOK}".encode())
        click.echo(f"{hooks}: written")
    click.echo("Next: wherelint check; or wherelint check --write-baseline known.json where there is much to find;")
    click.echo("and pre-commit install, which has git run the hook.")
