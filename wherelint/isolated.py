"""Where this process and its children import from: never a module that happens to lie in the working directory.

Only ``os`` and ``sys``, which Python itself has loaded, may be imported here, and not even ``__future__``: ``python -m
wherelint`` begins with the working directory on its path.
"""

import os
import sys

#: The search path that Python began with.
ORIGINAL = [*sys.path]
#: What has to be on the path for wherelint to be found.
HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def trusted(paths: "list[str]") -> "list[str]":
    """A search path without the working directory and relative parts of ``PYTHONPATH``, unless wherelint lies there."""
    try:
        asked = ["", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        here = {os.path.realpath(path) for path in asked if not os.path.isabs(path)} - {os.path.realpath(HOME)}
    except OSError:  # the working directory is gone
        here = set()
    return [path for path in paths if os.path.isabs(path) and os.path.realpath(path) not in here]


def command(program: str, *arguments: str) -> "list[str]":
    """The command of a Python process that runs a text, and finds its modules where this process does.

    It starts isolated (``-I``), so that only the standard library is found until its path is set.
    """
    options = [f"-Xutf8={sys.flags.utf8_mode}", *(["-B"] if sys.dont_write_bytecode else [])]
    path = f"import sys; sys.path[:] = {trusted(sys.path)!a}\n"
    return [sys.executable, "-I", *options, "-c", path + program, *arguments]
