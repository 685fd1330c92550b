"""One ranking of the three parts: quotas, and a bridge whose triples do not repeat each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.base import Ranking
from stratagraph.methods.hirag.config import PARTS, Part
from stratagraph.pipeline.ranking import Origin, interleaved, taken
from stratagraph.protocols import Rows

Csr = tuple[NDArray[np.int64], NDArray[np.int64]]

FOCUSED = 3
"""Passages behind a hit up to which it counts as telling what they say; with more it only mentions them."""


def by_quota(
    parts: dict[Part, Ranking], quotas: Sequence[float], k: int, sources: dict[Origin, Csr]
) -> Ranking:
    """The best of each part, as many as its share of `k`, the parts taking turns.

    Parameters
    ----------
    parts
        Rankings, best first.
    quotas
        Of local, bridge and global part, as in `HiRAGOptions`.
    k
        Hits that are wanted.
    sources
        The passages behind each row of an origin: indptr and indices.
    """
    if "bridge" in parts:
        parts = {**parts, "bridge": diverse(parts["bridge"], sources, k)}
    present = [(parts[part], quota) for part, quota in zip(PARTS, quotas, strict=True) if part in parts]
    return interleaved([found for found, _ in present], [quota for _, quota in present], k)


def diverse(bridge: Ranking, sources: dict[Origin, Csr], k: int) -> Ranking:
    """The best of the bridge's triples, first those that rest on a passage which no better triple rests on.

    The best triple leads. Summary entities, which stand for triples without a text, neither discount triples
    nor are discounted.
    """
    triples = np.flatnonzero(bridge.origin == Origin.GRAPH)
    hubs = np.flatnonzero(bridge.origin != Origin.GRAPH)
    order = triples[fresh(_passages(taken(bridge, triples), sources), k)]
    better = np.searchsorted(-bridge.scores[triples], -bridge.scores[hubs], "right")
    turns = np.concatenate([np.arange(len(order)), np.maximum(better, 1) - 0.5])
    return taken(bridge, np.concatenate([order, hubs])[np.argsort(turns, kind="stable")])


def fresh(passages: Iterable[Sequence[int]], count: int) -> Rows:
    """The first `count` places of a ranking, first those on a passage that no earlier one is on.

    `passages` are those behind each result, best first.
    """
    known: set[int] = set()
    new: list[int] = []
    rest: list[int] = []
    for place, rows in enumerate(passages):
        if len(new) == count:
            break
        (rest if new and known.issuperset(rows) else new).append(place)
        if len(rows) <= FOCUSED:
            known.update(rows)
    return np.array([*new, *rest][:count], np.int64)


def ordered(found: Ranking) -> Ranking:
    """Results in order of their scores; equals as they stand."""
    return taken(found, np.argsort(-found.scores, kind="stable"))


def _passages(found: Ranking, sources: dict[Origin, Csr]) -> Iterator[list[int]]:
    """The passages behind each result, as far as they are asked for."""
    for row, origin in zip(found.rows.tolist(), found.origin.tolist(), strict=True):
        indptr, indices = sources[Origin(origin)]
        yield indices[indptr[row] : indptr[row + 1]].tolist()
