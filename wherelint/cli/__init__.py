"""The command line. Options in, exit status out; every decision is made elsewhere."""

import os
import sys
from collections.abc import Sequence

import click

from wherelint.cli.commands import cli
from wherelint.cli.options import STYLES
from wherelint.cli.output import CLEAN, interrupted, reader_left, refused, stopped
from wherelint.report.common import printable
from wherelint.run import collect_rarely

__all__ = ["STYLES", "cli", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if list(sys.argv[1:] if arguments is None else arguments)[:1] != ["run"]:  # streams and collector are the program's
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        collect_rarely()
    try:
        status = cli.main(arguments, prog_name="wherelint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        status = refused(error)
    except (click.Abort, KeyboardInterrupt):
        status = interrupted()
    except BrokenPipeError:
        status = reader_left()
    except OSError as error:
        status = stopped(error)
    except Exception as error:
        from wherelint.io.config import ConfigError  # not before: `wherelint --version` need not wait for it

        if not isinstance(error, ConfigError):
            raise
        status = refused(click.ClickException(printable(str(error))))
    return status if isinstance(status, int) else CLEAN
