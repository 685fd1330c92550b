"""Dates of passages and nodes, and rankings in which newer results weigh more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.search.ranking import Ranking, taken
from stratagraph.types.dates import day_of
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Sources
from stratagraph.types.records import Metadata

_LEAST = 1e-30  # weight of the oldest results


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


def weighed(ranking: Ranking, days: NDArray[np.int32], half_life: float) -> Ranking:
    """A ranking whose scores halve with each half-life, best first; the trace tells the weight.

    Ages are counted from the newest result: from any later day the order would be the same.

    Parameters
    ----------
    days
        Of each result, shape (n,); one without a date counts as old as the oldest of them.
    """
    known = days[days > 0] if (days > 0).any() else np.ones(1, np.int32)
    ages = known.max() - np.where(days > 0, days, known.min())
    weights = np.maximum(np.exp2(-np.minimum(ages / half_life, 1000.0)), _LEAST)
    scores = np.where(ranking.scores > 0, ranking.scores * weights, ranking.scores / weights)
    trace = [
        {**entry, "recency": weight} for entry, weight in zip(ranking.trace, weights.tolist(), strict=True)
    ]
    order = np.argsort(-scores, kind="stable")
    return taken(Ranking(ranking.rows, scores.astype(np.float32), ranking.tables, trace), order)
