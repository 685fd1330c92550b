"""Small communities merged while a bound allows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._edges import Edges, Labels, number


def merge_linked(edges: Edges, labels: Labels, within: Labels, max_size: int) -> Labels:
    """Merge linked communities while modularity gains by it and none exceeds `max_size`.

    Splitting a large community leaves pieces far smaller than the bound, and each would need a summary. In
    each round every community picks the partner of most gain, and the pairs that pick each other merge.

    Parameters
    ----------
    labels
        The communities, numbered.
    within
        Only communities of one label here may merge, shape (nodes,).
    """
    strengths = edges.strengths()
    total = strengths.sum()
    while True:
        sizes, masses = np.bincount(labels), np.bincount(labels, strengths)
        outer = np.empty(len(sizes), dtype=np.int64)
        outer[labels] = within
        links = Edges.of(np.column_stack([labels[edges.low], labels[edges.high]]), edges.weights, len(sizes))
        gains = links.weights - masses[links.low] * masses[links.high] / total
        fits = sizes[links.low] + sizes[links.high] <= max_size
        links = Edges(links.low, links.high, gains, len(sizes)).where(
            fits & (outer[links.low] == outer[links.high]) & (gains > 0)
        )
        if not len(links):
            return labels
        chosen = links.where(_picked_by_both(links))
        target = np.arange(len(sizes))
        target[chosen.high] = chosen.low
        labels = number(target[labels])


def _picked_by_both(links: Edges) -> NDArray[np.bool_]:
    """The links that are the best of both their ends; of equals the first counts."""
    ranks = np.empty(len(links), dtype=np.int64)
    ranks[np.argsort(-links.weights, kind="stable")] = np.arange(len(links))
    best = np.full(links.nodes, len(links))
    np.minimum.at(best, links.low, ranks)
    np.minimum.at(best, links.high, ranks)
    return np.asarray((best[links.low] == ranks) & (best[links.high] == ranks))
