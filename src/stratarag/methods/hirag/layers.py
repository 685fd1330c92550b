"""HiIndex (HiRAG Alg. 1): layers of summary entities over the basic knowledge graph.

Cluster a layer, stop if the clusters' sparsity does not change any more, find the summary entities of each
cluster, relate them to its members, and go on with them as the next layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stratarag.kernels.mixture import sparsity
from stratarag.methods.hirag.clusters import Clusters, PreviousClusters, cluster
from stratarag.methods.hirag.context import BuildContext
from stratarag.methods.hirag.naming import Summary, Terms, answered, prompt_values, summary_task
from stratarag.models.gate import CallItem
from stratarag.pipeline.carryover import Keys, derived_id, key, keys_of
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.names.index import canonical
from stratarag.pipeline.summarize import EXTRACTIVE, FAILED, MODEL, extractive_summary
from stratarag.protocols import Rows, Vectors
from stratarag.records import Node, content_id

KIND = "summary_entity"
LEAST_SHRINKAGE = 0.9
"""A layer that is not at least a tenth smaller than the one below it is the last."""
LEAST_LAYERS = 2
"""Layers of summary entities that are made, where there is enough to cluster, before sparsity ends them."""


@dataclass(slots=True)
class Entities:
    """The entities of all layers: those of the graph, then the summary entities, in one numbering.

    Attributes
    ----------
    ids, names, texts, sources, vectors, keys
        Of all entities.
    nodes
        The nodes of the summary entities.
    relations
        Pairs (member of a cluster, summary entity of that cluster).
    summaries
        What the clusters of each summary entity say of it, by its row.
    complete
        Whether a model wrote all summaries.
    """

    ids: list[str]
    names: list[str]
    texts: list[str]
    sources: list[Sequence[int]]
    vectors: Vectors
    keys: Keys
    nodes: list[Node] = field(default_factory=list)
    relations: list[tuple[int, int]] = field(default_factory=list)
    summaries: dict[int, list[Summary]] = field(default_factory=dict)
    complete: bool = True

    @classmethod
    def of(cls, graph: Graph) -> Entities:
        """The entities of the basic graph, layer 0."""
        nodes = graph.stored.nodes(range(graph.entities))
        return cls(
            ids=[node.id for node in nodes],
            names=[node.extra["name"] for node in nodes],
            texts=[node.text for node in nodes],
            sources=[node.sources for node in nodes],
            vectors=np.asarray(graph.vectors),
            keys=keys_of("entity", (node.id for node in nodes)),
        )

    def sources_of(self, members: Sequence[int]) -> list[int]:
        """The union of the members' sources, ascending."""
        return sorted({source for member in members for source in self.sources[member]})


@dataclass(frozen=True, slots=True)
class Layers:
    """The layered graph. `clusters[i]` are the clusters of layer i, whose members are `members[i]`."""

    entities: Entities
    members: Sequence[Rows]
    clusters: Sequence[Clusters]
    sparsity: Sequence[float]


async def build_layers(context: BuildContext, types: Sequence[str]) -> Layers:
    """Alg. 1, with the meta types X; layers end as ERRATA H1 says."""
    config = context.config
    entities = await asyncio.to_thread(Entities.of, context.graph)
    known = await asyncio.to_thread(_known, context)
    previous = PreviousClusters(context.previous, config)
    members: list[Rows] = []
    clusters: list[Clusters] = []
    changes: list[float] = []
    layer = np.flatnonzero(entities.vectors.any(axis=1))
    while len(clusters) < config.max_layers and len(layer) >= config.min_layer:
        vectors, keys = entities.vectors[layer], entities.keys[layer]
        found = await asyncio.to_thread(cluster, vectors, keys, previous.layer(len(clusters), keys), config)
        sizes = [len(rows) for rows in found.members]
        change = sparsity(sizes, len(layer))
        if max(sizes) < 2 or _settled([*changes, change], config.stop_change):
            break
        members.append(layer)
        clusters.append(found)
        changes.append(change)
        above = await _LayerSummarizer(context, entities, layer, found, len(clusters), known).summarise(types)
        if len(above) > LEAST_SHRINKAGE * len(layer):
            break
        layer = above
    _store_summaries(entities)
    return Layers(entities, members, clusters, changes)


