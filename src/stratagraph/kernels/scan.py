"""SCAN: clusters of nodes that share their neighbours (Xu et al., 2007)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, common_neighbours, number, parts

_ROUNDING = 1e-12


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
