"""Clusters of a layer: found by mixtures, or updated from the clusters of the previous index.

A refitted mixture changes nearly all clusters, and every changed cluster is summarised again. So an update
keeps the previous clusters: members that still exist stay, empty clusters are dropped, and a new member joins
a cluster to which it is as similar as the median member, or forms a cluster with other new members. The
number of new clusters keeps the mean size of a cluster. Remaining members join the nearest cluster, unless
they are farther from its centre than all its members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.ingest.carryover import Keys, needs_reclustering
from stratagraph.kernels.blas import one_thread
from stratagraph.kernels.float16 import blocks
from stratagraph.kernels.mixture import soft_clusters
from stratagraph.kernels.ranges import borders, order, ranges, split
from stratagraph.methods.drift import Drift, Measures
from stratagraph.methods.hirag.config import HiRAGConfig
from stratagraph.types.built import Arrays, Holds
from stratagraph.types.protocols import Rows, Stored, Vectors
from stratagraph.types.records import content_key

IDS = "clusters.ids"
"""The array of the ids of clusters, which are marks of their members; 0 for a cluster of one member."""
_COMPARED = 256  # members that are compared with all clusters at a time
_TOGETHER = 1024  # vectors that fit into a cache
_SMALLEST = 3  # a cluster of at most so many members is not halved


class Clusters(NamedTuple):
    """The clusters of one layer: ascending places of cluster i are `rows[indptr[i]:indptr[i + 1]]`."""

    indptr: Rows
    rows: Rows
    before: Rows  # the row among all previous clusters of the one that each goes on from, or -1

    @classmethod
    def of(cls, groups: Sequence[Rows], before: Rows | None = None) -> Clusters:
        """From the members of each cluster; without `before`, all are new."""
        rows = np.concatenate([np.zeros(0, np.int64), *groups])
        rows_before = np.full(len(groups), -1, np.int64) if before is None else before
        return cls(np.cumsum([0, *map(len, groups)], dtype=np.int64), rows, rows_before)

    @property
    def sizes(self) -> Rows:
        """The number of members of each cluster."""
        return np.diff(self.indptr)

    def groups(self) -> list[Rows]:
        """The members of each cluster."""
        return split(self.rows, self.sizes)


def previous_clusters(previous: Stored | None, level: int, now: Rows, count: int) -> Clusters | None:
    """The clusters of a layer of the previous index with those members that still exist; None without any.

    `now` holds the place in the layer of each entity of the previous index, or -1; the layer has `count`
    places. A cluster that lost all members, or all but one, is dropped.
    """
    if previous is None:
        return None
    indptr, of_layer = previous.arrays["clusters.indptr"], previous.arrays["clusters.levels"] == level
    rows, sizes = np.flatnonzero(of_layer), np.diff(indptr)[of_layer]
    places = now[previous.arrays["clusters.members"][ranges(indptr[rows], sizes)]]
    numbers = np.repeat(np.arange(len(rows)), sizes)
    left = np.bincount(numbers[places >= 0], minlength=len(rows))
    stays = (left > 1) | (left == sizes)
    places_left = np.flatnonzero((places >= 0) & stays[numbers])
    if not len(places_left):
        return None
    places_left = places_left[order(places[places_left], count)]
    places_left = places_left[order(numbers[places_left], len(rows))]
    return Clusters(borders(left[stays]), places[places_left], rows[stays])


def cluster(
    vectors: Vectors, previous: Clusters | None, config: HiRAGConfig, drift: Drift, level: int
) -> Clusters:
    """The clusters of a layer whose members have these vectors.

    If the updated clusters have drifted from fresh ones (`methods.drift`), they are resized to the number of
    these; if that does not help, the fresh clusters are taken.
    """
    name, count = f"layer{level}", len(vectors)
    in_previous, before = np.zeros(count, np.bool_), previous or Clusters.of([])
    in_previous[before.rows] = True

    @cache
    def fresh() -> Clusters:
        return Clusters.of(_mixture(np.asarray(vectors), config))

    @cache
    def updated() -> Clusters:
        return _updated(vectors, before, np.flatnonzero(~in_previous), config)

    def as_many() -> Clusters:
        return _resized(vectors, updated(), len(fresh().before), config)

    ways: list[Callable[[], Clusters]] = [] if needs_reclustering(in_previous) else [updated, as_many]
    clusters: Clusters = drift.choose(name, count, ways, fresh, partial(_measured, vectors))
    return clusters


def _resized(vectors: Vectors, clusters: Clusters, wanted: int, config: HiRAGConfig) -> Clusters:
    """`wanted` clusters: the smallest are dissolved or the largest halved, the others stay.

    Members of dissolved clusters that are in no other cluster join the nearest cluster that has room.
    """
    largest = np.argsort(-clusters.sizes, kind="stable")[:wanted]
    every, before = clusters.groups(), clusters.before[largest]
    groups = [every[place] for place in largest.tolist()]
    homeless = np.setdiff1d(np.arange(len(vectors)), np.concatenate(groups))
    fit, anywhere = _Fit(vectors, Clusters.of(groups)), np.full(len(groups), -1.0)
    founded = [np.array([row]) for row in fit.left(homeless, groups, anywhere, config)]
    for place in range(min(wanted - len(groups) - len(founded), len(groups))):
        if len(groups[place]) > _SMALLEST:
            centred = vectors[groups[place]] - vectors[groups[place]].mean(axis=0)
            axis = np.linalg.svd(centred, full_matrices=False)[2][0]
            side = groups[place][np.argsort(centred @ axis, kind="stable")]  # cut at the median
            groups[place], rest = np.sort(side[len(side) // 2 :]), np.sort(side[: len(side) // 2])
            founded.append(rest)
            before[place] = -1
    return _in_order(_grown(groups, before, founded))


def _grown(groups: Sequence[Rows], before: Rows, founded: Sequence[Rows]) -> Clusters:
    """The clusters of `groups`, which may have lost the order of their rows, and the `founded` ones."""
    grown = [np.sort(rows) for rows in groups]
    return Clusters.of([*grown, *founded], np.concatenate([before, np.full(len(founded), -1)]))


def _in_order(clusters: Clusters) -> Clusters:
    """Clusters in the lexicographic order of their members."""
    sizes = clusters.sizes
    table = np.full((int(sizes.max(initial=0)), len(sizes)), -1, np.int64)
    table[ranges(np.zeros(len(sizes), np.int64), sizes), np.repeat(np.arange(len(sizes)), sizes)] = (
        clusters.rows
    )
    by = np.lexsort(table[::-1])
    rows = clusters.rows[ranges(clusters.indptr[by], sizes[by])]
    return Clusters(borders(sizes[by]), rows, clusters.before[by])


def _measured(vectors: Vectors, clusters: Clusters) -> Measures:
    """The number of clusters, and the mean cosine of members to their cluster's centre."""
    lengths = np.linalg.norm(_sums(vectors, clusters), axis=1)  # the sum of the members' cosines
    return np.array([[len(clusters.before), float(lengths.sum(dtype=np.float64)) / len(clusters.rows)]])


