"""The heterograph: seven types of nodes in one numbering, typed edges as arrays, and the matrix of the walk.

Nodes are numbered by type: T (rows of the corpus), N, R and S (rows of the graph), then the method's own A, H
and O. An edge has weight 1, or 2 if similarity joins its ends too (paper 001, 2.1 and 2.4). Edges by meaning
join members of one cluster within a community (2.3, ERRATA N6) and neighbours at level 0 of an HNSW graph
(2.4, N7).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.float16 import chosen, nonzero_rows
from stratagraph.kernels.knn import nearest_of, nearest_others, relinked
from stratagraph.kernels.ranges import ranges
from stratagraph.kernels.spherical_kmeans import assigned, spherical_kmeans
from stratagraph.methods.base import Graph, RowTable, Stored
from stratagraph.methods.noderag.config import TYPES, NodeRAGConfig
from stratagraph.methods.settings import neighbour_search
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Vectors

_NO_EDGES: Rows = np.zeros((0, 2), np.int64)
KINDS = "walk.kinds"
"""The array of the `EdgeKind` of each edge, plus `SIMILAR` where similarity joins its ends too."""
_KIND_BITS = 4
_KINDS = (1 << _KIND_BITS) - 1
SIMILAR = 1 << _KIND_BITS


class EdgeKind(IntEnum):
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


class TypeBounds(NamedTuple):
    """Where each type begins: `bounds[i]` is the first node of type `TYPES[i]`, shape (8,)."""

    bounds: Rows

    @classmethod
    def of(
        cls, chunks: int, graph: Graph, attributes: int = 0, elements: int = 0, titles: int = 0
    ) -> TypeBounds:
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

    def nodes(self, kinds: str) -> Rows:
        """The nodes of some types, type by type."""
        return np.concatenate([np.arange(self.first(k), self.first(k) + self.count(k)) for k in kinds])

    def types(self, nodes: Rows) -> NDArray[np.int8]:
        """The type of each node, as an index into `TYPES`."""
        return (np.searchsorted(self.bounds, nodes, "right") - 1).clip(0, 6).astype(np.int8)

    def place(self, nodes: Rows) -> tuple[NDArray[np.int8], Rows]:
        """The table that each node is in (`RowTable`), and its row there."""
        tables = np.full(len(nodes), RowTable.GRAPH, np.int8)
        tables[nodes < self.bounds[1]] = RowTable.CHUNK
        tables[nodes >= self.bounds[4]] = RowTable.NODE
        start = np.zeros(3, np.int64)
        start[RowTable.GRAPH], start[RowTable.NODE] = self.bounds[1], self.bounds[4]
        return tables, nodes - start[tables]


class EdgeList(NamedTuple):
    """Edges as they are collected: ends, shape (edges, 2), kinds, and which of them similarity gives too."""

    ends: Rows
    kinds: NDArray[np.int8]
    semantic: NDArray[np.bool_]

    @classmethod
    def of(cls, parts: Sequence[tuple[EdgeKind, Rows]]) -> EdgeList:
        """Each pair of nodes once, under the first kind that joins it; nothing joins a node with itself."""
        # Both ends and the kind in one number sort ten times as fast as three keys.
        last = max((int(part.max(initial=0)) for _, part in parts), default=0)
        bits = last.bit_length()
        if 2 * bits + _KIND_BITS > 63:
            raise OverflowError(f"a heterograph of {last + 1} nodes is too large")
        numbered = (_numbered(part, bits) << _KIND_BITS | kind for kind, part in parts)
        keys = np.sort(np.concatenate([np.zeros(0, np.int64), *numbered]), kind="stable")  # long runs ascend
        differs = np.diff(keys >> _KIND_BITS, prepend=-1, append=-1) != 0
        firsts, lasts = keys[differs[:-1]], keys[differs[1:]]
        pairs = firsts >> _KIND_BITS
        ends = np.column_stack([pairs >> bits, pairs & ((1 << bits) - 1)])
        return cls(ends, (firsts & _KINDS).astype(np.int8), (lasts & _KINDS) == EdgeKind.SEMANTIC)


def _numbered(ends: Rows, bits: int) -> Rows:
    """One number for each pair of nodes, the lower one first; none for a node with itself."""
    one, two = ends[ends[:, 0] != ends[:, 1]].T
    return np.asarray(np.minimum(one, two) << bits | np.maximum(one, two))


def decomposition(graph: Graph, stated: Rows, layout: TypeBounds) -> list[tuple[EdgeKind, Rows]]:
    """The edges of section 2.2, among N, R and S; `stated` are those of `stating_units`."""
    entities, relations, units = (layout.first(kind) for kind in "NRS")
    indptr, indices = graph.unit_entities
    owner = np.repeat(np.arange(graph.units), np.diff(indptr))
    numbers = np.arange(graph.relations)
    return [
        (EdgeKind.UNIT_ENTITY, np.column_stack([units + owner, entities + indices])),
        (EdgeKind.RELATION_ENTITY, np.column_stack([relations + numbers, entities + graph.ends[:, 0]])),
        (EdgeKind.RELATION_ENTITY, np.column_stack([relations + numbers, entities + graph.ends[:, 1]])),
        (EdgeKind.UNIT_RELATION, np.column_stack([relations + stated[:, 0], units + stated[:, 1]])),
    ]


def stating_units(graph: Graph) -> Rows:
    """Rows of relations with rows of the units of their chunks that name both ends (N11), shape (pairs, 2).

    Only the units that name the rarer end of a relation are examined.
    """
    indptr, indices = graph.unit_entities
    ends, counted = graph.ends, np.zeros(graph.entities, np.bool_)
    counted[ends] = True
    owner, is_end = np.repeat(np.arange(graph.units), np.diff(indptr)), counted[indices]
    owner, indices = owner[is_end], indices[is_end]
    if not len(indices):
        return _NO_EDGES
    naming, counts = np.argsort(indices, kind="stable"), np.bincount(indices, minlength=graph.entities)
    starts = np.cumsum(counts) - counts
    rare = np.where(counts[ends[:, 0]] <= counts[ends[:, 1]], 0, 1)
    places = np.arange(graph.relations)
    near, far = ends[places, rare], ends[places, 1 - rare]
    each = np.repeat(places, counts[near])
    candidates = owner[naming[ranges(starts[near], counts[near])]]
    naming_pairs = np.sort(owner * graph.entities + indices)
    wanted = candidates * graph.entities + far[each]
    states = naming_pairs[np.searchsorted(naming_pairs, wanted).clip(max=len(naming_pairs) - 1)] == wanted
    return _in_one_chunk(graph, np.column_stack([each[states], candidates[states]]))


def _in_one_chunk(graph: Graph, pairs: Rows) -> Rows:
    """The pairs of relation and unit that come from a common chunk."""
    indptr, indices = graph.sources
    relations, units = pairs[:, 0] + graph.entities, pairs[:, 1] + graph.entities + graph.relations
    span = int(indices.max(initial=0)) + 1
    rows = np.unique(relations)
    sizes = indptr[rows + 1] - indptr[rows]
    stated = np.repeat(rows, sizes) * span + indices[ranges(indptr[rows], sizes)]  # ascending
    sizes = indptr[units + 1] - indptr[units]
    wanted = np.repeat(relations, sizes) * span + indices[ranges(indptr[units], sizes)]
    shared = np.zeros(len(pairs), np.bool_)
    if len(stated):
        common = stated[np.searchsorted(stated, wanted).clip(max=len(stated) - 1)] == wanted
        shared[np.repeat(np.arange(len(pairs)), sizes)[common]] = True
    return pairs[shared]


def text_edges(graph: Graph, layout: TypeBounds) -> Rows:
    """e_s: every text with the semantic units that come from it (2.4, text insertion)."""
    indptr, indices = graph.sources
    first = graph.entities + graph.relations
    bounds = indptr[first : first + graph.units + 1]
    owner = np.repeat(np.arange(graph.units), np.diff(bounds))
    texts = indices[bounds[0] : bounds[-1]] if len(bounds) else indices[:0]
    return np.column_stack([texts, layout.first("S") + owner])


def isolated_entities(graph: Graph, layout: TypeBounds) -> Rows:
    """Texts with the entities in them that no unit names and no relation joins."""
    isolated = np.ones(graph.entities, np.bool_)
    isolated[graph.unit_entities[1]] = False
    isolated[graph.ends.ravel()] = False
    indptr, indices = graph.sources
    owner = np.repeat(np.arange(graph.entities), np.diff(indptr[: graph.entities + 1]))
    places = np.flatnonzero(isolated[owner])
    return np.column_stack([indices[places], layout.first("N") + owner[places]])


def edge_arrays(edges: EdgeList, layout: TypeBounds) -> Arrays:
    """The arrays to store: the neighbours of each node, ascending, and the kind of each of these edges.

    The shares of the walk's mass follow from them, and are computed when they are needed.
    """
    kinds = edges.kinds.astype(np.uint8) + SIMILAR * edges.semantic.astype(np.uint8)
    near, far = edges.ends.T.astype(np.int32)
    borders = np.cumsum(np.bincount(near + 1, minlength=layout.size + 1), dtype=np.int32)
    upper = csr_array((kinds + np.uint8(1), far, borders), shape=(layout.size, layout.size))
    matrix = upper + upper.T  # a sum leaves zeros out, so that kinds count from 1 here
    indptr, indices = (each.astype(np.int32, copy=False) for each in (matrix.indptr, matrix.indices))
    rows = {"layout": layout.bounds, "walk.indptr": indptr, "walk.indices": indices}
    return Holds.ROWS.of(rows) | Holds.MEASURES.of({KINDS: matrix.data - np.uint8(1)})


class Heterograph:
    """The stored heterograph of an opened index."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.layout = TypeBounds(np.asarray(arrays["layout"]))
        self._arrays = arrays

    def matrix(self, entries: Rows, steps: int | None, semantic: bool = True) -> csr_array:
        """The matrix of a walk of so many steps from some nodes, with or without edges of similarity.

        An edge weighs 1, or 2 if it is there by its kind and by similarity. Only the rows that the walk reads
        are filled in, which are all if `steps` is None: to normalise all takes far longer than a walk.
        """
        indptr, indices, all_kinds = (self._arrays[name] for name in ("walk.indptr", "walk.indices", KINDS))
        reached = np.full(self.layout.size, steps is None)
        reached[entries] = True
        for _ in range(1, steps or 0):
            rows = np.flatnonzero(reached)
            reached[indices[ranges(indptr[rows], indptr[rows + 1] - indptr[rows])]] = True
            if np.count_nonzero(reached) == len(rows):
                break
        rows = np.flatnonzero(reached)
        counts = indptr[rows + 1] - indptr[rows]
        places, owners = ranges(indptr[rows], counts), np.repeat(np.arange(len(rows)), counts)
        kinds = all_kinds[places]
        alone = kinds == SIMILAR + EdgeKind.SEMANTIC
        weights = np.float32(1) + ((kinds >= SIMILAR) & ~alone & semantic)
        if not semantic:
            places, owners, weights = places[~alone], owners[~alone], weights[~alone]
        weights /= np.bincount(owners, weights, len(rows)).astype(np.float32)[owners]
        borders = np.zeros(len(indptr), np.int32)
        borders[rows + 1] = np.bincount(owners, minlength=len(rows))
        np.cumsum(borders, out=borders)
        return csr_array((weights, indices[places], borders), shape=(self.layout.size, self.layout.size))

    def counts(self) -> dict[str, int]:
        """Nodes of each type."""
        return {kind: self.layout.count(kind) for kind in TYPES}

    def edge_counts(self) -> dict[str, Any]:
        """The paper's Table 4: edges of similarity, other edges, and both merged; and edges by kind."""
        both = np.bincount(self._arrays[KINDS], minlength=2 * SIMILAR) // 2  # an edge is stored at both ends
        similar = both[SIMILAR:]
        kinds = both[:SIMILAR] + similar
        return {
            "HNSW edges": int(similar.sum()),
            "other edges": int(kinds.sum() - kinds[EdgeKind.SEMANTIC]),
            "edges": int(kinds.sum()),
            "edges by kind": {kind.name.lower(): int(kinds[kind]) for kind in EdgeKind},
        }


