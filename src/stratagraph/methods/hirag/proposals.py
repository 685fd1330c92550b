"""What clusters say of their summary entities, as arrays, so that an update reads only what changed.

A cluster proposes one summary entity or two. Proposals of one name are one entity: that of the graph which
has the name already, or else a summary entity (ERRATA H5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.ranges import distinct, ranges
from stratagraph.methods.hirag.clusters import IDS
from stratagraph.methods.hirag.naming import Summary
from stratagraph.pipeline.before import mixed
from stratagraph.pipeline.carryover import Keys, keys_of, lookup
from stratagraph.pipeline.names.index import canonical
from stratagraph.pipeline.summarize import MODEL
from stratagraph.protocols import Rows, Stored

CLUSTERS, ENTITIES, PROPOSED, WRITTEN, SAID, STRENGTHS = (
    f"proposals.{name}" for name in ("clusters", "entities", "names", "by_model", "said", "strengths")
)
"""Arrays of the proposals, in order of their clusters: the cluster; the summary entity, or -1 for one of the
graph; the keys of its name, as one that is shown and as an id; whether a model made it. Of relations whose
strength a model told: a key of proposal and member, and the strength."""


_NONE: Mapping[str, NDArray[Any]] = {
    "clusters.levels": np.zeros(0, np.int16),
    "layers.levels": np.zeros(0, np.int16),
    CLUSTERS: np.zeros(0, np.int32),
    ENTITIES: np.zeros(0, np.int32),
    PROPOSED: np.zeros((0, 2), np.uint64),
    WRITTEN: np.zeros(0, np.bool_),
    SAID: np.zeros(0, np.uint64),
    STRENGTHS: np.zeros(0, np.float64),
    IDS: np.zeros((0, 2), np.uint64),
}


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposals of a layer's clusters, in order of clusters, then of rank.

    Attributes
    ----------
    places, ranks
        The cluster, by its place among those of several members, and the how manieth of it each is.
    names
        Keys of the name, shape (proposals, 2).
    before
        The row in the previous index of one that is the same, or -1.
    made
        The place in `fresh` of the others, or -1.
    fresh
        Those that were made now.
    """

    places: Rows
    ranks: Rows
    names: Keys
    before: Rows
    made: Rows
    fresh: Sequence[Summary]

    @classmethod
    def of(cls, clusters: Rows, known: KnownProposals, made: Mapping[int, Sequence[Summary]]) -> Proposed:
        """Those of the previous clusters, by place, and those `made` for the places without one (-1)."""
        kept = np.flatnonzero(clusters >= 0)
        counts, rows = known.of_clusters(clusters[kept])
        fresh = [each for found in made.values() for each in found]
        sizes = [len(found) for found in made.values()]
        all_counts = np.concatenate([counts, np.array(sizes, np.int64)])
        places = np.repeat(np.concatenate([kept, np.array([*made], np.int64)]), all_counts)
        none, own = np.full(len(rows), -1, np.int64), np.arange(len(fresh))
        order = np.argsort(places, kind="stable")
        return cls(
            places[order],
            ranges(np.zeros(len(all_counts), np.int64), all_counts)[order],
            np.concatenate([known.names[rows], name_keys([each.name for each in fresh])])[order],
            np.concatenate([rows, np.full(len(fresh), -1, np.int64)])[order],
            np.concatenate([none, own])[order],
            fresh,
        )

    def summaries(self, numbers: Rows, known: KnownProposals) -> list[Summary]:
        """Some proposals in full."""
        before = self.before[numbers]
        read = iter(known.read(before[before >= 0]))
        return [
            next(read) if row >= 0 else self.fresh[place]
            for row, place in zip(before.tolist(), self.made[numbers].tolist(), strict=True)
        ]

    def by_model(self, known: KnownProposals) -> NDArray[np.bool_]:
        """Whether a model made each."""
        found = np.zeros(len(self.places), np.bool_)
        kept = self.before >= 0
        found[kept] = known.by_model[self.before[kept]]
        own = np.array([each.by == MODEL for each in self.fresh], np.bool_)
        found[~kept] = own[self.made[~kept]]
        return found


