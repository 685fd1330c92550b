"""Clusterings by k-means over embeddings of the nodes: spectral clustering and node2vec.

Results do not depend on the number of threads: scipy multiplies with a sparse matrix in one thread, and
einsum multiplies thin matrices, because BLAS adds up in an order that depends on its threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.spatial.distance import cdist

from stratagraph.kernels.edges import Edges, Labels, number, parts

_DENSE = 48
"""A part of at most as many nodes is small enough for a dense solver, which then runs in one thread."""

_GUARDS = 4
_ROUNDS = 5
_DEGREE = 10
_ROUNDING = 1e-9
BRANCHES = 16
"""Maximum number of clusters of one division, so that no step costs O(n^2 / max_size)."""

_STEPS = 20
_SAME = 1e-12

Points = Callable[[Labels, int], NDArray[np.float64]]
Matrix = NDArray[np.float64]

_RANK = 1e-12
_WIDEST = 0.999


def spectral(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int = 15,
    seed: int = 0,
) -> Labels:
    """Normalised spectral clustering, divided further until communities are small (von Luxburg, 2007).

    Each connected part of the graph is divided into at most 16 parts, and these again: k-means over the rows,
    scaled to length 1, of the k eigenvectors of the normalised Laplacian with the smallest eigenvalues, found
    by filtered subspace iteration. No dense matrix is much wider than k.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    max_size
        Communities are divided until they have no more nodes, unless all their rows are equal.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.
    """
    edges = Edges.of(ends, weights, nodes)
    adjacency = edges.matrix()
    start = np.random.default_rng(seed).standard_normal((nodes, BRANCHES + _GUARDS))

    def points(members: Labels, count: int) -> NDArray[np.float64]:
        return _embedding(csr_array(adjacency[members][:, members]), count, start[members])

    return divide(edges, points, max_size, seed)


def _embedding(adjacency: csr_array, count: int, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows, of length 1, of the leading eigenvectors of D^-1/2 A D^-1/2, scaled by their eigenvalues.

    Eigenvectors of a star or a clique with eigenvalues of at most 0 are arbitrary and would divide at random.
    """
    strengths = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = np.divide(1, np.sqrt(strengths), out=np.zeros_like(strengths), where=strengths > 0)
    values = adjacency.tocoo()
    values.data = values.data * scale[values.row] * scale[values.col]
    normalised = csr_array(values)
    if len(strengths) <= _DENSE:
        eigenvalues, vectors = np.linalg.eigh(normalised.toarray())
    else:
        eigenvalues, vectors = leading(normalised, start, rounds=_ROUNDS, degree=_DEGREE)
    return unit_rows(np.asarray(vectors[:, -count:] * np.maximum(eigenvalues[-count:], 0)), _ROUNDING)


def divide(edges: Edges, points: Points, max_size: int, seed: int) -> Labels:
    """Divide a graph's connected parts by k-means until each has at most `max_size` nodes.

    `points` gives coordinates for the members of a community and the number of its parts, shape (members, d).
    A part whose nodes all have the same coordinates stays larger. Labels are numbered by the smallest member.
    """
    labels = parts(edges)
    if not len(labels):
        return number(labels)
    rng = np.random.default_rng(seed)
    order = np.argsort(labels, kind="stable")
    waiting = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)[::-1]
    divided = np.empty(len(labels), dtype=np.int64)
    clusters = 0
    while waiting:
        members = waiting.pop()
        pieces = _divided(members, points, max_size, rng) if len(members) > max_size else [members]
        if len(pieces) > 1:
            waiting.extend(pieces[::-1])
            continue
        divided[members] = clusters
        clusters += 1
    return number(divided)


