"""The message of an unexpected exception: where in wherelint it was raised."""

import traceback
from pathlib import Path

#: How it begins.
DEFECT = "internal error, please report it"


def describe(error: Exception) -> str:
    """What it is, and where it was raised, on one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
    return f"{DEFECT}: {what} ({Path(frame.filename).name}:{frame.lineno})"
