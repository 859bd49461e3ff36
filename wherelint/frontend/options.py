"""What ``detect`` is told about one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DetectOptions:
    """Settings that change what is looked for."""

    #: Modules that look like one of a framework: ``{"scico.numpy": "jax.numpy"}``.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Codes that are off by default and need extra work, and were asked for.
    opt_in: frozenset[str] = frozenset()
    #: The least score that is asked for; what scores less need not be found.
    least: float = 0.0
    #: The user's evidence about the gradients in the file, by the names of the score's table.
    said: tuple[str, ...] = ()
