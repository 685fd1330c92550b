"""The arrays of a tree, checked once when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.groups import check_nodes
from stratagraph.methods.lshtree.build import CHUNK_TIES, CODES, TIES
from stratagraph.pipeline.checks import Checks, damage
from stratagraph.pipeline.drift import DRIFT
from stratagraph.pipeline.graph import Graph


def check_arrays(arrays: Mapping[str, NDArray[Any]], graph: Graph, chunks: int, dimension: int) -> None:
    """Whether the arrays fit each other and a corpus of so many chunks; the graph is that of all methods.

    Raises
    ------
    Damaged
        If an array is missing, has another dtype or shape, or holds what leads nowhere; it is named.
    """
    with damage("lshtree"):
        checks = Checks(arrays)
        nodes = check_nodes(checks, chunks, dimension)
        levels = checks.of("levels", np.int16, (nodes,))
        steps = np.diff(levels, prepend=np.int16(0))  # nodes are numbered level by level, from 1
        if nodes and (levels[0] != 1 or not np.isin(steps, (0, 1)).all()):
            raise ValueError("array 'levels' does not ascend from 1 by steps of 1")
        checks.csr("children", max(chunks, nodes), nodes)
        checks.of(CHUNK_TIES, np.uint64, (chunks,))
        checks.of(TIES, np.uint64, (nodes,))
        checks.of(CODES, np.uint64, (nodes, None))
        checks.rows(DRIFT, 2**62, (1,))
        checks.nearest("nodes", nodes, dimension)
