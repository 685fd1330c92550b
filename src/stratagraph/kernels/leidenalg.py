"""Leiden communities by the quality functions of leidenalg (Traag, Waltman and van Eck, 2019)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.edges import Edges, Labels, number

Quality = Literal["modularity", "CPM", "RBER", "significance", "surprise"]
QUALITIES: tuple[Quality, ...] = get_args(Quality)
WITHOUT_RESOLUTION: tuple[Quality, ...] = ("significance", "surprise")


def communities(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    quality: Quality = "modularity",
    resolution: float = 1.0,
    iterations: int = 2,
    seed: int = 0,
) -> Labels:
    """Communities that maximise a quality.

    Parameters
    ----------
    ends, weights
        Edges as for `leiden`. The significance is that of the graph without weights.
    quality
        `modularity` (Reichardt and Bornholdt's, for a resolution other than 1), `CPM` (Traag, Van Dooren and
        Nesterov, 2011), `RBER` (Reichardt and Bornholdt, 2006), `significance` (Traag, Krings and Van Dooren,
        2013), or `surprise` (Traag, Aldecoa and Delvenne, 2015).
    resolution
        Of the first three; larger values make more and smaller communities.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member. Sizes are not bounded.

    Raises
    ------
    ValueError
        If the edges are not valid.
    """
    import igraph
    import leidenalg

    edges = Edges.of(ends, weights, nodes)
    if not len(edges):
        return np.arange(nodes, dtype=np.int64)
    kinds = {"modularity": leidenalg.RBConfigurationVertexPartition}
    kind = kinds.get(quality) or getattr(leidenalg, f"{quality[0].upper()}{quality[1:]}VertexPartition")
    options: dict[str, Any] = {} if quality == "significance" else {"weights": edges.weights.tolist()}
    if quality not in WITHOUT_RESOLUTION:
        options["resolution_parameter"] = resolution
    graph = igraph.Graph(n=nodes, edges=edges.pairs())
    found = leidenalg.find_partition(graph, kind, n_iterations=iterations, seed=seed, **options)
    return number(np.asarray(found.membership, np.int64))
