"""Edges between similar nodes, which let clusterings use attributes (ArchRAG 3.1.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, Weights
from stratagraph.kernels.float16 import pair_products
from stratagraph.kernels.knn import NearestOthers, nearest_of, nearest_others
from stratagraph.kernels.ranges import among

Matrix = NDArray[np.float32]

FLOOR = 1e-3
"""The least weight of an edge."""
_ROUNDING = 1e-6


def augment(
    vectors: NDArray[np.floating],
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None = None,
    *,
    neighbours: int | None = None,
    quantile: float = 0.8,
    seed: int = 0,
    threads: int = 1,
    previous: PreviousEdges | None = None,
    search: NearestOthers | None = None,
) -> tuple[Labels, Weights]:
    """The edges of a graph and more, each weighted by the similarity of its ends (Alg. 1, lines 3 to 5).

    Edges are added to the K nearest others whose cosine reaches a threshold, and to all K where a node has no
    edge of its own (ERRATA A2). Weights are cosines, at least `FLOOR` (ERRATA A1).

    Parameters
    ----------
    vectors
        Attributes of the nodes, shape (nodes, dimension), of any length. A vector of zeros gets no edges, and
        those it has weigh `FLOOR`.
    ends, weights
        The edges as for `leiden`. Of weights only counts whether they are above 0.
    neighbours
        K; None takes the average degree of the nodes that have edges, at least 1.
    quantile
        The threshold is this quantile of the cosines over the given edges; without edges there is none.
    previous
        The edges that were added before; only its nodes are given new ones.
    search
        Finds the nearest others; None takes C-HNSW.

    Returns
    -------
    Ends, shape (edges, 2), ascending, each edge once; and weights, shape (edges,).

    Raises
    ------
    ValueError
        If a vector is not finite, naming its row; if the edges are not valid.
    """
    attributes = _Attributes.of(vectors)
    edges = Edges.of(ends, weights, len(vectors))
    own = attributes.cosines(edges)
    weighted = Edges(edges.low, edges.high, np.maximum(own, FLOOR), edges.nodes)
    degrees = edges.degrees()
    linked = degrees[degrees > 0]
    k = neighbours or (max(1, round(float(linked.mean()))) if len(linked) else 1)
    if previous is None:
        offered = _nearest(attributes, k, search=search, seed=seed, threads=threads)
    else:
        # A node without edges of its own comes first: the pair was offered to it.
        pairs = previous.added.reshape(-1, 2)
        pairs = np.where(degrees[pairs[:, 1], None] == 0, pairs[:, ::-1], pairs)
        near = nearest_of(attributes.vectors, previous.nodes, k, lengths=attributes.lengths)
        offered = np.concatenate([pairs, near])
    attributed = attributes.lengths > 0
    between = own[attributed[edges.low] & attributed[edges.high]]
    alone = degrees[offered[:, 0]] == 0  # gated too, they would stay alone in communities
    weighted = _join(weighted, offered[alone], attributes, -1.0)
    threshold = float(np.quantile(between, quantile)) if len(between) else -1.0
    joined = _join(weighted, offered[~alone], attributes, threshold)
    return joined.pairs(), joined.weights


class PreviousEdges(NamedTuple):
    """Edges that were added before, shape (edges, 2), and the nodes that are new or changed."""

    added: Labels
    nodes: Labels


def added(ends: NDArray[np.integer], augmented: NDArray[np.integer], nodes: int) -> Labels:
    """The edges of an augmented graph that are not among the graph's own, shape (edges, 2)."""
    own, all_ = (each.min(axis=1).astype(np.int64) * nodes + each.max(axis=1) for each in (ends, augmented))
    return np.asarray(augmented[~among(all_, np.sort(own))], np.int64)


class _Attributes(NamedTuple):
    """Vectors of the nodes and their lengths."""

    vectors: Matrix
    lengths: Matrix

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> _Attributes:
        """`ValueError` names the first vector that is not finite."""
        rows = np.arange(len(vectors))
        lengths = np.sqrt(pair_products(vectors, rows, rows))
        wrong = np.flatnonzero(~np.isfinite(lengths))
        wrong = wrong[~np.isfinite(np.asarray(vectors[wrong])).all(axis=1)]
        if len(wrong):
            raise ValueError(f"vector {int(wrong[0])} is not finite ({len(wrong)} of {len(vectors)} are not)")
        return cls(vectors, lengths)

    def cosines(self, edges: Edges) -> Weights:
        """Cosines of the ends of each edge, shape (edges,); 0 for a vector of zeros."""
        lengths = self.lengths[edges.low] * self.lengths[edges.high]
        products = pair_products(self.vectors, edges.low, edges.high)
        cosines: Weights = (products / np.where(lengths > 0, lengths, 1)).astype(np.float64)
        return cosines

    def unit(self, nodes: Labels) -> Matrix:
        """Nonzero vectors of some nodes, scaled to length 1."""
        units = np.array(self.vectors[nodes], np.float32)
        units /= self.lengths[nodes, None]
        return units


def _nearest(
    attributes: _Attributes, k: int, *, search: NearestOthers | None, seed: int, threads: int
) -> Labels:
    """Pairs of each node and its k nearest others, shape (pairs, 2); exact for a few thousand nodes."""
    nodes = np.flatnonzero(attributes.lengths > 0)
    k = min(k, len(nodes) - 1)
    if k < 1:
        return np.zeros((0, 2), dtype=np.int64)
    rows = nearest_others(attributes.unit(nodes), k, search, ef=max(32, k + 8), seed=seed, threads=threads)
    source, target = np.repeat(np.arange(len(nodes)), k), rows.ravel()
    has_target = target >= 0
    return np.column_stack([nodes[source[has_target]], nodes[target[has_target]]])


def _join(edges: Edges, pairs: Labels, attributes: _Attributes, threshold: float) -> Edges:
    """The edges and those candidate pairs whose cosine reaches the threshold."""
    offered = Edges.of(pairs, None, edges.nodes)
    similar = attributes.cosines(offered)
    new = similar >= threshold - _ROUNDING
    new &= ~among(*(each.low * each.nodes + each.high for each in (offered, edges)))
    ends = np.concatenate([edges.pairs(), offered.pairs()[new]])
    return Edges.of(ends, np.concatenate([edges.weights, np.maximum(similar[new], FLOOR)]), edges.nodes)
