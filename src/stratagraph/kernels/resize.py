"""Partitions changed to a wanted number of communities, with as few changes as possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._edges import Edges, Labels, number
from stratagraph.kernels.leiden import leiden
from stratagraph.kernels.ranges import distinct


def resized(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    labels: NDArray[np.integer],
    wanted: int,
    *,
    max_size: int | None = None,
) -> Labels:
    """Labels of about `wanted` communities: the largest are split, or the smallest joined; the others stay.

    A community is split by Leiden on its own subgraph, in parts of at most half its size, and joined with the
    one to which it has most weight. The number is missed where communities have no edges between them, or a
    split gives more than two parts.

    Arguments and results are as for `leiden`; no joined community becomes larger than `max_size`.
    """
    edges = Edges.of(ends, weights, len(labels))
    found = number(labels)
    count = len(distinct(found))
    if count < wanted:
        return _split(edges, found, wanted - count)
    return _joined(edges, found, count - wanted, max_size)


def _split(edges: Edges, labels: Labels, missing: int) -> Labels:
    found = labels.copy()
    sizes = np.bincount(labels)
    for community in np.argsort(-sizes, kind="stable").tolist():
        if missing <= 0 or sizes[community] < 2:
            break
        rows = np.flatnonzero(labels == community)
        pairs, weights = edges.pairs(), edges.weights
        inside = (labels[pairs] == community).all(axis=1)
        own = np.searchsorted(rows, pairs[inside])
        parts = leiden(own, weights[inside], len(rows), max_size=(len(rows) + 1) // 2)
        found[rows[parts > 0]] = found.max() + parts[parts > 0]
        missing -= int(parts.max())
    return number(found)


def _joined(edges: Edges, labels: Labels, spare: int, max_size: int | None) -> Labels:
    found = labels.copy()
    sizes = np.bincount(labels)
    pairs, weights = edges.pairs(), edges.weights
    for community in np.argsort(sizes, kind="stable").tolist():
        if spare <= 0:
            break
        own = found[pairs]
        touching = (own == community).any(axis=1) & (own[:, 0] != own[:, 1])
        others = own[touching].sum(axis=1) - community
        shared = np.bincount(others, weights[touching], minlength=len(sizes))
        if max_size is not None:
            shared[sizes + sizes[community] > max_size] = 0
        if shared.max(initial=0) > 0:
            best = int(np.argmax(shared))
            found[found == community] = best
            sizes[best] += sizes[community]
            sizes[community] = 0
            spare -= 1
    return number(found)
