"""Settings of the analysis of one file: what is looked for, and what that may cost."""

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
    #: The user's evidence about the gradients in the file, by the labels of ``evidence.pieces.Evidence``.
    said: tuple[str, ...] = ()


class Budget:
    """The limits of one file, counted rather than timed, so that a run gives what another one gives."""

    #: Values and steps of one function, with all that it calls, and how deeply these calls are nested.
    nodes = 6_000
    steps = 300_000
    depth = 6
    #: Work of the searches of one function, and of the whole file.
    function_work = 100_000
    file_work = 4_000_000
    #: Results of a function that are looked at for each selection.
    results = 8
    #: Functions that are followed from one, to see what it brings together.
    functions = 60
    #: Other files that are opened for names that lead to no framework yet, and that are searched for callers.
    files = 60
    mentions = 8
    #: The size of another file that is followed.
    file_bytes = 400_000
    #: The length of a text that is checked.
    characters = 12_000_000

    def __init__(self) -> None:
        #: What was left out and why, each sentence once, in order.
        self.given_up: dict[str, None] = {}

    def give_up(self, what: str, why: str) -> None:
        """Note that something was left out."""
        self.given_up[f"gave up on {what}: {why}"] = None
