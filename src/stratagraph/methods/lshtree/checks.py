"""The arrays of a tree, checked once when it is opened."""

from __future__ import annotations

import numpy as np

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.methods.drift import DRIFT
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.lshtree.build import CHUNK_TIES, CODES, TIES


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other and the number of chunks. The graph is not used."""
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
