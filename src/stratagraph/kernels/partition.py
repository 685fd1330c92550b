"""Partitions by any clustering, and the graph of their communities (ArchRAG 3.1.2, Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, Weights, number
from stratagraph.kernels.leiden import leiden, split_large

Clustering = Callable[[Labels, Weights, int], NDArray[np.integer]]
"""Called with ends, weights and the number of nodes; gives a label for each node."""


def cluster(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    method: Clustering | None = None,
    max_size: int = 15,
    resolution: float = 1.0,
    seed: int = 0,
) -> Labels:
    """A partition by any method, with sizes bounded in the same way for all.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    method
        A function whose labels may be any integers; None takes `leiden`.
    max_size
        No community is larger; see `split_large`.
    resolution
        Of `leiden`.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If the edges are not valid, or a custom function does not give an integer for each node.
    """
    if method is None:
        return leiden(ends, weights, nodes, resolution=resolution, max_size=max_size, seed=seed)
    edges = Edges.of(ends, weights, nodes)
    labels = np.asarray(method(edges.pairs(), edges.weights, nodes))
    if labels.shape != (nodes,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"the clustering given must give {nodes} integers, not {labels.dtype} of shape {labels.shape}"
        )
    return split_large(edges, number(labels), max_size, seed)


def community_graph(
    ends: NDArray[np.integer], weights: NDArray[np.floating] | None, labels: NDArray[np.integer]
) -> tuple[Labels, Weights]:
    """The graph of the next level: communities are linked as their members are (Alg. 1, line 9; ERRATA A3).

    `ends` and `weights` are the edges of this level, as for `leiden`; `labels` number the communities from 0.
    Returns ends, shape (edges, 2), ascending, each edge once, and weights, the sums over members.
    """
    labels = np.asarray(labels, dtype=np.int64)
    edges = Edges.of(ends, weights, len(labels))
    pairs = np.column_stack([labels[edges.low], labels[edges.high]])
    above = Edges.of(pairs, edges.weights, int(labels.max(initial=-1)) + 1)
    return above.pairs(), above.weights
