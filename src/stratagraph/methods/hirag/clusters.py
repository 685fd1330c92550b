"""Clusters of a layer: found by mixtures, or updated from the clusters of the previous index.

A refitted mixture changes nearly all clusters, and every changed cluster is summarised again. So an update
keeps the previous clusters: members that still exist stay, empty clusters are dropped, and a new member joins
a cluster to which it is as similar as the median member, or forms a cluster with other new members. The
number of new clusters keeps the mean size of a cluster. Remaining members join the nearest cluster, unless
they are farther from its centre than all its members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels._blas import one_thread
from stratagraph.kernels.float16 import blocks
from stratagraph.kernels.mixture import soft_clusters
from stratagraph.kernels.ranges import ranges, split
from stratagraph.methods.hirag.config import HiRAGConfig
from stratagraph.pipeline.before import recognised_lists
from stratagraph.pipeline.carryover import Keys, lookup, needs_reclustering
from stratagraph.pipeline.drift import Drift, Measures
from stratagraph.protocols import Rows, Stored, Vectors
from stratagraph.records import content_key

IDS = "clusters.ids"
"""Arrays: ids of clusters as two numbers, 0 for a cluster of one member; settings that texts depend on."""
_COMPARED = 256  # members that are compared with all clusters at a time
_TOGETHER = 1024  # vectors that fit into a cache
_SMALLEST = 3  # a cluster of at most so many members is not halved


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of one layer.

    Attributes
    ----------
    members
        For each cluster the ascending places of its members in the layer.
    lineages
        The key of each cluster, which updates keep when members come or go.
    """

    members: Sequence[Rows]
    lineages: Keys


class PreviousClusters:
    """The clusters of the previous index, layer by layer."""

    def __init__(self, previous: Stored | None) -> None:
        self._arrays: Mapping[str, NDArray[Any]] = {} if previous is None else previous.arrays

    def layer(self, level: int, keys: Keys) -> Clusters | None:
        """The clusters of a layer with those members that still exist, by their `keys`; None without any.

        A cluster that lost all members, or all but one, is dropped. One that lost some gets a key of the
        members that are left, so that no hash of a deleted name stays.
        """
        if not self._arrays:
            return None
        indptr, of_layer = self._arrays["clusters.indptr"], self._arrays["clusters.levels"] == level
        rows, sizes = np.flatnonzero(of_layer), np.diff(indptr)[of_layer]
        places = lookup(self._arrays["clusters.members"][ranges(indptr[rows], sizes)], keys)
        numbers = np.repeat(np.arange(len(rows)), sizes)[places >= 0]
        places = places[places >= 0]
        left = np.bincount(numbers, minlength=len(rows))
        stays = (left > 1) | (left == sizes)
        order = np.lexsort((places, numbers))
        order = order[stays[numbers[order]]]
        groups = split(places[order], left[stays])
        if not groups:
            return None
        lineages, lost = self._arrays["clusters.lineages"][rows[stays]], (left < sizes)[stays]
        return Clusters(groups, _renewed(lineages, np.flatnonzero(lost), groups, keys))


