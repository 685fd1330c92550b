"""Searching the heterograph: entry points, a shallow walk, cross nodes (paper 001, 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.extraction.by_rules import question_entities
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.names.linking import linked_once
from stratagraph.kernels.checks import check_range
from stratagraph.kernels.ppr import shallow_pagerank
from stratagraph.kernels.topk import joined
from stratagraph.methods.base import Description, Opened, Question, Ranking
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.noderag.attributes import SOURCES
from stratagraph.methods.noderag.config import RETRIEVABLE, TYPES, NodeRAGOptions
from stratagraph.methods.noderag.heterograph import CELLS, KINDS, SIMILAR, Heterograph, Kind, Layout
from stratagraph.methods.noderag.inputs import BORDERS, ELEMENT_LABELS, MEMBERS
from stratagraph.methods.noderag.ranking import SHARES, Similarity, Support, best, blended, diverse, received
from stratagraph.search.ranking import concatenate, first
from stratagraph.search.walk import NEAR_SHARE
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Allowed, Mask
from stratagraph.types.records import Metadata

_Mass = NDArray[np.float32]


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
        named, _, near, likeness = linked_once(question, self._graph.names)
        titles = [self._titles.match(name, TITLES + 1) for name in names]
        titles.append(np.unique(self._titles.find(question.text).rows))
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
        parts = []
        rich = [kind for kind in "SAH" if kind in types]
        if k and rich:
            rows, scores = self._rich.search(question.vector, k, self._rich_mask(rich, question.allowed))
            parts.append((self._layout.first("S") + rows, scores))
        if k and "T" in types:
            parts.append(self._passages.search(question.vector, k, chunks))
        nodes, similarity = joined(parts, k)
        return nodes[similarity > 0], similarity[similarity > 0]

    def _rich_mask(self, kinds: Sequence[str], allowed: Allowed | None) -> Mask | None:
        """Which of S, A and H, one after the other, are of some types and admitted; None: all."""
        first = self._layout.first("S")
        if len(kinds) == 3:
            wanted = None
        else:
            wanted = np.zeros(self._layout.first("O") - first, np.bool_)
            wanted[self._layout.nodes("".join(kinds)) - first] = True
        if allowed is None:
            return wanted
        own = self._layout.first("O") - self._layout.first("A")
        passing = np.concatenate([allowed.graph[first - self._layout.first("N") :], allowed.nodes[:own]])
        return passing if wanted is None else wanted & passing


_NO_NODES: Rows = np.zeros(0, np.int64)


class _Candidates(NamedTuple):
    """Nodes that may be retrieved, with what ranks them; all but `rests` of shape (nodes,).

    `rests` tells which passages each came from, shape (nodes, passages).
    """

    nodes: Rows
    mass: _Mass
    gained: _Mass
    kinds: NDArray[np.int8]
    scores: _Mass
    rests: NDArray[np.bool_]


class HeterographSearcher:
    """An opened heterograph."""

    def __init__(self, opened: Opened) -> None:
        self._heterograph = Heterograph(opened.part.arrays)
        self._layout = self._heterograph.layout
        self._entries = DualSearch(opened, self._layout)
        self._similarity = Similarity(opened, self._layout)
        self._support = Support(self._layout, opened.graph.sources, opened.sources)

    def nodes(self, question: Question) -> Ranking:
        """Entry points and cross nodes (`ranking`); in mode `entry` the entry points alone."""
        options: NodeRAGOptions = question.options
        if options.mode == "entry":
            return first(self._entry_points(question, options), question.k)
        return self._retrieval(question, options)

    def describe(self) -> Description:
        """The paper's Table 4: nodes by type, edges of similarity and others."""
        return Description(self._heterograph.counts(), self._heterograph.edge_counts())

    def _retrieval(self, question: Question, options: NodeRAGOptions) -> Ranking:
        """Section 2.5: the retrievable ones of entry points and of the best cross nodes of each type."""
        entries = question.once(self, "entries", lambda: self._entries.search(question, options))
        if not len(entries.nodes):
            return concatenate([])
        candidates = question.once(self, "candidates", lambda: self._candidates(entries, question, options))
        wanted = [kind for kind in options.types or RETRIEVABLE if kind != "T" or not question.mixed]
        shares = {TYPES.index(kind): SHARES[kind] for kind in wanted}
        order = diverse(candidates.scores, candidates.kinds, shares, candidates.rests, question.k)
        measured = zip(candidates.mass[order].tolist(), candidates.gained[order].tolist(), strict=True)
        told = [{"mass": mass, "received": gained} for mass, gained in measured]
        return self._found(
            entries, candidates.nodes[order], np.minimum.accumulate(candidates.scores[order]), told
        )

    def _candidates(self, entries: Entries, question: Question, options: NodeRAGOptions) -> _Candidates:
        """All rows that may be retrieved, before the number of results is applied."""
        nodes, mass = question.once(self, "walk", lambda: self._walk(entries, options))
        kept = self._passing(nodes, question.allowed) & _of(self._layout.types(nodes), RETRIEVABLE)
        nodes, mass = nodes[kept], mass[kept]
        kinds, entered = self._layout.types(nodes), np.isin(nodes, entries.nodes)
        gained = received(nodes, mass, entries.nodes, entries.weights, options.restart)
        chosen = [np.flatnonzero(entered)]
        for kind, limit in options.limits.items():
            chosen.append(best(np.flatnonzero(_of(kinds, kind) & ~entered), nodes, gained, limit))
        places = np.sort(np.concatenate(chosen))
        nodes, gained, kinds = nodes[places], gained[places], kinds[places]
        scores = blended(gained, self._similarity.of(nodes, question.vector), kinds)
        return _Candidates(nodes, mass[places], gained, kinds, scores, self._support.rests(nodes))

    def _entry_points(self, question: Question, options: NodeRAGOptions) -> Ranking:
        """Dual search alone: what the question names first, then what is similar to it."""
        enough = replace(options, similar=max(options.similar, question.k))
        entries = self._entries.search(question, enough)
        scores = np.where(np.isnan(entries.similarity), entries.weights + 1, entries.similarity)
        kinds = [kind for kind in options.types or RETRIEVABLE if kind != "T" or not question.mixed]
        wanted = _of(self._layout.types(entries.nodes), "".join(kinds))
        kept = wanted & self._passing(entries.nodes, question.allowed)
        nodes, scores = entries.nodes[kept], scores[kept].astype(np.float32)
        order = np.lexsort((nodes, -scores))
        told = [{"score": score} for score in scores[order].tolist()]
        return self._found(entries, nodes[order], scores[order], told)

    def _walk(self, entries: Entries, options: NodeRAGOptions) -> tuple[Rows, _Mass]:
        return shallow_pagerank(
            self._heterograph.matrix(options.semantic_edges),
            entries.nodes,
            weights=entries.weights,
            restart=options.restart,
            steps=options.steps,
        )

    def _found(
        self, entries: Entries, nodes: Rows, scores: NDArray[np.float32], told: Sequence[Metadata]
    ) -> Ranking:
        """Nodes as a ranking; the trace tells the type, how it was entered, and what is `told`."""
        at = np.searchsorted(entries.nodes, nodes).clip(max=max(0, len(entries.nodes) - 1))
        trace = []
        kinds = self._layout.types(nodes).tolist()
        for more, place, node, kind in zip(told, at.tolist(), nodes.tolist(), kinds, strict=True):
            entry: dict[str, Any] = {"type": TYPES[kind], **more}
            if entries.nodes[place] == node:
                similarity = float(entries.similarity[place])
                entry["entry"] = "name" if np.isnan(similarity) else "similarity"
                if not np.isnan(similarity):
                    entry["similarity"] = similarity
            trace.append(entry)
        origin, rows = self._layout.place(nodes)
        return Ranking(rows, scores.astype(np.float32), origin, trace)

    def _passing(self, nodes: Rows, allowed: Allowed | None) -> NDArray[np.bool_]:
        """Which nodes a filter admits."""
        if allowed is None:
            return np.ones(len(nodes), np.bool_)
        return np.concatenate([allowed.chunks, allowed.graph, allowed.nodes])[nodes]


