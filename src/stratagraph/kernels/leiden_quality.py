"""Leiden by the quality functions of the package leidenalg, which is GPL."""

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

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`.
    quality
        `cpm`: the constant Potts model (Traag, Van Dooren and Nesterov 2011), at a density that is the whole
        graph's times `resolution`. `significance` (Traag, Krings and Van Dooren 2013): the improbability of
        such dense communities in a random graph, without weights. `surprise` (Traag, Aldecoa and Delvenne
        2015): the improbability of so much weight within communities.
    max_size
        No community is larger.

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
