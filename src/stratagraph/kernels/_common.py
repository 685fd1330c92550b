"""How many neighbours the two ends of each edge share, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.kernels._edges import Edges, Labels

_BLOCK = 4_000_000
_SKEW = 16
"""Looking a node up costs about as much as this many steps of merging two sorted neighbourhoods."""


def common_neighbours(edges: Edges) -> Labels:
    """The number of nodes adjacent to both ends of each edge, shape (edges,).

    Two neighbourhoods of about the same size are merged. Where one end is a hub, the neighbours of the
    other are looked up among the hub's: the cost of an edge is that of its smaller end.
    """
    matrix, degrees = edges.matrix(), edges.degrees()
    matrix.sort_indices()
    matrix.data = np.ones(len(matrix.data), dtype=np.int32)
    swap = degrees[edges.low] > degrees[edges.high]
    few, many = np.where(swap, edges.high, edges.low), np.where(swap, edges.low, edges.high)
    skewed = degrees[many] > _SKEW * degrees[few]
    found = np.zeros(len(edges), dtype=np.int64)
    for chosen, count, costs in (
        (np.flatnonzero(~skewed), _merged, degrees[few] + degrees[many]),
        (np.flatnonzero(skewed), _looked_up, degrees[few]),
    ):
        for block in _blocks(chosen, costs[chosen]):
            found[block] = count(matrix, few[block], many[block])
    return found


def _merged(matrix: csr_array, few: Labels, many: Labels) -> Labels:
    return np.asarray(matrix[few].multiply(matrix[many]).sum(axis=1), dtype=np.int64)


def _looked_up(matrix: csr_array, few: Labels, many: Labels) -> Labels:
    nodes = matrix.shape[0]
    hubs, place = np.unique(many, return_inverse=True)
    wide, narrow = matrix[hubs], matrix[few]
    keys = np.repeat(np.arange(len(hubs)), np.diff(wide.indptr)) * nodes + wide.indices
    owner = np.repeat(np.arange(len(few)), np.diff(narrow.indptr))
    wanted = place[owner] * nodes + narrow.indices
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.bincount(owner[keys[at] == wanted], minlength=len(few))


def _blocks(chosen: Labels, costs: NDArray[np.integer]) -> list[Labels]:
    """The chosen edges in runs of about equal cost."""
    cuts = np.flatnonzero(np.diff(np.cumsum(costs) // _BLOCK, prepend=0))
    return [part for part in np.split(chosen, cuts) if len(part)]
