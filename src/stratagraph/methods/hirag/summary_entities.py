"""Summary entities of a layer's clusters (HiRAG Fig. 9, ERRATA H5).

A cluster proposes summary entities. A proposal is for all members of its cluster or for those that the model
lists; where nothing connects the members, there is none. Proposals with the same name are one entity: the
entity of the graph that has the name, or else a summary entity. Proposals are also stored as arrays, so that
an update reads only the nodes that changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.ingest.carryover import VECTORS, Keys, keys_of, lookup
from stratagraph.ingest.graph.statements import group_vectors
from stratagraph.ingest.marks import Marks, combined, find_marks, label_sums, list_sums
from stratagraph.ingest.names.index import canonical
from stratagraph.ingest.summarize import MEMBER_TOKENS, MODEL, answered, words_for
from stratagraph.ingest.summarize import Summary as Extract
from stratagraph.kernels.ranges import borders, distinct, ranges, split
from stratagraph.methods.hirag.clusters import IDS, Clusters
from stratagraph.methods.hirag.entities import Builder, Entities, MemberRelations
from stratagraph.methods.hirag.naming import (
    MOST_ENTITIES,
    ProposedSummary,
    cluster_name,
    members_named,
    proposed,
    summary_task,
)
from stratagraph.methods.reports import joined_members
from stratagraph.models.gate import CallItem
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import Node, content_id, content_keys

KIND = "summary_entity"
CLUSTERS, ENTITIES, PROPOSED, BY_MODEL, LISTED, STRENGTHS = (
    f"proposals.{name}" for name in ("clusters", "entities", "names", "by_model", "said", "strengths")
)
"""Arrays of the proposals, in order of their clusters: the cluster; the summary entity, or -1 for an entity
of the graph; two keys of its name, as a shown name and as an id; whether a model wrote it. Then, of relations
with members that a model listed: proposal and member, and the strength, 0 if unknown."""
_NONE: Mapping[str, NDArray[Any]] = {
    CLUSTERS: np.zeros(0, np.int32),
    ENTITIES: np.zeros(0, np.int32),
    PROPOSED: np.zeros((0, 2), np.uint64),
    BY_MODEL: np.zeros(0, np.bool_),
    LISTED: np.zeros((0, 2), np.int32),
    STRENGTHS: np.zeros(0, np.float64),
    IDS: np.zeros((0, 2), np.uint64),
}


class LayerClusters(NamedTuple):
    """The clusters of a layer that have several members; the members of cluster i are `of(i)`."""

    level: int  # the layer of their summary entities
    rows: Rows  # of each cluster among the clusters of all layers
    indptr: Rows
    members: Rows
    rows_before: Rows  # the previous row of the cluster that each continues, or -1
    ids: Marks  # the marks of the members' contents, by which a cluster is known
    marks: Marks  # the same with the members' sources

    def of(self, place: int) -> list[int]:
        """The entities of a cluster."""
        rows: list[int] = self.members[self.indptr[place] : self.indptr[place + 1]].tolist()
        return rows


class Proposals(NamedTuple):
    """The proposals of a layer's clusters, in order of clusters, then of rank."""

    places: Rows  # of each proposal's cluster in `LayerClusters`
    ranks: Rows  # in the cluster
    names: Keys  # keys of the name, shape (proposals, 2)
    by_model: NDArray[np.bool_]  # whether a model wrote each
    before: Rows  # the row of the same proposal in the previous index, or -1
    new_places: Rows  # the place in `new` of another proposal, or -1
    new: Sequence[ProposedSummary]

    @classmethod
    def of(
        cls,
        clusters: Rows,
        previous: PreviousProposals,
        new_proposals: Mapping[int, Sequence[ProposedSummary]],
    ) -> Proposals:
        """Proposals of previous `clusters`, and new ones for the places where these are -1."""
        previous_places = np.flatnonzero(clusters >= 0)
        known = clusters[previous_places]
        counts = previous.starts[known + 1] - previous.starts[known]
        rows = ranges(previous.starts[known], counts)
        new = [each for proposals in new_proposals.values() for each in proposals]
        sizes = [len(proposals) for proposals in new_proposals.values()]
        all_counts = np.concatenate([counts, np.array(sizes, np.int64)])
        all_places = np.concatenate([previous_places, np.array([*new_proposals], np.int64)])
        places = np.repeat(all_places, all_counts)
        plain = [canonical(each.name) for each in new]
        names = np.column_stack([keys_of("name", plain), content_keys(plain)])
        by_model = np.array([each.by == MODEL for each in new], np.bool_)
        order = np.argsort(places, kind="stable")
        return cls(
            places[order],
            ranges(np.zeros(len(all_counts), np.int64), all_counts)[order],
            np.concatenate([previous.names[rows], names])[order],
            np.concatenate([previous.by_model[rows], by_model])[order],
            np.concatenate([rows, np.full(len(new), -1, np.int64)])[order],
            np.concatenate([np.full(len(rows), -1, np.int64), np.arange(len(new))])[order],
            new,
        )

    def summaries(self, numbers: Rows, previous: PreviousProposals) -> list[ProposedSummary]:
        """Read proposals in full."""
        before = self.before[numbers]
        read = iter(previous.read(before[before >= 0]))
        return [
            next(read) if row >= 0 else self.new[place]
            for row, place in zip(before.tolist(), self.new_places[numbers].tolist(), strict=True)
        ]


