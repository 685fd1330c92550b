"""One ranking of entry points and cross nodes (ERRATA N9), and the passages behind them.

The paper returns the union of both without an order. By mass every entry point would come before any cross
node, because it keeps its own restart share. So a node is scored by the mass that it received from others and
by its similarity to the question, both relative to the best:

    score = (1 - SIMILARITY) * received / best received of its type + SIMILARITY * cosine / best cosine.

The types take turns by their shares. Each gives its best node after a discount for passages that better
results rest on already,

    score * (1 - REPEATED * its passages that better results rest on / its passages).

The paper's whole union comes with a large `k` and `fill=False`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.ranges import ranges
from stratagraph.methods.base import Opened
from stratagraph.methods.noderag.heterograph import Layout
from stratagraph.types.protocols import Rows, Vectors

SIMILARITY = 0.5
"""Part of a score that is similarity."""
SHARES = {"T": 0.4, "S": 0.3, "A": 0.1, "H": 0.1, "R": 0.1}
"""Of the types in the results. Chosen on 40 questions of musique_train100 with given triples, and kept when
`REPEATED` was chosen: with half of them for T, or without R, no more than .007 is gained on any data set."""
REPEATED = 0.75
"""What is taken off a score where better results rest on all the passages behind it.

Among 0, 0.5, 0.75 and 1 it is best by answers in 1,000 and 2,000 tokens and by the gold passages behind ten
hits, whichever of musique_train100, hotpotqa_train100 and 2wiki_dev164 is left out. On musique_train100 with
given triples ten hits rest on .80 of the gold passages, with 0 on .73, the entry points alone on .78; .81 of
them are cross nodes.
"""

_Mass = NDArray[np.float32]


class Similarity:
    """How similar nodes are to a question. A relation, which has no vector, is as similar as its passages."""

    def __init__(self, opened: Opened, layout: Layout) -> None:
        self._layout = layout
        self._texts = opened.corpus.vectors
        self._rich: Vectors = opened.part.arrays["entries.vectors"]
        self._indptr, self._indices = opened.graph.sources

    def of(self, nodes: Rows, query: Vectors) -> NDArray[np.float32]:
        """Cosines, shape (nodes,), at least 0; nodes are of the types T, R, S, A and H."""
        similarity = np.zeros(len(nodes), np.float32)
        texts, rich = nodes < self._layout.first("N"), nodes >= self._layout.first("S")
        similarity[texts] = self._texts[nodes[texts]] @ query
        similarity[rich] = self._rich[nodes[rich] - self._layout.first("S")] @ query
        relations = np.flatnonzero(~texts & ~rich)
        similarity[relations] = self._of_passages(nodes[relations] - self._layout.first("N"), query)
        return np.maximum(similarity, 0.0)

    def _of_passages(self, rows: Rows, query: Vectors) -> NDArray[np.float32]:
        """The cosine of the most similar passage behind each row of the graph; every row has one."""
        if not len(rows):
            return np.zeros(0, np.float32)
        starts, counts = self._indptr[rows], self._indptr[rows + 1] - self._indptr[rows]
        passages, place = np.unique(self._indices[ranges(starts, counts)], return_inverse=True)
        cosines = (self._texts[passages] @ query)[place]
        return np.maximum.reduceat(cosines, np.cumsum(counts) - counts).astype(np.float32)


def received(nodes: Rows, mass: _Mass, entries: Rows, weights: NDArray[np.float64], restart: float) -> _Mass:
    """What each node holds beside its own share of the restart, shape (nodes,); entries ascend."""
    at = np.searchsorted(entries, nodes).clip(max=len(entries) - 1)
    shares = np.where(entries[at] == nodes, weights[at] / weights.sum(), 0.0)
    return np.maximum(mass - restart * shares, 0.0).astype(np.float32)


def blended(gained: _Mass, similarity: NDArray[np.float32], kinds: NDArray[np.int8]) -> NDArray[np.float32]:
    """The score of each node, from 0 to 1, shape (nodes,)."""
    best = np.zeros(int(kinds.max(initial=0)) + 1, np.float32)
    np.maximum.at(best, kinds, gained)
    share = np.divide(gained, best[kinds], out=np.zeros_like(gained), where=best[kinds] > 0)
    likeness = similarity / max(float(similarity.max(initial=0.0)), 1e-6)
    return ((1 - SIMILARITY) * share + SIMILARITY * likeness).astype(np.float32)


def diverse(
    scores: NDArray[np.float32],
    kinds: NDArray[np.int8],
    shares: Mapping[int, float],
    rests: NDArray[np.bool_],
    k: int,
) -> Rows:
    """The places of the `k` results, best first: types in turn, each with the best after the discount.

    `shares` are those of the types, in proportion; a type that is not named has none. `rests` tells which
    passages each node rests on, shape (nodes, passages), one at least.
    """
    own = {kind: np.flatnonzero(kinds == kind) for kind in shares}
    ahead = np.concatenate([(1 + np.arange(len(own[kind]))) / share for kind, share in shares.items()])
    turns = np.repeat(list(shares), [len(places) for places in own.values()])
    told = np.zeros(rests.shape[1], np.bool_)
    repeated, sizes = np.zeros(len(scores)), np.maximum(rests.sum(axis=1), 1)
    order = []
    for kind in turns[np.argsort(ahead, kind="stable")[:k]].tolist():
        left = own[kind]
        at = int(np.argmax(scores[left] * (1 - REPEATED * repeated[left] / sizes[left])))
        own[kind] = np.delete(left, at)
        order.append(int(left[at]))
        new = rests[left[at]] & ~told
        told |= new
        repeated += rests[:, new].sum(axis=1)
    return np.array(order, np.int64)


def best(places: Rows, nodes: Rows, scores: _Mass, limit: int) -> Rows:
    """The places with the highest scores, of equals the lower nodes."""
    if len(places) > limit > 0:
        least = np.partition(scores[places], len(places) - limit)[len(places) - limit]
        places = places[scores[places] >= least]
    return places[np.lexsort((nodes[places], -scores[places]))[:limit]]


_Sources = tuple[Rows, Rows]


class Support:
    """The passages behind nodes, from the sources of the graph's rows and of the method's own nodes."""

    def __init__(self, layout: Layout, graph: _Sources, own: _Sources) -> None:
        self._layout = layout
        self._graph = graph
        self._own = own

    def rests(self, nodes: Rows) -> NDArray[np.bool_]:
        """Which passages are behind each node of the types T, R, S, A and H, a text behind itself.

        Shape (nodes, passages that are behind any of them).
        """
        texts, own = self._layout.first("N"), self._layout.first("A")
        place = np.flatnonzero(nodes < texts)
        behind = [(place, nodes[place])]
        of_graph = np.flatnonzero((nodes >= texts) & (nodes < own))
        for place, first, (indptr, indices) in (
            (of_graph, texts, self._graph),
            (np.flatnonzero(nodes >= own), own, self._own),
        ):
            starts = indptr[nodes[place] - first]
            counts = indptr[nodes[place] - first + 1] - starts
            passages = indices[ranges(starts, counts)].astype(np.int64)
            behind.append((np.repeat(place, counts), passages))
        places, passages = (np.concatenate(column) for column in zip(*behind, strict=True))
        distinct, column = np.unique(passages, return_inverse=True)
        rests = np.zeros((len(nodes), len(distinct)), np.bool_)
        rests[places, column] = True
        return rests
