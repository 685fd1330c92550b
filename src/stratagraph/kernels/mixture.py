"""Soft clusters of bounded size by Gaussian mixtures, for any number of vectors (HiRAG 4.1, ERRATA H3).

RAPTOR's recipe (reduce the dimensions, cluster globally, then locally, let members belong to several
clusters) with a bound on every step: mixtures are fitted to samples, covariances are diagonal, and a cluster
that is too large is halved along its principal axis. So clustering always ends, in time proportional to the
number of vectors.

BIC chooses the number of components of a coarse mixture among a few. A fine mixture has as many components
as there should be clusters: with BIC, 0.5 % fewer vectors changed the number of clusters by 3 to 5 %, without
it by less than 1 % (entities of musique_train100).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax

from stratagraph.kernels.blas import one_thread

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

Vectors = NDArray[np.floating]
Points = NDArray[np.float64]
Rows = NDArray[np.int64]

LOCAL = 512
"""Vectors that are clustered finely at once; more are parted coarsely first."""
SAMPLE = 8192
"""Vectors that a coarse mixture and its projection are fitted to."""
COARSE = (8, 16, 32)
"""Components that a coarse mixture may have."""
BASE = 64
"""Dimensions that are kept of all vectors; each part is reduced further by its own axes."""
EXACT = 1024
"""Vectors or dimensions up to which principal axes are exact."""
_STEPS = 15
_FLOOR = 1e-3  # least variance, as a share of the points' mean variance
_TINY = 1e-10


def soft_clusters(
    vectors: Vectors,
    *,
    target: int = 8,
    max_size: int = 16,
    threshold: float = 0.1,
    most: int = 2,
    dimensions: int = 10,
    seed: int = 0,
) -> list[Rows]:
    """Groups of rows; every row is in at least one group and at most `most`.

    Parameters
    ----------
    vectors
        Shape (n, d).
    target
        Approximate mean size of a cluster.
    max_size
        Maximum size of a cluster, at least `target`.
    threshold
        Posterior probability from which a row also belongs to a cluster that is not its likeliest.
    most
        Maximum number of clusters of a row.
    dimensions
        Principal components in which mixtures are fitted.
    seed
        Seed of samples and of the mixtures' starts.

    Returns
    -------
    Ascending rows of each cluster, in the order of their smallest members. A cluster has one row if no
    cluster near that row has room for it.
    """
    clusters: list[Rows] = []
    with one_thread():
        if vectors.shape[1] > BASE and len(vectors) > LOCAL:
            vectors = project(vectors, BASE, seed)  # so that no part needs axes of the full space
        for part in _parts(vectors, dimensions, seed):
            points = project(vectors[part], dimensions, seed)
            labels = np.zeros(len(part), np.int64)
            if len(part) > target:
                labels = _fitted(points, ceil(len(part) / target), seed).predict(points)
            homes = _split_large(points, labels, max_size)
            clusters += [part[group] for group in _soften(points, homes, max_size, threshold, most)]
    return sorted(clusters, key=lambda group: group.tolist())


def sparsity(sizes: Rows | Sequence[int], entities: int) -> float:
    """Cluster sparsity of a layer (HiRAG 5.4), within [0, 1] although clusters overlap (ERRATA H2).

    1 - sum |S| (|S| - 1) / (n (n - 1)): 1 if all clusters are singletons, 0 if one holds everything.
    """
    if entities < 2:
        return 0.0
    inside = int(np.sum(np.square(sizes)) - np.sum(sizes))
    return min(1.0, max(0.0, 1.0 - inside / (entities * (entities - 1))))


def project(vectors: Vectors, dimensions: int, seed: int = 0) -> Points:
    """Principal components of some vectors, fitted to a sample where there are many."""
    sample = _sample(len(vectors), seed)
    centred = np.asarray(vectors[sample], dtype=np.float64)
    mean = centred.mean(axis=0)
    centred -= mean
    axes = _axes(centred, dimensions, seed)
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    blocks = [np.asarray(vectors[at : at + SAMPLE], np.float64) for at in range(0, len(vectors), SAMPLE)]
    return np.concatenate([(block - mean) @ axes for block in blocks])


def _axes(centred: Points, dimensions: int, seed: int) -> Points:
    """Principal axes, shape (d, at most `dimensions`), from whichever product is the smaller one.

    Where both are large, from a seeded random subspace after three power steps: exact axes of thousands of
    dimensions cost minutes.
    """
    count, dimension = centred.shape
    wanted = min(dimensions, count, dimension)
    if dimension <= min(count, EXACT):
        return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :wanted])
    if count <= EXACT:
        squares, left = np.linalg.eigh(centred @ centred.T)
        lengths = np.sqrt(np.maximum(squares[::-1][:wanted], 0.0))
        scale = np.where(lengths > _TINY, 1.0 / np.maximum(lengths, _TINY), 0.0)
        return np.asarray(centred.T @ (left[:, ::-1][:, :wanted] * scale))
    basis = np.random.default_rng(seed).standard_normal((dimension, 2 * wanted + 8))
    for _ in range(3):
        basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
    turned = np.linalg.eigh(basis.T @ (centred.T @ (centred @ basis)))[1]
    return np.asarray(basis @ turned[:, ::-1][:, :wanted])


def _sample(count: int, seed: int) -> Rows:
    """Rows to fit a model to: all, or a seeded sample in ascending order."""
    if count <= SAMPLE:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, SAMPLE, replace=False))


def _parts(vectors: Vectors, dimensions: int, seed: int) -> Iterator[Rows]:
    """Rows in parts of at most `LOCAL`, by coarse mixtures within coarse mixtures."""
    waiting = [np.arange(len(vectors))] if len(vectors) else []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= LOCAL:
            yield rows
            continue
        points = project(vectors[rows], dimensions, seed)
        sample = points[_sample(len(points), seed)]
        wanted = ceil(len(points) / LOCAL)
        ladder = [count for count in COARSE if count <= 2 * wanted] or [2 * wanted]
        mixtures = [_fitted(sample, count, seed) for count in ladder]
        best = min(mixtures, key=lambda mixture: mixture.bic(sample))
        blocks = (points[start : start + SAMPLE] for start in range(0, len(points), SAMPLE))
        labels = np.concatenate([best.predict(block) for block in blocks])
        pieces = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        if max(map(len, pieces)) > 0.9 * len(rows):  # no structure: equal parts, so that this ends
            order = np.lexsort((rows, points[:, 0]))
            pieces = np.array_split(order, ceil(len(rows) / LOCAL))
        waiting += [rows[np.sort(piece)] for piece in pieces]


def _split_large(points: Points, labels: Rows, max_size: int) -> Rows:
    """Labels 0, 1, ... of which none has more than `max_size` points: larger ones are halved."""
    waiting = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    homes, count = np.zeros(len(points), np.int64), 0
    while waiting:
        rows = waiting.pop()
        if len(rows) > max_size:
            axis = project(points[rows], 1)[:, 0]
            waiting += np.array_split(rows[np.lexsort((rows, axis))], 2)
            continue
        homes[rows] = count
        count += 1
    return homes


def _soften(points: Points, homes: Rows, max_size: int, threshold: float, most: int) -> list[Rows]:
    """Clusters with their further members; single rows join the likeliest cluster that has room."""
    # The clusters share one covariance: a handful of members does not give one each.
    sizes = np.bincount(homes)
    means = np.stack([np.bincount(homes, column) for column in points.T], axis=1) / sizes[:, None]
    deviations = np.sqrt(((points - means[homes]) ** 2).mean(axis=0) + _floor(points))
    squares = cdist(points / deviations, means / deviations, "sqeuclidean")
    posterior = softmax(np.log(sizes) - squares / 2, axis=1)
    for row in np.flatnonzero(sizes[homes] == 1).tolist():
        if sizes[homes[row]] > 1:  # another one has joined it
            continue
        for label in np.lexsort((np.arange(len(sizes)), -posterior[row])).tolist():
            if label != homes[row] and 0 < sizes[label] < max_size:
                sizes[homes[row]] -= 1
                sizes[label] += 1
                homes[row] = label
                break
    members = [set(np.flatnonzero(homes == label).tolist()) for label in range(len(sizes))]
    belongs = np.ones(len(points), np.int64)
    rows, labels = np.nonzero(posterior >= threshold)
    for place in np.lexsort((labels, rows, -posterior[rows, labels])).tolist():
        row, cluster = int(rows[place]), members[labels[place]]
        if cluster and row not in cluster and len(cluster) < max_size and belongs[row] < most:
            cluster.add(row)
            belongs[row] += 1
    return [np.array(sorted(cluster), np.int64) for cluster in members if cluster]


def _fitted(points: Points, components: int, seed: int) -> GaussianMixture:
    """A mixture with diagonal covariances, fitted in at most `_STEPS` steps from a k-means++ start."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(
        components,
        covariance_type="diag",
        init_params="k-means++",
        max_iter=_STEPS,
        reg_covar=_floor(points),
        random_state=seed,
    )
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(points)


def _floor(points: Points) -> float:
    return _FLOOR * float(points.var(axis=0).mean()) + 1e-12
