"""Clusters of a layer: found anew by mixtures, or grown from those of the previous index.

A refitted mixture moves everything, and every cluster that moved is summarised again. So an update keeps
the clusters there are: members that are still there stay, emptied clusters vanish, and what is new joins a
cluster that it resembles as much as the members do, or forms new clusters with the rest of what is new.

Nothing stored here holds a name: members are known again by 64 bits of a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.mixture import soft_clusters
from stratarag.methods.hirag.config import HiRAGConfig
from stratarag.protocols import Rows, Stored, Vectors

Keys = NDArray[np.uint64]
FRESH_SHARE = 1 / 3
"""Share of new members from which a layer is clustered anew."""
_OF_TEXTS = ("meta_types", "summary_tokens", "report_tokens")  # settings that partitions do not depend on


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of one layer.

    `members` are ascending places in the layer. `lineages` identify a cluster across updates, whatever
    members it loses or gains.
    """

    members: Sequence[Rows]
    lineages: Keys


def key(*parts: str) -> int:
    """64 bits that stand for some text."""
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class History:
    """The clusters of the previous index, layer by layer."""

    def __init__(self, previous: Stored | None, config: HiRAGConfig) -> None:
        self._arrays = previous.arrays if previous is not None and same_settings(previous, config) else {}

    def layer(self, level: int, keys: Keys) -> Clusters | None:
        """What is left of the clusters of a layer, in places of members with these keys; None: nothing.

        A cluster whose members all left is left out, and so is one that shrank to a single member.
        """
        if not self._arrays:
            return None
        chosen = np.flatnonzero(self._arrays["clusters.levels"] == level)
        indptr, stored = self._arrays["clusters.indptr"], self._arrays["clusters.members"]
        order = np.argsort(keys, kind="stable")
        groups: list[Rows] = []
        lineages: list[int] = []
        for row in chosen.tolist():
            wanted = stored[indptr[row] : indptr[row + 1]]
            at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
            found = order[at][keys[order[at]] == wanted]
            if len(found) > 1 or len(found) == len(wanted):
                groups.append(np.sort(found).astype(np.int64))
                lineages.append(int(self._arrays["clusters.lineages"][row]))
        return Clusters(groups, np.array(lineages, np.uint64)) if groups else None


def cluster(vectors: Vectors, keys: Keys, before: Clusters | None, config: HiRAGConfig) -> Clusters:
    """The clusters of a layer whose members have these vectors and keys."""
    if before is not None:
        known = np.zeros(len(keys), np.bool_)
        known[np.concatenate(before.members)] = True
        fresh = np.flatnonzero(~known)
        if len(fresh) <= FRESH_SHARE * len(keys):
            return _grown(vectors, keys, before, fresh, config)
    groups = _found(vectors, config)
    return Clusters(groups, _lineages(groups, keys, ()))


def arrays(layers: Sequence[Clusters], keys: Sequence[Keys], config: HiRAGConfig) -> dict[str, NDArray[Any]]:
    """What `History` reads; `keys` are those of each layer's members."""
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
    """Whether clusters and communities were made as they would be now; others are no place to start from."""
    return int(previous.arrays["clusters.settings"][0]) == _settings(config)


def _settings(config: HiRAGConfig) -> int:
    return key(
        *(
            repr((each.name, getattr(config, each.name)))
            for each in fields(config)
            if each.name not in _OF_TEXTS
        )
    )


def _found(vectors: Vectors, config: HiRAGConfig) -> list[Rows]:
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


def _grown(vectors: Vectors, keys: Keys, before: Clusters, fresh: Rows, config: HiRAGConfig) -> Clusters:
    """The former clusters with those new members that belong there; new clusters of the others."""
    groups = [rows.tolist() for rows in before.members]
    shape = _Shape(vectors, before.members)
    waiting = [row for row in fresh.tolist() if not shape.join(row, groups, shape.typical, config)]
    new: list[list[int]] = []
    if waiting:
        rows = np.array(waiting, np.int64)
        for group in _found(vectors[rows], config):
            members = rows[group].tolist()
            if len(members) > 1 or not shape.join(members[0], groups, shape.least, config):
                new.append(members)
    kept = before.lineages.tolist()
    fresh_groups = [np.array(rows, np.int64) for rows in new]
    lineages = np.concatenate([before.lineages, _lineages(fresh_groups, keys, kept)])
    members = [np.array(sorted(rows), np.int64) for rows in groups] + fresh_groups
    order = sorted(range(len(members)), key=lambda place: (members[place].tolist(), int(lineages[place])))
    return Clusters([members[place] for place in order], lineages[order])


class _Shape:
    """Where clusters lie, and how near to their centre their members are."""

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
        fits = similarity >= bounds
        for place in np.lexsort((np.arange(len(groups)), -similarity)).tolist():
            if fits[place] and 1 < len(groups[place]) < config.max_cluster:
                groups[place].append(row)
                return True
            if not fits[place] and not fits.any():
                return False
        return False


def _lineages(groups: Sequence[Rows], keys: Keys, taken: Sequence[int]) -> Keys:
    """An identity for each new cluster, from its first members."""
    used = set(taken)
    made = []
    for rows in groups:
        name = [str(each) for each in sorted(keys[rows].tolist())]
        identity = key(*name)
        while identity in used:
            identity = key(str(identity), *name)
        used.add(identity)
        made.append(identity)
    return np.array(made, np.uint64)
