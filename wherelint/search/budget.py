"""How much may be computed, counted rather than timed, so that a run gives up where another one does."""

from __future__ import annotations

from dataclasses import dataclass, field

from wherelint.graph.work import Work


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
