"""What this process has computed so far, counted rather than timed, so that a run gives up where another one does."""

from typing import ClassVar

#: So many probes of a node cost about as much again as looking at the node.
_PROBES = 256


class Work:
    """Node evaluations, forward and back, and the steps that functions were read in."""

    done: ClassVar[int] = 0

    @classmethod
    def count(cls, nodes: int, probes: int = 0) -> None:
        """Note what was computed."""
        cls.done += nodes + nodes * probes // _PROBES