CELLS = "matching.cells"
"""The array of the clusters of S, A and H within which they are matched, or -1."""
_CANDIDATES = 40
_MANY = 16
"""Where more than one in so many nodes are new, all edges by meaning are searched for: that is faster."""


class Moved(NamedTuple):
    """The previous row of each node (`rows_before`), the present one of each previous node (`now`), or -1.

    `before` and `arrays` are the layout and the arrays of the previous heterograph.
    """

    rows_before: Rows
    now: Rows
    before: TypeBounds
    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, graph: Graph, layout: TypeBounds, own: Rows, previous: Stored | None) -> Moved | None:
        """None if all edges by meaning have to be searched for; `own` are the previous rows of A, H and O."""
        if previous is None or graph.before is None:
            return None
        before = TypeBounds(np.asarray(previous.arrays["layout"]))
        parts = [(graph.before.chunks, "T"), (graph.before.rows_before, "N"), (own, "A")]
        rows_before = np.concatenate(
            [np.where(rows >= 0, rows + before.first(kind), -1) for rows, kind in parts]
        )
        now = np.full(before.size, -1, np.int64)
        now[rows_before[rows_before >= 0]] = np.flatnonzero(rows_before >= 0)
        moved = cls(rows_before, now, before, previous.arrays)
        return moved if _MANY * int(np.count_nonzero(rows_before < 0)) <= layout.size else None


