"""Clusters of a layer: found anew by mixtures, or brought up to date from those of the previous index.

A refitted mixture changes nearly all clusters, and every changed cluster is summarised again. So an update
keeps the previous clusters: members that still exist stay, empty clusters are dropped, and a new member joins
a cluster that it is as similar to as the members are, or forms new clusters with other new members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.mixture import soft_clusters
from stratarag.methods.hirag.config import HiRAGConfig
from stratarag.pipeline.carryover import Keys, key, lookup, needs_reclustering
from stratarag.protocols import Rows, Stored, Vectors

_OF_TEXTS = ("meta_types", "summary_tokens", "report_tokens")  # settings that partitions do not depend on


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of one layer.

    Attributes
    ----------
    members
        Ascending places in the layer, for each cluster.
    lineages
        The key of each cluster, which it keeps across updates whatever members it loses or gains.
    """

    members: Sequence[Rows]
    lineages: Keys


class PreviousClusters:
    """The clusters of the previous index, layer by layer."""

    def __init__(self, previous: Stored | None, config: HiRAGConfig) -> None:
        self._arrays = previous.arrays if previous is not None and same_settings(previous, config) else {}

    def layer(self, level: int, keys: Keys) -> Clusters | None:
        """What is left of the clusters of a layer whose members have these keys; None if nothing is.

        A cluster without any member left is dropped, and so is one that shrank to a single member.
        """
        if not self._arrays:
            return None
        indptr = self._arrays["clusters.indptr"]
        places = lookup(self._arrays["clusters.members"], keys)
        groups: list[Rows] = []
        lineages: list[int] = []
        for row in np.flatnonzero(self._arrays["clusters.levels"] == level).tolist():
            before = places[indptr[row] : indptr[row + 1]]
            found = np.sort(before[before >= 0])
            if len(found) > 1 or len(found) == len(before):
                groups.append(found)
                lineages.append(int(self._arrays["clusters.lineages"][row]))
        return Clusters(groups, np.array(lineages, np.uint64)) if groups else None


def cluster(vectors: Vectors, keys: Keys, previous: Clusters | None, config: HiRAGConfig) -> Clusters:
    """The clusters of a layer whose members have these vectors and keys."""
    if previous is not None:
        known = np.zeros(len(keys), np.bool_)
        known[np.concatenate(previous.members)] = True
        if not needs_reclustering(known):
            return _updated(vectors, keys, previous, np.flatnonzero(~known), config)
    groups = _mixture(vectors, config)
    return Clusters(groups, _lineages(groups, keys, ()))


def arrays(layers: Sequence[Clusters], keys: Sequence[Keys], config: HiRAGConfig) -> dict[str, NDArray[Any]]:
    """What `PreviousClusters` reads; `keys` are those of each layer's members."""
    groups = [each[rows] for layer, each in zip(layers, keys, strict=True) for rows in layer.members]
    return {
        "clusters.settings": np.array([_settings(config)], np.uint64),
        "clusters.levels": np.repeat(np.arange(len(layers)), [len(layer.members) for layer in layers]).astype(
            np.int16
        ),
        "clusters.lineages": np.concatenate([np.zeros(0, np.uint64), *(layer.lineages for layer in layers)]),
        "clusters.indptr": np.cumsum([0, *map(len, groups)], dtype=np.int64),
        "clusters.members": np.concatenate([np.zeros(0, np.uint64), *groups]),
    }


def same_settings(previous: Stored, config: HiRAGConfig) -> bool:
    """Whether these settings made the previous clusters and communities, so that an update may keep them."""
    return int(previous.arrays["clusters.settings"][0]) == _settings(config)


def _settings(config: HiRAGConfig) -> int:
    return key(
        *(
            repr((each.name, getattr(config, each.name)))
            for each in fields(config)
            if each.name not in _OF_TEXTS
        )
    )


def _mixture(vectors: Vectors, config: HiRAGConfig) -> list[Rows]:
    return soft_clusters(
        vectors,
        target=config.cluster_size,
        max_size=config.max_cluster,
        threshold=config.threshold,
        most=config.memberships,
        dimensions=config.dimensions,
        reduction=config.reduction,
        seed=config.seed,
    )


def _updated(vectors: Vectors, keys: Keys, previous: Clusters, new: Rows, config: HiRAGConfig) -> Clusters:
    """The previous clusters with those new members that fit in, and clusters of the other new members."""
    groups = [rows.tolist() for rows in previous.members]
    fit = _Fit(vectors, previous.members)
    left = [row for row in new.tolist() if not fit.join(row, groups, fit.typical, config)]
    founded: list[Rows] = []
    if left:
        rows = np.array(left, np.int64)
        for group in _mixture(vectors[rows], config):
            if len(group) > 1 or not fit.join(int(rows[group[0]]), groups, fit.least, config):
                founded.append(rows[group])
    lineages = np.concatenate([previous.lineages, _lineages(founded, keys, previous.lineages.tolist())])
    members = [np.array(sorted(rows), np.int64) for rows in groups] + founded
    order = sorted(range(len(members)), key=lambda place: (members[place].tolist(), int(lineages[place])))
    return Clusters([members[place] for place in order], lineages[order])


class _Fit:
    """The centres of clusters, and how similar members are to them: `typical` (median) and `least`."""

    def __init__(self, vectors: Vectors, groups: Sequence[Rows]) -> None:
        self._vectors = vectors
        centres = np.stack([vectors[rows].mean(axis=0) for rows in groups])
        lengths = np.linalg.norm(centres, axis=1, keepdims=True)
        self._centres = centres / np.where(lengths > 0, lengths, 1.0)
        near = [vectors[rows] @ centre for rows, centre in zip(groups, self._centres, strict=True)]
        self.typical = np.array([np.median(each) for each in near])
        self.least = np.array([each.min() for each in near])

    def join(
        self, row: int, groups: Sequence[list[int]], bounds: NDArray[np.floating], config: HiRAGConfig
    ) -> bool:
        """Put a row into the nearest cluster that has room and whose bound it reaches, if there is one."""
        similarity = self._centres @ self._vectors[row]
        places = np.flatnonzero(similarity >= bounds)
        for place in places[np.argsort(-similarity[places], kind="stable")].tolist():
            if 1 < len(groups[place]) < config.max_cluster:
                groups[place].append(row)
                return True
        return False


def _lineages(groups: Sequence[Rows], keys: Keys, taken: Sequence[int]) -> Keys:
    """A key for each new cluster, from the keys of its first members; none is among those `taken`."""
    used = set(taken)
    made = []
    for rows in groups:
        first = [str(each) for each in sorted(keys[rows].tolist())]
        lineage = key(*first)
        while lineage in used:
            lineage = key(str(lineage), *first)
        used.add(lineage)
        made.append(lineage)
    return np.array(made, np.uint64)
