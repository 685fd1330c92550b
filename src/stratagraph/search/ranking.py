"""Rankings: rows with scores, the table of each row, and how several are merged or fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stratagraph.types.protocols import Rows
from stratagraph.types.records import Metadata

_RRF_CONSTANT = 60


class RowTable(IntEnum):
    """The table that a row of a ranking is of. Of equal scores, the later table comes first."""

    NODE = 0
    """The method's own nodes."""
    GRAPH = 1
    """The corpus' graph: entities, relations, units."""
    CHUNK = 2
    """The corpus' chunks."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking, best first: rows, scores, and the `RowTable` of each row; all of shape (n,).

    `trace[i]` tells why result `i` is there, in the method's own terms.
    """

    rows: Rows
    scores: NDArray[np.float32]
    tables: NDArray[np.int8]
    trace: Sequence[Metadata]

    @classmethod
    def of(
        cls,
        table: RowTable,
        rows: Rows,
        scores: NDArray[np.floating],
        trace: Sequence[Metadata] | None = None,
    ) -> Ranking:
        """A ranking of rows of one table; without a trace, scores are cosine similarities and it says so."""
        traces = [{"similarity": float(score)} for score in scores] if trace is None else trace
        return cls(rows, scores.astype(np.float32), np.full(len(rows), table, np.int8), traces)

    def __len__(self) -> int:
        return len(self.rows)


def merged(parts: Sequence[Ranking], k: int) -> Ranking:
    """The best `k` of several rankings by score; of equals chunks first, then lower rows."""
    joined = concatenate(parts)
    order = np.lexsort((joined.rows, -joined.tables, -joined.scores))[:k]
    return taken(joined, order)


def concatenate(parts: Sequence[Ranking]) -> Ranking:
    """Rankings one after the other, in their order."""
    return Ranking(
        np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.scores for part in parts)]),
        np.concatenate([np.zeros(0, np.int8), *(part.tables for part in parts)]),
        [entry for part in parts for entry in part.trace],
    )


def interleaved(parts: Sequence[Ranking], shares: Sequence[float], k: int) -> Ranking:
    """The best `k` of several rankings by shares, whatever their scores; missing results go to the others.

    One result at a time comes from the ranking that is least ahead of its share, of equals the first; so the
    first n results are those of `k = n`. Scores are lowered where needed, so that they descend.

    Parameters
    ----------
    parts
        Rankings without common results.
    shares
        The proportion of each; one of 0 comes after all others.
    """
    ahead = [
        (1 + np.arange(len(part))) / (share or np.finfo(np.float32).tiny)
        for part, share in zip(parts, shares, strict=True)
    ]
    order = np.argsort(np.concatenate([np.zeros(0), *ahead]), kind="stable")[:k]
    mixed = taken(concatenate(parts), order)
    return Ranking(mixed.rows, np.minimum.accumulate(mixed.scores), mixed.tables, mixed.trace)


def shares_of(kinds: Sequence[str], shares: Mapping[str, float]) -> list[float]:
    """The share of each kind; all alike if no shares are given, and 0 of a kind that they do not name."""
    return [shares.get(kind, 0.0) if shares else 1.0 for kind in kinds]


def first(ranking: Ranking, k: int) -> Ranking:
    """The first `k` of a ranking, or all where there are fewer."""
    return ranking if len(ranking) <= k else taken(ranking, np.arange(k))


def taken(ranking: Ranking, order: NDArray[np.integer]) -> Ranking:
    """The results at some places, in their order."""
    trace = [ranking.trace[place] for place in order.tolist()]
    return Ranking(ranking.rows[order], ranking.scores[order], ranking.tables[order], trace)


def labelled(ranking: Ranking, view: str) -> Ranking:
    """The same results; the trace names the ranking that they come from."""
    trace = [{"view": view, **entry} for entry in ranking.trace]
    return Ranking(ranking.rows, ranking.scores, ranking.tables, trace)


def reciprocal_ranks(rankings: Sequence[Rows]) -> tuple[Rows, NDArray[np.float64]]:
    """Reciprocal rank fusion: a row's score is the sum of 1 / (60 + place) over rankings that have it.

    The constant is that of its authors (Cormack, Clarke and Büttcher 2009).

    Returns
    -------
    Rows and scores, best first; of equals, the row that stands earlier in an earlier ranking.
    """
    everywhere = np.concatenate([np.zeros(0, np.int64), *rankings])
    parts = [1 / (_RRF_CONSTANT + np.arange(1, len(ranking) + 1)) for ranking in rankings]
    rows, first, place = np.unique(everywhere, return_index=True, return_inverse=True)
    sums = np.bincount(place, np.concatenate([np.zeros(0), *parts]), minlength=len(rows))
    scores = np.asarray(sums, np.float64)
    order = np.lexsort((first, -scores))
    return rows[order], scores[order]
