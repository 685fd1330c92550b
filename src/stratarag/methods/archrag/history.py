"""What an update knows of the communities before it: where each node was, and which nodes may move.

Nothing here holds a name. Entities are known again by 64 bits of their id's hash, and what an entity was
linked with by the sum of its neighbours' hashes. Two ids that share their bits would start in the same
community and be free to leave it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.archrag.clustering import Labels
from stratarag.protocols import Rows, Stored

Hashes = NDArray[np.uint64]
FRESH_SHARE = 0.5
"""Share of new or newly linked entities from which an update clusters anew, as a build does."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the nodes of a level begin: labels (-1: new), and which of them may change community."""

    labels: Labels
    movable: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Identity:
    """How entities are known again: a hash of each one's id, and one of the ids it is linked with."""

    keys: Hashes
    neighbourhoods: Hashes

    @classmethod
    def of(cls, ids: Iterable[str], ends: Rows) -> Identity:
        """Of the entities with these ids and relations, shape (entities,)."""
        digests = b"".join(
            hashlib.blake2b(each.encode("utf-8", "surrogatepass"), digest_size=8).digest() for each in ids
        )
        keys = np.frombuffer(digests, "<u8").astype(np.uint64)
        neighbourhoods = np.zeros(len(keys), np.uint64)
        mixed = (keys ^ (keys >> np.uint64(31))) * _MIX
        np.add.at(neighbourhoods, ends[:, 0], mixed[ends[:, 1]])
        np.add.at(neighbourhoods, ends[:, 1], mixed[ends[:, 0]])
        return cls(keys, neighbourhoods)

    def arrays(self, parents: Labels) -> dict[str, NDArray[Any]]:
        """What the next update needs; `parents` are the rows of the entities' communities, or -1."""
        return {
            "entities.keys": self.keys,
            "entities.neighbourhoods": self.neighbourhoods,
            "entities.parents": parents,
        }


class History:
    """The membership in the previous index, carried upward level by level."""

    def __init__(self, identity: Identity, previous: Stored | None) -> None:
        self._arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
        self._start = None if previous is None else self._entities(identity)

    def start(self) -> Start | None:
        """Where the present level begins; None if it was not clustered before, or too much is new."""
        return self._start

    def climb(self, labels: Labels, count: int) -> None:
        """Go on to the level of these communities.

        Each community succeeds the one before with which it shares most members, and begins where that one
        was. Of several successors the largest stays there; the others may move, and so may those of a
        community that lost a member.
        """
        if self._start is None:
            return
        before = _successions(labels, self._start.labels, count)
        parents: Labels = self._arrays["parents"]
        begun = np.where(before.rows >= 0, parents[before.rows], -1)
        movable = ~before.first | _bereft(begun, parents)
        self._start = Start(begun, movable) if (begun >= 0).any() else None

    def _entities(self, identity: Identity) -> Start | None:
        keys: Hashes = self._arrays["entities.keys"]
        if not len(keys) or not len(identity.keys):
            return None
        order = np.argsort(keys, kind="stable")
        at = order[np.minimum(np.searchsorted(keys, identity.keys, sorter=order), len(keys) - 1)]
        known = keys[at] == identity.keys
        labels = np.where(known, self._arrays["entities.parents"][at], -1)
        same = known & (self._arrays["entities.neighbourhoods"][at] == identity.neighbourhoods)
        movable = ~same | (labels < 0)
        if not (labels >= 0).any() or np.count_nonzero(movable) > FRESH_SHARE * len(labels):
            return None
        return Start(labels, movable | _bereft(labels, self._arrays["entities.parents"]))


def _bereft(labels: Labels, former: Labels) -> NDArray[np.bool_]:
    """The nodes whose community had more members: else deletions would leave ever smaller ones behind."""
    count = int(former.max(initial=0)) + 1
    had, has = (np.bincount(each[each >= 0], minlength=count) for each in (former, labels))
    return (labels >= 0) & (has < had)[labels]


@dataclass(frozen=True, slots=True)
class _Successions:
    """The row each community succeeds, or -1, and whether it is the first of that row's successors."""

    rows: Labels
    first: NDArray[np.bool_]


def _successions(labels: Labels, before: Labels, count: int) -> _Successions:
    known = before >= 0
    span = int(before.max(initial=0)) + 1
    pairs, shared = np.unique(labels[known] * span + before[known], return_counts=True)
    new, old = pairs // span, pairs % span
    rows, overlap = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    order = np.lexsort((-old, shared))  # the last written is the largest, of equals the lowest row
    rows[new[order]], overlap[new[order]] = old[order], shared[order]
    first = np.zeros(count, np.bool_)
    ranked = np.lexsort((np.arange(count), -overlap, rows))
    ranked = ranked[rows[ranked] >= 0]
    first[ranked[np.flatnonzero(np.diff(rows[ranked], prepend=-1))]] = True
    return _Successions(rows, first)
