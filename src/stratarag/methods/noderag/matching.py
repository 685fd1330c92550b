"""Edges by meaning: clusters within communities (2.3, ERRATA N6), and level 0 of an HNSW graph (2.4, N7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.chnsw import CHNSW
from stratarag.kernels.hamming import native_available
from stratarag.kernels.knn import knn_graph
from stratarag.kernels.ranges import ranges
from stratarag.protocols import Rows, Vectors

_CANDIDATES = 40


def matches(nodes: Rows, communities: Rows, clusters: Rows, elements: Rows) -> Rows:
    """e_h: high-level elements with the nodes of their community that are in their cluster.

    Parameters
    ----------
    nodes, communities, clusters
        The nodes of S, A and H, and the community and cluster of each, shape (n,).
    elements
        Places of the elements (H) among them.

    Returns
    -------
    Pairs (element, other node), shape (edges, 2); an element and an element are joined too.
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
    found: Rows = pairs[each != other]
    return found


def semantic_links(nodes: Rows, vectors: Vectors, links: int, seed: int, threads: int = 1) -> Rows:
    """The edges at level 0 of an HNSW graph over these nodes, shape (edges, 2).

    Zero vectors have none. Without the native kernels, which alone link, each node's nearest neighbours
    stand in.
    """
    rows = np.flatnonzero(np.any(vectors, axis=1))
    if not links or len(rows) < 2:
        return np.zeros((0, 2), np.int64)
    neighbours = _level_0(np.ascontiguousarray(vectors[rows]), links, seed, threads)
    start = np.repeat(np.arange(len(rows)), neighbours.shape[1])
    end = neighbours.ravel().astype(np.int64)
    kept = (end >= 0) & (end != start)
    return np.column_stack([nodes[rows[start[kept]]], nodes[rows[end[kept]]]])


def _level_0(vectors: Vectors, links: int, seed: int, threads: int) -> NDArray[np.int32]:
    if not native_available():
        rows, _ = knn_graph(vectors, links, seed=seed, backend="numpy")
        return rows
    index = CHNSW.build(
        [vectors],
        links=links,
        ef_construction=max(_CANDIDATES, links),
        scan_limit=0,
        keep_vectors=False,
        recall=0.01,
        seed=seed,
        threads=threads,
        backend="native",
    )
    found: NDArray[np.int32] = index.arrays()["layer0.links"]
    return found
