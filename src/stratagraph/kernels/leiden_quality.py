"""Leiden by other quality functions than modularity: those of the package leidenalg, which is GPL."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import MissingExtra
from stratagraph.kernels._edges import Edges, Labels, number

Quality = Literal["cpm", "significance", "surprise"]


def leiden_quality(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    quality: Quality,
    resolution: float = 1.0,
    max_size: int = 15,
    seed: int = 0,
) -> Labels:
    """Leiden's partition (Traag, Waltman and van Eck 2019) by a quality function.

    `cpm`: the constant Potts model (Traag, Van Dooren and Nesterov 2011), the weight within communities
    beyond what their pairs of nodes have at a density: that of the whole graph times `resolution`.
    `significance` (Traag, Krings and Van Dooren 2013): how improbable so dense communities are in a random
    graph; without weights. `surprise` (Traag, Aldecoa and Delvenne 2015): how improbable so much weight
    within them is.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    nodes
        Number of nodes.
    quality
        One of the three.
    resolution
        Of `cpm`: twice as much asks for communities of twice the density. The others have none.
    max_size
        No community is larger.
    seed
        Of the order in which nodes are moved.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member.

    Raises
    ------
    ValueError
        If the edges are not valid.
    MissingExtra
        If leidenalg is not installed.
    """
    try:
        import leidenalg
    except ImportError as error:
        raise MissingExtra("leidenalg", "leidenalg") from error
    import igraph

    edges = Edges.of(ends, weights, nodes)
    if not len(edges):
        return np.arange(nodes)
    graph = igraph.Graph(nodes, edges.pairs())
    given: dict[str, Any] = {}
    if quality == "cpm":
        density = edges.weights.sum() / (nodes * (nodes - 1) / 2)
        given = {"weights": edges.weights.tolist(), "resolution_parameter": resolution * density}
    elif quality == "surprise":
        given = {"weights": edges.weights.tolist()}
    kinds = {
        "cpm": leidenalg.CPMVertexPartition,
        "significance": leidenalg.SignificanceVertexPartition,
        "surprise": leidenalg.SurpriseVertexPartition,
    }
    found = leidenalg.find_partition(graph, kinds[quality], max_comm_size=max_size, seed=seed, **given)
    return number(np.array(found.membership, np.int64))
