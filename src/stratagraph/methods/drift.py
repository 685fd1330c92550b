"""How far a partition may drift from a fresh one under updates; one rule for all methods.

An update leaves communities and clusters as they are and places new members among them, so partitions drift.
A fresh partition is one that is computed without the previous one.

1. Changes are counted (`Drift`). When more than `COMPARE_SHARE` of the members changed since the last
   comparison, the number of parts and their quality are compared with those of the last fresh partition, per
   member. That takes a pass over the edges or vectors.
2. A partition has drifted if its quality is lower by more than `MOST_DRIFT`, or if its number of parts
   differs by more than that (and by more than one).
3. If it has drifted, or if more than `FRESH_SHARE` of the members changed since the last fresh partitions, a
   fresh partition is computed to compare with, at the cost of a build's clustering.
4. There may be several ways to update, each with more changes than the one before. The first way is taken
   whose result has not drifted from the fresh partition; if none is left, the fresh partition is. HiRAG's
   second way brings the parts to the number in the fresh partition. Without it 24 updates of 400 passages of
   MuSiQue asked a model for 37 % more texts, and 32 updates of 300 passages of 2WikiMultiHopQA for 43 % more.

So after a comparison every partition is as near to a fresh one as `MOST_DRIFT` says. Fresh partitions differ
from each other by chance: levels of 50 to 90 communities by up to 12 %. `cookbook/benchmarks/drift.py` shows
both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import Labels
from stratagraph.ingest.checks import Checks
from stratagraph.kernels.leiden import modularity
from stratagraph.kernels.ranges import distinct
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows

T = TypeVar("T")
Measures = NDArray[np.float64]
"""The number of parts and their quality, of one or several partitions, shape (partitions, 2)."""
COMPARE_SHARE = 0.02
"""A partition is compared when more than this share of its members changed since the last time."""
FRESH_SHARE = 0.1
"""A fresh partition is computed for the comparison when more than this share changed since the last one."""
MOST_DRIFT = 0.05
"""The largest relative difference. Partitions of one graph that differ by the seed alone have up to 6 % more
or fewer communities (HiRAG, 150 to 800 passages of musique_train100)."""
DRIFT, STALE = "drift", "drift.stale"
"""Arrays that count the changes since the last comparison, and since the last fresh partitions."""
_MEASURES = "drift.made."
"""Prefix of the arrays of parts per member and quality of the last fresh partitions."""


class Drift:
    """Counts the changed members of a method's partitions.

    `changed` of the `members` changed since the last comparison, and `stale` since the last fresh partitions;
    `measures` holds parts per member and quality of these, by the partition's name.
    """

    def __init__(
        self, members: int, changed: int = 0, stale: int = 0, measures: Mapping[str, Measures] | None = None
    ) -> None:
        self.members = members
        self.changed = changed
        self._stale = stale
        self._before = measures or {}
        self._measures: dict[str, Measures] = {}

    @classmethod
    def since(cls, arrays: Mapping[str, NDArray[Any]], members: int, changed: int) -> Drift:
        """With what the previous index counted."""
        before, stale = (int(arrays[name][0]) for name in (DRIFT, STALE))
        measures = {
            name.removeprefix(_MEASURES): arrays[name] for name in arrays if name.startswith(_MEASURES)
        }
        return cls(members, before + changed, stale + changed, measures)

    @classmethod
    def between(cls, arrays: Mapping[str, NDArray[Any]], before: int, rows_before: Rows) -> Drift:
        """With what the previous index counted, and the members that were added or removed since.

        `before` is how many there were, and `rows_before` the previous row of each member, or -1.
        """
        carried = int(np.count_nonzero(rows_before >= 0))
        return cls.since(arrays, len(rows_before), len(rows_before) + before - 2 * carried)

    @property
    def due(self) -> bool:
        """Whether enough changed for a comparison (`COMPARE_SHARE`)."""
        return self.changed > COMPARE_SHARE * self.members

    @property
    def lapsed(self) -> bool:
        """Whether enough changed to compute fresh partitions and compare with them (`FRESH_SHARE`)."""
        return self.due and self._stale > FRESH_SHARE * self.members

    def arrays(self) -> Arrays:
        """The arrays for the next update; a comparison resets its count."""
        counts = {DRIFT: 0 if self.due else self.changed, STALE: 0 if self.lapsed else self._stale}
        arrays = {name: np.array([count], np.int64) for name, count in counts.items()}
        measures = {_MEASURES + name: measures for name, measures in self._measures.items()}
        return Holds.MEASURES.of({**arrays, **measures})

    def fresh(self, name: str, members: int, compute: Callable[[], T], measure: Callable[[T], Measures]) -> T:
        """A fresh partition of this many members; its measures are recorded under the name."""
        partition = compute()
        self._measures[name] = measure(partition) / [max(members, 1), 1]
        return partition

    def choose(
        self,
        name: str,
        members: int,
        ways: Sequence[Callable[[], T]],
        compute: Callable[[], T],
        measure: Callable[[T], Measures],
    ) -> T:
        """The result of the first way that has not drifted, else the fresh partition.

        `name` and `members` identify the partition, and how many members it has. `ways` update the previous
        partition, those that change least first; without any, the partition is fresh. If no comparison is
        due, the first way is taken. `compute`, which gives the fresh partition, is called only if necessary.
        """
        if not ways:
            return self.fresh(name, members, compute, measure)
        first, scale = ways[0](), [max(members, 1), 1]
        measures_before = self._before.get(name)
        if measures_before is not None:
            self._measures[name] = measures_before
        if not self.due:
            return first
        own = measure(first)
        if measures_before is not None and not self.lapsed and not drifted(own, measures_before * scale):
            return first
        fresh = self.fresh(name, members, compute, measure)
        wanted = self._measures[name] * scale
        if not drifted(own, wanted):
            return first
        others = (way() for way in ways[1:])
        return next((other for other in others if not drifted(measure(other), wanted)), fresh)


def drifted(measures: Measures, wanted: Measures) -> bool:
    """Whether any partition has drifted from the wanted one, or their number differs."""
    if measures.shape != wanted.shape:
        return True
    (count, quality), (wanted_count, wanted_quality) = measures.T, wanted.T
    other_size = np.abs(count - wanted_count) > np.maximum(1, MOST_DRIFT * wanted_count)
    worse = (wanted_quality > 0) & (quality < (1 - MOST_DRIFT) * wanted_quality)
    return bool((other_size | worse).any())


def communities_measured(
    ends: NDArray[np.integer], weights: NDArray[np.floating] | None, labels: NDArray[np.integer]
) -> Measures:
    """Measures of communities (labels of nodes) by modularity over the graph of `ends` and `weights`."""
    return np.array([[len(distinct(labels)), modularity(ends, weights, labels)]], np.float64)


def majority(labels: Labels, previous: Labels, count: int) -> tuple[Labels, Rows]:
    """The previous label that most members of each of `count` communities had, the lower of equals, or -1.

    And how many had it, shape (count,). `previous` is -1 for new members.
    """
    had_label = previous >= 0
    span = int(previous.max(initial=0)) + 1
    pairs, shared = np.unique(labels[had_label] * span + previous[had_label], return_counts=True)
    new, old = pairs // span, pairs % span
    labels_before, overlap = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    order = np.lexsort((-old, shared))  # the last one written is the most frequent, of equals the lowest
    labels_before[new[order]], overlap[new[order]] = old[order], shared[order]
    return labels_before, overlap


def check_drift(checks: Checks) -> None:
    """Check the arrays of `Drift`; `ValueError` names the wrong one."""
    for name in (DRIFT, STALE):
        checks.rows(name, 2**62, (1,))
    for name in checks.names(_MEASURES):
        checks.numbers(name, np.float64, (None, 2))
