"""Edges by meaning: clusters within communities (2.3, ERRATA N6), and level 0 of an HNSW graph (2.4, N7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.kernels.float16 import chosen, nonzero_rows
from stratagraph.kernels.knn import nearest_of, relinked
from stratagraph.kernels.ranges import ranges
from stratagraph.kernels.spherical_kmeans import assigned, spherical_kmeans
from stratagraph.methods.base import Graph, Stored
from stratagraph.methods.noderag.config import NodeRAGConfig
from stratagraph.methods.noderag.heterograph import Layout, similar_pairs
from stratagraph.types.protocols import Rows, Vectors

CELLS = "matching.cells"
"""The array of the clusters of S, A and H within which they are matched, or -1."""
_CANDIDATES = 40
_MANY = 16
"""Where more than one in so many nodes are new, edges by meaning are found anew: that is faster."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The previous number of each node (`origin`), and the present one of each previous node (`now`), or -1.

    `before` and `arrays` are the layout and the arrays of the previous heterograph.
    """

    origin: Rows
    now: Rows
    before: Layout
    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, graph: Graph, layout: Layout, own: Rows, previous: Stored | None) -> Moved | None:
        """None if edges by meaning have to be found anew; `own` are the previous rows of A, H and O."""
        if previous is None or graph.before is None:
            return None
        before = Layout(np.asarray(previous.arrays["layout"]))
        parts = [(graph.before.chunks, "T"), (graph.before.origin, "N"), (own, "A")]
        origin = np.concatenate([np.where(rows >= 0, rows + before.first(kind), -1) for rows, kind in parts])
        now = np.full(before.size, -1, np.int64)
        now[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        moved = cls(origin, now, before, previous.arrays)
        return moved if _MANY * int(np.count_nonzero(origin < 0)) <= layout.size else None


def entry_cells(entries: Vectors, layout: Layout, moved: Moved | None, config: NodeRAGConfig) -> Rows:
    """The clusters of S, A and H by their vectors; what was in one stays there."""
    if moved is None:
        return spherical_kmeans(entries, max(1, round(math.sqrt(len(entries)))), config.seed)
    first = layout.first("S")
    origin = moved.origin[first : first + len(entries)] - moved.before.first("S")
    cells = np.where(origin >= 0, moved.arrays[CELLS][np.maximum(origin, 0)], -1)
    return assigned(entries, cells.astype(np.int64))


def entry_links(nodes: Rows, vectors: Vectors, moved: Moved | None, config: NodeRAGConfig) -> Rows:
    """Edges by meaning among T, S, A and H; new nodes look for their nearest, lost ones are replaced."""
    if moved is None or not config.links:
        return semantic_links(nodes, vectors, config)
    ends = similar_pairs(moved.arrays)
    pairs = moved.now[ends]
    place = np.full(len(moved.origin), -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    stays = (pairs[:, 0] >= 0) & (pairs[:, 1] >= 0)
    near = nearest_of(vectors, np.flatnonzero(moved.origin[nodes] < 0), config.links)
    lost = np.compress(~stays, ends, axis=0)  # in a sixth of the time that a mask as index takes
    mended = relinked(lost, np.where(moved.now >= 0, place[moved.now], -1), vectors)
    return np.concatenate([np.compress(stays, pairs, axis=0), nodes[near], nodes[mended]])


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
    """The edges at level 0 of an HNSW graph over these nodes, shape (edges, 2); zero vectors have none."""
    rows = nonzero_rows(vectors)
    if not config.links or len(rows) < 2:
        return np.zeros((0, 2), np.int64)
    neighbours = _level_0(chosen(vectors, rows), config)
    width, ends, numbers = neighbours.shape[1], neighbours.ravel(), nodes[rows]
    own = np.repeat(np.arange(len(rows), dtype=np.int32), width)
    places = np.flatnonzero((ends >= 0) & (ends != own))
    del own
    edges = np.empty((len(places), 2), np.int64)
    edges[:, 1] = numbers[ends[places]]
    places //= width
    edges[:, 0] = numbers[places]
    return edges


def _level_0(vectors: Vectors, config: NodeRAGConfig) -> NDArray[np.int32]:
    links, seed = config.links, config.seed
    candidates = max(_CANDIDATES, links)
    options = Options(
        links=links, ef_construction=candidates, scan_limit=0, keep_vectors=False, ef=links, seed=seed
    )
    index = CHNSW.build([vectors], options=options)
    neighbours: NDArray[np.int32] = index.arrays()["layer0.links"]
    return neighbours
