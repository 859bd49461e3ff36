"""``python -m wherelint``."""

import os
import sys  # both are loaded already: nothing else may be imported before the path is mended

# Python looks in the working directory first, where the files lie that are checked: none of them is to be imported.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__" and sys.path and sys.path[0] in ("", os.getcwd()) and os.getcwd() != _HOME:
    del sys.path[0]

from wherelint.cli import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
