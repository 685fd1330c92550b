"""What one answer costs, of many that a gate lets run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratagraph.errors import CallFailed
from stratagraph.models.gate import Gate
from stratagraph.records import Usage


class AnswerFailed(CallFailed):
    """An answer could not be had; `usage` is what was spent on it all the same."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


class Work:
    """A piece of work, and the gate to do it at; what it cost is known when it is over."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.usage = Usage()


@contextmanager
def booked(gate: Gate, stage: str) -> Iterator[Work]:
    """A piece of work that is counted by itself, and under a stage of `gate` with the others.

    Raises
    ------
    AnswerFailed
        In place of a call's own failure, with what the work cost until then.
    """
    work = Work(gate.apart())
    try:
        with work.gate.stage(stage):
            yield work
    except CallFailed as error:
        raise AnswerFailed(str(error), work.gate.ledger.total) from error
    finally:
        work.usage = work.gate.ledger.total
        gate.ledger.include(work.gate.ledger)
        gate.failures.extend(work.gate.failures)
