"""What everything cost since the server was started."""

from __future__ import annotations

from dataclasses import dataclass

import stratagraph as sg


@dataclass(frozen=True, slots=True)
class Cost:
    """The number of runs of an operation, their usage, and their cost; None if a price is unknown."""

    operation: str
    count: int
    usage: sg.Usage
    cost: float | None


class Costs:
    """Sums by operation."""

    def __init__(self) -> None:
        self._sums: dict[str, Cost] = {}

    def add(self, operation: str, usage: sg.Usage, cost: float | None) -> None:
        """Count an operation."""
        known = self._sums.get(operation, Cost(operation, 0, sg.Usage(), 0.0))
        together = None if known.cost is None or cost is None else known.cost + cost
        self._sums[operation] = Cost(operation, known.count + 1, known.usage + usage, together)

    def all(self) -> list[Cost]:
        """The sums, by operation."""
        return [self._sums[name] for name in sorted(self._sums)]
