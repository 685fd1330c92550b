"""The sources of nodes as two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.protocols import Rows
from stratagraph.records import Carried, Node


def compressed_sources(nodes: Sequence[Node] | Carried, size: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The sources of all nodes as row pointers and chunk rows.

    Raises
    ------
    ValueError
        If a node's sources are not ascending rows below `size`.
    """
    if isinstance(nodes, Carried):
        indptr, indices = nodes.indptr, nodes.indices
    else:
        indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
        np.cumsum(np.fromiter((len(node.sources) for node in nodes), np.int64, len(nodes)), out=indptr[1:])
        indices = np.fromiter(chain.from_iterable(node.sources for node in nodes), np.int64, int(indptr[-1]))
    wrong = (indices < 0) | (indices >= size)
    wrong[1:] |= np.diff(indices) <= 0
    starts = indptr[:-1][np.diff(indptr) > 0]
    wrong[starts] = (indices[starts] < 0) | (indices[starts] >= size)  # a node's first has none before it
    if wrong.any():
        row = int(np.searchsorted(indptr, np.flatnonzero(wrong)[0], side="right")) - 1
        node = f"node {row}" if isinstance(nodes, Carried) else f"node {nodes[row].id!r}"
        found = indices[indptr[row] : indptr[row + 1]].tolist()[:10]
        raise ValueError(f"{node}: sources must be ascending rows below {size}, not {found}")
    return indptr, indices.astype(np.int32 if size < 2**31 else np.int64)


def first_sources(indptr: NDArray[np.int64], indices: NDArray[Any]) -> Rows:
    """The first source of each node; nodes without any sort last."""
    found = np.full(len(indptr) - 1, np.iinfo(np.int64).max, np.int64)
    some = np.diff(indptr) > 0
    found[some] = indices[indptr[:-1][some]]
    return found
