"""What a baseline asks the model about a question before it searches: names, keywords, a made-up passage."""

from __future__ import annotations

from typing import Generic, TypeVar

from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.models.gate import Gate, Task
from stratagraph.records import Failure

T = TypeVar("T")
ASK = "ask "
"""Begins the names of the stages under which such calls are counted."""


class Asked(Generic[T]):
    """Asks once for each question, however often it is ranked.

    Parameters
    ----------
    gate
        Where calls are counted and failures noted, under `ask WHAT`.
    what
        Is asked for.
    task
        Its prompt, to which `question` is given.
    """

    def __init__(self, gate: Gate, what: str, task: Task[T]) -> None:
        self._gate = gate
        self._stage = f"{ASK}{what}"
        self._task = task
        self._known: dict[str, T | None] = {}

    def __call__(self, question: str, **values: str) -> T | None:
        """What the model said, of the question and other values for the prompt.

        None if it failed for this question, which is noted and ends nothing.

        Raises
        ------
        ModelError, BudgetExceeded
            As the gate raises them.
        """
        if question not in self._known:
            try:
                self._known[question] = _sync.run(self._answer(question, values))
            except CallFailed as error:
                self._known[question] = None
                self._gate.failures.append(Failure(self._stage, question, str(error)))
        return self._known[question]

    async def _answer(self, question: str, values: dict[str, str]) -> T:
        with self._gate.stage(self._stage):
            return await self._gate.call(self._task, {"question": question, **values}, item=question)
