"""The frameworks: one file each."""

from __future__ import annotations

import os
from importlib import import_module

from wherelint.frameworks.base import Framework

__all__ = ["FRAMEWORKS", "Framework", "framework_of"]

_FILES = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
#: By name.
FRAMEWORKS: dict[str, Framework] = {
    name: import_module(f"{__name__}.{name}").FRAMEWORK for name in _FILES if name not in ("__init__", "base")
}
_PACKAGES = {package: framework.name for framework in FRAMEWORKS.values() for package in framework.packages}


def framework_of(name: str) -> str | None:
    """The framework a canonical name belongs to."""
    return _PACKAGES.get(name.split(".", 1)[0])
