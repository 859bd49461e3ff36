"""How much a search may compute, counted rather than timed, so that a run gives up where another one does."""

from __future__ import annotations

from dataclasses import dataclass, field

from wherelint.graph.work import Work


@dataclass
class Effort:
    """How many node evaluations a function may cost; shared by its searches."""

    left: int = 800_000
    #: What is left for the whole file.
    whole: Effort | WorkBudget | None = None

    def spend(self, evaluations: int) -> None:
        """Note what a search estimates that it cost."""
        self.left -= evaluations
        if isinstance(self.whole, Effort):
            self.whole.spend(evaluations)

    @property
    def spent(self) -> bool:
        """Whether it has cost enough."""
        return self.left <= 0 or (self.whole is not None and self.whole.spent)


@dataclass
class WorkBudget:
    """How much work may be done from now on, whatever it is done for."""

    most: int
    begun: int = field(default_factory=lambda: Work.done)

    def part(self, most: int) -> WorkBudget:
        """So much of it, or what is left."""
        return WorkBudget(min(most, self.most - (Work.done - self.begun)))

    @property
    def spent(self) -> bool:
        """Whether that much was done."""
        return Work.done - self.begun >= self.most
