"""How far a partition that updates carry on may be from one made anew: one rule for all methods.

An update leaves communities and clusters as they are and places what is new among them, at the cost of what
changed. What comes late has less choice than what was there from the start, so such partitions drift. Hence:

1. Changes are counted (`Drift`). When more than `COMPARE_SHARE` of the members changed since the last
   comparison, the number of parts and their quality are held against what a partition made anew had last: as
   many parts for each member, of the same quality. That takes a pass over the edges or vectors.
2. A partition has drifted if its quality is below the one wanted by more than `MOST_DRIFT`, or if it has more
   or fewer parts by more than that (and by more than one).
3. Where it has, or where more than `ANEW_SHARE` of the members changed since all partitions were made anew,
   one is made anew to compare with. That costs as much as a build's clustering; so of changes that bring no
   drift each pays, on average, for the clustering of `1 / ANEW_SHARE` members, however large the corpus.
4. Of several ways to go on, which change the more the later they come, the first is taken whose result has
   not drifted from that, else the partition made anew.

The bound: after a comparison, every partition is as near to one made anew, over the same graph or over one of
which at most `ANEW_SHARE` changed since; until the next comparison at most `COMPARE_SHARE` of its members
change. A partition made anew is itself another one after each change, by chance: levels of 50 to 90
communities differ by up to 12 % from one passage to the next few. `cookbook/benchmarks/drift.py` shows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.leiden import modularity
from stratagraph.kernels.ranges import distinct
from stratagraph.pipeline.checks import Checks

T = TypeVar("T")
Measures = NDArray[np.float64]
"""The number of parts and their quality, of one partition or of several together, shape (partitions, 2)."""
COMPARE_SHARE = 0.02
"""A partition is compared when more than this share of its members changed since the last time."""
ANEW_SHARE = 0.1
"""It is compared with one made for that when more than this share changed since the last one was."""
MOST_DRIFT = 0.05
"""How far it may then differ. Partitions of one graph that differ by the seed alone have up to 6 % more or
fewer communities (HiRAG, 150 to 800 passages of musique_train100), so a closer bound would follow chance."""
DRIFT, STALE = "drift", "drift.stale"
"""The arrays that count what changed since the last comparison, and since all was made anew for one."""
_MADE = "drift.made."
"""Prefix of the arrays of what partitions made anew had: parts for each member, and quality."""


class Drift:
    """How many members of a method's partitions changed since these were compared, and made anew.

    Parameters
    ----------
    members, changed, stale
        Members, and how many of them changed since the last comparison, and since all was made anew for one.
    made
        Parts for each member and quality of the partitions made anew last, by name.
    """

    def __init__(
        self, members: int, changed: int = 0, stale: int = 0, made: Mapping[str, Measures] | None = None
    ) -> None:
        self.members = members
        self.changed = changed
        self._stale = stale
        self._before = made or {}
        self._made: dict[str, Measures] = {}

    @classmethod
    def since(cls, arrays: Mapping[str, NDArray[Any]], members: int, changed: int) -> Drift:
        """With what the previous index counted."""
        before, stale = (int(arrays[name][0]) for name in (DRIFT, STALE))
        made = {name.removeprefix(_MADE): arrays[name] for name in arrays if name.startswith(_MADE)}
        return cls(members, before + changed, stale + changed, made)

    @property
    def due(self) -> bool:
        """Whether so much changed that partitions are to be compared (`COMPARE_SHARE`)."""
        return self.changed > COMPARE_SHARE * self.members

    @property
    def lapsed(self) -> bool:
        """Whether they are to be compared with ones made for that in any case (`ANEW_SHARE`)."""
        return self.due and self._stale > ANEW_SHARE * self.members

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the next update reads; after a comparison, a count begins at 0 again."""
        counts = {DRIFT: 0 if self.due else self.changed, STALE: 0 if self.lapsed else self._stale}
        return {name: np.array([count], np.int64) for name, count in counts.items()} | {
            _MADE + name: made for name, made in self._made.items()
        }

    def anew(self, name: str, members: int, make: Callable[[], T], measure: Callable[[T], Measures]) -> T:
        """A partition of so many members that is made anew; what it is like is noted under its name."""
        found = make()
        self._made[name] = measure(found) / [max(members, 1), 1]
        return found

    def settled(
        self,
        name: str,
        members: int,
        ways: Sequence[Callable[[], T]],
        make: Callable[[], T],
        measure: Callable[[T], Measures],
    ) -> T:
        """The first result that has not drifted, else the partition made anew.

        Parameters
        ----------
        name, members
            Of the partition: by its name it is found again, and members are all that it has a place for.
        ways
            Ways to go on from the previous partition, at least one, those that change least first. Where no
            comparison is due, the first is taken as it is.
        make
            Makes the partition that they are compared with; called only if that is necessary.
        measure
            Measures of a partition.
        """
        found = ways[0]()
        known = self._before.get(name)
        if known is not None:
            self._made[name] = known
        if not self.due:
            return found
        own = measure(found)
        if not self.lapsed and known is not None and not drifted(own, known * [max(members, 1), 1]):
            return found
        best = self.anew(name, members, make, measure)
        wanted = self._made[name] * [max(members, 1), 1]
        if not drifted(own, wanted):
            return found
        others = (way() for way in ways[1:])
        return next((other for other in others if not drifted(measure(other), wanted)), best)


def drifted(found: Measures, wanted: Measures) -> bool:
    """Whether any partition has drifted from the one that is wanted, or there are more or fewer of them."""
    if found.shape != wanted.shape:
        return True
    pairs = zip(found.tolist(), wanted.tolist(), strict=True)
    return any(other_size(own[0], best[0]) or worse(own[1], best[1]) for own, best in pairs)


def other_size(count: float, wanted: float) -> bool:
    """Whether there are more or fewer communities than wanted, by more than one and `MOST_DRIFT`."""
    return abs(count - wanted) > max(1, MOST_DRIFT * wanted)


def worse(quality: float, wanted: float) -> bool:
    """Whether a quality is below the wanted one by more than `MOST_DRIFT` of it."""
    return wanted > 0 and quality < (1 - MOST_DRIFT) * wanted


def communities_measured(
    ends: NDArray[np.integer], weights: NDArray[np.floating] | None, labels: NDArray[np.integer]
) -> Measures:
    """Measures of communities, whose quality is modularity.

    Parameters
    ----------
    ends, weights
        The graph, as for `modularity`.
    labels
        Communities of the nodes, shape (nodes,).
    """
    return np.array([[len(distinct(labels)), modularity(ends, weights, labels)]], np.float64)


def check_drift(checks: Checks) -> None:
    """Whether counts of changes are such, and measures numbers; `ValueError` if not."""
    for name in (DRIFT, STALE):
        checks.rows(name, 2**62, (1,))
    for name in checks.names(_MADE):
        checks.numbers(name, np.float64, (None, 2))