def _sums(vectors: Vectors, clusters: Clusters) -> NDArray[np.float32]:
    """The sum of each cluster's vectors, shape (clusters, dimension)."""
    shape, ones = (len(clusters.before), len(vectors)), np.ones(len(clusters.rows), np.float32)
    members = csr_array((ones, clusters.rows, clusters.indptr), shape=shape).tocsc().T
    sums = np.zeros((shape[0], vectors.shape[1]), np.float32)
    for start, block in blocks(vectors):
        sums += members[start : start + len(block)].T @ block
    return sums


def arrays(layers: Sequence[Clusters], ids: Sequence[Keys], members: Sequence[Rows]) -> Arrays:
    """The arrays that updates read; `members` are the entities of each layer."""
    none = np.zeros(0, np.int64)
    rows = [each[layer.rows] for layer, each in zip(layers, members, strict=True)]
    levels = np.repeat(np.arange(len(layers)), [len(layer.before) for layer in layers])
    indptr = np.cumsum(np.concatenate([[0], *(layer.sizes for layer in layers)]), dtype=np.int64)
    all_members = np.concatenate([none, *rows]).astype(np.int32)
    return (
        Holds.ROWS.of({"clusters.indptr": indptr, "clusters.members": all_members})
        | Holds.MEASURES.of({"clusters.levels": levels.astype(np.int16)})
        | Holds.CONTENT.of({IDS: np.concatenate([np.zeros((0, 2), np.uint64), *ids])})
    )


