"""``wherelint``, and ``python -m wherelint``."""

import sys

from wherelint import isolated

sys.path[:] = isolated.trusted(sys.path)  # before anything else is imported

from wherelint.cli import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
