"""The arrays of C-HNSW over all levels: built, brought up to date, and opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.chnsw import CHNSW
from stratagraph.kernels.chnsw_options import Options
from stratagraph.methods.archrag.config import ArchRAGConfig
from stratagraph.methods.base import Stored
from stratagraph.types.protocols import Rows, Vectors

INDEX = "index."
"""Prefix of the arrays of C-HNSW, in which nodes have an order of their own."""
CHANGES = "index_changes"
"""Name of the array with the number of nodes that C-HNSW has lost or gained since it was built."""
ZEROS = "zeros"
"""Prefix of the arrays of the rows of zero vectors, by level."""
_MOST_CHANGES = 0.5
"""These, as a part of all nodes, up to which it is brought up to date: up to there recall is tested."""

Arrays = Mapping[str, NDArray[Any]]


def is_measure(array: str) -> bool:
    """Whether an array of C-HNSW tells only which nodes are there, and how their codes are scaled."""
    return array.startswith(INDEX) and array.endswith((".alive", ".bounds", ".scales"))


def index_arrays(
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    config: ArchRAGConfig,
    threads: int,
    previous: Stored | None,
    rows: Sequence[Rows] | None,
) -> dict[str, NDArray[Any]]:
    """C-HNSW over all levels as arrays, without zero vectors, whose rows are `zeros<level>`.

    It stores codes only; results are scored by the vectors of graph and communities. Links of the previous
    index are kept until too much has changed since it was built. `rows` hold, for each level, the previous
    row of each vector that is the same, or -1; such vectors are not read.
    """
    arrays_before: Arrays = {} if previous is None else previous.arrays
    known = rows or [np.full(len(vectors), -1, np.int64) for vectors in layers]
    zeros = [
        zero_rows(vectors, own, arrays_before.get(f"{ZEROS}{level}"))
        for level, (vectors, own) in enumerate(zip(layers, known, strict=True))
    ]
    gone = sum(map(len, zeros))
    options = Options(
        codes=config.codes,
        keep_vectors=False,
        links=config.links,
        breadth=config.breadth,
        ef=config.ef,
        mode=config.mode,
        seed=config.seed,
    )
    updated = _brought_up_to_date(arrays_before, layers, children, rows, options, threads, gone)
    index, changes = updated or (
        CHNSW.build([np.asarray(vectors) for vectors in layers], children, options, threads=threads),
        0,
    )
    arrays: dict[str, NDArray[Any]] = {CHANGES: np.array([changes], np.int64)}
    for level, each in enumerate(zeros):
        arrays[f"{ZEROS}{level}"] = each
        if len(each):
            index.delete(level, each)
    return arrays | {INDEX + name: np.asarray(array) for name, array in index.arrays().items()}


def zero_rows(vectors: Vectors, known: Rows, before: Rows | None) -> Rows:
    """The rows of zero vectors; those that are `known` are zero where they were `before`."""
    if before is None:
        known = np.full(len(vectors), -1, np.int64)
        before = known[:0]
    new = np.flatnonzero(known < 0)
    zero = np.isin(known, before)
    zero[new] = ~np.any(np.asarray(vectors[new]), axis=1)
    return np.flatnonzero(zero)


def opened(arrays: Arrays) -> CHNSW:
    """C-HNSW from the arrays of ArchRAG's part."""
    named = {name.removeprefix(INDEX): np.asarray(arrays[name]) for name in arrays if name.startswith(INDEX)}
    return CHNSW.from_arrays(named)


def _brought_up_to_date(
    previous: Arrays,
    layers: Sequence[Vectors],
    children: Sequence[Rows],
    rows: Sequence[Rows] | None,
    options: Options,
    threads: int,
    zeros: int,
) -> tuple[CHNSW, int] | None:
    """The previous C-HNSW updated to these layers, and its number of changes; None if it must be rebuilt.

    It is built anew if levels, settings or too many nodes changed. The `zeros` nodes of zero vectors, added
    and then deleted, do not count as changes.
    """
    if rows is None or CHANGES not in previous:
        return None
    before = opened(previous)
    if before.options != options or len(before) != len(layers) or before.dimension != layers[0].shape[1]:
        return None
    index, changed = before.revised(layers, children, rows, threads=threads)
    changes = int(previous[CHANGES][0]) + sum(changed) - zeros
    return (index, changes) if changes <= _MOST_CHANGES * sum(map(len, layers)) else None
