"""The arrays of C-HNSW over all levels: built, brought up to date, and opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.chnsw import CHNSW
from stratarag.methods.archrag.config import ArchRAGConfig
from stratarag.methods.base import Stored
from stratarag.protocols import Rows, Vectors

INDEX = "index."
"""Prefix of the arrays of C-HNSW, in which nodes have an order of their own."""
CHANGES = "index_changes"
"""Name of the array with the number of nodes that C-HNSW has lost or gained since it was built."""
_MOST_CHANGES = 0.5
"""These, as a part of all nodes, up to which it is brought up to date: up to there recall is tested."""

Arrays = Mapping[str, NDArray[Any]]


def index_arrays(
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
    previous: Stored | None,
) -> dict[str, NDArray[Any]]:
    """C-HNSW over all levels as arrays. Nodes of zero vectors are left out; `zeros<level>` are their rows.

    It keeps codes alone: the graph and the communities have the vectors by which results are scored. What a
    previous one has keeps its links, until too much has changed since that was built.
    """
    zeros = [np.flatnonzero(~np.any(vectors, axis=1)) for vectors in layers]
    found = (
        None if previous is None else _brought_up_to_date(previous.arrays, layers, children, config, threads)
    )
    index, changes = found or (
        CHNSW.build(
            layers,
            children,
            codes=config.codes,
            keep_vectors=False,
            links=config.links,
            breadth=config.breadth,
            ef=config.ef,
            mode=config.mode,
            seed=config.seed,
            threads=threads,
        ),
        0,
    )
    arrays: dict[str, NDArray[Any]] = {CHANGES: np.array([changes], np.int64)}
    for level, rows in enumerate(zeros):
        arrays[f"zeros{level}"] = rows
        if len(rows):
            index.delete(level, rows)
    return arrays | {INDEX + name: np.asarray(array) for name, array in index.arrays().items()}


def opened(arrays: Arrays) -> CHNSW:
    """C-HNSW from the arrays of ArchRAG's part."""
    named = {name.removeprefix(INDEX): np.asarray(arrays[name]) for name in arrays if name.startswith(INDEX)}
    return CHNSW.from_arrays(named)


def _brought_up_to_date(
    previous: Arrays,
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
) -> tuple[CHNSW, int] | None:
    """The previous C-HNSW with these layers, and its changes; None if it has to be built anew.

    That is where levels came or went, settings changed, or too many nodes did.
    """
    if CHANGES not in previous:
        return None
    before = opened(previous)
    told = before.options
    same = (told.codes, told.links, told.breadth, told.pool, told.mode, told.seed) == (
        config.codes,
        config.links,
        config.breadth,
        config.ef,
        config.mode,
        config.seed,
    )
    if not same or len(before) != len(layers) or before.dimension != layers[0].shape[1]:
        return None
    index, changed = before.revised(layers, children, threads=threads)
    zeros = sum(int(np.count_nonzero(~np.any(vectors, axis=1))) for vectors in layers)
    changes = int(previous[CHANGES][0]) + sum(changed) - zeros
    return (index, changes) if changes <= _MOST_CHANGES * sum(map(len, layers)) else None
