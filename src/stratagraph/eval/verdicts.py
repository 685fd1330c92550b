"""Verdicts of several judges, of whom one may fail altogether."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from stratagraph import _sync
from stratagraph.errors import BudgetExceeded, ModelError
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.records import Failure

T = TypeVar("T")


def verdicts(
    gates: Sequence[Gate], task: Task[T], items: Sequence[CallItem], stage: str
) -> list[list[T | None]]:
    """What each judge says of each item; None where his verdict cannot be read.

    A judge who answers nothing any more (a wrong key, a server that is gone, a budget that is spent) says
    nothing of any item, which is among his gate's failures, as long as another one answers.

    Raises
    ------
    ModelError, BudgetExceeded
        As the gate of the last judge raises them, if there is none left.
    """
    found: list[list[T | None]] = []
    gone: list[ModelError | BudgetExceeded] = []
    for gate in gates:
        with gate.stage(stage, len(items)):
            try:
                found.append(_sync.run(gate.map(task, items, required=False)))
            except (ModelError, BudgetExceeded) as error:
                gone.append(error)
                found.append([None] * len(items))
                gate.failures += [Failure(stage, item.item, str(error)) for item in items]
    if len(gone) == len(found) and gone:
        raise gone[-1]
    return found
