"""What each stage cost, as it happens."""

from __future__ import annotations

from dataclasses import dataclass

from stratarag._locks import Lock
from stratarag.records import Usage


class Ledger:
    """Sums of `Usage` per stage, in the order in which the stages began, and per model. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stages: dict[str, Usage] = {}
        self._models: dict[str, Usage] = {}

    def add(self, stage: str, usage: Usage, model: str = "") -> None:
        """Add to what the stage cost so far, and to what the chat model did that was asked."""
        with self._lock:
            self._stages[stage] = self._stages.get(stage, Usage()) + usage
            if model:
                self._models[model] = self._models.get(model, Usage()) + usage

    @property
    def models(self) -> dict[str, Usage]:
        """Usage per chat model; a copy."""
        with self._lock:
            return dict(self._models)

    @property
    def stages(self) -> dict[str, Usage]:
        """Usage per stage; a copy."""
        with self._lock:
            return dict(self._stages)

    @property
    def total(self) -> Usage:
        """Usage of all stages together."""
        return sum(self.stages.values(), Usage())


@dataclass
class Scope:
    """A stage that is under way, and how far it is. `total` is None where nobody knows."""

    ledger: Ledger
    stage: str
    total: int | None
    done: int = 0

    def progress(self) -> str:
        """For people: `97 of 250 done`."""
        return f"{self.done:,} done" if self.total is None else f"{self.done:,} of {self.total:,} done"
