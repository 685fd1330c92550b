"""Summary entities of a layer's clusters (HiRAG Fig. 9, ERRATA H5).

A cluster proposes summary entities, each for all its members or for those that the model lists, or none if
nothing connects its members. Proposals with the same name are one entity: the entity of the graph that has
the name, or else a summary entity. An update reads the proposals of the previous index as
arrays, so that it reads only the nodes that changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.before import mixed
from stratagraph.ingest.carryover import VECTORS, Keys, keys_of, lookup
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.names.index import canonical
from stratagraph.ingest.summarize import MODEL
from stratagraph.kernels.ranges import distinct, ranges
from stratagraph.methods.hirag.clusters import IDS
from stratagraph.methods.hirag.entities import Builder, Entities, MemberRelations, SummaryEntities
from stratagraph.methods.hirag.naming import Summary
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import Node, content_id, content_keys

KIND = "summary_entity"
CLUSTERS, ENTITIES, PROPOSED, WRITTEN, SAID, STRENGTHS = (
    f"proposals.{name}" for name in ("clusters", "entities", "names", "by_model", "said", "strengths")
)
"""Arrays of the proposals, in order of their clusters: the cluster; the summary entity, or -1 for an entity
of the graph; two keys of its name, as a shown name and as an id; whether a model wrote it. Then, of relations
with members that a model listed: proposal and member, and the strength, 0 if unknown."""
_NONE: Mapping[str, NDArray[Any]] = {
    "clusters.levels": np.zeros(0, np.int16),
    "layers.levels": np.zeros(0, np.int16),
    CLUSTERS: np.zeros(0, np.int32),
    ENTITIES: np.zeros(0, np.int32),
    PROPOSED: np.zeros((0, 2), np.uint64),
    WRITTEN: np.zeros(0, np.bool_),
    SAID: np.zeros((0, 2), np.int32),
    STRENGTHS: np.zeros(0, np.float64),
    IDS: np.zeros((0, 2), np.uint64),
}


@dataclass(frozen=True, slots=True)
class Groups:
    """The clusters of a layer that have several members; those of cluster i are `of(i)`."""

    level: int  # the layer of their summary entities
    rows: Rows  # of each cluster among the clusters of all layers
    indptr: Rows
    members: Rows
    origin: Rows  # the row in the previous index (`Clusters.before`)
    ids: Keys  # shape (clusters, 2)
    before: Rows  # the row in the previous index if the members' texts are unchanged, or -1
    same: NDArray[np.bool_]  # whether also their vectors and sources are

    def of(self, place: int) -> list[int]:
        """The entities of a cluster."""
        rows: list[int] = self.members[self.indptr[place] : self.indptr[place + 1]].tolist()
        return rows


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposals of a layer's clusters, in order of clusters, then of rank."""

    places: Rows  # of each proposal's cluster in `Groups`
    ranks: Rows  # in the cluster
    names: Keys  # keys of the name, shape (proposals, 2)
    before: Rows  # the row of the same proposal in the previous index, or -1
    made: Rows  # the place in `fresh` of a new proposal, or -1
    fresh: Sequence[Summary]

    @classmethod
    def of(
        cls, clusters: Rows, previous: PreviousProposals, new_proposals: Mapping[int, Sequence[Summary]]
    ) -> Proposed:
        """Proposals of previous clusters, and new ones for the places without a previous cluster."""
        previous_places = np.flatnonzero(clusters >= 0)
        counts, rows = previous.of_clusters(clusters[previous_places])
        fresh = [each for proposals in new_proposals.values() for each in proposals]
        sizes = [len(proposals) for proposals in new_proposals.values()]
        all_counts = np.concatenate([counts, np.array(sizes, np.int64)])
        places = np.repeat(
            np.concatenate([previous_places, np.array([*new_proposals], np.int64)]), all_counts
        )
        plain = [canonical(each.name) for each in fresh]
        names = np.column_stack([keys_of("name", plain), content_keys(plain)])
        none, own = np.full(len(rows), -1, np.int64), np.arange(len(fresh))
        order = np.argsort(places, kind="stable")
        return cls(
            places[order],
            ranges(np.zeros(len(all_counts), np.int64), all_counts)[order],
            np.concatenate([previous.names[rows], names])[order],
            np.concatenate([rows, np.full(len(fresh), -1, np.int64)])[order],
            np.concatenate([none, own])[order],
            fresh,
        )

    def summaries(self, numbers: Rows, previous: PreviousProposals) -> list[Summary]:
        """Read proposals in full."""
        before = self.before[numbers]
        read = iter(previous.read(before[before >= 0]))
        return [
            next(read) if row >= 0 else self.fresh[place]
            for row, place in zip(before.tolist(), self.made[numbers].tolist(), strict=True)
        ]

    def by_model(self, previous: PreviousProposals) -> NDArray[np.bool_]:
        """Whether a model wrote each proposal."""
        by_model = np.zeros(len(self.places), np.bool_)
        is_previous = self.before >= 0
        by_model[is_previous] = previous.by_model[self.before[is_previous]]
        own = np.array([each.by == MODEL for each in self.fresh], np.bool_)
        by_model[~is_previous] = own[self.made[~is_previous]]
        return by_model


