"""The arrays of a layered graph at query time, and the bridge between its communities (HiRAG Alg. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.paths import Adjacency, shortest_paths
from stratagraph.kernels.ranges import ranges
from stratagraph.kernels.topk import joined, products
from stratagraph.methods.base import Opened
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.question import Mask

Scores = NDArray[np.float32]

LARGE = 128
"""Size from which key entities of a community are chosen among the `SIMILAR` entities of the whole graph that
are most similar to the question. A coarse community may hold most of a graph, which a question then need
not scan; what it would add is less similar than all of these entities."""
SIMILAR = 64
"""Number of these entities. A large community without any of them has no key entity."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """Key entities, community by community; shortest paths from each to the next; pairs without a path."""

    keys: Sequence[int]
    paths: Sequence[Sequence[int]]
    unreachable: Sequence[tuple[int, int]]

    @property
    def entities(self) -> Rows:
        """All entities on the paths, in the order of the paths."""
        return np.array(list(dict.fromkeys(row for path in self.paths for row in path)), np.int64)


class LayeredGraph:
    """Entities of all layers in one numbering: the graph's entities, then the summary entities."""

    def __init__(self, opened: Opened) -> None:
        graph, arrays = opened.graph, opened.part.arrays
        self.base = graph.entities
        self.relations = graph.relations
        self.summaries, self.communities, _ = (int(count) for count in arrays["counts"])
        self._base_vectors = graph.vectors
        own = arrays["vectors"]
        self._summary_vectors = own[: self.summaries]
        self._report_vectors = own[self.summaries : self.summaries + self.communities]
        self._entities = opened.nearest("entities", graph.vectors)
        self._summaries = opened.nearest("summaries", self._summary_vectors)
        self._labels: NDArray[np.int32] = arrays["communities.labels"]
        self._members: tuple[Rows, NDArray[np.int32]] = (
            arrays["communities.indptr"],
            arrays["communities.indices"],
        )
        self.adjacency = Adjacency(
            arrays["layered.indptr"], arrays["layered.indices"], arrays["layered.edges"]
        )

    def nearest(self, vector: Vectors, count: int, allowed: Mask | None) -> tuple[Rows, Scores]:
        """The entities of all layers that are most similar to a question, best first (eq. 12)."""
        below, above = (None, None) if allowed is None else (allowed[: self.base], allowed[self.base :])
        rows, scores = self._summaries.search(vector, count, above)
        return joined([self._entities.search(vector, count, below), (rows + self.base, scores)], count)

    def similarity(self, rows: Rows, vector: Vectors) -> Scores:
        """Similarity of entities to a question, shape (rows,)."""
        scores = np.zeros(len(rows), np.float32)
        base = rows < self.base
        scores[base] = products(self._base_vectors, vector, rows[base])
        scores[~base] = products(self._summary_vectors, vector, rows[~base] - self.base)
        return scores

    def communities_of(self, rows: Rows, vector: Vectors) -> tuple[Rows, Scores]:
        """The communities that contain some of these entities, the most similar reports first."""
        communities = np.unique(self._labels[:, rows]).astype(np.int64)
        similarity = self._report_vectors[communities] @ vector
        order = np.lexsort((communities, -similarity))
        return communities[order], similarity[order]

    def bridge(
        self,
        communities: Rows,
        vector: Vectors,
        similar: tuple[Rows, Scores],
        count: int,
        nodes: Mask | None,
        edges: Mask | None,
    ) -> Bridge:
        """The shortest paths between consecutive key entities, `count` of each community (ERRATA H4)."""
        keys = dict.fromkeys(
            row for own in self._keys(communities, vector, similar, count, nodes) for row in own.tolist()
        )
        pairs = list(pairwise(keys))
        paths = shortest_paths(self.adjacency, pairs, nodes=nodes, edges=edges)
        walks = [path for path in paths if path is not None]
        missing = [pair for pair, path in zip(pairs, paths, strict=True) if path is None]
        return Bridge(list(keys), walks, missing)

    def _keys(
        self, communities: Rows, vector: Vectors, similar: tuple[Rows, Scores], count: int, nodes: Mask | None
    ) -> list[Rows]:
        """The `count` members of each community that are most similar to the question."""
        borders = self._members[0]
        members = [
            self._members[1][borders[community] : borders[community + 1]].astype(np.int64)
            for community in communities.tolist()
        ]
        if nodes is not None:
            members = [rows[nodes[rows]] for rows in members]
        small = [rows for rows in members if len(rows) < LARGE]
        scores = self.similarity(np.concatenate([np.zeros(0, np.int64), *small]), vector)
        own = iter(np.split(scores, np.cumsum([len(rows) for rows in small])[:-1]))
        return [
            rows[np.lexsort((rows, -next(own)))[:count]]
            if len(rows) < LARGE
            else similar[0][np.isin(similar[0], rows, assume_unique=True)][:count]
            for rows in members
        ]

    def triples(self, rows: Rows, edges: Mask | None) -> tuple[Rows, Rows]:
        """The edges between any two of some ascending entities (eq. 16), and their ends, shape (n, 2)."""
        starts = self.adjacency.indptr[rows]
        counts = self.adjacency.indptr[rows + 1] - starts
        places = ranges(starts, counts)
        tails, heads = np.repeat(rows, counts), self.adjacency.indices[places].astype(np.int64)
        at = np.minimum(np.searchsorted(rows, heads), max(len(rows) - 1, 0))
        inside = (tails < heads) & (rows[at] == heads) if len(rows) else np.zeros(0, np.bool_)
        numbers = self.adjacency.edges[places[inside]].astype(np.int64)
        ends = np.column_stack([tails[inside], heads[inside]])
        if edges is not None:
            admitted = edges[numbers]
            numbers, ends = numbers[admitted], ends[admitted]
        return numbers, ends