def entry_cells(entries: Vectors, layout: TypeBounds, moved: Moved | None, config: NodeRAGConfig) -> Rows:
    """The clusters of S, A and H by their vectors; a previous node stays in its cluster."""
    if moved is None:
        return spherical_kmeans(entries, max(1, round(math.sqrt(len(entries)))), config.seed)
    first = layout.first("S")
    rows_before = moved.rows_before[first : first + len(entries)] - moved.before.first("S")
    cells = np.where(rows_before >= 0, moved.arrays[CELLS][np.maximum(rows_before, 0)], -1)
    return assigned(entries, cells.astype(np.int64))


def entry_links(nodes: Rows, vectors: Vectors, moved: Moved | None, config: NodeRAGConfig) -> Rows:
    """Edges by meaning among T, S, A and H.

    In an update, new nodes are linked with their nearest, and links to deleted nodes are replaced.
    """
    if moved is None or not config.links:
        return semantic_links(nodes, vectors, config)
    indptr, far = moved.arrays["walk.indptr"], moved.arrays["walk.indices"]
    near = np.repeat(np.arange(len(indptr) - 1, dtype=far.dtype), np.diff(indptr))
    places = np.flatnonzero((moved.arrays[KINDS] >= SIMILAR) & (near < far))  # each pair once, in order
    ends = np.column_stack([near[places], far[places]]).astype(np.int64)
    pairs = moved.now[ends]
    place = np.full(len(moved.rows_before), -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    stays = (pairs[:, 0] >= 0) & (pairs[:, 1] >= 0)
    new = nearest_of(vectors, np.flatnonzero(moved.rows_before[nodes] < 0), config.links)
    lost = np.compress(~stays, ends, axis=0)  # in a sixth of the time that a mask as index takes
    replacements = relinked(lost, np.where(moved.now >= 0, place[moved.now], -1), vectors)
    return np.concatenate([np.compress(stays, pairs, axis=0), nodes[new], nodes[replacements]])


def matches(nodes: Rows, communities: Rows, clusters: Rows, elements: Rows) -> Rows:
    """e_h: high-level elements with the nodes of their community that are in their cluster.

    `nodes` are those of S, A and H, with the community and cluster of each, shape (n,), and `elements` the
    places of H among them. Returns pairs (element, other node), shape (edges, 2); elements are joined with
    each other too.
    """
    width = int(clusters.max(initial=0)) + 1
    cells = np.where(clusters >= 0, communities * width + clusters, -1)
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    mine = elements[cells[elements] >= 0]
    left = np.searchsorted(ordered, cells[mine], "left")
    counts = np.searchsorted(ordered, cells[mine], "right") - left
    each = np.repeat(mine, counts)
    other = order[ranges(left, counts)]
    pairs = np.column_stack([nodes[each], nodes[other]])
    between: Rows = pairs[each != other]
    return between


def semantic_links(nodes: Rows, vectors: Vectors, config: NodeRAGConfig) -> Rows:
    """The edges at level 0 of an HNSW graph over these nodes, or to the nearest that another search finds.

    Shape (edges, 2); zero vectors have none.
    """
    rows = nonzero_rows(vectors)
    if not config.links or len(rows) < 2:
        return np.zeros((0, 2), np.int64)
    if (search := neighbour_search(config.neighbours, config.seed)) is not None:
        return _linked(nodes[rows], nearest_others(chosen(vectors, rows), config.links, search))
    candidates = max(_CANDIDATES, config.links)
    options = Options(
        links=config.links,
        ef_construction=candidates,
        scan_limit=0,
        keep_vectors=False,
        ef=config.links,
        seed=config.seed,
    )
    neighbours = CHNSW.build([chosen(vectors, rows)], options=options).arrays()["layer0.links"]
    return _linked(nodes[rows], neighbours)


def _linked(nodes: Rows, neighbours: NDArray[np.integer]) -> Rows:
    """Pairs of each node and its neighbours, given by their places among the nodes."""
    near, places = np.nonzero(neighbours >= 0)
    return np.asarray(nodes[np.column_stack([near, neighbours[near, places]])])