@lru_cache
def _wanted(kinds: str) -> NDArray[np.bool_]:
    return np.array([kind in kinds for kind in TYPES])


def _of(kinds: NDArray[np.int8], wanted: str | tuple[str, ...]) -> NDArray[np.bool_]:
    known = _wanted("".join(wanted))
    return known[kinds]


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks.

    The index of titles is checked by `NameIndex`.
    """
    check_drift(checks)
    layout = _layout(checks, graph, chunks)
    check_nodes(checks, chunks, dimension, layout.size - layout.first("A"))
    rich = layout.first("O") - layout.first("S")
    checks.of("entries.vectors", np.float32, (rich, dimension))
    checks.csr("walk", layout.size, layout.size, ascending=True)
    told = checks.of(KINDS, np.uint8, checks.any("walk.indices").shape)
    check_range(told & (SIMILAR - 1), KINDS, len(Kind))
    check_range(told, KINDS, 2 * SIMILAR)
    checks.of("titles.lengths", np.uint16, (layout.count("O"),))
    checks.nearest("entries", rich, dimension)
    # What the next update starts from, and by what it finds what is unchanged.
    attributes, rows = layout.count("A"), graph.entities + graph.relations + graph.units
    checks.of("communities.labels", np.int32, (rows + attributes,))
    checks.rows(SOURCES, rows, (None,))
    checks.rows(ELEMENT_LABELS, np.iinfo(np.int64).max, (layout.count("H"),))
    members = checks.rows(MEMBERS, rows, (None,))
    borders = checks.of(BORDERS, np.int64, (attributes + 1,))
    if borders[0] != 0 or borders[-1] != len(members) or (np.diff(borders) < 1).any():
        raise ValueError(f"array '{BORDERS}' does not divide the {len(members)} members of attributes")
    checks.rows(CELLS, rich, (rich,), dtype=np.int32, start=-1)


def _layout(checks: Checks, graph: Graph, chunks: int) -> Layout:
    array = checks.of("layout", np.int64, (8,))
    layout = Layout.of(chunks, graph)
    expected = layout.bounds[:5].tolist()
    if array[:5].tolist() != expected:
        raise ValueError(f"array 'layout' begins with {array[:5].tolist()}, not {expected}")
    checks.borders("layout", int(array[-1]), 7)
    layout = Layout(np.asarray(array))
    if layout.count("O") != layout.count("H"):
        raise ValueError(
            f"array 'layout' has {layout.count('H')} elements and {layout.count('O')} titles of them"
        )
    return layout
