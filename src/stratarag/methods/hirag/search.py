"""HiRetrieval (HiRAG 4.2, Alg. 2): local, global and bridge knowledge, and one ranking of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stratarag.methods.base import Corpus, Description, Mask, Origin, Query, Ranking, Stored
from stratarag.methods.hirag.bridge import SIMILAR, Bridge, LayeredGraph
from stratarag.methods.hirag.config import MODES, HiRAGConfig, HiRAGOptions, Part
from stratarag.methods.hirag.ranking import Csr, by_quota, ordered
from stratarag.pipeline.filters import nodes_allowed
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.ranking import concatenate, filled
from stratarag.pipeline.walk import PassageWalk, Seeds
from stratarag.protocols import Rows
from stratarag.records import Metadata

LOCAL_SHARE = 0.0005
"""Restart mass of an entity of the local part, where one that the question names has 1 (view `chunks`)."""
BRIDGE_SHARE = 0.003
"""The same of an entity on the bridge. Tuned on one corpus: larger shares lead the walk astray."""
_REPORTED = 5  # pairs without a path that the trace names


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What was found for a question; entities are numbered through all layers."""

    entities: Rows
    similarity: NDArray[np.float32]
    communities: Rows
    likeness: NDArray[np.float32]
    bridge: Bridge


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What a filter admits: entities of all layers, edges of the layered graph, communities."""

    entities: Mask
    edges: Mask
    communities: Mask


class BridgeSearcher:
    """An opened index."""

    def __init__(self, corpus: Corpus, graph: Graph, stored: Stored, config: HiRAGConfig) -> None:
        self._corpus = corpus
        self._graph = graph
        self._stored = stored
        self._layered = LayeredGraph(graph, stored)
        self._chunks = Nearest(corpus.vectors, stored.arrays, "chunks")
        self._projection = PassageWalk(corpus, graph, self._chunks)
        self._frequency = np.diff(graph.sources[0][: graph.entities + 1])
        own = (stored.arrays["sources.indptr"], stored.arrays["sources.indices"])
        self._sources: dict[Origin, Csr] = {Origin.GRAPH: graph.sources, Origin.NODE: own}

    def nodes(self, query: Query) -> Ranking:
        """Entities, relations of the bridge and reports, each part with its quota of the `k` results.

        A part that has less than its quota leaves the rest to the others; what is missing then are passages
        by similarity.
        """
        options: HiRAGOptions = query.options or HiRAGOptions()
        admitted = self._admitted(query.allowed)
        known = self._knowledge(query, options, admitted)
        parts = {part: self._part(part, known, query, admitted) for part in MODES[options.mode]}
        chosen = by_quota(parts, options.quotas, query.k, self._sources)
        found = self._explained(chosen, known)
        if len(found) >= query.k:
            return found
        passages = Ranking.of(Origin.CHUNK, *self._chunks.search(query.vector, query.k, query.allowed))
        return filled(found, passages, query.k)

    def chunks(self, query: Query) -> Ranking:
        """Passages by the walk of `pipeline.walk`, which restarts at what the parts hold too."""
        options: HiRAGOptions = query.options or HiRAGOptions()
        known = self._knowledge(query, options, self._admitted(query.allowed))
        ranked = self._projection.rank(
            query.text,
            query.vector,
            query.k,
            allowed=query.allowed,
            entities=query.entities,
            seeds=self._seeds(known, MODES[options.mode], query),
        )
        return ranked.found

    def describe(self) -> Description:
        """Entities per layer, communities per level, and the sparsity of each layer's clusters."""
        arrays, layered = self._stored.arrays, self._layered
        nodes = {
            "entities": layered.base,
            "summary_entities": layered.summaries,
            "communities": layered.communities,
        }
        levels, counts = np.unique(arrays["layers.levels"], return_counts=True)
        labels = arrays["communities.labels"]
        details: Metadata = {
            "layers": [int(size) for size in arrays["layers.sizes"]],
            "sparsity": [float(value) for value in arrays["layers.sparsity"]],
            "summary_entities": {str(level): int(n) for level, n in zip(levels, counts, strict=True)},
            "communities": {str(level): len(np.unique(own)) for level, own in enumerate(labels)},
        }
        return Description(nodes, details)

    def _admitted(self, allowed: Mask | None) -> _Admitted | None:
        if allowed is None:
            return None
        layered = self._layered
        base, end = layered.base, layered.base + layered.relations
        indptr, indices = self._graph.sources
        of_graph = nodes_allowed(indptr[: end + 1], indices, allowed)
        own = nodes_allowed(*self._sources[Origin.NODE], allowed)
        summaries, communities = layered.summaries, layered.communities
        edges = np.ones(int(layered.adjacency.edges.max(initial=-1)) + 1 + layered.relations, np.bool_)
        edges[: layered.relations] = of_graph[base:]
        entities = np.concatenate([of_graph[:base], own[:summaries]])
        return _Admitted(entities, edges, own[summaries : summaries + communities])

    def _knowledge(self, query: Query, options: HiRAGOptions, admitted: _Admitted | None) -> Knowledge:
        """Alg. 2 up to the reasoning paths."""
        layered, wanted = self._layered, MODES[options.mode]
        nodes = None if admitted is None else admitted.entities
        rows, similarity = layered.nearest(query.vector, max(options.entities, SIMILAR), nodes)
        local, near = rows[: options.entities], similarity[: options.entities]
        found, likeness = layered.communities_of(local, query.vector)
        communities = found[: options.communities]
        bridge = Bridge((), (), ())
        if "bridge" in wanted:
            edges = None if admitted is None else admitted.edges
            similar = rows, similarity
            bridge = layered.bridge(communities, query.vector, similar, options.key_entities, nodes, edges)
        if admitted is not None:  # other reports than those of the communities that the bridge starts from
            kept = admitted.communities[found]
            communities, likeness = found[kept][: options.communities], likeness[kept]
        return Knowledge(local, near, communities, likeness[: options.communities], bridge)

    def _part(self, part: Part, known: Knowledge, query: Query, admitted: _Admitted | None) -> Ranking:
        if part == "local":
            trace = [{"part": part, "similarity": float(score)} for score in known.similarity]
            return self._entities(known.entities, known.similarity, trace)
        if part == "global":
            trace = [{"part": part, "similarity": float(score)} for score in known.likeness]
            return Ranking.of(Origin.NODE, known.communities + self._layered.summaries, known.likeness, trace)
        return self._triples(known, query, admitted)

    def _entities(self, rows: Rows, scores: NDArray[np.float32], trace: Sequence[Metadata]) -> Ranking:
        """Entities of all layers as rows of their tables, in their order."""
        base = rows < self._layered.base
        origin = np.where(base, Origin.GRAPH, Origin.NODE).astype(np.int8)
        return Ranking(np.where(base, rows, rows - self._layered.base), scores, origin, trace)

    def _triples(self, known: Knowledge, query: Query, admitted: _Admitted | None) -> Ranking:
        """The bridge's triples: relations, and summary entities for relations with them, best first.

        A triple is as similar to the question as its two ends are on average.
        """
        layered = self._layered
        rows = np.sort(known.bridge.entities)
        numbers, ends = layered.triples(rows, None if admitted is None else admitted.edges)
        similarity = layered.similarity(rows, query.vector)
        scores = (
            similarity[np.searchsorted(rows, ends)].mean(axis=1) if len(ends) else np.zeros(0, np.float32)
        )
        order = np.lexsort((numbers, -scores))
        numbers, ends, scores = numbers[order], ends[order], scores[order]
        related = numbers < layered.relations
        hubs = np.unique(ends[~related][ends[~related] >= layered.base])
        hubs = hubs[~np.isin(hubs, known.entities)]
        graph_rows = numbers[related] + layered.base
        trace = [{"part": "bridge", "ends": pair} for pair in ends[related].tolist()]
        of_relations = Ranking.of(Origin.GRAPH, graph_rows, scores[related], trace)
        likeness = similarity[np.searchsorted(rows, hubs)]
        best = np.lexsort((hubs, -likeness))
        told = [{"part": "bridge", "ends": [int(hub)]} for hub in hubs[best]]
        of_hubs = Ranking.of(Origin.NODE, hubs[best] - layered.base, likeness[best], told)
        return ordered(concatenate([of_relations, of_hubs]))

    def _explained(self, found: Ranking, known: Knowledge) -> Ranking:
        """The bridge in words: for each of its hits the path it lies on, as names; and what has no path."""
        bridge = known.bridge
        ends_of = [tuple(entry.get("ends", ())) for entry in found.trace]
        explained: dict[tuple[int, ...], Sequence[int]] = {}
        wanted = set(ends_of)
        for path in bridge.paths:
            for ends in _steps(path):
                if ends in wanted:
                    explained.setdefault(ends, path)
        paths = [explained.get(ends, ends) for ends in ends_of]
        missing = list(bridge.unreachable[:_REPORTED])
        names = self._names({row for path in [*paths, *missing] for row in path})
        trace = []
        for entry, path in zip(found.trace, paths, strict=True):
            told = {key: value for key, value in entry.items() if key != "ends"}
            trace.append(told | ({"path": [names[row] for row in path]} if path else {}))
        if trace and bridge.keys:
            summary = {"key_entities": len(bridge.keys), "paths": len(bridge.paths)}
            pairs = [[names[one], names[two]] for one, two in missing]
            trace[0] |= {"bridge": {**summary, "unreachable": len(bridge.unreachable), "without_path": pairs}}
        return Ranking(found.rows, found.scores, found.origin, trace)

    def _names(self, rows: set[int]) -> dict[int, str]:
        """The names of a few entities, read now."""
        base = self._layered.base
        low, high = sorted(row for row in rows if row < base), sorted(row for row in rows if row >= base)
        read = [*self._graph.stored.nodes(low), *self._stored.nodes([row - base for row in high])]
        return {row: str(node.extra["name"]) for row, node in zip([*low, *high], read, strict=True)}

    def _seeds(self, known: Knowledge, wanted: Sequence[Part], query: Query) -> Seeds:
        """The entities of the parts, each with a small weight shared among its passages."""
        rows: list[Rows] = []
        weights: list[NDArray[np.float64]] = []
        if "local" in wanted:
            rows.append(known.entities)
            weights.append(LOCAL_SHARE * np.maximum(known.similarity.astype(np.float64), 0.0))
        if "bridge" in wanted and len(known.bridge.paths):
            on_path = known.bridge.entities
            rows.append(on_path)
            similar = self._layered.similarity(on_path, query.vector).astype(np.float64)
            weights.append(BRIDGE_SHARE * np.maximum(similar, 0.0))
        if not rows:
            return Seeds()
        entities, shares = np.concatenate(rows), np.concatenate(weights)
        kept = (entities < self._layered.base) & (shares > 0)
        entities, shares = entities[kept], shares[kept]
        return Seeds(entities=entities, entity_weights=shares / np.maximum(self._frequency[entities], 1))


def _steps(path: Sequence[int]) -> list[tuple[int, ...]]:
    """What a path may explain: each step of it, lower end first, and each entity on it."""
    return [*((min(step), max(step)) for step in pairwise(path)), *((row,) for row in path)]