def _settled(sparsities: Sequence[float], bound: float) -> bool:
    """Whether the last layer's sparsity is that of the layer below, but for a part of `bound` (ERRATA H1).

    A layer is measured against the one below it only from the second layer of summary entities on. Clusters
    are bounded (ERRATA H3), and so the sparsity of a thousand entities or more is near 1 whatever their
    clusters are like: its first change would end every large hierarchy at one layer, where the paper's
    Figure 4 sees it rise over several before it settles.
    """
    *_, before, now = (np.nan, np.nan, *sparsities)
    return len(sparsities) > LEAST_LAYERS and abs(now - before) <= bound * before


def _known(context: BuildContext) -> dict[str, list[Summary]]:
    """The summaries of the previous index by cluster: complete ones, and by a model if there is one now."""
    if context.previous is None:
        return {}
    found: dict[str, list[Summary]] = {}
    for node in context.previous.nodes(range(int(context.previous.arrays["counts"][0]))):
        for stored in node.extra["summaries"]:
            found.setdefault(stored["cluster"], []).append(Summary(**stored))
    return {
        cluster_id: each
        for cluster_id, each in found.items()
        if len(each) == each[0].of and (not context.gate.has_llm or each[0].by == MODEL)
    }


_Ranked = tuple[int, int, Summary]  # place of the cluster, place of the summary among the cluster's, summary


