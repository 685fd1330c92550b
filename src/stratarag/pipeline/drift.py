"""How far a partition that updates carry on may be from one made anew: one rule for all methods.

An update leaves communities and clusters as they are and places what is new among them, at the cost of what
changed. What comes late has less choice than what was there from the start, so such partitions drift. Hence:

1. Changes are counted (`Drift`). When more than `COMPARE_SHARE` of the members changed since the last
   comparison, the partition is compared with one made anew. A comparison costs as much as a build's
   clustering; so each change pays, on average, for the clustering of `1 / COMPARE_SHARE` members, however
   large the corpus is.
2. A partition has drifted if its quality is below that of one made anew by more than `MOST_DRIFT`, or if it
   has more or fewer parts by more than that (and by more than one).
3. Of several ways to go on, which change the more the later they come, the first is taken whose result has
   not drifted, else the partition made anew (`first_settled`).

The bound: after a comparison, every partition is as near to one made anew over the same graph; until the next
comparison at most `COMPARE_SHARE` of its members change. A partition made anew is itself another one after
each change, by chance: levels of 50 to 90 communities differ by up to 12 % from one passage to the next few.
`cookbook/benchmarks/drift.py` shows both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.quality import modularity
from stratarag.kernels.ranges import distinct
from stratarag.pipeline.checks import Checks

T = TypeVar("T")
COMPARE_SHARE = 0.02
"""A partition is compared with one made anew when more than this share of its members changed since."""
MOST_DRIFT = 0.05
"""How far it may then differ. Partitions of one graph that differ by the seed alone have up to 6 % more or
fewer communities (HiRAG, 150 to 800 passages of musique_train100), so a closer bound would follow chance."""
DRIFT = "drift"
"""The array that counts what changed since."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How many members of a partition changed since it was last compared with one made anew."""

    members: int
    changed: int = 0

    @classmethod
    def since(cls, arrays: Mapping[str, NDArray[Any]], members: int, changed: int) -> Drift:
        """With what the previous index counted; one of an earlier version is compared at once."""
        before = int(arrays[DRIFT][0]) if DRIFT in arrays else members
        return cls(members, before + changed)

    @property
    def due(self) -> bool:
        """Whether so much changed that the partition is to be compared (`COMPARE_SHARE`)."""
        return self.changed > COMPARE_SHARE * self.members

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the next update reads; after a comparison, the count begins at 0 again."""
        return {DRIFT: np.array([0 if self.due else self.changed], np.int64)}


def first_settled(
    ways: Sequence[Callable[[], T]],
    anew: Callable[[], T],
    drifted: Callable[[T, T], bool],
    *,
    compare: bool,
) -> T:
    """The first result that has not drifted from the one made anew, else that one.

    Parameters
    ----------
    ways
        Ways to go on from the previous partition, at least one, those that change least first. All but the
        first are called after `anew`.
    anew
        Makes the partition that they are compared with; called only if they are to `compare`.
    drifted
        Whether its first argument has drifted from the second, which was made anew.
    compare
        Whether to compare at all (`Drift.due`); else the first way is taken as it is.
    """
    if not compare:
        return ways[0]()
    best = anew()
    for way in ways:
        found = way()
        if not drifted(found, best):
            return found
    return best


def other_size(count: int, wanted: int) -> bool:
    """Whether there are more or fewer communities than wanted, by more than one and `MOST_DRIFT`."""
    return abs(count - wanted) > max(1, MOST_DRIFT * wanted)


def worse(quality: float, wanted: float) -> bool:
    """Whether a quality is below the wanted one by more than `MOST_DRIFT` of it."""
    return wanted > 0 and quality < (1 - MOST_DRIFT) * wanted


def communities_drifted(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    labels: NDArray[np.integer],
    anew: NDArray[np.integer],
) -> bool:
    """Whether communities have drifted from those made anew, in number or in modularity.

    Parameters
    ----------
    ends, weights
        The graph, as for `modularity`.
    labels, anew
        Communities of the nodes in both partitions, shape (nodes,).
    """
    if other_size(len(distinct(labels)), len(distinct(anew))):
        return True
    return worse(modularity(ends, weights, labels), modularity(ends, weights, anew))


def check_drift(checks: Checks) -> None:
    """Whether the count of changes is one, where there is any; `ValueError` with its value if not."""
    if checks.has(DRIFT):
        checks.rows(DRIFT, 2**62, (1,))
