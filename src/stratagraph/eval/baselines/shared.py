"""What several baselines share: one question to the model, and rankings of several kinds of things."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from scipy.sparse import csr_array

from stratagraph import _sync
from stratagraph.errors import CallFailed
from stratagraph.eval.workbench import Passage, SharedGraph, Workbench
from stratagraph.models.gate import Task
from stratagraph.types.records import Failure

T = TypeVar("T")
ASK = "ask "
"""Prefix of the stages that count such calls."""


class OncePerQuestion(Generic[T]):
    """Asks the model once for each question, however often it is ranked.

    Calls and failures count at the gate of the bench under the stage `ask WHAT`.
    """

    def __init__(self, bench: Workbench, what: str, task: Task[T]) -> None:
        self._gate, self._waited = bench.gate, bench.waited
        self._stage = f"{ASK}{what}"
        self._task = task
        self._answers: dict[str, T | None] = {}

    def __call__(self, question: str, **values: str) -> T | None:
        """The model's answer for a question and other values of the prompt; None if the call failed."""
        if question not in self._answers:
            began = time.perf_counter()
            try:
                self._answers[question] = _sync.run(self._ask(question, values))
            except CallFailed as error:
                self._answers[question] = None
                self._gate.failures.append(Failure(self._stage, question, str(error)))
            self._waited[question] = time.perf_counter() - began
        return self._answers[question]

    async def _ask(self, question: str, values: dict[str, str]) -> T:
        with self._gate.stage(self._stage):
            return await self._gate.call(self._task, {"question": question, **values}, item=question)


def shared_out(streams: Sequence[tuple[float, Sequence[Passage]]], bench: Workbench, k: int) -> list[Passage]:
    """The first `k` of several rankings, each with its share of the tokens of any prefix.

    The next item comes from the ranking with the fewest tokens for its share; one that ends leaves its share
    to the others.
    """
    queues = [(share, iter(ranking)) for share, ranking in streams]
    spent = [0.0] * len(queues)
    heads = [next(ranking, None) for _, ranking in queues]
    chosen: list[Passage] = []
    while len(chosen) < k:
        open_ones = [place for place, head in enumerate(heads) if head is not None]
        if not open_ones:
            break
        place = min(open_ones, key=lambda at: spent[at])
        head = heads[place]
        assert head is not None
        chosen.append(head)
        spent[place] += bench.count_tokens(head.text) / queues[place][0]
        heads[place] = next(queues[place][1], None)
    return chosen


def passage_of(bench: Workbench, text: str, sources: Iterable[int]) -> Passage:
    """A text with the documents of its chunks."""
    return Passage(text, tuple(dict.fromkeys(bench.chunks[row].document_id for row in sources)))


def by_support(graph: SharedGraph, entities: Iterable[int], support: Callable[[int], csr_array]) -> list[int]:
    """Chunks of the entities, one entity after the other, those first that most rows of its support have.

    `support` gives 1 where a relation or neighbour of an entity is in a chunk, shape (any, chunks).
    """
    listed: dict[int, None] = {}
    for row in entities:
        counts = np.asarray(support(row).sum(axis=0)).ravel()
        listed |= dict.fromkeys(sorted(graph.entities[row].sources, key=lambda at: (-counts[at], at)))
    return list(listed)
