"""Dual search: where a walk begins (paper 001, 2.5 and C.4; ERRATA N5 and N8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.base import Opened, Question
from stratagraph.methods.noderag.config import NodeRAGOptions
from stratagraph.methods.noderag.heterograph import Layout
from stratagraph.pipeline.extraction.by_rules import question_entities
from stratagraph.pipeline.names.index import NameIndex
from stratagraph.pipeline.names.linking import link
from stratagraph.pipeline.walk import NEAR_SHARE
from stratagraph.protocols import Rows
from stratagraph.question import Allowed, Mask

TITLES = 20
"""Titles that a name in the question may match; one that matches more ("the") tells nothing."""


class Entries(NamedTuple):
    """Entry points: nodes, ascending; restart weights; similarities, NaN for those found by name."""

    nodes: Rows
    weights: NDArray[np.float64]
    similarity: NDArray[np.float32]


class DualSearch:
    """Names and titles by whole words, and nodes with much to say by similarity.

    S, A and H follow each other in the numbering, and are searched as one.
    """

    def __init__(self, opened: Opened, layout: Layout) -> None:
        arrays = opened.part.arrays
        self._graph = opened.graph
        self._layout = layout
        self._passages = opened.passages
        self._rich = opened.nearest("entries", arrays["entries.vectors"])
        prefix = "titles."
        self._titles = NameIndex(
            {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)},
            "titles",
        )

    def search(self, question: Question, options: NodeRAGOptions) -> Entries:
        """The entry points of a question, each once.

        Every one has the same restart weight (2.5), but that the candidates for a name which no entity has
        share a part of it. What is not similar at all (a cosine of 0 or less) is no entry point.
        """
        exact, weights = self._exact(question) if options.names else (_NO_NODES, np.zeros(0))
        similar, similarity = self._similar(question, options)
        nodes = np.concatenate([exact, similar])
        shares = np.concatenate([weights, np.ones(len(similar))])
        told = np.concatenate([np.full(len(exact), np.nan, np.float32), similarity])
        order = np.argsort(nodes, kind="stable")
        return Entries(nodes[order], shares[order], told[order])

    def _exact(self, question: Question) -> tuple[Rows, NDArray[np.float64]]:
        """Entities and titles that the question names, with weights."""
        names = question_entities(question.text) if question.entities is None else question.entities
        named, _, near, likeness = link(question.text, self._graph.names, names)
        titles = [self._titles.match(name, TITLES + 1) for name in names]
        titles.append(self._titles.lookup(question.text))
        told = np.unique(np.concatenate([_NO_NODES, *(rows for rows in titles if len(rows) <= TITLES)]))
        entities, overviews = self._layout.first("N"), self._layout.first("O")
        nodes = np.concatenate([entities + named, entities + near, overviews + told])
        ones = np.ones(len(named)), NEAR_SHARE * likeness, np.ones(len(told))
        _, kept = np.unique(nodes, return_index=True)
        return nodes[kept], np.concatenate(ones)[kept]

    def _similar(self, question: Question, options: NodeRAGOptions) -> tuple[Rows, NDArray[np.float32]]:
        """The admitted nodes of the entry types that are most similar to the question."""
        k, types = options.similar, options.entry_types
        chunks = None if question.allowed is None else question.allowed.chunks
        found = [(_NO_NODES, np.zeros(0, np.float32))]
        rich = [kind for kind in "SAH" if kind in types]
        if k and rich:
            rows, scores = self._rich.search(question.vector, k, self._rich_mask(rich, question.allowed))
            found.append((self._layout.first("S") + rows, scores))
        if k and "T" in types:
            found.append(self._passages.search(question.vector, k, chunks))
        nodes, similarity = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((nodes, -similarity))[:k]
        order = order[similarity[order] > 0]
        return nodes[order], similarity[order]

    def _rich_mask(self, kinds: Sequence[str], allowed: Allowed | None) -> Mask | None:
        """Which of S, A and H, one after the other, are of some types and admitted; None: all."""
        first = self._layout.first("S")
        if len(kinds) == 3:
            wanted = None
        else:
            wanted = np.zeros(self._layout.first("O") - first, np.bool_)
            for kind in kinds:
                start = self._layout.first(kind) - first
                wanted[start : start + self._layout.count(kind)] = True
        if allowed is None:
            return wanted
        own = self._layout.first("O") - self._layout.first("A")
        passing = np.concatenate([allowed.graph[first - self._layout.first("N") :], allowed.nodes[:own]])
        return passing if wanted is None else wanted & passing


_NO_NODES: Rows = np.zeros(0, np.int64)