def _divided(members: Labels, points: Points, max_size: int, rng: np.random.Generator) -> list[Labels]:
    """One division; the number of parts aims at two thirds of `max_size`."""
    count = min(BRANCHES, -(-3 * len(members) // (2 * max_size)), len(members))
    coordinates = points(members, count)
    centres = coordinates[_spread(coordinates, count, rng)]
    own = _nearest_centre(coordinates, centres)
    return [members[own == part] for part in np.unique(own)]


def _nearest_centre(points: NDArray[np.float64], centres: NDArray[np.float64]) -> Labels:
    """Lloyd's iteration for at most `_STEPS` steps; the centre of an empty cluster stays."""
    own = np.full(len(points), -1)
    for _ in range(_STEPS):
        nearest = cdist(points, centres, "sqeuclidean").argmin(axis=1)
        if np.array_equal(nearest, own):
            break
        own = nearest
        counts = np.bincount(own, minlength=len(centres))
        members = csr_array((np.ones(len(own)), (own, np.arange(len(own)))), shape=(len(centres), len(own)))
        used = counts > 0
        centres[used] = (members @ points)[used] / counts[used, None]
    return own


def _spread(points: NDArray[np.float64], count: int, rng: np.random.Generator) -> Labels:
    """First centres, drawn in proportion to the squared distance to the nearest centre (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    distances = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count and distances.max() > _SAME:
        chosen.append(int(np.searchsorted(np.cumsum(distances), rng.random() * distances.sum())))
        chosen[-1] = min(chosen[-1], len(points) - 1)
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.asarray(chosen, dtype=np.int64)


def orthonormal(basis: Matrix) -> Matrix:
    """Orthonormal columns with the same span; fewer if columns are linearly dependent."""
    lengths = np.sqrt(np.einsum("ij,ij->j", basis, basis))
    basis = basis[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):
        values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", basis, basis))
        independent = values > _RANK * values.max(initial=0)
        basis = np.einsum("ij,jk->ik", basis, vectors[:, independent] / np.sqrt(values[independent]))
    return basis


def unit_rows(vectors: Matrix, least: float = 0.0) -> Matrix:
    """Rows divided in place by their lengths; rows of length `least` or less stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, lengths, out=vectors, where=lengths > least)
    return vectors


def ritz(matrix: csr_array, basis: Matrix) -> tuple[Matrix, Matrix]:
    """The best approximations of eigenvalues and eigenvectors within an orthonormal basis, ascending."""
    values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", basis, matrix @ basis))
    return values, np.einsum("ij,jk->ik", basis, vectors)


def leading(matrix: csr_array, start: Matrix, *, rounds: int, degree: int) -> tuple[Matrix, Matrix]:
    """Eigenvectors of the largest eigenvalues of a matrix whose eigenvalues lie between -1 and 1.

    Subspace iteration from `start`, shape (n, k), filtered by Chebyshev polynomials that are small from -1 to
    the smallest value found so far and grow fastest above it (Zhou and Saad, 2007). Returns at most k
    eigenvalues, ascending, and eigenvectors as columns.
    """
    values, vectors = ritz(matrix, orthonormal(start))
    for _ in range(rounds):
        cut = min(float(values[0]), _WIDEST)
        values, vectors = ritz(matrix, orthonormal(_filtered(matrix, vectors, cut, degree)))
    return values, vectors


def _filtered(matrix: csr_array, basis: Matrix, cut: float, degree: int) -> Matrix:
    """A Chebyshev polynomial of the matrix, for -1 to `cut` mapped to -1 to 1, times the basis."""
    half, middle = (cut + 1) / 2, (cut - 1) / 2
    before, now = basis, (matrix @ basis - middle * basis) / half
    for _ in range(degree - 1):
        before, now = now, 2 * (matrix @ now - middle * now) / half - before
        scale = np.abs(now).max(initial=1)
        before, now = before / scale, now / scale
    return np.asarray(now)


_PROPOSALS = 32
"""Proposals for a step; the last is taken as it is. With p and q near 1 the second is rarely needed."""

DIMENSION = 32
_WINDOW = 4  # nodes at most so far apart in a walk are near each other
_OVERSAMPLING = 8
_POWERS = 4


def node2vec(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int = 15,
    seed: int = 0,
) -> Labels:
    """k-means over node2vec's embeddings, divided further until communities are small.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    max_size
        Communities are divided until they have no more nodes, unless all their embeddings are equal. No
        community spans two connected parts.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If the edges are not valid.
    """
    edges = Edges.of(ends, weights, nodes)
    embedding = embed_nodes(edges, seed)
    return divide(edges, lambda members, _: embedding[members], max_size, seed)


def embed_nodes(edges: Edges, seed: int = 0) -> Matrix:
    """Embeddings, shape (nodes, at most `DIMENSION`), rows of length 1; zeros for a node without edges.

    Instead of training a skip-gram network, the matrix that it approximates is factorised by a truncated
    singular value decomposition: positive pointwise mutual information of nodes within a window (Levy and
    Goldberg, 2014).
    """
    nodes = edges.nodes
    rng = np.random.default_rng(seed)
    if not len(edges):
        return np.zeros((nodes, min(DIMENSION, nodes)))
    information = _mutual_information(_near(random_walks(edges, rng), nodes))
    left, values = _leading(information, min(DIMENSION, nodes), rng)
    return unit_rows(left * np.sqrt(values))


def random_walks(
    edges: Edges,
    rng: np.random.Generator,
    *,
    per_node: int = 8,
    length: int = 16,
    back: float = 1.0,
    outwards: float = 2.0,
) -> Labels:
    """Second-order random walks from every node that has edges (Grover and Leskovec, 2016).

    Going back is weighed `back` (1/p), going to a neighbour of the node before 1, going elsewhere `outwards`
    (1/q). All walks take each step together. Returns shape (walks, length).
    """
    adjacency = edges.matrix()
    adjacency.sort_indices()
    starts = np.repeat(np.flatnonzero(edges.degrees()), per_node)
    walks = np.empty((length, len(starts)), dtype=np.int64)
    walks[0] = starts
    walks[1] = _propose(adjacency, np.cumsum(adjacency.data), starts, rng)
    for step in range(2, length):
        walks[step] = _next(adjacency, walks[step - 2], walks[step - 1], (back, outwards), rng)
    return np.ascontiguousarray(walks.T)


def _propose(adjacency: csr_array, cumulated: Matrix, here: Labels, rng: np.random.Generator) -> Labels:
    """A neighbour of each node, drawn by weight."""
    first, last = adjacency.indptr[here], adjacency.indptr[here + 1] - 1
    low = cumulated[first] - adjacency.data[first]
    drawn = low + rng.random(len(here)) * (cumulated[last] - low)
    at = np.clip(np.searchsorted(cumulated, drawn, side="right"), first, last)
    return np.asarray(adjacency.indices[at], dtype=np.int64)


def _next(
    adjacency: csr_array,
    before: Labels,
    here: Labels,
    weights: tuple[float, float],
    rng: np.random.Generator,
) -> Labels:
    """One second-order step of each walk, by rejection: tables per edge would be huge at hubs."""
    cumulated = np.cumsum(adjacency.data)
    keys = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr)) * adjacency.shape[0]
    keys += adjacency.indices
    chosen = _propose(adjacency, cumulated, here, rng)
    open_ = np.arange(len(here))
    back, outwards = weights
    bias = max(1.0, back, outwards)
    for _ in range(_PROPOSALS):
        wanted = before[open_] * adjacency.shape[0] + chosen[open_]
        joined = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        share = np.where(joined, 1.0, outwards)
        share[chosen[open_] == before[open_]] = back
        open_ = open_[rng.random(len(open_)) * bias >= share]
        if not len(open_):
            break
        chosen[open_] = _propose(adjacency, cumulated, here[open_], rng)
    return chosen


