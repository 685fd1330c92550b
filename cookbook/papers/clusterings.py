"""ArchRAG's grid: CODICIL as an augmentation; spectral clustering, SCAN and node2vec as clusterings.

`register` makes them choices of `ArchRAGConfig`: `custom:codicil`, `custom:spectral` and so on. Graphs are
ends, shape (m, 2), and weights, shape (m,), on the rows of `vectors`. Labels, shape (n,), number communities;
these may have any size, since the package splits what is too large.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array, csr_array

from stratagraph import register_augmentation, register_clustering
from stratagraph.kernels.edges import Edges, number, parts
from stratagraph.kernels.knn import knn_graph

CONTENT_NEIGHBOURS = 50
"""Content edges that CODICIL offers each node, as its authors do."""
FLOOR = 1e-3
"""The least weight of an edge."""
BRANCHES = 16
"""Maximum number of clusters of one division."""
EPS, MU = 0.5, 2
"""Of SCAN: least structural similarity, and least number of similar nodes around a core, itself included."""
WALKS, STEPS, WINDOW, DIMENSION, OUTWARDS = 8, 16, 4, 32, 2.0
"""Of node2vec: walks from each node, their length, how far nodes near each other may be in one, dimensions,
and the weight (1/q) of a step that leads away from the node before."""
PROPOSALS = 32
"""Draws for a step of a walk; the last is taken as it is."""


def register() -> None:
    """Make all of them choices of a configuration, in this process."""
    register_augmentation("codicil", codicil)
    for name, function in (("spectral", spectral), ("scan", scan), ("node2vec", node2vec)):
        register_clustering(name, function)


def codicil(vectors: np.ndarray, ends: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Content edges to the nearest others join the graph's own edges, and each node keeps its best edges.

    Edges are ranked by the mean of two similarities, each standardised over the edges of a node: the cosine,
    and the Jaccard coefficient of the ends' neighbourhoods, themselves included. One stays if it is among the
    best ceil(sqrt(degree)) of either end (Ruan, Fuhry and Parthasarathy 2013). Weights are cosines.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    nodes = np.flatnonzero(lengths[:, 0] > 0)
    k = min(CONTENT_NEIGHBOURS, len(nodes) - 1)
    pairs = np.asarray(ends, np.int64).reshape(-1, 2)
    if k > 0:
        near, _ = knn_graph(units[nodes], k, ef=max(32, k + 8))
        found = near.ravel() >= 0
        offered = np.column_stack([np.repeat(nodes, k)[found], nodes[near.ravel()[found]]])
        pairs = np.concatenate([pairs, offered])
    edges = Edges.of(pairs, None, len(vectors))
    if not len(edges):
        return edges.pairs(), edges.weights
    cosines = np.einsum("ij,ij->i", units[edges.low], units[edges.high]).astype(np.float64)
    degrees, common = edges.degrees(), common_neighbours(edges) + 2  # both ends are common to both
    jaccard = common / (degrees[edges.low] + degrees[edges.high] + 2 - common)
    owner, edge = np.concatenate([edges.low, edges.high]), np.tile(np.arange(len(edges)), 2)
    score = sum(_standardised(each[edge], owner, degrees) for each in (np.maximum(cosines, FLOOR), jaccard))
    order = np.lexsort((edge, -score, owner))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    best = np.zeros(len(edges), bool)
    best[edge[order[rank < np.ceil(np.sqrt(degrees[owner[order]]))]]] = True
    return edges.pairs()[best], np.maximum(cosines[best], FLOOR)


def common_neighbours(edges: Edges) -> np.ndarray:
    """The number of nodes adjacent to both ends of each edge, shape (edges,)."""
    linked = edges.matrix()
    linked.data[:] = 1
    common = np.zeros(len(edges), np.int64)
    for block in np.array_split(np.arange(len(edges)), 1 + len(edges) // 100_000):
        shared = linked[edges.low[block]].multiply(linked[edges.high[block]])
        common[block] = np.asarray(shared.sum(axis=1)).ravel()
    return common


def _standardised(values: np.ndarray, owner: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Values standardised over those of their owner; 0 where all are equal."""
    counts = np.maximum(degrees, 1)
    centred = values - (np.bincount(owner, values, len(degrees)) / counts)[owner]
    deviation = np.sqrt(np.bincount(owner, centred**2, len(degrees)) / counts)[owner]
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-6)