class _LayerSummarizer:
    """Finds the summary entities of one layer's clusters."""

    def __init__(
        self,
        context: BuildContext,
        entities: Entities,
        layer: Rows,
        clusters: Clusters,
        level: int,
        known: dict[str, list[Summary]],
    ) -> None:
        self._context = context
        self._entities = entities
        self._layer = layer
        self._level = level
        self._known = known
        grouped = zip(clusters.members, clusters.lineages.tolist(), strict=True)
        self._groups = [(layer[rows].tolist(), lineage) for rows, lineage in grouped if len(rows) > 1]
        self._single = {int(layer[rows[0]]) for rows in clusters.members if len(rows) == 1}
        self._ids = [self._cluster_id(members) for members, _ in self._groups]

    def _cluster_id(self, members: Sequence[int]) -> str:
        pairs = ((self._entities.ids[row], self._entities.texts[row]) for row in members)
        return derived_id(pairs, "hirag", "cluster", str(self._context.config.summary_tokens))

    async def summarise(self, types: Sequence[str]) -> Rows:
        """Find the summary entities of all clusters, relate them to the members, return the next layer."""
        with self._context.gate.stage(f"summarize layer {self._level}", len(self._groups)):
            summaries = await self._all(types)
        return await self._add(summaries)

    async def _all(self, types: Sequence[str]) -> list[list[Summary]]:
        """The summary entities of each cluster: known ones, or found now."""
        missing = [place for place, cluster_id in enumerate(self._ids) if cluster_id not in self._known]
        made = await self._made(missing, types) if missing else {}
        known = self._known
        return [made[place] if place in made else known[each] for place, each in enumerate(self._ids)]

    async def _made(self, missing: Sequence[int], types: Sequence[str]) -> dict[int, list[Summary]]:
        gate, config = self._context.gate, self._context.config
        if not gate.has_llm:
            self._entities.complete = False
            return await asyncio.to_thread(self._extracted, missing, EXTRACTIVE)
        task = summary_task(config.summary_tokens)
        answers = await gate.map(task, [self._item(place, types) for place in missing])
        failed = [place for place, answer in zip(missing, answers, strict=True) if answer is None]
        made = await asyncio.to_thread(self._extracted, failed, FAILED) if failed else {}
        for place, answer in zip(missing, answers, strict=True):
            if answer is not None:
                made[place] = answered(self._ids[place], self._level, answer)
        self._entities.complete &= not failed
        return made

    def _item(self, place: int, types: Sequence[str]) -> CallItem:
        gate, tokens = self._context.gate, self._context.config.summary_tokens
        members = self._groups[place][0]
        texts = [self._entities.texts[row] for row in members]
        values = prompt_values(texts, types, tokens, gate.count_tokens)
        names = ", ".join(self._entities.names[row] for row in members[:3])
        return CallItem(values, names, self._context.corpus.ids(self._entities.sources_of(members)))

    def _extracted(self, missing: Sequence[int], by: str) -> dict[int, list[Summary]]:
        """Summary entities without a model: a term that members share, and the members' own sentences."""
        texts = [self._entities.texts[row] for row in self._layer.tolist()]
        names = [self._entities.names[row] for row in self._layer.tolist()]
        vectors = self._entities.vectors[self._layer]
        places = {row: place for place, row in enumerate(self._layer.tolist())}
        terms = Terms(texts)
        made = {}
        for place in missing:
            members = [places[row] for row in self._groups[place][0]]
            name = terms.name(members, names, vectors)
            tokens, count = self._context.config.summary_tokens, self._context.gate.count_tokens
            described = extractive_summary([texts[member] for member in members], tokens, count)
            made[place] = [Summary(self._ids[place], self._level, name, "", described, by)]
        return made

    async def _add(self, summaries: Sequence[Sequence[Summary]]) -> Rows:
        """Add an entity for each new name; a name that is taken means the entity that has it (ERRATA H5)."""
        entities = self._entities
        rows = {canonical(name): row for row, name in reversed(list(enumerate(entities.names)))}
        rows |= {identity: row for row, identity in enumerate(entities.ids[: self._context.graph.entities])}
        above = set(self._single)
        new: dict[str, list[_Ranked]] = {}
        for place, found in enumerate(summaries):
            for rank, summary in enumerate(found):
                name = canonical(summary.name)
                if name not in rows:
                    new.setdefault(name, []).append((place, rank, summary))
                    continue
                row = rows[name]
                above.add(row)
                self._relate(place, row)
                if row >= self._context.graph.entities:  # it keeps its description and type
                    entities.summaries[row].append(replace(summary, description="", type=""))
        first = len(entities.ids)
        keys = [self._create(new[name]) for name in sorted(new)]
        entities.keys = np.concatenate([entities.keys, np.array(keys, np.uint64)])
        await self._embed(first)
        return np.array(sorted(above | set(range(first, len(entities.ids)))), np.int64)

    def _relate(self, place: int, row: int) -> None:
        """Relations of a cluster's members with its summary entity, but none of an entity with itself."""
        self._entities.relations += [(member, row) for member in self._groups[place][0] if member != row]

    def _create(self, ranked: Sequence[_Ranked]) -> int:
        """Add a summary entity, of one cluster or of several that name theirs alike; returns its key."""
        entities, row = self._entities, len(self._entities.ids)
        members = sorted({member for place, _, _ in ranked for member in self._groups[place][0]})
        for place, _, _ in ranked:
            self._relate(place, row)
        summaries = [summary for _, _, summary in ranked]
        name = summaries[0].name
        described = " ".join(dict.fromkeys(each.description for each in summaries if each.description))
        text = f"{name}: {described}" if described else name
        identity = content_id(
            "hirag", KIND, str(self._level), text, *sorted(each.cluster for each in summaries)
        )
        extra = {
            "name": name,
            "title": name,
            "type": next((each.type for each in summaries if each.type), ""),
            "description": described,
            "by": next((each.by for each in summaries if each.by != MODEL), MODEL),
            "members": [entities.ids[member] for member in members],
        }
        entities.summaries[row] = summaries
        entities.nodes.append(Node(identity, KIND, self._level, text, entities.sources_of(members), extra))
        entities.ids.append(identity)
        entities.names.append(name)
        entities.texts.append(text)
        entities.sources.append(entities.nodes[-1].sources)
        place, rank, _ = ranked[0]
        return key("summary", str(self._groups[place][1]), str(rank))

    async def _embed(self, first: int) -> None:
        """Add the vectors of the new summary entities."""
        entities, context = self._entities, self._context
        texts = entities.texts[first:]
        vectors = await context.carry.embed("embed summary entities", texts, context.dimension)
        entities.vectors = np.concatenate([entities.vectors, vectors])


def _store_summaries(entities: Entities) -> None:
    """Put into the node of each summary entity what its clusters say of it, for the next update."""
    first = len(entities.ids) - len(entities.nodes)
    for place, node in enumerate(entities.nodes):
        summaries = [each.stored() for each in entities.summaries[first + place]]
        entities.nodes[place] = replace(node, extra={**node.extra, "summaries": summaries})
