"""What ``detect`` is told about one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DetectOptions:
    """Settings that change what is looked for, not what is shown."""

    #: Modules that look like one of a framework: ``{"scico.numpy": "jax.numpy"}``.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Codes that are off by default and need extra work, and were asked for.
    opt_in: frozenset[str] = frozenset()