class PreviousProposals:
    """The proposals of the previous index: `clusters`, `entities`, `names` and `by_model` as of `CLUSTERS`.

    `levels`, `counts`, `own` and `first` are of each summary entity: its layer, the number of its proposals,
    and of those from the layer below, and the first of these, or -1.
    """

    def __init__(self, previous: Stored | None, entities: int) -> None:
        self._previous, self._count = previous, entities
        summaries = 0 if previous is None else int(previous.arrays["counts"][0])
        arrays = _NONE if previous is None else previous.arrays
        self.clusters, self.entities = (arrays[name].astype(np.int64) for name in (CLUSTERS, ENTITIES))
        self.names, self.by_model = arrays[PROPOSED], arrays[WRITTEN]
        self._said = self._pairs(*arrays[SAID].T.astype(np.int64))
        self._strengths, self._ids = arrays[STRENGTHS], arrays[IDS]
        self._starts = np.searchsorted(self.clusters, np.arange(len(self._ids) + 1))
        self.levels = arrays["layers.levels"]
        made = np.flatnonzero(self.entities >= 0)  # others have the name of an entity of the graph
        self.counts = np.bincount(self.entities[made], minlength=summaries)
        layers = arrays["clusters.levels"][self.clusters[made]]
        made = made[layers + 1 == self.levels[self.entities[made]]]
        self.own = np.bincount(self.entities[made], minlength=summaries)
        self.first = np.full(summaries, -1, np.int64)
        self.first[self.entities[made[::-1]]] = made[::-1]

    def of_clusters(self, clusters: Rows) -> tuple[Rows, Rows]:
        """Numbers of proposals of clusters, and the rows of all these proposals."""
        starts, counts = self._starts[clusters], self._starts[clusters + 1] - self._starts[clusters]
        return counts, ranges(starts, counts)

    def continued(self, clusters: Rows, ranks: Rows) -> Rows:
        """The summary entity that each proposal of a cluster made, or -1; `clusters` are rows, or -1."""
        previous = np.full(len(clusters), -1, np.int64)
        rows = self._starts[clusters] + ranks
        here = np.flatnonzero((clusters >= 0) & (rows < self._starts[clusters + 1]))
        owners = self.entities[rows[here]]
        made = (owners >= 0) & (self.first[owners] == rows[here]) if len(self.first) else owners >= 0
        previous[here[made]] = owners[made]
        return previous

    def clusters_of(self, ids: Keys) -> Rows:
        """Rows of the clusters with these ids, or -1; shape (ids, 2) to (ids,)."""
        return lookup(mixed(ids[:, 0]) ^ ids[:, 1], mixed(self._ids[:, 0]) ^ self._ids[:, 1])

    def usable(self, clusters: Rows, *, by_model: bool) -> Rows:
        """The clusters whose proposals are all known, with `by_model` all from a model; -1 for others.

        A cluster without proposals is one in which a model found nothing in common.
        """
        bad = (self.entities < 0) | (by_model & ~self.by_model)
        spoilt = np.zeros(len(self._ids) + 1, np.bool_)
        spoilt[self.clusters[bad]] = True
        return np.where(spoilt[clusters], -1, clusters)  # -1 stays, whatever is found for it

    def strengths(self, proposals: Rows, members: Rows) -> NDArray[np.float64]:
        """Strengths that a model gave to members' relations, -1 where it did not list the member.

        `members` are numbers of entities in the previous index, or -1, as `proposals` are.
        """
        strengths = np.full(len(proposals), -1.0)
        if len(self._said):
            places = lookup(self._pairs(proposals, members), self._said)
            strengths[places >= 0] = self._strengths[places[places >= 0]]
        return strengths

    def _pairs(self, proposals: Rows, members: Rows) -> Keys:
        """A key for each pair of proposal and member; if one of them is -1, that of no pair."""
        is_pair = (proposals >= 0) & (members >= 0)
        return np.where(is_pair, proposals * self._count + members, -1).astype(np.uint64)

    def read(self, proposals: Rows) -> list[Summary]:
        """Read proposals in full."""
        if not len(proposals) or self._previous is None:
            return []
        owners = self.entities[proposals]
        rows = distinct(owners).tolist()
        nodes = dict(zip(rows, self._previous.nodes(rows), strict=True))
        summaries: list[Summary] = []
        for owner, cluster in zip(owners.tolist(), self.clusters[proposals].tolist(), strict=True):
            told = nodes[owner].extra["summaries"]
            identity = id_of(self._ids[cluster])
            summaries.append(Summary.read(next(each for each in told if each["cluster"] == identity)))
        return summaries


