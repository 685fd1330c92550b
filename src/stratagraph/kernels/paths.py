"""Shortest paths between pairs of nodes, from both ends (HiRAG 4.2, ERRATA H4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native
from stratagraph.kernels.checks import check_borders, check_layout
from stratagraph.kernels.ranges import order

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ALL: Mask = np.zeros(0, np.bool_)


class Adjacency:
    """An undirected graph in compressed rows, which may be memory-mapped.

    Parameters
    ----------
    indptr, indices
        Neighbours of node i are `indices[indptr[i]:indptr[i + 1]]`, ascending; each edge stands in both rows.
    edges
        The number of the edge, for each entry of `indices`, the same in both rows.

    Raises
    ------
    ValueError
        If the shapes of the arrays do not fit each other; values are checked by `kernels.checks`.
    """

    def __init__(
        self, indptr: NDArray[np.integer], indices: NDArray[np.integer], edges: NDArray[np.integer]
    ) -> None:
        check_layout(indices, "indices", np.integer, (None,))
        check_layout(edges, "edges", np.integer, indices.shape)
        check_borders(indptr, "indptr", len(indices))
        self.indptr = np.ascontiguousarray(indptr, np.int32)
        self.indices = np.ascontiguousarray(indices, np.int32)
        self.edges = np.ascontiguousarray(edges, np.int32)
        self.numbered = int(self.edges.max(initial=-1)) + 1

    @staticmethod
    def build(nodes: int, ends: NDArray[np.integer]) -> dict[str, NDArray[np.int32]]:
        """The arrays of a graph, by the parameters' names.

        `ends` are those of each edge, shape (edges, 2). The first of parallel edges counts, and self-loops
        are left out.
        """
        ends = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
        rows = np.flatnonzero(ends[:, 0] != ends[:, 1])
        tails, heads = ends[rows].ravel(), ends[rows, ::-1].ravel()
        first = order(heads, nodes)
        first = first[order(tails[first], nodes)]
        keys = tails[first] * nodes + heads[first]
        first = first[np.diff(keys, prepend=-1) > 0]
        counts = np.bincount(tails[first], minlength=nodes)
        return {
            "indptr": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            "indices": heads[first].astype(np.int32),
            "edges": np.repeat(rows, 2)[first].astype(np.int32),
        }


def shortest_paths(
    graph: Adjacency,
    pairs: Sequence[tuple[int, int]],
    *,
    nodes: Mask | None = None,
    edges: Mask | None = None,
) -> list[list[int] | None]:
    """The nodes of a shortest path for each pair, both ends included; None if there is no path.

    Of several shortest paths, the lexicographically first. The search is breadth-first from both ends, always
    from the side with fewer edges to follow, until the two meet.

    Parameters
    ----------
    pairs
        Source and target of each path.
    nodes, edges
        Masks of the nodes and edges that may be used; None: all.

    Raises
    ------
    ValueError
        If a pair names a node that does not exist, a mask has another length than what it marks, or the
        graph's arrays are damaged.
    """
    count = len(graph.indptr) - 1
    for pair in pairs:
        if not all(0 <= node < count for node in pair):
            raise ValueError(f"the pair {tuple(pair)} is not of nodes from 0 to {count - 1}")
    if nodes is not None and len(nodes) != count:
        raise ValueError(f"nodes marks {len(nodes)} nodes of {count}")
    if edges is not None and len(edges) < graph.numbered:
        raise ValueError(f"edges marks {len(edges)} edges, and there is one with number {graph.numbered - 1}")
    masks = [_ALL if mask is None else np.ascontiguousarray(mask) for mask in (nodes, edges)]
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    ends, flat = _native.shortest_paths(graph.indptr, graph.indices, graph.edges, rows, *masks)
    borders, steps = [0, *ends.tolist()], flat.tolist()
    return [steps[start:end] or None for start, end in pairwise(borders)]