def divide(edges: Edges, into: Callable[[np.ndarray, int], np.ndarray], bound: int) -> np.ndarray:
    """A label for each node: connected parts are divided until none has more than `bound` nodes.

    `into(members, count)` divides a part by giving a label to each member, or leaves it whole.
    """
    components = parts(edges)
    labels, communities = np.empty(edges.nodes, np.int64), 0
    waiting = [np.flatnonzero(components == label) for label in range(components.max(initial=-1) + 1)]
    while waiting:
        members = waiting.pop()
        own = np.zeros(len(members), np.int64)
        if len(members) > bound:
            own = into(members, min(BRANCHES, -(-3 * len(members) // (2 * bound)), len(members) - 1))
        if len(np.unique(own)) > 1:
            waiting.extend(members[own == label] for label in np.unique(own))
        else:
            labels[members] = communities
            communities += 1
    return labels


def spectral(vectors: np.ndarray, ends: np.ndarray, weights: np.ndarray, bound: int) -> np.ndarray:
    """Normalised spectral clustering (von Luxburg 2007), by scikit-learn, until communities are small."""
    from sklearn.cluster import SpectralClustering

    edges = Edges.of(ends, weights, len(vectors))
    matrix = edges.matrix()

    def into(members: np.ndarray, count: int) -> np.ndarray:
        part = matrix[members][:, members]
        part.indices, part.indptr = part.indices.astype(np.int32), part.indptr.astype(np.int32)
        model = SpectralClustering(
            count,
            affinity="precomputed",
            n_init=1,
            eigen_solver="arpack" if len(members) < 2000 else "lobpcg",  # the quicker one
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # weak links count as none
            return model.fit_predict(part)

    return divide(edges, into, bound)


def scan(vectors: np.ndarray, ends: np.ndarray, weights: np.ndarray, bound: int) -> np.ndarray:
    """SCAN (Xu et al. 2007), in which every hub and outlier joins the cluster it is most linked to.

    Clusters depend on the structure alone; weights place hubs and outliers. Nodes without a neighbour in a
    cluster follow their neighbours, round by round. A connected part of the graph without a cluster is one.
    """
    edges = Edges.of(ends, weights, len(vectors))
    # Of each edge, |N(u) and N(v)| / sqrt(|N(u)| |N(v)|), where a neighbourhood N contains its own node.
    sizes = edges.degrees() + 1.0
    similarity = (common_neighbours(edges) + 2) / np.sqrt(sizes[edges.low] * sizes[edges.high])
    near = similarity >= EPS - 1e-12
    similar = Edges(edges.low[near], edges.high[near], similarity[near], edges.nodes)
    core = similar.degrees() + 1 >= MU
    clusters = np.where(core, parts(similar.where(core[similar.low] & core[similar.high])), -1)
    clusters = np.where(core, clusters, _most_linked(similar, clusters))
    while True:
        placed = np.where(clusters < 0, _most_linked(edges, clusters), clusters)
        if np.array_equal(placed, clusters):
            break
        clusters = placed
    left = clusters < 0
    alone = parts(edges.where(left[edges.low] & left[edges.high]))
    return number(np.where(left, alone + clusters.max(initial=-1) + 1, clusters))


def _most_linked(edges: Edges, clusters: np.ndarray) -> np.ndarray:
    """The cluster to which each node has most weight, of equals the first, or -1."""
    node, other = np.concatenate([edges.low, edges.high]), np.concatenate([edges.high, edges.low])
    inside = clusters[other] >= 0
    node, cluster = node[inside], clusters[other[inside]]
    width = int(clusters.max(initial=0)) + 1
    keys, inverse = np.unique(node * width + cluster, return_inverse=True)
    sums = np.bincount(inverse, np.tile(edges.weights, 2)[inside], len(keys))
    order = np.lexsort((keys, -sums, keys // width))
    owners, first = np.unique(keys[order] // width, return_index=True)
    best = np.full(edges.nodes, -1, np.int64)
    best[owners] = keys[order[first]] % width
    return best


def node2vec(vectors: np.ndarray, ends: np.ndarray, weights: np.ndarray, bound: int) -> np.ndarray:
    """k-means over node2vec's embeddings (Grover and Leskovec 2016), divided until communities are small.

    Instead of training a skip-gram network, the matrix that it approximates is factorised: positive pointwise
    mutual information of nodes within a window of a walk (Levy and Goldberg 2014).
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    edges = Edges.of(ends, weights, len(vectors))
    points = embedded(edges)

    def into(members: np.ndarray, count: int) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # equal points
            return KMeans(count, n_init=1, random_state=0).fit_predict(points[members])

    return divide(edges, into, bound)


def embedded(edges: Edges) -> np.ndarray:
    """Embeddings of nodes, shape (nodes, at most `DIMENSION`), of length 1; zeros for one without edges."""
    from sklearn.utils.extmath import randomized_svd

    nodes, rng = edges.nodes, np.random.default_rng(0)
    if not len(edges):
        return np.zeros((nodes, 1))
    walks, counts = random_walks(edges, rng), csr_array((nodes, nodes))
    for apart in range(1, WINDOW + 1):
        one, other = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        counts = counts + csr_array(coo_array((np.ones(len(one)), (one, other)), shape=counts.shape))
    pairs, totals = (counts + counts.T).tocoo(), np.asarray((counts + counts.T).sum(axis=1)).ravel()
    pairs.data = np.maximum(np.log(pairs.data * totals.sum() / (totals[pairs.row] * totals[pairs.col])), 0)
    left, values, _ = randomized_svd(csr_array(pairs), min(DIMENSION, nodes - 1), random_state=0)
    points = left * np.sqrt(values)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1)


def random_walks(edges: Edges, rng: np.random.Generator) -> np.ndarray:
    """Second-order random walks from every node that has edges, shape (walks, steps); all step together."""
    matrix = edges.matrix()
    matrix.sort_indices()
    cumulated, nodes = np.cumsum(matrix.data), edges.nodes
    keys = np.repeat(np.arange(nodes), np.diff(matrix.indptr)) * nodes + matrix.indices

    def drawn(here: np.ndarray) -> np.ndarray:
        """A neighbour of each node, by weight."""
        first, last = matrix.indptr[here], matrix.indptr[here + 1] - 1
        low = cumulated[first] - matrix.data[first]
        at = np.searchsorted(cumulated, low + rng.random(len(here)) * (cumulated[last] - low), side="right")
        return matrix.indices[np.clip(at, first, last)].astype(np.int64)

    walks = [np.repeat(np.flatnonzero(edges.degrees()), WALKS)]
    walks.append(drawn(walks[0]))
    for _ in range(2, STEPS):
        before, here = walks[-2:]
        chosen, waiting = drawn(here), np.arange(len(here))
        for _ in range(PROPOSALS):  # by rejection: tables per edge would be huge at hubs
            wanted = before[waiting] * nodes + chosen[waiting]
            joined = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
            share = np.where(joined | (chosen[waiting] == before[waiting]), 1.0, OUTWARDS)
            waiting = waiting[rng.random(len(waiting)) * OUTWARDS >= share]
            if not len(waiting):
                break
            chosen[waiting] = drawn(here[waiting])
        walks.append(chosen)
    return np.column_stack(walks)
