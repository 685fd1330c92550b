"""Searching the hierarchy: the best of every level in one pass, as many of each (3.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.checks import check_vectors
from stratagraph.ingest.graph.stage import Graph
from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.ranges import ranges
from stratagraph.kernels.topk import TopK, top_k
from stratagraph.methods.archrag.build import ADDED, ADDED_ABOVE, CHANGES, INDEX, layer_vectors, opened
from stratagraph.methods.archrag.config import ArchRAGOptions
from stratagraph.methods.base import MethodDescription, Opened, Ranking, RowTable, SearchQuestion
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import VECTOR_HASHES, check_nodes
from stratagraph.methods.settings import searched_levels
from stratagraph.search.ranking import concatenate, interleaved, merged, shares_of
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.question import Allowed

FEWEST = 5
"""Least number of results taken from each level; the paper's k."""
SPARE = 2
"""C-HNSW compares codes only. So it is asked for this many times the wanted results, and the vectors of these
decide."""


class Relations:
    """Finds relations by their ends, shape (relations, 2); each pair of entities occurs once."""

    def __init__(self, ends: Rows) -> None:
        low, high = np.sort(ends, axis=1).T
        self._order = np.argsort(low, kind="stable")
        self._low, self._high = low[self._order], high[self._order]

    def among(self, rows: Rows, scores: NDArray[np.float32]) -> tuple[Rows, NDArray[np.float32]]:
        """Relations whose ends are both among `rows`, ascending, and the lower score of the two ends."""
        if not len(rows):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        starts = np.searchsorted(self._low, rows)
        counts = np.searchsorted(self._low, rows, "right") - starts
        places = ranges(starts, counts)
        order = np.argsort(rows)
        at = np.searchsorted(rows, self._high[places], sorter=order).clip(max=len(rows) - 1)
        inside = rows[order[at]] == self._high[places]
        relations, weaker = self._order[places], np.minimum(np.repeat(scores, counts), scores[order[at]])
        relations, weaker = relations[inside], weaker[inside]
        ascending = np.argsort(relations)
        return relations[ascending], weaker[ascending]


@dataclass(frozen=True, slots=True)
class _Layer:
    """One level as it is searched: its vectors, the row of its first node, and the table of its nodes."""

    vectors: Vectors
    start: int
    table: RowTable


