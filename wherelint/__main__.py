"""``python -m wherelint``."""

from wherelint.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
