"""What everything cost since the server was started."""

from __future__ import annotations

from dataclasses import dataclass

import stratarag as sr


@dataclass(frozen=True, slots=True)
class Cost:
    """How often an operation ran, and what it used together."""

    operation: str
    count: int
    usage: sr.Usage


class Costs:
    """Sums by operation."""

    def __init__(self) -> None:
        self._sums: dict[str, Cost] = {}

    def add(self, operation: str, usage: sr.Usage) -> None:
        """Count an operation."""
        known = self._sums.get(operation, Cost(operation, 0, sr.Usage()))
        self._sums[operation] = Cost(operation, known.count + 1, known.usage + usage)

    def all(self) -> list[Cost]:
        """The sums, by operation."""
        return [self._sums[name] for name in sorted(self._sums)]
