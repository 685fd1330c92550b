"""The partition that an update starts from: the previous communities, of which only changed nodes may move.

Entities are recognised by their keys, and neighbourhoods by the sum of the neighbours' hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.pipeline.before import carried_keys
from stratagraph.pipeline.carryover import (
    Keys,
    Labels,
    keys_of,
    lookup,
    needs_reclustering,
    previous_labels,
)
from stratagraph.pipeline.drift import Drift
from stratagraph.pipeline.graph import Graph
from stratagraph.pipeline.reading import id_keys
from stratagraph.protocols import Rows, Stored

KEYS = "entities.keys"
"""Name of the array of the entities' keys."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class InitialPartition:
    """The community that each node of a level starts in (-1: none), and which nodes may leave theirs."""

    labels: Labels
    movable: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EntityKeys:
    """The key of each entity, and the sum of its neighbours' hashes, shape (entities,)."""

    keys: Keys
    neighbourhoods: Keys

    @classmethod
    def of(cls, ids: Iterable[str], ends: Rows) -> EntityKeys:
        """Of the entities with these ids and relations."""
        return cls.linked(keys_of("entity", ids), ends)

    @classmethod
    def carried(cls, graph: Graph, previous: Stored | None) -> EntityKeys:
        """Of the entities of a graph; keys that the previous index has are not made again."""
        made = partial(id_keys, "entity", graph.stored)
        if previous is None or graph.before is None:
            keys = made(range(graph.entities))
        else:
            known: Keys = previous.arrays[KEYS]
            keys = carried_keys(known, graph.before.origin[: graph.entities], made)
        return cls.linked(keys, graph.ends)

    @classmethod
    def linked(cls, keys: Keys, ends: Rows) -> EntityKeys:
        """Of the entities with these keys and relations."""
        neighbourhoods = np.zeros(len(keys), np.uint64)
        mixed = (keys ^ (keys >> np.uint64(31))) * _MIX
        np.add.at(neighbourhoods, ends[:, 0], mixed[ends[:, 1]])
        np.add.at(neighbourhoods, ends[:, 1], mixed[ends[:, 0]])
        return cls(keys, neighbourhoods)

    def arrays(self, parents: Labels) -> dict[str, NDArray[Any]]:
        """What the next update reads; `parents` are the rows of the entities' communities, or -1."""
        return {
            KEYS: self.keys,
            "entities.neighbourhoods": self.neighbourhoods,
            "entities.parents": parents,
        }


class WarmStart:
    """The initial partition of one level after the other, from the entities upwards."""

    def __init__(self, entities: EntityKeys, previous: Stored | None) -> None:
        self._arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays
        self.drift = Drift(len(entities.keys))
        self._initial = None if previous is None else self._of_entities(entities)

    def initial(self) -> InitialPartition | None:
        """Of the present level; None where it has to be clustered anew."""
        return self._initial

    def ascend(self, labels: Labels, count: int) -> None:
        """Go on to the level whose nodes are these `count` communities.

        A community succeeds the previous one with which it shares most members, and starts in its parent. Of
        several successors the largest stays there; the others may move, and so may those in a parent that
        lost a member.
        """
        if self._initial is None:
            return
        successions = _successions(labels, self._initial.labels, count)
        parents: Labels = self._arrays["parents"]
        start = np.where(successions.rows >= 0, parents[successions.rows], -1)
        movable = ~successions.first | _in_shrunken(start, parents)
        self._initial = InitialPartition(start, movable) if (start >= 0).any() else None

    def _of_entities(self, entities: EntityKeys) -> InitialPartition | None:
        arrays = self._arrays
        labels = previous_labels(entities.keys, arrays[KEYS], arrays["entities.parents"])
        kept = (labels >= 0) & self._same_neighbourhood(entities)
        changed = int(np.count_nonzero(~kept))
        self.drift = Drift.since(arrays, len(kept), changed)
        if needs_reclustering(kept):
            return None
        return InitialPartition(labels, ~kept | _in_shrunken(labels, arrays["entities.parents"]))

    def _same_neighbourhood(self, entities: EntityKeys) -> NDArray[np.bool_]:
        """The entities that are linked with the same ones as before."""
        places = lookup(entities.keys, self._arrays[KEYS])
        same = np.zeros(len(places), np.bool_)
        known = places >= 0
        before = self._arrays["entities.neighbourhoods"][places[known]]
        same[known] = before == entities.neighbourhoods[known]
        return same


def _in_shrunken(labels: Labels, previous: Labels) -> NDArray[np.bool_]:
    """The nodes in communities that lost members: if they could not move, deletions would leave fragments."""
    count = int(previous.max(initial=0)) + 1
    before, now = (np.bincount(each[each >= 0], minlength=count) for each in (previous, labels))
    return (labels >= 0) & (now < before)[labels]


@dataclass(frozen=True, slots=True)
class _Successions:
    """The previous row that each community succeeds, or -1, and whether it is that row's first successor."""

    rows: Labels
    first: NDArray[np.bool_]


def _successions(labels: Labels, previous: Labels, count: int) -> _Successions:
    known = previous >= 0
    span = int(previous.max(initial=0)) + 1
    pairs, shared = np.unique(labels[known] * span + previous[known], return_counts=True)
    new, old = pairs // span, pairs % span
    rows, overlap = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    order = np.lexsort((-old, shared))  # the last one written is the largest, of equals the lowest row
    rows[new[order]], overlap[new[order]] = old[order], shared[order]
    first = np.zeros(count, np.bool_)
    ranked = np.lexsort((np.arange(count), -overlap, rows))
    ranked = ranked[rows[ranked] >= 0]
    first[ranked[np.flatnonzero(np.diff(rows[ranked], prepend=-1))]] = True
    return _Successions(rows, first)
