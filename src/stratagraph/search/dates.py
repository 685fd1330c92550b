"""Dates of passages and nodes, and rankings in which newer results weigh more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.search.ranking import Ranking, taken
from stratagraph.types.dates import day_of
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Recency, Sources
from stratagraph.types.records import Metadata

_LEAST = 1e-6  # weight of the oldest results, so that their order stays


class Dates:
    """When passages are dated.

    Attributes
    ----------
    days
        The ordinal of each passage's last day, shape (passages,); 0 without a date.
    texts
        Each date, as far as it is known; empty without one.
    """

    def __init__(self, key: str, metadata: Sequence[Metadata]) -> None:
        found = [day_of(each.get(key)) for each in metadata]
        self.days = np.array([0 if day is None else day.last.toordinal() for day in found], np.int32)
        self.texts = ["" if day is None else day.text for day in found]

    def text(self, rows: Rows) -> str:
        """The newest date of some passages; empty if none of them has one."""
        return self.texts[int(rows[np.argmax(self.days[rows])])] if len(rows) else ""


def newest(days: NDArray[np.int32], sources: Sources) -> NDArray[np.int32]:
    """The newest day of the passages behind each node, shape (nodes,); 0 if none is dated."""
    indptr, indices = sources
    latest = np.zeros(len(indptr) - 1, np.int32)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        latest[filled] = np.maximum.reduceat(days[indices], indptr[filled])
    return latest


def weighed(ranking: Ranking, days: NDArray[np.int32], recency: Recency) -> Ranking:
    """A ranking whose scores halve with each half-life, best first; the trace tells the weight.

    Parameters
    ----------
    days
        Of each result, shape (n,); one without a date counts as old as the oldest of them.
    """
    known = days[days > 0]
    days = np.where(days > 0, days, known.min(initial=recency.newest))
    ages = np.maximum(recency.newest - days, 0)
    weights = np.maximum(np.exp2(-ages / recency.half_life), _LEAST)
    scores = np.where(ranking.scores > 0, ranking.scores * weights, ranking.scores / weights)
    trace = [
        {**entry, "recency": weight} for entry, weight in zip(ranking.trace, weights.tolist(), strict=True)
    ]
    order = np.argsort(-scores, kind="stable")
    return taken(Ranking(ranking.rows, scores.astype(np.float32), ranking.origin, trace), order)