class HierarchySearcher:
    """An opened hierarchy. Level 0 are the entities, levels 1 and up the communities."""

    def __init__(self, opened: Opened) -> None:
        self._graph = opened.graph
        self._arrays = opened.part.arrays
        self._layers = self._opened_layers()

    def nodes(self, question: SearchQuestion) -> Ranking:
        """Entities, relations among them, and communities, in turn.

        There are as many of each level, unless passages stand beside them. A relation stands among the
        entities by the weaker of its ends. With `k_per_level` and without `fill`, all that is found.
        """
        options: ArchRAGOptions = question.options
        levels = searched_levels(options.levels, len(self._layers))
        if not levels:
            return concatenate([])
        k = options.k_per_level or max(FEWEST, question.k)
        best = question.once(self, f"best {k}", lambda: self._searched(question, levels, k))
        rankings = [self._ranked(level, *found) for level, found in zip(levels, best, strict=True)]
        if levels[0] == 0 and options.relations:
            relations = self._among(question, *best[0])
            rankings[0] = merged([rankings[0], relations], len(rankings[0]) + len(relations))
        exact = options.k_per_level is not None and not question.fill
        size = sum(map(len, rankings)) if exact else question.k
        kinds = ["communities" if level else "entities" for level in levels]
        shares = question.shares if question.mixed else {}
        return interleaved(rankings, shares_of(kinds, shares), size)

    def describe(self) -> MethodDescription:
        """Nodes per level."""
        sizes = [len(parts) for parts in np.split(self._arrays["parents"], self._arrays["levels.starts"][1:])]
        levels = {str(level): size for level, size in enumerate(sizes, 1)} if len(self._layers) > 1 else {}
        nodes = {
            "entities": self._graph.entities,
            "relations": self._graph.relations,
            "communities": len(self._arrays["parents"]),
        }
        joined = {str(level): int(count) for level, count in enumerate(self._arrays["levels.joined"], 1)}
        return MethodDescription(
            nodes, {"levels": {"0": self._graph.entities, **levels}, "of several members": joined}
        )

    def _opened_layers(self) -> list[_Layer]:
        if not self._graph.entities:
            return []
        starts, joined = self._arrays["levels.starts"].tolist(), self._arrays["levels.joined"].tolist()
        vectors = layer_vectors(self._graph, self._arrays["vectors"], starts, joined)
        return [
            _Layer(rows, start, RowTable.NODE if level else RowTable.GRAPH)
            for level, (rows, start) in enumerate(zip(vectors, [0, *starts], strict=True))
        ]

    @cached_property
    def _index(self) -> CHNSW:
        return opened(self._arrays)

    @cached_property
    def _relations(self) -> Relations:
        return Relations(self._graph.ends)

    def _ranked(self, level: int, rows: Rows, similarities: NDArray[np.float32]) -> Ranking:
        """The best nodes of a level."""
        trace = [{"level": level, "similarity": similarity} for similarity in similarities.tolist()]
        layer = self._layers[level]
        return Ranking.of(layer.table, rows + layer.start, similarities, trace)

    def _searched(self, question: SearchQuestion, levels: list[int], k: int) -> list[TopK]:
        """The best `k` of each level: in one pass over C-HNSW, or exactly among what a filter admits."""
        if question.allowed is None:
            nearest = self._index.search_all(question.vector, SPARE * k)
            return [self._exactly(question.vector, *nearest[level], level, k) for level in levels]
        return [self._scanned(question.vector, question.allowed, level, k) for level in levels]

    def _exactly(self, vector: Vectors, rows: Rows, scores: NDArray[np.float32], level: int, k: int) -> TopK:
        """The best `k` of a level's rows by their vectors, where the index had scored their codes."""
        if not len(rows):
            return rows, scores
        rows = np.sort(rows)
        best, similarities = top_k(self._layers[level].vectors[rows], vector, k)
        return rows[best], similarities

    def _scanned(self, vector: Vectors, allowed: Allowed, level: int, k: int) -> TopK:
        """The best of a level among what a filter admits, without zero vectors."""
        layer = self._layers[level]
        rows = allowed.graph if layer.table == RowTable.GRAPH else allowed.nodes
        mask = rows[layer.start : layer.start + len(layer.vectors)].copy()
        mask[self._arrays[f"zeros{level}"]] = False
        return top_k(layer.vectors, vector, k, mask=mask)

    def _among(self, question: SearchQuestion, rows: Rows, scores: NDArray[np.float32]) -> Ranking:
        """The relations among the entities found; each scores as the weaker of its ends."""
        relations, weaker = self._relations.among(rows, scores)
        if question.allowed is not None and len(relations):
            passing = question.allowed.graph[self._graph.entities + relations]
            relations, weaker = relations[passing], weaker[passing]
        trace = [{"level": 0, "between": "entities found"} for _ in range(len(relations))]
        return Ranking.of(RowTable.GRAPH, self._graph.entities + relations, weaker, trace)


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks.

    `CHNSW.from_arrays` checks those of C-HNSW; here, only that they belong to these layers.
    """
    check_vectors(graph.stored.arrays)
    check_drift(checks)
    communities = check_nodes(checks, chunks, dimension)
    checks.rows("parents", communities, (communities,), start=-1)
    checks.of(VECTOR_HASHES, np.uint64, (communities,))
    checks.rows("entities.parents", communities, (graph.entities,), start=-1)
    if checks.has(ADDED):
        checks.rows(ADDED, graph.entities, (None, 2), dtype=np.int32)
    if checks.has(ADDED_ABOVE):
        checks.rows(ADDED_ABOVE, communities, (None, 2), dtype=np.int32)
    layers = [graph.entities, *_joined(checks, communities)]
    if graph.entities:
        _check_layers(checks, layers, dimension)
        checks.rows(CHANGES, np.iinfo(np.int64).max, (1,))


def _joined(checks: Checks, communities: int) -> list[int]:
    """Communities of several members in each level; they are the first of their level."""
    starts = checks.rows("levels.starts", communities, (None,))
    borders = np.append(starts, communities)
    if len(starts) and (starts[0] != 0 or (np.diff(borders) <= 0).any()):
        raise ValueError(f"array 'levels.starts' holds {starts.tolist()}, of {communities} communities")
    joined = checks.rows("levels.joined", communities + 1, starts.shape)
    if (joined > np.diff(borders)).any():
        raise ValueError(f"array 'levels.joined' holds {joined.tolist()}, more than the levels have")
    counts: list[int] = joined.tolist()
    return counts


def _check_layers(checks: Checks, layers: Sequence[int], dimension: int) -> None:
    stored = checks.layers(INDEX)
    if stored != len(layers):
        raise ValueError(f"array '{INDEX}layer{min(stored, len(layers))}.alive' is missing, or one too many")
    for level, size in enumerate(layers):
        checks.of(f"{INDEX}layer{level}.alive", np.uint8, (size,))
        checks.of(f"{INDEX}layer{level}.vectors", np.float32, (None, dimension))
        checks.rows(f"zeros{level}", size, (None,))
