"""The heterograph: seven types of nodes in one numbering, typed edges as arrays, and the matrix of the walk.

Nodes are numbered by type: T (rows of the corpus), N, R and S (rows of the corpus' graph), then the method's
own A, H and O. Every edge has weight 1; one that similarity gives as well has 2 (paper 001, 2.1 and 2.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratarag.kernels.ppr import transition_matrix
from stratarag.kernels.ranges import ranges
from stratarag.methods.base import Graph, Origin
from stratarag.methods.noderag.config import TYPES
from stratarag.protocols import Rows

Arrays = Mapping[str, NDArray[Any]]
_NO_EDGES: Rows = np.zeros((0, 2), np.int64)


class Kind(IntEnum):
    """Why an edge is there, by the types that it joins."""

    UNIT_ENTITY = 0
    """e_d: a semantic unit and an entity that it names (2.2)."""
    RELATION_ENTITY = 1
    """e_r: a relationship and its source or target (2.2)."""
    UNIT_RELATION = 2
    """A semantic unit and a relationship both ends of which it names (2.2)."""
    ENTITY_ATTRIBUTE = 3
    """e_a: an important entity and its attribute (2.3)."""
    ELEMENT_MATCH = 4
    """e_h: a high-level element and what is like it in its community (2.3, N6)."""
    ELEMENT_OVERVIEW = 5
    """e_o: a high-level element and its title (2.3)."""
    TEXT_UNIT = 6
    """e_s: a text and its semantic units (2.4)."""
    TEXT_ENTITY = 7
    """A text and an entity in it that has no other edge: no unit names it and no relation joins it."""
    SEMANTIC = 8
    """Level 0 of the HNSW graph over T, S, A and H, where no other edge is (2.4, N7)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each type begins: `bounds[i]` is the first node of type `TYPES[i]`, shape (8,)."""

    bounds: Rows

    @classmethod
    def of(cls, chunks: int, graph: Graph, attributes: int = 0, elements: int = 0, titles: int = 0) -> Layout:
        """From the number of nodes of each type."""
        counts = [chunks, graph.entities, graph.relations, graph.units, attributes, elements, titles]
        return cls(np.cumsum([0, *counts], dtype=np.int64))

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.bounds[-1])

    def first(self, kind: str) -> int:
        """The first node of a type."""
        return int(self.bounds[TYPES.index(kind)])

    def count(self, kind: str) -> int:
        """Nodes of a type."""
        at = TYPES.index(kind)
        return int(self.bounds[at + 1] - self.bounds[at])

    def types(self, nodes: Rows) -> NDArray[np.int8]:
        """The type of each node, as an index into `TYPES`."""
        return (np.searchsorted(self.bounds, nodes, "right") - 1).clip(0, 6).astype(np.int8)

    def place(self, nodes: Rows) -> tuple[NDArray[np.int8], Rows]:
        """The table that each node is in (`Origin`), and its row there."""
        origin = np.full(len(nodes), Origin.GRAPH, np.int8)
        origin[nodes < self.bounds[1]] = Origin.CHUNK
        origin[nodes >= self.bounds[4]] = Origin.NODE
        start = np.zeros(3, np.int64)
        start[Origin.GRAPH], start[Origin.NODE] = self.bounds[1], self.bounds[4]
        return origin, nodes - start[origin]


@dataclass(frozen=True, slots=True)
class EdgeList:
    """Edges as they are collected: ends, shape (edges, 2), and their kinds."""

    ends: Rows
    kinds: NDArray[np.int8]

    @classmethod
    def of(cls, parts: Sequence[tuple[Kind, Rows]]) -> EdgeList:
        """Each pair of nodes once, under the first kind that joins it; nothing joins a node with itself."""
        ends = np.concatenate([_NO_EDGES, *(part for _, part in parts)])
        kinds = np.concatenate([np.zeros(0, np.int8), *(np.full(len(p), k, np.int8) for k, p in parts)])
        proper = ends[:, 0] != ends[:, 1]
        ends, kinds = np.sort(ends[proper], axis=1), kinds[proper]
        order = np.lexsort((kinds, ends[:, 1], ends[:, 0]))
        ends, kinds = ends[order], kinds[order]
        fresh = np.ones(len(ends), np.bool_)
        fresh[1:] = (ends[1:] != ends[:-1]).any(axis=1)
        return cls(ends[fresh], kinds[fresh])

    def with_semantic(self, pairs: Rows) -> tuple[EdgeList, NDArray[np.bool_]]:
        """With the edges of similarity merged in, and which edges those are (also where one was before)."""
        both = EdgeList.of([*self._parts(), (Kind.SEMANTIC, pairs)])
        semantic = EdgeList.of([(Kind.SEMANTIC, pairs)])
        return both, _contained(both.ends, semantic.ends)

    def _parts(self) -> list[tuple[Kind, Rows]]:
        return [(Kind(kind), self.ends[self.kinds == kind]) for kind in np.unique(self.kinds).tolist()]


def decomposition(graph: Graph, layout: Layout) -> list[tuple[Kind, Rows]]:
    """The edges of section 2.2, among N, R and S."""
    entities, relations, units = (layout.first(kind) for kind in "NRS")
    indptr, indices = graph.unit_entities
    owner = np.repeat(np.arange(graph.units), np.diff(indptr))
    numbers = np.arange(graph.relations)
    stated = stating_units(graph)
    return [
        (Kind.UNIT_ENTITY, np.column_stack([units + owner, entities + indices])),
        (Kind.RELATION_ENTITY, np.column_stack([relations + numbers, entities + graph.ends[:, 0]])),
        (Kind.RELATION_ENTITY, np.column_stack([relations + numbers, entities + graph.ends[:, 1]])),
        (Kind.UNIT_RELATION, np.column_stack([relations + stated[:, 0], units + stated[:, 1]])),
    ]


def stating_units(graph: Graph) -> Rows:
    """Rows of relations with rows of the units that name both ends, shape (pairs, 2).

    Of each relation only the units that name its rarer end are examined.
    """
    indptr, indices = graph.unit_entities
    if not graph.relations or not len(indices):
        return _NO_EDGES
    owner = np.repeat(np.arange(graph.units), np.diff(indptr))
    naming = np.argsort(indices, kind="stable")
    starts = np.searchsorted(indices[naming], np.arange(graph.entities + 1))
    counts = np.diff(starts)
    rare = np.where(counts[graph.ends[:, 0]] <= counts[graph.ends[:, 1]], 0, 1)
    rows = np.arange(graph.relations)
    near, far = graph.ends[rows, rare], graph.ends[rows, 1 - rare]
    each = np.repeat(rows, counts[near])
    candidates = owner[naming[ranges(starts[near], counts[near])]]
    naming_pairs = owner * graph.entities + indices
    found = np.isin(candidates * graph.entities + far[each], naming_pairs)
    return np.column_stack([each[found], candidates[found]])


def text_edges(graph: Graph, layout: Layout) -> Rows:
    """e_s: every text with the semantic units that come from it (2.4, text insertion)."""
    indptr, indices = graph.sources
    first = graph.entities + graph.relations
    bounds = indptr[first : first + graph.units + 1]
    owner = np.repeat(np.arange(graph.units), np.diff(bounds))
    texts = indices[bounds[0] : bounds[-1]] if len(bounds) else indices[:0]
    return np.column_stack([texts, layout.first("S") + owner])


def isolated_entities(graph: Graph, layout: Layout) -> Rows:
    """Texts with the entities in them that no unit names and no relation joins."""
    isolated = np.ones(graph.entities, np.bool_)
    isolated[graph.unit_entities[1]] = False
    isolated[graph.ends.ravel()] = False
    indptr, indices = graph.sources
    owner = np.repeat(np.arange(graph.entities), np.diff(indptr[: graph.entities + 1]))
    kept = isolated[owner]
    return np.column_stack([indices[: len(owner)][kept], layout.first("N") + owner[kept]])


def edge_arrays(edges: EdgeList, semantic: NDArray[np.bool_], layout: Layout) -> dict[str, NDArray[Any]]:
    """What is stored: the edges, and the matrix of the walk over all of them."""
    weights = np.where(semantic & (edges.kinds != Kind.SEMANTIC), 2.0, 1.0)
    matrix = transition_matrix(layout.size, edges.ends, weights)
    return {
        "layout": layout.bounds,
        "edges.ends": edges.ends.astype(np.int32),
        "edges.kinds": edges.kinds,
        "edges.semantic": semantic,
        "walk.indptr": matrix.indptr,
        "walk.indices": matrix.indices,
        "walk.data": matrix.data,
    }


class Heterograph:
    """The stored heterograph of an opened index."""

    def __init__(self, arrays: Arrays) -> None:
        self.layout = Layout(np.asarray(arrays["layout"]))
        self._arrays = arrays
        self._matrices: dict[bool, csr_array] = {True: self._stored_matrix()}

    def matrix(self, semantic: bool = True) -> csr_array:
        """The matrix of the walk; the one without edges of similarity is made when first asked for."""
        if semantic not in self._matrices:
            kept = self._arrays["edges.kinds"] != Kind.SEMANTIC
            ends = self._arrays["edges.ends"][kept]
            self._matrices[semantic] = transition_matrix(self.layout.size, ends, np.ones(len(ends)))
        return self._matrices[semantic]

    def counts(self) -> dict[str, int]:
        """Nodes of each type."""
        return {kind: self.layout.count(kind) for kind in TYPES}

    def edge_counts(self) -> dict[str, Any]:
        """The paper's Table 4: edges of similarity, other edges, and both merged; and edges by kind."""
        kinds = np.bincount(self._arrays["edges.kinds"], minlength=len(Kind))
        semantic = int(np.count_nonzero(self._arrays["edges.semantic"]))
        return {
            "HNSW edges": semantic,
            "other edges": int(kinds.sum() - kinds[Kind.SEMANTIC]),
            "edges": int(kinds.sum()),
            "edges by kind": {kind.name.lower(): int(kinds[kind]) for kind in Kind},
        }

    def _stored_matrix(self) -> csr_array:
        parts = (self._arrays["walk.data"], self._arrays["walk.indices"], self._arrays["walk.indptr"])
        return csr_array(parts, shape=(self.layout.size, self.layout.size))


def _contained(ends: Rows, among: Rows) -> NDArray[np.bool_]:
    """Which edges are among others."""
    width = int(ends.max(initial=0)) + 1
    return np.isin(ends[:, 0] * width + ends[:, 1], among[:, 0] * width + among[:, 1])
