"""The engine behind Leiden: igraph (GPL), whose random numbers are made the call's own."""

from __future__ import annotations

import random

import numpy as np

from stratagraph._locks import Lock
from stratagraph.kernels._edges import Edges, Labels, Weights

_ITERATIONS = 2
_ITERATIONS_IF_SMALL = 3
_SMALL = 100_000
"""Up to so many edges a third iteration costs little; above, it finds next to nothing."""

_ONE_AT_A_TIME = Lock()


def optimise(edges: Edges, masses: Weights, resolution: float, initial: Labels | None, seed: int) -> Labels:
    """A partition that maximises sum over communities of (weight inside - resolution * pairs of masses).

    Parameters
    ----------
    masses
        Mass of each node, shape (nodes,): its strength over sqrt(2m) makes it modularity, 1 makes it CPM.
    initial
        Labels to start from, none negative; None: each node alone.
    """
    if not len(edges):
        return np.arange(edges.nodes, dtype=np.int64)
    import igraph

    graph = igraph.Graph(n=edges.nodes, edges=edges.pairs())
    # igraph draws from one generator per process, and by default from Python's own.
    with _ONE_AT_A_TIME:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            found = graph.community_leiden(
                objective_function="CPM",
                weights=edges.weights.tolist(),
                node_weights=masses.tolist(),
                resolution=resolution,
                initial_membership=None if initial is None else initial.tolist(),
                n_iterations=_ITERATIONS_IF_SMALL if len(edges) <= _SMALL else _ITERATIONS,
            )
        finally:
            igraph.set_random_number_generator(random)
    return np.asarray(found.membership, dtype=np.int64)
