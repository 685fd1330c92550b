"""Partitions by any clustering, SCAN, and the graph of their communities (ArchRAG 3.1.2, Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, Weights, common_neighbours, number, parts
from stratagraph.kernels.leiden import leiden, split_large
from stratagraph.kernels.spectral import node2vec, spectral

Method = Literal["leiden", "spectral", "scan", "node2vec"]

Clustering = Callable[[Labels, Weights, int], NDArray[np.integer]]
"""Called with ends, weights and the number of nodes; gives a label for each node."""
_ROUNDING = 1e-12


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
        labels = np.asarray(method(edges.pairs(), edges.weights, nodes))
        if labels.shape != (nodes,) or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                f"the clustering given must give {nodes} integers, not {labels.dtype} of shape {labels.shape}"
            )
        labels = number(labels)
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


def scan(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    eps: float = 0.5,
    mu: int = 2,
) -> Labels:
    """A partition by SCAN, in which every hub and outlier joins the cluster it is most linked to.

    Nodes without a neighbour in a cluster follow their neighbours, round by round. A connected part of the
    graph without a cluster is one community.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`. Clusters depend on the structure alone; weights place hubs and outliers.
    eps
        Least structural similarity of nodes that belong together, above 0, at most 1.
    mu
        Least number of similar nodes, itself included, around a core; at least 2.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member. Sizes are not bounded.

    Raises
    ------
    ValueError
        If the edges are not valid.
    """
    edges = Edges.of(ends, weights, nodes)
    return _placed(edges, core_clusters(edges, eps, mu))


def core_clusters(edges: Edges, eps: float, mu: int) -> Labels:
    """The cluster of each node, numbered by its smallest member; -1 for SCAN's hubs and outliers."""
    # Of each edge, |N(u) and N(v)| / sqrt(|N(u)| |N(v)|), where a neighbourhood N contains its own node.
    sizes = edges.degrees() + 1.0
    similarity = (common_neighbours(edges) + 2) / np.sqrt(sizes[edges.low] * sizes[edges.high])
    near = similarity >= eps - _ROUNDING
    similar = Edges(edges.low[near], edges.high[near], similarity[near], edges.nodes)
    core = similar.degrees() + 1 >= mu
    both = similar.where(core[similar.low] & core[similar.high])
    clusters = np.where(core, parts(both), -1)
    clusters = np.where(core, clusters, _most_linked(similar, clusters))
    clusters[clusters >= 0] = number(clusters[clusters >= 0])
    return clusters


def _most_linked(edges: Edges, clusters: Labels) -> Labels:
    """The cluster to which each node has most weight, of equals the first, or -1."""
    node, other = np.concatenate([edges.low, edges.high]), np.concatenate([edges.high, edges.low])
    inside = clusters[other] >= 0
    node, cluster = node[inside], clusters[other[inside]]
    weights = np.concatenate([edges.weights, edges.weights])[inside]
    width = int(clusters.max(initial=0)) + 1
    keys, inverse = np.unique(node * width + cluster, return_inverse=True)
    sums = np.bincount(inverse, weights, len(keys))
    order = np.lexsort((keys, -sums, keys // width))
    owners, first = np.unique(keys[order] // width, return_index=True)
    best = np.full(edges.nodes, -1, dtype=np.int64)
    best[owners] = keys[order[first]] % width
    return best


def _placed(edges: Edges, clusters: Labels) -> Labels:
    """Every node in one cluster."""
    while True:
        placed = np.where(clusters < 0, _most_linked(edges, clusters), clusters)
        if np.array_equal(placed, clusters):
            break
        clusters = placed
    left = clusters < 0
    alone = parts(edges.where(left[edges.low] & left[edges.high]))
    return number(np.where(left, alone + clusters.max(initial=-1) + 1, clusters))