class SummaryWriter:
    """Makes entities of proposals, layer by layer.

    A summary entity with exactly the proposals that it has in the previous index is kept unread.
    """

    def __init__(self, builder: Builder, entities: Entities, previous: PreviousProposals) -> None:
        self._builder = builder
        self._entities = entities
        self._previous = previous
        self._proposed: list[tuple[Groups, Proposed, Rows]] = []

    async def add(self, groups: Groups, proposed: Proposed) -> Rows:
        """The row of each proposal's entity: an entity with its name, or a new one for each new name."""
        entities = self._entities
        rows = entities.rows_named(proposed.names, proposed.before)
        new = np.flatnonzero(rows < 0)
        names, of_name = np.unique(proposed.names[new, 0], return_inverse=True)
        rows[new] = entities.count + of_name
        entities.relations.append(self._relations(groups, proposed, rows))
        await self._create(
            groups, proposed, new[np.argsort(of_name, kind="stable")], np.bincount(of_name), names
        )
        self._proposed.append((groups, proposed, rows))
        return rows

    def _relations(self, groups: Groups, proposed: Proposed, rows: Rows) -> MemberRelations:
        """Relations of members with their summary entity, without self-loops.

        Members that a model left out have none, unless it listed no member at all.
        """
        sizes = np.diff(groups.indptr)[proposed.places]
        members = groups.members[ranges(groups.indptr[proposed.places], sizes)]
        numbers = np.repeat(np.arange(len(rows)), sizes)
        strengths = self._previous.strengths(proposed.before[numbers], self._entities.origin[members])
        told = np.array([bool(each.members) for each in proposed.fresh], np.bool_)
        made = proposed.made[numbers]
        places = np.flatnonzero((made >= 0) & told[made]) if told.any() else np.zeros(0, np.int64)
        self._entities.fetch(members[places].tolist())
        for place in places.tolist():
            said = proposed.fresh[made[place]].members.get(self._entities.node(int(members[place])).id)
            strengths[place] = said.strength if said else -1.0
        other = members != rows[numbers]
        listed, listing = other & (strengths >= 0), np.zeros(len(rows), np.bool_)
        listing[numbers[listed]] = True
        kept = listed | (other & ~listing[numbers])
        return MemberRelations(members[kept], rows[numbers[kept]], numbers[kept], strengths[kept])

    async def _create(
        self, groups: Groups, proposed: Proposed, numbers: Rows, counts: Rows, names: Keys
    ) -> None:
        """Add summary entities: the first of the first `counts[0]` proposals in `numbers`, and so on."""
        before = self._told(groups, proposed, numbers, counts)
        same = before >= 0
        same[np.repeat(np.arange(len(counts)), counts)[~groups.same[proposed.places[numbers]]]] = False
        kept, fresh = np.flatnonzero(same), np.flatnonzero(~same)
        borders = np.concatenate([[0], np.cumsum(counts)])
        one = numbers[borders[:-1]]
        origin = self._previous.continued(groups.origin[proposed.places[one]], proposed.ranks[one])
        origin = np.where(before >= 0, before, origin)
        added = SummaryEntities(
            names=names,
            origin=np.where(origin >= 0, self._entities.first_before + origin, -1),
            told=before >= 0,
            same=same,
            before=np.where(same, before, -1),
            vectors=np.zeros((len(names), self._builder.dimension), np.float32),
        )
        if self._builder.previous is not None and len(kept):
            added.vectors[kept] = self._builder.previous.arrays[VECTORS][before[kept]]
        own = [numbers[borders[place] : borders[place + 1]] for place in fresh.tolist()]
        nodes, added.vectors[fresh] = await self._made(groups, proposed, own, before[fresh])
        first = self._entities.count
        self._entities.add(added, groups.level)
        self._entities.made |= zip((first + fresh).tolist(), nodes, strict=True)

    def _told(self, groups: Groups, proposed: Proposed, numbers: Rows, counts: Rows) -> Rows:
        """The summary entity of the previous index with the same proposals in the same order, or -1."""
        previous, starts = self._previous, np.cumsum(counts) - counts
        before, places = proposed.before[numbers], proposed.places[numbers]
        good = (before >= 0) & (groups.before[places] >= 0)
        entities = np.where(good, previous.entities[before] if len(previous.entities) else -1, -1)
        if not (entities >= 0).any():
            return np.full(len(counts), -1, np.int64)
        good &= (entities >= 0) & (previous.levels[entities] == groups.level)
        first = np.repeat(entities[starts], counts)
        good &= entities == first
        rising = np.ones(len(numbers), np.bool_)
        rising[1:] = np.diff(before) > 0
        rising[starts] = True
        whole = np.logical_and.reduceat(good & rising, starts) & (previous.own[entities[starts]] == counts)
        return np.where(whole, entities[starts], -1)

    async def _made(
        self, groups: Groups, proposed: Proposed, own: Sequence[Rows], told: Rows
    ) -> tuple[list[Node], NDArray[np.float32]]:
        """Nodes of summary entities, and their vectors.

        Those with a row in `told` differ from the previous node at this row in sources and vector alone.
        """
        if not own:
            return [], np.zeros((0, self._builder.dimension), np.float32)
        entities, previous = self._entities, self._builder.previous
        members = [
            sorted({row for each in numbers for row in groups.of(int(proposed.places[each]))})
            for numbers in own
        ]
        new = np.flatnonzero(told < 0).tolist()
        numbers = np.concatenate([np.zeros(0, np.int64), *(own[place] for place in new)])
        summaries = iter(proposed.summaries(numbers, self._previous))
        said = [[next(summaries) for _ in own[place]] for place in new]
        ids = []
        for place, each in zip(new, said, strict=True):
            clusters = sorted(id_of(groups.ids[row]) for row in proposed.places[own[place]].tolist())
            ids.append(content_id("hirag", KIND, str(groups.level), _text(each), *clusters))
        rows_before = {} if previous is None else previous.rows(ids)
        before = np.array([rows_before.get(each, -1) for each in ids], np.int64)
        names = self._member_ids([members[place] for place in new], before)
        made = {
            place: Node(
                identity,
                KIND,
                groups.level,
                _text(each),
                (),
                {**_extra(each), "members": held, "summaries": [one.stored() for one in each]},
            )
            for place, identity, each, held in zip(new, ids, said, names, strict=True)
        }
        if previous is not None:
            kept = np.flatnonzero(told >= 0)
            made |= zip(kept.tolist(), previous.nodes(told[kept].tolist()), strict=True)
        nodes = [
            replace(made[place], sources=entities.sources_of(rows)) for place, rows in enumerate(members)
        ]
        vectors = await group_vectors(
            nodes, members, entities.vectors, stage="embed summary entities", carry=self._builder.carry
        )
        return nodes, vectors

    def _member_ids(self, members: Sequence[Sequence[int]], before: Rows) -> list[list[str]]:
        """Ids of members; an entity that the previous index has keeps its members' ids."""
        entities, previous, rows = self._entities, self._builder.previous, before.tolist()
        rows_before = sorted({row for row in rows if row >= 0})
        nodes = (
            dict(zip(rows_before, previous.nodes(rows_before), strict=True)) if previous is not None else {}
        )
        entities.fetch(row for own, place in zip(members, rows, strict=True) if place < 0 for row in own)
        return [
            list(nodes[place].extra["members"]) if place >= 0 else [entities.node(row).id for row in own]
            for own, place in zip(members, rows, strict=True)
        ]

    def finish(self) -> None:
        """Write the proposals of other layers into a summary entity's node if they changed."""
        entities, previous, first = self._entities, self._previous, self._entities.graph.entities
        if not self._proposed:
            return
        rows = np.concatenate([each for _, _, each in self._proposed]) - first
        before = np.concatenate([proposed.before for _, proposed, _ in self._proposed])
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        rows, before = rows[order], before[order]
        told = entities.told[first:]
        was = np.where(told, entities.origin[first:] - entities.first_before, -1)
        counts, changed = np.bincount(rows, minlength=len(was)), np.zeros(len(was), np.bool_)
        if len(previous.entities):
            other = (before < 0) | (previous.entities[before] != was[rows])
            other[1:] |= (np.diff(rows) == 0) & (np.diff(before) <= 0)
            changed[rows[other]] = True
        changed &= told
        changed[told] |= counts[told] != previous.counts[was[told]]
        entities.fetch((first + np.flatnonzero(changed)).tolist())
        made = [(row - first, node) for row, node in entities.made.items() if not told[row - first]]
        wanted = [place for place, node in made if len(node.extra["summaries"]) != counts[place]]
        wanted += np.flatnonzero(changed).tolist()
        starts = np.searchsorted(rows, np.arange(len(counts) + 1))
        for place in wanted:
            said = [self._said(number) for number in order[starts[place] : starts[place + 1]].tolist()]
            node = entities.node(first + place)
            stored = [  # an entity keeps the description and type of the layer that made it
                (each if each.level == node.level else replace(each, description="", type="")).stored()
                for each in said
            ]
            entities.made[first + place] = replace(node, extra={**node.extra, "summaries": stored})
            entities.before[place] = -1

    def _said(self, number: int) -> Summary:
        """A proposal by its number among those of all layers."""
        for _, proposed, rows in self._proposed:
            if number < len(rows):
                return proposed.summaries(np.array([number]), self._previous)[0]
            number -= len(rows)
        raise IndexError(f"there is no proposal {number}")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that `PreviousProposals` reads."""
        none, previous = np.zeros(0, np.int64), self._previous
        clusters = [groups.rows[proposed.places] for groups, proposed, _ in self._proposed]
        rows = [each - self._entities.graph.entities for _, _, each in self._proposed]
        sizes = np.cumsum([0, *map(len, rows)])
        told = [
            (each.proposals[each.strengths >= 0] + start, each.members[each.strengths >= 0])
            for each, start in zip(self._entities.relations, sizes.tolist(), strict=False)
        ]
        numbers = np.concatenate([none, *(each for each, _ in told)])
        members = np.concatenate([none, *(each for _, each in told)])
        strengths = [each.strengths[each.strengths >= 0] for each in self._entities.relations]
        return {
            CLUSTERS: np.concatenate([none, *clusters]).astype(np.int32),
            ENTITIES: np.maximum(np.concatenate([none, *rows]), -1).astype(np.int32),
            PROPOSED: np.concatenate(
                [np.zeros((0, 2), np.uint64), *(proposed.names for _, proposed, _ in self._proposed)]
            ),
            WRITTEN: np.concatenate(
                [np.zeros(0, np.bool_), *(proposed.by_model(previous) for _, proposed, _ in self._proposed)]
            ),
            SAID: np.column_stack([numbers, members]).astype(np.int32),
            STRENGTHS: np.concatenate([np.zeros(0, np.float64), *strengths]),
        }


def ids_of(ids: Sequence[str]) -> Keys:
    """Ids of clusters as numbers, shape (ids, 2)."""
    return np.frombuffer(b"".join(map(bytes.fromhex, ids)), np.uint64).reshape(-1, 2)


def id_of(numbers: Keys) -> str:
    """The inverse of `ids_of` for one id."""
    return numbers.tobytes().hex()


def _described(summaries: Sequence[Summary]) -> str:
    return " ".join(dict.fromkeys(each.description for each in summaries if each.description))


def _text(summaries: Sequence[Summary]) -> str:
    name, described = summaries[0].name, _described(summaries)
    return f"{name}: {described}" if described else name


def _extra(summaries: Sequence[Summary]) -> Mapping[str, Any]:
    return {
        "name": summaries[0].name,
        "title": summaries[0].name,
        "type": next((each.type for each in summaries if each.type), ""),
        "description": _described(summaries),
        "by": next((each.by for each in summaries if each.by != MODEL), MODEL),
    }
