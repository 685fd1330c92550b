"""One ranking of the three parts: quotas, and a bridge that tells what the other parts do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Ranking
from stratarag.methods.hirag.config import PARTS, Part
from stratarag.pipeline.ranking import Origin, concatenate

Csr = tuple[NDArray[np.int64], NDArray[np.int64]]

FOCUSED = 3
"""Passages behind a hit up to which it counts as telling what they say; with more it only mentions them."""


def by_quota(
    parts: dict[Part, Ranking], quotas: Sequence[float], k: int, sources: dict[Origin, Csr]
) -> Ranking:
    """The best of each part, as many as its share of `k`; in order of their scores.

    Of the bridge come first what rests on a passage that no local hit, and no better one of the bridge,
    rests on: it is there for the knowledge that the other parts lack.

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
    counts = shares([len(parts[part]) if part in parts else 0 for part in PARTS], quotas, k)
    chosen: dict[Part, Ranking] = {}
    for part, count in zip(PARTS, counts, strict=True):
        if part not in parts:
            continue
        places: Sequence[int] = range(count)
        if part == "bridge":
            told = _passages(chosen["local"], sources) if "local" in chosen else []
            places = fresh(_passages(parts[part], sources), told, count)
        chosen[part] = taken(parts[part], places)
    return ordered(concatenate(list(chosen.values())))


def shares(available: Sequence[int], quotas: Sequence[float], total: int) -> list[int]:
    """How much of `total` each gets: in proportion to its quota, what one has not goes to the others.

    One at a time goes to whoever would be least ahead of its share; to the first of equals.
    """
    given = [0] * len(available)
    weights = [quota or 1e-9 for quota in quotas]
    for _ in range(min(total, sum(available))):
        waiting = [i for i, most in enumerate(available) if given[i] < most]
        given[min(waiting, key=lambda i: ((given[i] + 1) / weights[i], i))] += 1
    return given


def fresh(passages: Sequence[Sequence[int]], told: Sequence[Sequence[int]], count: int) -> list[int]:
    """Ascending places of the best `count` of a ranking, of those first that rest on an untold passage.

    `passages` are those behind each hit, best first; `told` those behind the hits of other rankings.
    """
    known = {row for rows in told if len(rows) <= FOCUSED for row in rows}
    new: list[int] = []
    rest: list[int] = []
    for place, rows in enumerate(passages):
        if len(new) == count:
            break
        (rest if known.issuperset(rows) else new).append(place)
        if len(rows) <= FOCUSED:
            known.update(rows)
    return sorted(islice([*new, *rest], count))


def taken(found: Ranking, places: Sequence[int]) -> Ranking:
    """Some results of a ranking."""
    rows = np.array(places, np.int64)
    return Ranking(found.rows[rows], found.scores[rows], found.origin[rows], [found.trace[i] for i in places])


def ordered(found: Ranking) -> Ranking:
    """Results in order of their scores; equals as they stand."""
    return taken(found, np.argsort(-found.scores, kind="stable").tolist())


def _passages(found: Ranking, sources: dict[Origin, Csr]) -> list[list[int]]:
    """The passages behind each result."""
    told = []
    for row, origin in zip(found.rows.tolist(), found.origin.tolist(), strict=True):
        indptr, indices = sources[Origin(origin)]
        told.append(indices[indptr[row] : indptr[row + 1]].tolist())
    return told
