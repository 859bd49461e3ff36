"""Confirmations on disk, keyed by everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from wherelint import __version__
from wherelint.confirm.harness import request
from wherelint.confirm.routine import Snippet
from wherelint.finding import AfterFix, Confirmation, Outcome

_PACKAGES = {
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu"),
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "keras"),
}
#: Files by which a system shows its accelerators.
_DEVICES = ("nvidia*", "kfd", "accel*", "vfio/*")
_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS", "XLA_FLAGS")


class Cache:
    """Confirmations in a directory. What cannot be read is not there; what cannot be written is not kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "confirm"

    def find(self, snippet: Snippet, device: str) -> Confirmation | None:
        """What is known of a snippet on a device."""
        try:
            known = json.loads(self._path(snippet, device).read_text(encoding="utf-8"))
            return _read(known)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def keep(self, snippet: Snippet, device: str, confirmation: Confirmation) -> None:
        """Write what was found; a reader sees all of it or nothing."""
        path = self._path(snippet, device)
        temporary = ""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            ignore = self._directory.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            handle, temporary = tempfile.mkstemp(dir=self._directory)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(confirmation), file)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)

    def _path(self, snippet: Snippet, device: str) -> Path:
        names = [step.name for routine in (snippet.before, snippet.after) if routine for step in routine.parameters]
        about = [__version__, snippet.framework, device, names, snippet.poisoned, _surroundings(snippet.framework)]
        digest = hashlib.sha256(json.dumps(about).encode() + request(snippet)).hexdigest()
        return self._directory / f"{digest}.json"


def _surroundings(framework: str) -> list[Any]:
    """The versions of a framework's packages, and the accelerators that it may find. Nothing is imported."""
    versions = []
    for package in _PACKAGES[framework]:
        with suppress(metadata.PackageNotFoundError):
            versions.append((package, metadata.version(package)))
    devices = sorted(str(path) for pattern in _DEVICES for path in Path("/dev").glob(pattern))
    return [versions, devices, [os.environ.get(name) for name in _ENVIRONMENT]]


def _read(known: dict[str, Any]) -> Confirmation:
    after = known["after_fix"]
    modes = {mode: Outcome(**outcome) for mode, outcome in known["modes"].items()}
    return Confirmation(**{**known, "modes": modes, "after_fix": AfterFix(**after) if after else None})
