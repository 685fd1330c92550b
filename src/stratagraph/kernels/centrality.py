"""Core numbers, and betweenness over a sample of sources (both by igraph)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges

Nodes = NDArray[np.int64]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Centrality:
    """Core number and sampled betweenness of each node, shape (nodes,), with the thresholds of both.

    A node is in the core at `cores >= core_threshold`, a bridge at `betweenness > bridge_threshold`
    (NodeRAG, Algorithm 1, with ERRATA N1 and N2).
    """

    cores: Nodes
    betweenness: Scores
    core_threshold: int
    bridge_threshold: float


def centrality(ends: NDArray[np.integer], nodes: int, sources: NDArray[np.integer]) -> Centrality:
    """Core numbers and betweenness of an undirected graph, and their thresholds.

    The core threshold is floor(ln|V| * sqrt(mean degree)), at least 1 (N1); the bridge threshold is the mean
    betweenness times floor(log10|V|), at least once (N2).

    Parameters
    ----------
    ends
        The ends of each edge, shape (edges, 2). Parallel edges count once, self-loops not at all.
    sources
        Nodes from which shortest paths are counted for the betweenness: a sample, or all.

    Raises
    ------
    ValueError
        If an end or a source is out of range.
    """
    import igraph

    edges = Edges.of(ends, None, nodes)
    sample = np.unique(np.asarray(sources, dtype=np.int64))
    if len(sample) and not (sample[0] >= 0 and sample[-1] < nodes):
        raise ValueError(f"sources are nodes 0 to {nodes - 1}, not {sample[0]} to {sample[-1]}")
    if not len(edges):
        return Centrality(np.zeros(nodes, np.int64), np.zeros(nodes), 1, 0.0)
    # A list of pairs is read in half the time of an array.
    graph = igraph.Graph(n=nodes, edges=list(zip(edges.low.tolist(), edges.high.tolist(), strict=True)))
    cores = np.array(graph.coreness(), dtype=np.int64)
    paths = graph.betweenness(directed=False, sources=sample.tolist())
    between = np.array(paths, dtype=np.float64)
    degree = 2 * len(edges) / nodes
    scale = max(1, math.floor(math.log10(nodes)))
    return Centrality(
        cores, between, max(1, math.floor(math.log(nodes) * math.sqrt(degree))), float(between.mean()) * scale
    )
