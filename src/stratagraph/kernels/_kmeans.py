"""k-means, repeated until no cluster is larger than a bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from stratagraph.kernels.edges import Edges, Labels, number, parts

BRANCHES = 16
"""Maximum number of clusters of one division, so that no step costs O(n^2 / max_size)."""

_STEPS = 20
_SAME = 1e-12

Points = Callable[[Labels, int], NDArray[np.float64]]


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
    found = 0
    while waiting:
        members = waiting.pop()
        pieces = _divided(members, points, max_size, rng) if len(members) > max_size else [members]
        if len(pieces) > 1:
            waiting.extend(pieces[::-1])
            continue
        divided[members] = found
        found += 1
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
