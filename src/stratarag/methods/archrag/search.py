"""Searching the hierarchy: the best of every level in one pass, merged by calibrated scores (3.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.chnsw import CHNSW
from stratarag.kernels.topk import TopK, top_k
from stratarag.methods.archrag.abstractness import judge_by_rule
from stratarag.methods.archrag.build import INDEX, layer_vectors
from stratarag.methods.archrag.config import ArchRAGConfig, ArchRAGOptions
from stratarag.methods.archrag.ranking import Calibration, calibrated, level_weights, select
from stratarag.methods.archrag.relations import Relations
from stratarag.methods.base import Corpus, Description, Graph, Mask, Origin, Query, Ranking, Stored
from stratarag.pipeline.filters import nodes_allowed
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.ranking import concatenate, filled
from stratarag.pipeline.walk import PassageWalk, Seeds
from stratarag.protocols import Rows, Vectors

FEWEST = 5
"""Results taken from each level at least, the paper's k."""
SEEDED = 5
"""Nodes of each level at which the walk restarts (view `chunks`)."""
ENTITY_SHARE = 0.005
COMMUNITY_SHARE = 0.005
"""Restart mass of the most similar entity, and of the most similar community of a level, where an entity that
the question names has 1; shared among its passages. Tuned on musique_train100 (R@5 .785 up to here, .77 at
four times as much)."""
SHARPNESS = 8
"""Power of a node's similarity relative to the best of its level."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One level as it is searched: its vectors, the row of its first node, and the table of its nodes."""

    vectors: Vectors
    start: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What a filter admits: rows of the graph, and nodes."""

    graph: Mask
    nodes: Mask


class HierarchySearcher:
    """An opened hierarchy. Level 0 are the entities, levels 1 and up the communities."""

    def __init__(self, corpus: Corpus, graph: Graph, stored: Stored, config: ArchRAGConfig) -> None:
        self._corpus = corpus
        self._graph = graph
        self._arrays = stored.arrays
        self._sources: tuple[Rows, Rows] = stored.arrays["sources.indptr"], stored.arrays["sources.indices"]
        self._chunks = Nearest(corpus.vectors, stored.arrays, "chunks")
        self._projection = PassageWalk(corpus, graph, self._chunks)
        self._layers = self._opened_layers()
        self._admitted: tuple[Mask, _Admitted] | None = None

    def nodes(self, query: Query) -> Ranking:
        """Entities, relations among them, and communities; passages where these are fewer than `k`."""
        options: ArchRAGOptions = query.options or ArchRAGOptions()
        found = self._ranked(query, options)
        if len(found) == query.k:
            return found
        passages = Ranking.of(Origin.CHUNK, *self._chunks.search(query.vector, query.k, query.allowed))
        return filled(found, passages, query.k)

    def chunks(self, query: Query) -> Ranking:
        """Passages by the walk of `pipeline.walk`, which restarts at what the levels hold, too."""
        options: ArchRAGOptions = query.options or ArchRAGOptions()
        ranked = self._projection.rank(
            query.text,
            query.vector,
            query.k,
            allowed=query.allowed,
            entities=query.entities,
            seeds=self._seeds(query, options),
        )
        return ranked.found

    def describe(self) -> Description:
        """Nodes per level."""
        sizes = [len(parts) for parts in np.split(self._arrays["parents"], self._arrays["levels.starts"][1:])]
        levels = {str(level): size for level, size in enumerate(sizes, 1)} if len(self._layers) > 1 else {}
        nodes = {
            "entities": self._graph.entities,
            "relations": self._graph.relations,
            "communities": len(self._arrays["parents"]),
        }
        joined = {str(level): int(count) for level, count in enumerate(self._arrays["levels.joined"], 1)}
        return Description(
            nodes, {"levels": {"0": self._graph.entities, **levels}, "of several members": joined}
        )

    def _opened_layers(self) -> list[_Layer]:
        if not self._graph.entities:
            return []
        starts, joined = self._arrays["levels.starts"].tolist(), self._arrays["levels.joined"].tolist()
        vectors = layer_vectors(self._graph, self._arrays["vectors"], starts, joined)
        return [
            _Layer(rows, start, Origin.NODE if level else Origin.GRAPH)
            for level, (rows, start) in enumerate(zip(vectors, [0, *starts], strict=True))
        ]

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration.from_arrays(self._arrays)

    @cached_property
    def _index(self) -> CHNSW:
        arrays = {
            name.removeprefix(INDEX): array for name, array in self._arrays.items() if name.startswith(INDEX)
        }
        return CHNSW.from_arrays(arrays)

    @cached_property
    def _relations(self) -> Relations:
        return Relations(self._graph.ends, self._graph.entities)

    def _ranked(self, query: Query, options: ArchRAGOptions) -> Ranking:
        """The merged ranking of the levels, at most `k`."""
        levels, weights = self._weighed(query, options)
        if not levels:
            return concatenate([])
        best = self._best(query, levels, options.k_per_level or max(FEWEST, query.k))
        found = self._scored(query, levels, weights, best)
        if levels[0] == 0 and options.relations:
            found = concatenate([found, self._among(query, best[0][0], found.scores[: len(best[0][0])])])
        place = {level: at for at, level in enumerate(levels)}
        groups = np.array([place[entry["level"]] for entry in found.trace], np.int64)
        chosen = select(found.scores, groups, weights, query.k)
        trace = [found.trace[at] for at in chosen.tolist()]
        return Ranking(found.rows[chosen], found.scores[chosen], found.origin[chosen], trace)

    def _scored(self, query: Query, levels: list[int], weights: list[float], best: list[TopK]) -> Ranking:
        """The best of each level one after the other, with calibrated scores."""
        counts = [len(rows) for rows, _ in best]
        mean, unit = self._calibration.measures(query.vector)
        of = np.repeat(np.array(levels), counts)
        similarities = np.concatenate([similarity for _, similarity in best])
        scores = calibrated(similarities, mean[of], unit[of], np.repeat(weights, counts))
        layers = [self._layers[level] for level in levels]
        return Ranking(
            np.concatenate([rows + layer.start for (rows, _), layer in zip(best, layers, strict=True)]),
            scores.astype(np.float32),
            np.repeat(np.array([layer.origin for layer in layers], np.int8), counts),
            [
                {"level": level, "similarity": similarity}
                for level, similarity in zip(of.tolist(), similarities.tolist(), strict=True)
            ],
        )

    def _weighed(self, query: Query, options: ArchRAGOptions) -> tuple[list[int], list[float]]:
        """The levels searched and their weights; a level of weight 0 is not searched."""
        present = range(len(self._layers))
        if options.levels is not None and self._layers:
            absent = sorted(set(options.levels) - set(present))
            if absent:
                raise ValueError(
                    f"level {absent[0]} is not in this hierarchy, which has levels 0 to {present[-1]}"
                )
        wanted = [level for level in present if options.levels is None or level in options.levels]
        judged = options.abstractness
        abstractness = judge_by_rule(query.text) if isinstance(judged, str) else judged
        weights = level_weights(wanted, len(self._layers) - 1, abstractness, options.level_weights)
        kept = [place for place, weight in enumerate(weights) if weight > 0]
        return [wanted[place] for place in kept], [weights[place] for place in kept]

    def _best(self, query: Query, levels: list[int], k: int) -> list[TopK]:
        """The best `k` of each level: in one pass over C-HNSW, or exactly among what a filter admits."""
        if not levels:
            return []
        if query.allowed is None:
            found = self._index.search_all(query.vector, k)
            return [found[level] for level in levels]
        admitted = self._admitted_by(query.allowed)
        return [self._scanned(query, level, k, admitted) for level in levels]

    def _scanned(self, query: Query, level: int, k: int, admitted: _Admitted) -> TopK:
        layer = self._layers[level]
        among = admitted.graph if layer.origin == Origin.GRAPH else admitted.nodes
        mask = among[layer.start : layer.start + len(layer.vectors)]
        return top_k(layer.vectors, query.vector, k, mask=mask)

    def _admitted_by(self, allowed: Mask) -> _Admitted:
        """What a filter admits, remembered for the filter used last; texts without a vector never are."""
        held = self._admitted
        if held is not None and held[0] is allowed:
            return held[1]
        graph, nodes = nodes_allowed(*self._graph.sources, allowed), nodes_allowed(*self._sources, allowed)
        for level, layer in enumerate(self._layers):
            among = graph if layer.origin == Origin.GRAPH else nodes
            among[layer.start + self._arrays[f"zeros{level}"]] = False
        admitted = _Admitted(graph, nodes)
        self._admitted = (allowed, admitted)
        return admitted

    def _among(self, query: Query, rows: Rows, scores: NDArray[np.float32]) -> Ranking:
        """The relations among the entities found; each scores as the weaker of its ends."""
        found, weaker = self._relations.among(rows, scores)
        if query.allowed is not None and len(found):
            kept = self._admitted_by(query.allowed).graph[self._graph.entities + found]
            found, weaker = found[kept], weaker[kept]
        trace = [{"level": 0, "between": "entities found"} for _ in range(len(found))]
        return Ranking.of(Origin.GRAPH, self._graph.entities + found, weaker, trace)

    def _seeds(self, query: Query, options: ArchRAGOptions) -> Seeds:
        """Where the walk restarts: at the entities found, and at the passages of the communities found."""
        levels, weights = self._weighed(query, options)
        entities, entity_weights = np.zeros(0, np.int64), np.zeros(0)
        chunks, shares = [np.zeros(0, np.int64)], [np.zeros(0)]
        best = self._best(query, levels, options.k_per_level or SEEDED)
        for level, weight, (rows, similarities) in zip(levels, weights, best, strict=True):
            strength = weight * _relative(similarities)
            if level == 0:
                frequency = np.diff(self._graph.sources[0])[rows]
                entities, entity_weights = rows, ENTITY_SHARE * strength / np.maximum(frequency, 1)
                continue
            indptr, indices = self._sources
            for row, share in zip(
                (self._layers[level].start + rows).tolist(), strength.tolist(), strict=True
            ):
                behind = indices[indptr[row] : indptr[row + 1]]
                chunks.append(behind)
                shares.append(np.full(len(behind), COMMUNITY_SHARE * share / len(behind)))
        return Seeds(np.concatenate(chunks), np.concatenate(shares), entities, entity_weights)


def _relative(similarities: NDArray[np.float32]) -> NDArray[np.float64]:
    """Similarities as parts of the best one, sharpened; what points away counts nothing."""
    positive = np.maximum(similarities.astype(np.float64), 0.0)
    best = positive.max(initial=0.0)
    return np.asarray((positive / best) ** SHARPNESS) if best else positive