class KnownClusters:
    """Recognises clusters of the previous index whose members have the same texts."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays

    def rows(
        self, level: int, members: tuple[Rows, Rows], lineages: Keys, keys: Keys, told: NDArray[np.bool_]
    ) -> Rows:
        """The previous row of each cluster of a layer, or -1.

        Parameters
        ----------
        members, lineages
            Entities of each cluster, as indptr and rows, and its key.
        keys, told
            Of all entities: the key, and whether the entity's text is unchanged.
        """
        rows = np.flatnonzero(self._arrays["clusters.levels"] == level) if self._arrays else ()
        if not len(lineages) or not len(rows):
            return np.full(len(lineages), -1, np.int64)
        found = lookup(lineages, self._arrays["clusters.lineages"][rows])
        before = self._arrays["clusters.indptr"], self._arrays["clusters.members"]
        return recognised_lists(members, keys, told, np.where(found >= 0, rows[found], -1), before)

    def ids(self, rows: Rows) -> Keys:
        """The ids of previous clusters, shape (rows, 2)."""
        found: Keys = self._arrays[IDS][rows] if self._arrays else np.zeros((0, 2), np.uint64)
        return found


def cluster(
    vectors: Vectors, keys: Keys, previous: Clusters | None, config: HiRAGConfig, drift: Drift, level: int
) -> Clusters:
    """The clusters of a layer whose members have these vectors and keys.

    If the updated clusters have drifted from new ones (`pipeline.drift`), they are resized to the new
    number of clusters; if that does not help, the new clusters are taken.
    """
    name, count = f"layer{level}", len(keys)
    known, before = np.zeros(count, np.bool_), previous or Clusters([], np.zeros(0, np.uint64))
    known[np.concatenate([np.zeros(0, np.int64), *before.members])] = True

    @cache
    def anew() -> Clusters:
        return _anew(vectors, keys, config)

    @cache
    def updated() -> Clusters:
        return _updated(vectors, keys, before, np.flatnonzero(~known), config)

    def as_many() -> Clusters:
        return _resized(vectors, keys, updated(), len(anew().members), config)

    ways: list[Callable[[], Clusters]] = [] if needs_reclustering(known) else [updated, as_many]
    settled: Clusters = drift.settled(name, count, ways, anew, partial(_measured, vectors))
    return settled


def _anew(vectors: Vectors, keys: Keys, config: HiRAGConfig) -> Clusters:
    groups = _mixture(np.asarray(vectors), config)
    return Clusters(groups, _lineages(groups, keys, ()))


def _resized(vectors: Vectors, keys: Keys, found: Clusters, wanted: int, config: HiRAGConfig) -> Clusters:
    """`wanted` clusters: the smallest are dissolved or the largest halved, the others stay.

    Members of dissolved clusters that are in no other cluster join the nearest cluster that has room.
    """
    order = sorted(range(len(found.members)), key=lambda place: -len(found.members[place]))[:wanted]
    kept, lineages = [found.members[place] for place in order], found.lineages[order]
    groups, fit = list(kept), _Fit(vectors, kept)
    homeless = np.setdiff1d(np.arange(len(keys)), np.concatenate(kept))
    anywhere = np.full(len(kept), -1.0)
    founded = [np.array([row]) for row in fit.left(homeless, groups, anywhere, config)]
    halved: list[int] = []
    for place in range(min(wanted - len(groups) - len(founded), len(groups))):
        if len(groups[place]) > _SMALLEST:
            groups[place], rest = _halved(vectors, groups[place])
            founded.append(rest)
            halved.append(place)
    lineages = _renewed(lineages, np.array(halved, np.int64), groups, keys)
    lineages = np.concatenate([lineages, _lineages(founded, keys, lineages.tolist())])
    return _in_order([*_grown(kept, groups), *founded], lineages)


def _halved(vectors: Vectors, rows: Rows) -> tuple[Rows, Rows]:
    """The members on either side of the median along their principal axis."""
    centred = vectors[rows] - vectors[rows].mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    side = rows[np.argsort(centred @ axis, kind="stable")]
    half = len(side) // 2
    return np.sort(side[half:]), np.sort(side[:half])


def _grown(before: Sequence[Rows], now: Sequence[Rows]) -> list[Rows]:
    """The clusters `now`, with the changed ones in ascending order again."""
    return [rows if rows is own else np.sort(rows) for own, rows in zip(before, now, strict=True)]


def _in_order(members: Sequence[Rows], lineages: Keys) -> Clusters:
    """Clusters in the lexicographic order of their members, then of their keys."""
    sizes = np.array([len(rows) for rows in members], np.int64)
    table = np.full((int(sizes.max(initial=0)), len(members)), -1, np.int64)
    numbers = np.repeat(np.arange(len(members)), sizes)
    table[ranges(np.zeros(len(sizes), np.int64), sizes), numbers] = np.concatenate(members)
    order = np.lexsort((lineages, *table[::-1]))
    return Clusters([members[place] for place in order.tolist()], lineages[order])


def _measured(vectors: Vectors, found: Clusters) -> Measures:
    """The number of clusters, and the mean cosine of members to their cluster's centre."""
    sizes = [len(rows) for rows in found.members]
    lengths = np.linalg.norm(_sums(vectors, found.members), axis=1)  # the sum of the members' cosines
    return np.array([[len(sizes), float(lengths.sum(dtype=np.float64)) / sum(sizes)]])


def _sums(vectors: Vectors, groups: Sequence[Rows]) -> NDArray[np.float32]:
    """The sum of each group's vectors, shape (groups, dimension)."""
    flat = np.concatenate(groups)
    numbers = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    by_row = np.argsort(flat, kind="stable")
    ones = np.ones(len(flat), np.float32)
    members = csr_array((ones, (flat[by_row], numbers[by_row])), shape=(len(vectors), len(groups)))
    found = np.zeros((len(groups), vectors.shape[1]), np.float32)
    for start, block in blocks(vectors):
        found += members[start : start + len(block)].T @ block
    return found


