"""What one answer costs, of many that a gate lets run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratarag.models.gate import Gate
from stratarag.records import Usage


class Work:
    """A piece of work, and the gate to do it at; what it cost is known when it is over."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.usage = Usage()


@contextmanager
def booked(gate: Gate, stage: str) -> Iterator[Work]:
    """A piece of work that is counted by itself, and under a stage of `gate` with the others."""
    work = Work(gate.apart())
    try:
        with work.gate.stage(stage):
            yield work
    finally:
        work.usage = work.gate.ledger.total
        gate.ledger.include(work.gate.ledger)
        gate.failures.extend(work.gate.failures)