class PreviousProposals:
    """The proposals of the previous index: `clusters`, `entities`, `names` and `by_model` as of `CLUSTERS`.

    Those of cluster i are `starts[i]` to `starts[i + 1]`. Of each summary entity, `counts` holds the number
    of its proposals, and `first` the first of them, or -1.
    """

    def __init__(self, previous: Stored | None, entities: int) -> None:
        self._previous, self._count = previous, entities
        summaries = 0 if previous is None else int(previous.arrays["counts"][0])
        arrays = _NONE if previous is None else previous.arrays
        self.clusters, self.entities = (arrays[name].astype(np.int64) for name in (CLUSTERS, ENTITIES))
        self.names, self.by_model = arrays[PROPOSED], arrays[BY_MODEL]
        self._listed = self._pairs(*arrays[LISTED].T.astype(np.int64))
        self._strengths, self._ids = arrays[STRENGTHS], arrays[IDS]
        self.starts = np.searchsorted(self.clusters, np.arange(len(self._ids) + 1))
        rows = np.flatnonzero(self.entities >= 0)  # others have the name of an entity of the graph
        self.counts = np.bincount(self.entities[rows], minlength=summaries)
        self.first = np.full(summaries, -1, np.int64)
        self.first[self.entities[rows[::-1]]] = rows[::-1]

    def continued(self, clusters: Rows, ranks: Rows) -> Rows:
        """The summary entity that the proposal of a cluster and a rank began, or -1.

        `clusters` are previous rows, or -1.
        """
        continued = np.full(len(clusters), -1, np.int64)
        rows = self.starts[clusters] + ranks
        places = np.flatnonzero((clusters >= 0) & (rows < self.starts[clusters + 1]))
        places = places[self.entities[rows[places]] >= 0]
        owners = self.entities[rows[places]]
        is_first = self.first[owners] == rows[places]
        continued[places[is_first]] = owners[is_first]
        return continued

    def clusters_of(self, ids: Marks, *, by_model: bool) -> Rows:
        """The clusters with these ids, whose proposals can all be read and come from a model if `by_model`.

        Rows of clusters, or -1. A cluster without proposals is one in which a model found nothing in common.
        """
        clusters = find_marks(ids, self._ids)
        bad = (self.entities < 0) | (by_model & ~self.by_model)
        unusable = np.zeros(len(self._ids) + 1, np.bool_)
        unusable[self.clusters[bad]] = True
        return np.where(unusable[clusters], -1, clusters)

    def strengths(self, proposals: Rows, members: Rows) -> NDArray[np.float64]:
        """Strengths that a model gave to members' relations, -1 where it did not list the member.

        `members` are numbers of entities in the previous index, or -1, as `proposals` are.
        """
        strengths = np.full(len(proposals), -1.0)
        if len(self._listed):
            places = lookup(self._pairs(proposals, members), self._listed)
            strengths[places >= 0] = self._strengths[places[places >= 0]]
        return strengths

    def _pairs(self, proposals: Rows, members: Rows) -> Keys:
        """A key for each pair of proposal and member; if one of them is -1, that of no pair."""
        is_pair = (proposals >= 0) & (members >= 0)
        return np.where(is_pair, proposals * self._count + members, -1).astype(np.uint64)

    def read(self, proposals: Rows) -> list[ProposedSummary]:
        """Read proposals in full."""
        if not len(proposals) or self._previous is None:
            return []
        owners = self.entities[proposals]
        rows = distinct(owners).tolist()
        nodes = dict(zip(rows, self._previous.nodes(rows), strict=True))
        summaries: list[ProposedSummary] = []
        for owner, cluster in zip(owners.tolist(), self.clusters[proposals].tolist(), strict=True):
            stored, identity = nodes[owner].extra["summaries"], id_of(self._ids[cluster])
            if (own := next((each for each in stored if each["cluster"] == identity), None)) is None:
                raise Damaged(
                    f"part 'hirag' of the index is damaged: summary entity {nodes[owner].id} holds no "
                    f"proposal of cluster {identity}. Restore the folder from a copy, or build again"
                )
            summaries.append(ProposedSummary.read(own))
        return summaries