def _near(walks: Labels, nodes: int) -> csr_array:
    """How often two nodes are within the window of each other, shape (nodes, nodes)."""
    counts = csr_array((nodes, nodes))
    for apart in range(1, _WINDOW + 1):
        first, second = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        ones = np.ones(len(first))
        counts = counts + csr_array(coo_array((ones, (first, second)), shape=(nodes, nodes)))
    return csr_array(counts + counts.T)


def _mutual_information(counts: csr_array) -> csr_array:
    """log(n_ij n / (n_i n_j)) where it is above 0."""
    pairs = counts.tocoo()
    totals = np.asarray(counts.sum(axis=1)).ravel()
    values = np.log(pairs.data * totals.sum() / (totals[pairs.row] * totals[pairs.col]))
    positive = values > 0
    return csr_array(
        coo_array((values[positive], (pairs.row[positive], pairs.col[positive])), shape=counts.shape)
    )


def _leading(matrix: csr_array, count: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Singular vectors and values of a symmetric matrix, by randomised subspace iteration."""
    width = min(count + _OVERSAMPLING, matrix.shape[0])
    basis = orthonormal(matrix @ rng.standard_normal((matrix.shape[0], width)))
    for _ in range(_POWERS):
        basis = orthonormal(matrix @ basis)
    values, vectors = ritz(matrix, basis)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return vectors[:, order], np.abs(values[order])
