"""What each stage cost, as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stratagraph._locks import Lock
from stratagraph.protocols import SpendingJournal
from stratagraph.records import Usage

EARLIER = "earlier runs"
"""The stage under which an operation that was stopped, and goes on, shows what was paid for it before."""


class Ledger:
    """Sums of `Usage` per stage, in the order in which the stages began, and per model. Thread-safe.

    Parameters
    ----------
    journal
        Where what models are paid for is kept until it is published; None keeps nothing.
    """

    def __init__(self, journal: SpendingJournal | None = None) -> None:
        self._lock = Lock()
        self._journal = journal
        self._stages: dict[str, Usage] = {}
        self._models: dict[str, Usage] = {}

    def add(self, stage: str, usage: Usage, model: str = "") -> None:
        """Add to what the stage cost so far, and to what the chat model did that was asked."""
        with self._lock:
            self._stages[stage] = self._stages.get(stage, Usage()) + usage
            if model:
                self._models[model] = self._models.get(model, Usage()) + usage
        if model and self._journal is not None:
            self._journal.spend(model, usage)

    def include(self, other: Ledger) -> None:
        """Add what another ledger counted, that of a piece of the same work."""
        stages, models = other.stages, other.models
        with self._lock:
            for own, added in ((self._stages, stages), (self._models, models)):
                for name, usage in added.items():
                    own[name] = own.get(name, Usage()) + usage

    def resume(self, earlier: Mapping[str, Usage]) -> None:
        """Begin with what each model did for this operation before it was stopped."""
        with self._lock:
            for model, usage in earlier.items():
                self._stages[EARLIER] = self._stages.get(EARLIER, Usage()) + usage
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