class SummaryWriter:
    """Makes the summary entities of one layer after the other.

    A summary entity whose mark the previous index has, of its proposals and their clusters, keeps its node
    unread.
    """

    def __init__(self, builder: Builder, entities: Entities) -> None:
        self._builder = builder
        self._entities = entities
        self._previous = PreviousProposals(builder.previous, entities.count_before)
        self._layers: list[tuple[LayerClusters, Proposals, Rows]] = []  # with the entity of each proposal

    def groups(self, level: int, layer: Rows, clusters: Clusters, first: int) -> LayerClusters:
        """The clusters of several members among the entities `layer`. None is read.

        `first` is the number of the layer's first cluster among those of all layers.
        """
        entities, sizes = self._entities, clusters.sizes
        several = np.flatnonzero(sizes > 1)
        indptr = borders(sizes[several])
        members = layer[clusters.rows[np.repeat(sizes > 1, sizes)]]
        settings = np.full(len(several), self._builder.config.summary_tokens, np.uint64)
        ids, marks = (
            combined(settings, list_sums(indptr, each[members]))
            for each in (entities.contents, entities.marks)
        )
        return LayerClusters(level, first + several, indptr, members, clusters.before[several], ids, marks)

    async def proposals(self, groups: LayerClusters, types: Sequence[str]) -> Proposals:
        """The proposals of each cluster: those of the previous index, or new ones.

        Without a model there is one, named by the members nearest to its cluster's centre.
        """
        entities, config, gate = self._entities, self._builder.config, self._builder.gate
        before = self._previous.clusters_of(groups.ids, by_model=gate.has_llm)
        clusters = {place: groups.of(place) for place in np.flatnonzero(before < 0).tolist()}
        entities.fetch(row for rows in clusters.values() for row in rows)
        texts = [[entities.node(row).text for row in rows] for rows in clusters.values()]
        items = (self._item(*each, types) for each in zip(clusters.values(), texts, strict=True))
        task = summary_task(config.summary_tokens, config.cluster_size)
        answers = await answered(task, items, texts, config.summary_tokens, gate)
        summaries = {}
        for (place, rows), answer in zip(clusters.items(), answers, strict=True):
            cluster, names = id_of(groups.ids[place]), [entities.name(row) for row in rows]
            if isinstance(answer, Extract):
                entities.complete = False
                for at, row in enumerate(rows):  # one that is named by its members gives its first name
                    if entities.named_by_members(row):
                        names[at] = members_named(names[at])[0]
                name = cluster_name(names, entities.vectors[rows])
                summaries[place] = [ProposedSummary(cluster, groups.level, name, "", answer.text, answer.by)]
            else:
                named = [(name, entities.node(row).id) for name, row in zip(names, rows, strict=True)]
                summaries[place] = proposed(cluster, groups.level, answer, named, entities.notes)
        return Proposals.of(before, self._previous, summaries)

    def _item(self, members: Sequence[int], texts: Sequence[str], types: Sequence[str]) -> CallItem:
        tokens, count = self._builder.config.summary_tokens, self._builder.gate.count_tokens
        shown, number = joined_members(texts, MEMBER_TOKENS, count, numbered=True)
        values = {
            "entities": shown,
            "types": ", ".join(types),
            "words": str(words_for(tokens, number)),
            "most": str(max(2, min(MOST_ENTITIES, number // 3))),
        }
        names = ", ".join(self._entities.name(row) for row in members[:3])
        return CallItem(values, names, self._builder.corpus.ids(self._entities.sources_of(members)))

    async def add(self, groups: LayerClusters, proposals: Proposals) -> Rows:
        """The row of each proposal's entity: an entity with its name, or a new one for each new name."""
        entities = self._entities
        rows = entities.rows_named(proposals.names)
        new = np.flatnonzero(rows < 0)
        names, of_name = np.unique(proposals.names[new, 0], return_inverse=True)
        rows[new] = entities.count + of_name
        entities.relations.append(self._relations(groups, proposals, rows))
        numbers = split(new[np.argsort(of_name, kind="stable")], np.bincount(of_name))
        if numbers:
            await self._create(groups, proposals, numbers, names)
        self._layers.append((groups, proposals, rows))
        return rows

    def _relations(self, groups: LayerClusters, proposals: Proposals, rows: Rows) -> MemberRelations:
        """Relations of members with their summary entity, without self-loops.

        Members that a model left out have none, unless it listed no member at all.
        """
        sizes = np.diff(groups.indptr)[proposals.places]
        members = groups.members[ranges(groups.indptr[proposals.places], sizes)]
        numbers = np.repeat(np.arange(len(rows)), sizes)
        strengths = self._previous.strengths(proposals.before[numbers], self._entities.rows_before[members])
        lists_members = np.array([bool(each.members) for each in proposals.new] + [False], np.bool_)
        new_places = proposals.new_places[numbers]  # -1 finds the False at the end
        places = np.flatnonzero(lists_members[new_places])
        self._entities.fetch(members[places].tolist())
        for place in places.tolist():
            listed = proposals.new[new_places[place]].members
            belonging = listed.get(self._entities.node(int(members[place])).id)
            strengths[place] = belonging.strength if belonging else -1.0
        is_other = members != rows[numbers]
        is_listed, listing = is_other & (strengths >= 0), np.zeros(len(rows), np.bool_)
        listing[numbers[is_listed]] = True
        related = is_listed | (is_other & ~listing[numbers])
        members, numbers, strengths = members[related], numbers[related], strengths[related]
        return MemberRelations(members, rows[numbers], numbers, strengths)

    async def _create(
        self, groups: LayerClusters, proposals: Proposals, numbers: Sequence[Rows], names: Keys
    ) -> None:
        """Add summary entities with these names; `numbers` are the proposals of each."""
        entities, previous = self._entities, self._builder.previous
        marks, before = await asyncio.to_thread(self._regrouped, groups, proposals, numbers)
        first_proposals = np.array([own[0] for own in numbers])
        clusters = groups.rows_before[proposals.places[first_proposals]]
        rows_before = self._previous.continued(clusters, proposals.ranks[first_proposals])
        rows_before = np.where(before >= 0, before, rows_before)
        vectors = np.zeros((len(names), self._builder.dimension), np.float32)
        carried, new = np.flatnonzero(before >= 0), np.flatnonzero(before < 0)
        if previous is not None and len(carried):
            vectors[carried] = previous.arrays[VECTORS][before[carried]]
        nodes, members = self._new_nodes(groups, proposals, [numbers[place] for place in new.tolist()])
        vectors[new] = await group_vectors(
            nodes, members, entities.vectors, stage="embed summary entities", carry=self._builder.carry
        )
        rows_before = np.where(rows_before >= 0, entities.first_before + rows_before, -1)
        entities.add(groups.level, names, rows_before, self._builder.table(before, nodes, marks), vectors)

    def _regrouped(
        self, groups: LayerClusters, proposals: Proposals, numbers: Sequence[Rows]
    ) -> tuple[Marks, Rows]:
        """The mark of each summary entity, of its proposals in their order, and its previous row or -1."""
        counts, rows = np.array([len(own) for own in numbers]), np.concatenate(numbers)
        owners, positions = np.repeat(np.arange(len(counts)), counts), ranges(np.zeros_like(counts), counts)
        own = combined(
            groups.marks[proposals.places[rows]], proposals.ranks[rows], positions, proposals.names[rows, 0]
        )
        marks, before = self._builder.regroup(label_sums(owners, own, len(counts)), KIND, groups.level)
        before[owners[proposals.before[rows] < 0]] = -1  # of a new proposal
        return marks, before

    def _new_nodes(
        self, groups: LayerClusters, proposals: Proposals, numbers: Sequence[Rows]
    ) -> tuple[list[Node], list[list[int]]]:
        """Nodes of summary entities, from the `numbers` of the proposals of each, and their members."""
        entities = self._entities
        members = [
            sorted({row for place in proposals.places[own].tolist() for row in groups.of(place)})
            for own in numbers
        ]
        entities.fetch(row for rows in members for row in rows)
        flat = np.concatenate([np.zeros(0, np.int64), *numbers])
        read = iter(proposals.summaries(flat, self._previous))
        nodes = []
        for own, rows in zip(numbers, members, strict=True):
            summaries = [next(read) for _ in own]
            clusters = sorted(id_of(groups.ids[place]) for place in proposals.places[own].tolist())
            name = summaries[0].name
            described = " ".join(dict.fromkeys(each.description for each in summaries if each.description))
            text = f"{name}: {described}" if described else name
            extra = {
                "name": name,
                "title": name,
                "type": next((each.type for each in summaries if each.type), ""),
                "description": described,
                "by": next((each.by for each in summaries if each.by != MODEL), MODEL),
                "members": [entities.node(row).id for row in rows],
                "summaries": [each.stored() for each in summaries],
            }
            identity = content_id("hirag", KIND, str(groups.level), text, *clusters)
            nodes.append(Node(identity, KIND, groups.level, text, entities.sources_of(rows), extra))
        return nodes, members

    def finish(self) -> None:
        """Write the proposals of all layers into those nodes of summary entities that lack some.

        A node without changes lacks some if its proposals are not those of the previous index.
        """
        entities, previous, first = self._entities, self._previous, self._entities.graph.entities
        if not self._layers:
            return
        rows = np.concatenate([rows for _, _, rows in self._layers]) - first
        before = np.concatenate([proposals.before for _, proposals, _ in self._layers])
        order = np.argsort(rows, kind="stable")
        order = order[rows[order] >= 0]
        rows, before = rows[order], before[order]
        counts, wanted = np.bincount(rows, minlength=len(entities.before)), entities.before >= 0
        if wanted.any():
            other = previous.entities[before] != entities.before[rows]
            other |= before < 0
            other[1:] |= (np.diff(rows) == 0) & (np.diff(before) <= 0)
            unchanged = np.bincount(rows[other], minlength=len(counts)) == 0
            wanted &= ~(unchanged & (counts == previous.counts[entities.before]))
        for row, node in entities.new_nodes.items():
            wanted[row - first] = len(node.extra["summaries"]) != counts[row - first]
        starts = np.searchsorted(rows, np.arange(len(counts) + 1))
        entities.fetch((first + np.flatnonzero(wanted)).tolist())
        ends = np.cumsum([len(rows) for _, _, rows in self._layers])
        for place in np.flatnonzero(wanted).tolist():
            node, stored = entities.node(first + place), []
            for number in order[starts[place] : starts[place + 1]].tolist():
                layer = int(np.searchsorted(ends, number, "right"))
                _, proposals, own = self._layers[layer]
                at = np.array([number - ends[layer] + len(own)])
                (each,) = proposals.summaries(at, previous)
                if each.level != node.level:  # the layer that made an entity describes it
                    each = replace(each, description="", type="")
                stored.append(each.stored())
            entities.new_nodes[first + place] = replace(node, extra={**node.extra, "summaries": stored})
            entities.before[place] = -1

    def arrays(self) -> Arrays:
        """The arrays that `PreviousProposals` reads."""
        pairs, start = [np.zeros((0, 2), np.int64)], 0
        strengths, names = [np.zeros(0, np.float64)], [np.zeros((0, 2), np.uint64)]
        clusters, owners, by_model = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
        for (groups, proposals, rows), each in zip(self._layers, self._entities.relations, strict=True):
            listed = each.strengths >= 0
            pairs.append(np.column_stack([each.proposals + start, each.members])[listed])
            strengths.append(each.strengths[listed])
            clusters.append(groups.rows[proposals.places])
            owners.append(rows - self._entities.graph.entities)
            names.append(proposals.names)
            by_model.append(proposals.by_model)
            start += len(rows)
        numbers = {
            CLUSTERS: np.concatenate(clusters),
            ENTITIES: np.maximum(np.concatenate(owners), -1),
            LISTED: np.concatenate(pairs),
        }
        measures = {BY_MODEL: np.concatenate(by_model), STRENGTHS: np.concatenate(strengths)}
        return (
            Holds.ROWS.of({name: array.astype(np.int32) for name, array in numbers.items()})
            | Holds.MEASURES.of(measures)
            | Holds.CONTENT.of({PROPOSED: np.concatenate(names)})
        )


def id_of(mark: Marks) -> str:
    """A cluster's id as it is written in nodes."""
    return mark.astype("<u8").tobytes().hex()