def arrays(layers: Sequence[Clusters], ids: Sequence[Keys], keys: Sequence[Keys]) -> dict[str, NDArray[Any]]:
    """The arrays that `PreviousClusters` and `KnownClusters` read; `keys` are of each layer's members."""
    none = np.zeros(0, np.uint64)
    members = [each[np.concatenate(layer.members)] for layer, each in zip(layers, keys, strict=True)]
    sizes = [len(rows) for layer in layers for rows in layer.members]
    levels = np.repeat(np.arange(len(layers)), [len(layer.members) for layer in layers])
    return {
        "clusters.levels": levels.astype(np.int16),
        "clusters.lineages": np.concatenate([none, *(layer.lineages for layer in layers)]),
        "clusters.indptr": np.cumsum([0, *sizes], dtype=np.int64),
        "clusters.members": np.concatenate([none, *members]),
        IDS: np.concatenate([none.reshape(0, 2), *ids]),
    }


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


def _updated(vectors: Vectors, keys: Keys, previous: Clusters, new: Rows, config: HiRAGConfig) -> Clusters:
    """The previous clusters with the new members that fit, and clusters of the other new members."""
    if not len(new):
        return _in_order(previous.members, previous.lineages)
    groups, fit = list(previous.members), _Fit(vectors, previous.members)
    left = fit.left(new, groups, fit.typical, config)
    founded: list[Rows] = []
    if left:
        rows = np.array(left, np.int64)
        wanted = len(previous.members) * len(new) / (len(keys) - len(new))
        # A hash of the new keys rounds it, so that many small updates found as many clusters as a large one.
        most = int(wanted + int(keys[new].min()) / 2**64)
        placed = np.zeros(len(keys), np.bool_)
        for group in sorted(_mixture(vectors[rows], config), key=len, reverse=True):
            apart = rows[group]
            if len(group) == 1 or len(founded) >= most:
                apart = np.array(fit.left(apart[~placed[apart]], groups, fit.least, config), np.int64)
            if len(apart):
                founded.append(apart)
            placed[rows[group]] = True
    lineages = np.concatenate([previous.lineages, _lineages(founded, keys, previous.lineages.tolist())])
    return _in_order([*_grown(previous.members, groups), *founded], lineages)


class _Fit:
    """Centres of clusters, and the `typical` (median) and `least` similarity of their members to them."""

    def __init__(self, vectors: Vectors, groups: Sequence[Rows]) -> None:
        self._vectors = vectors
        sizes = np.array([len(rows) for rows in groups], np.int64)
        flat, starts = np.concatenate(groups), np.cumsum(sizes) - sizes
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        by_row = np.argsort(flat, kind="stable")
        centres = _sums(vectors, groups)
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        self._centres = centres / np.where(lengths > 0, lengths, 1)
        near = np.empty(len(flat), np.float32)
        borders = np.searchsorted(flat[by_row], np.arange(len(vectors) + 1))
        for start, block in blocks(vectors, _TOGETHER):
            some = by_row[borders[start] : borders[start + len(block)]]
            near[some] = np.einsum("ij,ij->i", block[flat[some] - start], self._centres[numbers[some]])
        self.least = np.minimum.reduceat(near, starts)
        ordered = near[np.lexsort((near, numbers))]
        self.typical = (ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2]) / 2

    def left(
        self, rows: Rows, groups: list[Rows], bounds: NDArray[np.floating], config: HiRAGConfig
    ) -> list[int]:
        """Add rows to the most similar cluster with room whose bound they reach; return the other rows."""
        found: list[int] = []
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
                    found.append(row)
        return found


def _renewed(lineages: Keys, places: Rows, groups: Sequence[Rows], keys: Keys) -> Keys:
    """The keys of clusters, those at `places` derived again from the members that they have now."""
    renewed = lineages.copy()
    renewed[places] = _lineages([groups[place] for place in places.tolist()], keys, lineages.tolist())
    return renewed


def _lineages(groups: Sequence[Rows], keys: Keys, taken: Sequence[int]) -> Keys:
    """A key for each new cluster, derived from its members' keys; different from those `taken`."""
    used = set(taken)
    made = []
    for rows in groups:
        first = [str(each) for each in sorted(keys[rows].tolist())]
        lineage = content_key(*first)
        while lineage in used:
            lineage = content_key(str(lineage), *first)
        used.add(lineage)
        made.append(lineage)
    return np.array(made, np.uint64)