class KnownProposals:
    """The proposals of the previous index.

    Attributes
    ----------
    clusters, entities, names, by_model
        Of each proposal: see `CLUSTERS`.
    levels, counts, own
        Of each summary entity: its layer, how many proposals it has, and how many of them made it.
    """

    def __init__(self, previous: Stored | None) -> None:
        self._previous = previous
        summaries = 0 if previous is None else int(previous.arrays["counts"][0])
        arrays = _NONE if previous is None else previous.arrays
        self.clusters, self.entities = (arrays[name].astype(np.int64) for name in (CLUSTERS, ENTITIES))
        self.names, self.by_model = arrays[PROPOSED], arrays[WRITTEN]
        self._said, self._strengths, self._ids = arrays[SAID], arrays[STRENGTHS], arrays[IDS]
        self._starts = np.searchsorted(self.clusters, np.arange(len(self._ids) + 1))
        self.levels = arrays["layers.levels"]
        made = self.entities >= 0  # a proposal with the name of an entity of the graph makes none
        owners = self.entities[made]
        self.counts = np.bincount(owners, minlength=summaries)
        layers = arrays["clusters.levels"][self.clusters[made]]
        self.own = np.bincount(owners[layers + 1 == self.levels[owners]], minlength=summaries)

    def of_clusters(self, clusters: Rows) -> tuple[Rows, Rows]:
        """How many proposals some clusters have, and all of these."""
        starts, counts = self._starts[clusters], self._starts[clusters + 1] - self._starts[clusters]
        return counts, ranges(starts, counts)

    def clusters_of(self, ids: Keys) -> Rows:
        """The clusters that have these ids, or -1; shape (ids, 2) to (ids,)."""
        return lookup(mixed(ids[:, 0]) ^ ids[:, 1], mixed(self._ids[:, 0]) ^ self._ids[:, 1])

    def usable(self, clusters: Rows, *, by_model: bool) -> Rows:
        """The clusters all of whose summary entities are known, if need be by a model; -1 for others."""
        bad = (self.entities < 0) | (by_model & ~self.by_model)
        spoilt = np.zeros(len(self._ids) + 1, np.bool_)
        spoilt[np.flatnonzero(np.diff(self._starts) == 0)] = True
        spoilt[self.clusters[bad]] = True
        return np.where(spoilt[clusters], -1, clusters)  # -1 stays, whatever is found for it

    def strengths(self, proposals: Rows, members: Keys) -> NDArray[np.float64]:
        """What a model told of members' relations in proposals, 0 where it told nothing."""
        found = np.zeros(len(proposals), np.float64)
        if len(self._said):
            places = lookup(said_keys(proposals, members), self._said)
            told = (places >= 0) & (proposals >= 0)
            found[told] = self._strengths[places[told]]
        return found

    def read(self, proposals: Rows) -> list[Summary]:
        """Some proposals in full."""
        if not len(proposals) or self._previous is None:
            return []
        owners = self.entities[proposals]
        rows = distinct(owners).tolist()
        nodes = dict(zip(rows, self._previous.nodes(rows), strict=True))
        found: list[Summary] = []
        for owner, cluster in zip(owners.tolist(), self.clusters[proposals].tolist(), strict=True):
            told = nodes[owner].extra["summaries"]
            identity = id_of(self._ids[cluster])
            found.append(Summary.read(next(each for each in told if each["cluster"] == identity)))
        return found


def name_keys(names: Sequence[str]) -> Keys:
    """The keys of names, shape (names, 2): of those that are shown, and of entities' ids."""
    plain = [canonical(name) for name in names]
    return np.column_stack([keys_of("name", plain), keys_of("entity", plain)])


def said_keys(proposals: Rows, members: Keys) -> Keys:
    """Keys of what proposals say of members."""
    return mixed(mixed(proposals) ^ members)


def ids_of(ids: Sequence[str]) -> Keys:
    """Ids of clusters as numbers, shape (ids, 2)."""
    return np.frombuffer(b"".join(map(bytes.fromhex, ids)), np.uint64).reshape(-1, 2)


def id_of(numbers: Keys) -> str:
    """One id as it was."""
    return numbers.tobytes().hex()


def joining(summary: Summary) -> Summary:
    """What a cluster says of an entity that another layer has: it keeps its description and type."""
    return replace(summary, description="", type="")
