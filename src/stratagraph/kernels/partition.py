"""Partitions by any clustering, and the graph of their communities (ArchRAG 3.1.2, Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, Weights, number
from stratagraph.kernels.leiden import leiden, split_large
from stratagraph.kernels.node2vec import node2vec
from stratagraph.kernels.scan import scan
from stratagraph.kernels.spectral import spectral

Method = Literal["leiden", "spectral", "scan", "node2vec"]

Clustering = Callable[[Labels, Weights, int], NDArray[np.integer]]
"""Called with ends, weights and the number of nodes; gives a label for each node."""


def cluster(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    method: Method | Clustering = "leiden",
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
        A name, or a custom function; its labels may be any integers.
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
    if method == "leiden":
        return leiden(ends, weights, nodes, resolution=resolution, max_size=max_size, seed=seed)
    edges = Edges.of(ends, weights, nodes)
    if method == "spectral":
        labels = spectral(edges.pairs(), edges.weights, nodes, max_size=max_size, seed=seed)
    elif method == "node2vec":
        labels = node2vec(edges.pairs(), edges.weights, nodes, max_size=max_size, seed=seed)
    elif method == "scan":
        labels = scan(edges.pairs(), edges.weights, nodes)
    else:
        labels = _own(method(edges.pairs(), edges.weights, nodes), nodes)
    return split_large(edges, labels, max_size, seed)


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


def _own(labels: NDArray[np.integer], nodes: int) -> Labels:
    found = np.asarray(labels)
    if found.shape != (nodes,) or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"the clustering given must give {nodes} integers, not {found.dtype} of shape {found.shape}"
        )
    return number(found)
