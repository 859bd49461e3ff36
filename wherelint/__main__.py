"""``python -m wherelint``."""

import sys
from pathlib import Path

# Python looks in the working directory first, where the files lie that are checked: none of them is to be imported.
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from wherelint.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
