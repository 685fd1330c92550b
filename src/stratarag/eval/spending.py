"""What a piece of work at a gate costs, where the stage that it is booked under has costs already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from stratarag.models.gate import Gate
from stratarag.records import Usage


class Spending:
    """Calls, tokens and seconds of the work within `booked`; known when that is over."""

    def __init__(self) -> None:
        self.usage = Usage()


@contextmanager
def booked(gate: Gate, stage: str) -> Iterator[Spending]:
    """The scope of a stage, and what it adds to that stage."""
    before, spending = gate.ledger.stages.get(stage, Usage()), Spending()
    with gate.stage(stage):
        yield spending
    spending.usage = difference(gate.ledger.stages[stage], before)


def difference(after: Usage, before: Usage) -> Usage:
    """What came between two states of one stage."""
    earlier = asdict(before)
    return Usage(**{name: value - earlier[name] for name, value in asdict(after).items()})
