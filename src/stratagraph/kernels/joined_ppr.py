"""Personalised PageRank over the union of graphs that share nodes, without copying them.

With s_i(v) the sum of the weights at a node v in G_i, and P_i the row-stochastic matrix of G_i, the
transition matrix of the union is

    P(v, w) = sum over i of  s_i(v) / s(v) * P_i(v, w),     s(v) = sum over i of s_i(v),

so each graph passes on the part s_i(v) / s(v) of a node's mass. `per_edge` counts edges in all graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels import _native
from stratagraph.kernels.ppr import Bounds, Walk, entry_shares


@dataclass(frozen=True, slots=True, eq=False)
class JoinedGraph:
    """Several graphs as one.

    - `matrices`, `numbers`: the matrices P_i, and the numbers of their nodes in the union
    - `starts`: the places of node v are `starts[v]` to `starts[v + 1]`
    - `owners`, `rows`, `shares`: of each place the graph, the row in it, and the share of the node's mass
    """

    matrices: Sequence[csr_array]
    numbers: Sequence[NDArray[np.int32]]
    starts: NDArray[np.int64]
    owners: NDArray[np.int32]
    rows: NDArray[np.int32]
    shares: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        matrices: Sequence[csr_array],
        numbers: Sequence[NDArray[np.int32]],
        strengths: Sequence[NDArray[np.floating]],
        nodes: int,
    ) -> JoinedGraph:
        """From the graphs, the numbers of their nodes in the union, and s_i(v) above 0 of their nodes."""
        everywhere = np.concatenate([np.zeros(0, np.int32), *numbers])
        order = np.argsort(everywhere, kind="stable")
        counts = np.bincount(everywhere, minlength=nodes)
        sizes = [len(each) for each in numbers]
        owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = np.concatenate([np.zeros(0, np.int32), *(np.arange(size, dtype=np.int32) for size in sizes)])
        strength = np.concatenate([np.zeros(0), *strengths])
        shares = strength / np.bincount(everywhere, strength, nodes)[everywhere]
        return cls(
            matrices,
            numbers,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            owners[order],
            rows[order],
            shares[order].astype(np.float32),
        )

    @property
    def nodes(self) -> int:
        """Number of nodes of the union."""
        return len(self.starts) - 1


def joined_pagerank(
    graph: JoinedGraph,
    entries: NDArray[np.integer],
    *,
    weights: NDArray[np.floating] | None = None,
    restart: float = 0.5,
    steps: int = 2,
    per_edge: float = 0.0,
) -> Walk:
    """`kernels.ppr.shallow_pagerank` over the union; parameters, results and errors are the same."""
    nodes, shares = entry_shares(entries, weights, graph.nodes)
    bounds = Bounds.of(restart, steps, 0.0, per_edge)
    parts = [
        (*_arrays(matrix), numbers) for matrix, numbers in zip(graph.matrices, graph.numbers, strict=True)
    ]
    places = graph.starts, graph.owners, graph.rows, graph.shares
    return _native.joined_walk(parts, *places, nodes, shares, restart, *bounds)


def _arrays(matrix: csr_array) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    return (
        np.ascontiguousarray(matrix.indptr, np.int32),
        np.ascontiguousarray(matrix.indices, np.int32),
        np.ascontiguousarray(matrix.data, np.float32),
    )
