"""From mass on the heterograph to mass on its passages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.ranges import ranges
from stratagraph.methods.noderag.heterograph import Layout
from stratagraph.protocols import Rows

_Sources = tuple[Rows, Rows]
MOST_NODES = 300
"""Nodes whose mass is brought to their passages; those that follow hold next to nothing."""


class Support:
    """A passage is supported by what came from it: units, relations, attributes and high-level elements.

    Parameters
    ----------
    graph, own
        Sources of the rows of the graph and of the method's own nodes, as compressed rows.
    """

    def __init__(self, layout: Layout, graph: _Sources, own: _Sources) -> None:
        self._layout = layout
        self._graph = graph
        self._own = own

    def rests(self, nodes: Rows) -> NDArray[np.bool_]:
        """Which passages nodes of the types T, R, S, A and H came from, a text from itself.

        Shape (nodes, passages that are behind any of them).
        """
        texts, own = self._layout.first("N"), self._layout.first("A")
        places = [
            np.flatnonzero(nodes < texts),
            np.flatnonzero((nodes >= texts) & (nodes < own)),
            np.flatnonzero(nodes >= own),
        ]
        of_graph, graph_counts = _behind(nodes[places[1]] - texts, self._graph)
        of_own, own_counts = _behind(nodes[places[2]] - own, self._own)
        behind = np.concatenate([nodes[places[0]], of_graph, of_own])
        passages, column = np.unique(behind, return_inverse=True)
        rows = [places[0], np.repeat(places[1], graph_counts), np.repeat(places[2], own_counts)]
        found = np.zeros((len(nodes), len(passages)), np.bool_)
        found[np.concatenate(rows), column] = True
        return found

    def passages(self, nodes: Rows, mass: NDArray[np.float32]) -> tuple[Rows, NDArray[np.float64]]:
        """Passages, ascending, with their own mass and equal shares of that of what they support."""
        texts = self._layout.first("N")
        kept = (nodes < texts) | ((nodes >= self._layout.first("R")) & (nodes < self._layout.first("O")))
        nodes, held = nodes[kept], mass[kept].astype(np.float64)
        if len(nodes) > MOST_NODES:
            best = np.lexsort((nodes, -held))[:MOST_NODES]
            nodes, held = nodes[best], held[best]
        own = self._layout.first("A")
        places = [nodes < texts, (nodes >= texts) & (nodes < own), nodes >= own]
        parts = [
            (nodes[places[0]], held[places[0]]),
            _spread(nodes[places[1]] - texts, held[places[1]], self._graph),
            _spread(nodes[places[2]] - own, held[places[2]], self._own),
        ]
        rows = np.concatenate([part[0] for part in parts])
        found, place = np.unique(rows, return_inverse=True)
        total = np.bincount(place, np.concatenate([part[1] for part in parts]), len(found))
        return found, total.astype(np.float64)


def _spread(rows: Rows, mass: NDArray[np.float64], sources: _Sources) -> tuple[Rows, NDArray[np.float64]]:
    """The sources of some rows, with each row's mass in equal shares."""
    behind, counts = _behind(rows, sources)
    return behind, np.repeat(mass / np.maximum(counts, 1), counts)


def _behind(rows: Rows, sources: _Sources) -> tuple[Rows, Rows]:
    """The sources of some rows, one row after the other, and how many each has."""
    indptr, indices = sources
    starts = indptr[rows]
    counts = indptr[rows + 1] - starts
    return indices[ranges(starts, counts)].astype(np.int64), counts
