"""Confirmations on disk, keyed by everything that they depend on."""

import hashlib
import json
import os
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from wherelint.confirm.harness import request
from wherelint.confirm.routine import Snippet
from wherelint.finding import Confirmation
from wherelint.frameworks import FRAMEWORKS
from wherelint.io import disk
from wherelint.io.plain import decoder, plain
from wherelint.version import __version__

#: Files by which a system shows its accelerators.
_DEVICES = ("nvidia*", "kfd", "accel*", "vfio/*")
_MODES = frozenset({"jit", "eager", "xla"})
_LARGEST = 1 << 20
_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS", "XLA_FLAGS")


class Cache:
    """Confirmations in a directory. What cannot be read is not there; what cannot be written is not kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "confirm"

    def find(self, snippet: Snippet, device: str) -> Confirmation | None:
        """What is known of a snippet on a device."""
        try:
            return _read(json.loads(disk.contents(self._path(snippet, device), _LARGEST)))
        except (OSError, ValueError, RecursionError):
            return None

    def keep(self, snippet: Snippet, device: str, confirmation: Confirmation) -> None:
        """Write what was found, if it was run; a reader sees all of it or nothing."""
        if confirmation.verdict != "not-runnable":
            disk.keep(self._path(snippet, device), json.dumps(plain(confirmation)).encode())

    def _path(self, snippet: Snippet, device: str) -> Path:
        names = [step.name for routine in (snippet.before, snippet.after) if routine for step in routine.parameters]
        about = [__version__, snippet.framework, device, names, snippet.poisoned, _surroundings(snippet.framework)]
        digest = hashlib.sha256(json.dumps(about).encode() + request(snippet)).hexdigest()
        return self._directory / f"{digest}.json"


def _surroundings(framework: str) -> list[Any]:
    """The versions of a framework's packages, and the accelerators that it may find. Nothing is imported."""
    versions = []
    for package in FRAMEWORKS[framework].distributions:
        with suppress(metadata.PackageNotFoundError):
            versions.append((package, metadata.version(package)))
    devices = sorted(str(path) for pattern in _DEVICES for path in Path("/dev").glob(pattern))
    return [versions, devices, [os.environ.get(name) for name in _ENVIRONMENT]]


def _read(known: Any) -> Confirmation:
    """A confirmation as it was kept. Raises ValueError for anything else."""
    found: Confirmation = decoder(Confirmation)(known)
    lost = any("nan" in str(v) or "inf" in str(v) for mode in found.modes.values() for v in mode.gradient.values())
    believed = found.verdict == "not-reproduced" or (found.verdict == "confirmed" and lost)
    if not believed or not _MODES.issuperset(found.modes):
        raise ValueError("no verdict that is cached")
    return found