def _mixture(vectors: Vectors, config: HiRAGConfig) -> list[Rows]:
    return soft_clusters(
        vectors,
        target=config.cluster_size,
        max_size=config.max_cluster,
        threshold=config.threshold,
        most=config.memberships,
        dimensions=config.dimensions,
        seed=config.seed,
    )


def _updated(vectors: Vectors, previous: Clusters, new: Rows, config: HiRAGConfig) -> Clusters:
    """The previous clusters with the new members that fit, and clusters of the other new members."""
    if not len(new):
        return _in_order(previous)
    groups, fit = previous.groups(), _Fit(vectors, previous)
    wanted = len(groups) * len(new) / (len(vectors) - len(new))  # as large as the previous ones
    left = fit.left(new, groups, fit.typical, config)
    founded: list[Rows] = []
    if left:
        rows = np.array(left, np.int64)
        # A hash of a new vector rounds it, so that many small updates found as many clusters as a large one.
        most = int(wanted + content_key(np.asarray(vectors[new[:1]], np.float32).tobytes()) / 2**64)
        placed = np.zeros(len(vectors), np.bool_)
        together = [np.arange(len(rows))]  # so few need no mixture, whose package takes a second to load
        if len(rows) > config.max_cluster:
            together = sorted(_mixture(vectors[rows], config), key=len, reverse=True)
        for group in together:
            apart = rows[group]
            if len(group) == 1 or len(founded) >= most:
                apart = np.array(fit.left(apart[~placed[apart]], groups, fit.least, config), np.int64)
            if len(apart):
                founded.append(apart)
            placed[rows[group]] = True
    return _in_order(_grown(groups, previous.before, founded))


class _Fit:
    """Centres of clusters, and the `typical` (median) and `least` similarity of their members to them."""

    def __init__(self, vectors: Vectors, clusters: Clusters) -> None:
        self._vectors = vectors
        centres = _sums(vectors, clusters)
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        self._centres = centres / np.where(lengths > 0, lengths, 1)
        sizes, starts = clusters.sizes, clusters.indptr[:-1]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        near = np.empty(len(clusters.rows), np.float32)
        for start in range(0, len(near), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            near[some] = np.einsum("ij,ij->i", vectors[clusters.rows[some]], self._centres[numbers[some]])
        self.least = np.minimum.reduceat(near, starts)
        ordered = near[np.lexsort((near, numbers))]
        self.typical = (ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2]) / 2

    def left(
        self, rows: Rows, groups: list[Rows], bounds: NDArray[np.floating], config: HiRAGConfig
    ) -> list[int]:
        """Add rows to the most similar cluster with room whose bound they reach; return the other rows."""
        left_over: list[int] = []
        for start in range(0, len(rows), _COMPARED):
            some = rows[start : start + _COMPARED]
            with one_thread():
                near = self._vectors[some] @ self._centres.T
            for row, similarity in zip(some.tolist(), near, strict=True):
                places = np.flatnonzero(similarity >= bounds)
                for place in places[np.argsort(-similarity[places], kind="stable")].tolist():
                    if 1 < len(groups[place]) < config.max_cluster:
                        groups[place] = np.append(groups[place], row)
                        break
                else:
                    left_over.append(row)
        return left_over
