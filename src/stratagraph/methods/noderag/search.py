"""Searching the heterograph: entry points, a shallow walk, cross nodes (paper 001, 2.5; ERRATA N9).

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

from collections.abc import Mapping, Sequence
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
from stratagraph.kernels.ranges import ranges
from stratagraph.kernels.topk import joined
from stratagraph.methods.base import MethodDescription, Opened, Ranking, SearchQuestion
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import VECTOR_HASHES, check_nodes
from stratagraph.methods.noderag.attributes import BORDERS, ELEMENT_LABELS, MEMBERS, SOURCES
from stratagraph.methods.noderag.config import RETRIEVABLE, TYPES, NodeRAGOptions
from stratagraph.methods.noderag.heterograph import CELLS, KINDS, SIMILAR, EdgeKind, Heterograph, TypeBounds
from stratagraph.search.ranking import concatenate, first, shares_of
from stratagraph.search.walk import NEAR_SHARE
from stratagraph.types.protocols import Rows, Vectors
from stratagraph.types.question import Allowed, Mask
from stratagraph.types.records import Metadata

SIMILARITY = 0.5
"""Part of a score that is similarity."""
CROSS, CROSS_OF_THEME = 20, 100
"""Cross nodes of each type at most, those that received most; of a theme's question more, since one type may
fill the results."""
REPEATED = 0.75
"""What is taken off a score where better results rest on all the passages behind it.

Among 0, 0.5, 0.75 and 1 it is best by answers in 1,000 and 2,000 tokens and by the gold passages behind ten
hits, whichever of musique_train100, hotpotqa_train100 and 2wiki_dev164 is left out. On musique_train100 with
given triples ten hits rest on .80 of the gold passages, with 0 on .73, the entry points alone on .78; .81 of
them are cross nodes.
"""

TITLES = 20
"""Titles that a name in the question may match; one that matches more ("the") tells nothing."""

_Mass = NDArray[np.float32]
_Sources = tuple[Rows, Rows]
_NO_NODES: Rows = np.zeros(0, np.int64)
_LAST = float(np.finfo(np.float32).tiny)


class Similarity:
    """How similar nodes are to a question. A relation, which has no vector, is as similar as its passages."""

    def __init__(self, opened: Opened, layout: TypeBounds) -> None:
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
    """The mass of each node without its own share of the restart, shape (nodes,); entries ascend."""
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

    `shares` are those of the types, in proportion; one of 0 comes after all others. `rests` tells which
    passages each node rests on, shape (nodes, passages), one at least.
    """
    own = {kind: np.flatnonzero(kinds == kind) for kind in shares}
    ahead = np.concatenate(
        [(1 + np.arange(len(own[kind]))) / (share or _LAST) for kind, share in shares.items()]
    )
    turns = np.repeat(list(shares), [len(places) for places in own.values()])
    passages = np.zeros(rests.shape[1], np.bool_)  # those that results so far rest on
    repeated, sizes = np.zeros(len(scores)), np.maximum(rests.sum(axis=1), 1)
    order = []
    for kind in turns[np.argsort(ahead, kind="stable")[:k]].tolist():
        left = own[kind]
        at = int(np.argmax(scores[left] * (1 - REPEATED * repeated[left] / sizes[left])))
        own[kind] = np.delete(left, at)
        order.append(int(left[at]))
        new = rests[left[at]] & ~passages
        passages |= new
        repeated += rests[:, new].sum(axis=1)
    return np.array(order, np.int64)


def best(places: Rows, nodes: Rows, scores: _Mass, limit: int) -> Rows:
    """The places with the highest scores, of equals the lower nodes."""
    if len(places) > limit > 0:
        least = np.partition(scores[places], len(places) - limit)[len(places) - limit]
        places = places[scores[places] >= least]
    return places[np.lexsort((nodes[places], -scores[places]))[:limit]]


class Support:
    """The passages behind nodes, from the sources of the graph's rows and of the method's own nodes."""

    def __init__(self, layout: TypeBounds, graph: _Sources, own: _Sources) -> None:
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
        for place, start, (indptr, indices) in (
            (of_graph, texts, self._graph),
            (np.flatnonzero(nodes >= own), own, self._own),
        ):
            starts = indptr[nodes[place] - start]
            counts = indptr[nodes[place] - start + 1] - starts
            passages = indices[ranges(starts, counts)].astype(np.int64)
            behind.append((np.repeat(place, counts), passages))
        places, passages = (np.concatenate(column) for column in zip(*behind, strict=True))
        distinct, column = np.unique(passages, return_inverse=True)
        rests = np.zeros((len(nodes), len(distinct)), np.bool_)
        rests[places, column] = True
        return rests


class Entries(NamedTuple):
    """Entry points: nodes, ascending; restart weights; similarities, NaN for those found by name."""

    nodes: Rows
    weights: NDArray[np.float64]
    similarity: NDArray[np.float32]


class DualSearch:
    """Finds names and titles by whole words, and nodes with longer texts by similarity.

    S, A and H follow each other in the numbering, and are searched as one.
    """

    def __init__(self, opened: Opened, layout: TypeBounds) -> None:
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

    def search(self, question: SearchQuestion, options: NodeRAGOptions) -> Entries:
        """The entry points of a question, each once.

        All have the same restart weight (2.5), except that the candidates for a name that no entity has share
        a part of it. A node with a cosine of 0 or less is no entry point.
        """
        exact, weights = self._exact(question) if options.names else (_NO_NODES, np.zeros(0))
        similar, similarity = self._similar(question, options)
        nodes = np.concatenate([exact, similar])
        shares = np.concatenate([weights, np.ones(len(similar))])
        similarities = np.concatenate([np.full(len(exact), np.nan, np.float32), similarity])
        order = np.argsort(nodes, kind="stable")
        return Entries(nodes[order], shares[order], similarities[order])

    def _exact(self, question: SearchQuestion) -> tuple[Rows, NDArray[np.float64]]:
        """Entities and titles that the question names, with weights."""
        names = question_entities(question.text) if question.entities is None else question.entities
        named, _, near, likeness = linked_once(question, self._graph.names)
        titles = [self._titles.match(name, TITLES + 1) for name in names]
        titles.append(np.unique(self._titles.find(question.text).rows))
        title_rows = np.unique(np.concatenate([_NO_NODES, *(each for each in titles if len(each) <= TITLES)]))
        entities, overviews = self._layout.first("N"), self._layout.first("O")
        nodes = np.concatenate([entities + named, entities + near, overviews + title_rows])
        weights = np.ones(len(named)), NEAR_SHARE * likeness, np.ones(len(title_rows))
        nodes, first_places = np.unique(nodes, return_index=True)
        return nodes, np.concatenate(weights)[first_places]

    def _similar(self, question: SearchQuestion, options: NodeRAGOptions) -> tuple[Rows, NDArray[np.float32]]:
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

    def nodes(self, question: SearchQuestion) -> Ranking:
        """Entry points and cross nodes (`ranking`); in mode `entry` the entry points alone."""
        options: NodeRAGOptions = question.options
        if options.mode == "entry":
            return first(self._entry_points(question, options), question.k)
        return self._retrieval(question, options)

    def describe(self) -> MethodDescription:
        """The paper's Table 4: nodes by type, edges of similarity and others."""
        return MethodDescription(self._heterograph.counts(), self._heterograph.edge_counts())

    def _retrieval(self, question: SearchQuestion, options: NodeRAGOptions) -> Ranking:
        """Section 2.5: the retrievable ones of entry points and of the best cross nodes of each type."""
        entries = question.once(self, "entries", lambda: self._entries.search(question, options))
        if not len(entries.nodes):
            return concatenate([])
        candidates = question.once(self, "candidates", lambda: self._candidates(entries, question, options))
        wanted = [kind for kind in options.types or RETRIEVABLE if kind != "T" or not question.mixed]
        proportions = shares_of(wanted, question.shares)
        shares = {TYPES.index(kind): share for kind, share in zip(wanted, proportions, strict=True)}
        order = diverse(candidates.scores, candidates.kinds, shares, candidates.rests, question.k)
        measured = zip(candidates.mass[order].tolist(), candidates.gained[order].tolist(), strict=True)
        trace = [{"mass": mass, "received": gained} for mass, gained in measured]
        scores = np.minimum.accumulate(candidates.scores[order])
        return self._ranking(entries, candidates.nodes[order], scores, trace)

    def _candidates(self, entries: Entries, question: SearchQuestion, options: NodeRAGOptions) -> _Candidates:
        """All rows that may be retrieved, before the number of results is applied."""
        nodes, mass = question.once(self, "walk", lambda: self._walk(entries, options))
        passing = self._passing(nodes, question.allowed) & _of(self._layout.types(nodes), RETRIEVABLE)
        nodes, mass = nodes[passing], mass[passing]
        kinds, entered = self._layout.types(nodes), np.isin(nodes, entries.nodes)
        gained = received(nodes, mass, entries.nodes, entries.weights, options.restart)
        chosen = [np.flatnonzero(entered)]
        most = CROSS if question.theme is None else CROSS_OF_THEME
        for kind in RETRIEVABLE:
            limit = options.limits.get(kind, most)
            chosen.append(best(np.flatnonzero(_of(kinds, kind) & ~entered), nodes, gained, limit))
        places = np.sort(np.concatenate(chosen))
        nodes, gained, kinds = nodes[places], gained[places], kinds[places]
        scores = blended(gained, self._similarity.of(nodes, question.vector), kinds)
        return _Candidates(nodes, mass[places], gained, kinds, scores, self._support.rests(nodes))

    def _entry_points(self, question: SearchQuestion, options: NodeRAGOptions) -> Ranking:
        """Dual search alone: what the question names first, then what is similar to it."""
        enough = replace(options, similar=max(options.similar, question.k))
        entries = self._entries.search(question, enough)
        scores = np.where(np.isnan(entries.similarity), entries.weights + 1, entries.similarity)
        kinds = [kind for kind in options.types or RETRIEVABLE if kind != "T" or not question.mixed]
        wanted = _of(self._layout.types(entries.nodes), "".join(kinds))
        passing = wanted & self._passing(entries.nodes, question.allowed)
        nodes, scores = entries.nodes[passing], scores[passing].astype(np.float32)
        order = np.lexsort((nodes, -scores))
        trace = [{"score": score} for score in scores[order].tolist()]
        return self._ranking(entries, nodes[order], scores[order], trace)

    def _walk(self, entries: Entries, options: NodeRAGOptions) -> tuple[Rows, _Mass]:
        return shallow_pagerank(
            self._heterograph.matrix(entries.nodes, options.steps, options.semantic_edges),
            entries.nodes,
            weights=entries.weights,
            restart=options.restart,
            steps=options.steps,
        )

    def _ranking(
        self, entries: Entries, nodes: Rows, scores: NDArray[np.float32], details: Sequence[Metadata]
    ) -> Ranking:
        """Nodes as a ranking; the trace has their type, how the search entered them, and the `details`."""
        at = np.searchsorted(entries.nodes, nodes).clip(max=max(0, len(entries.nodes) - 1))
        trace = []
        kinds = self._layout.types(nodes).tolist()
        for more, place, node, kind in zip(details, at.tolist(), nodes.tolist(), kinds, strict=True):
            entry: dict[str, Any] = {"type": TYPES[kind], **more}
            if entries.nodes[place] == node:
                similarity = float(entries.similarity[place])
                entry["entry"] = "name" if np.isnan(similarity) else "similarity"
                if not np.isnan(similarity):
                    entry["similarity"] = similarity
            trace.append(entry)
        tables, rows = self._layout.place(nodes)
        return Ranking(rows, scores.astype(np.float32), tables, trace)

    def _passing(self, nodes: Rows, allowed: Allowed | None) -> NDArray[np.bool_]:
        """Which nodes a filter admits."""
        if allowed is None:
            return np.ones(len(nodes), np.bool_)
        return np.concatenate([allowed.chunks, allowed.graph, allowed.nodes])[nodes]


@lru_cache
def _wanted(kinds: str) -> NDArray[np.bool_]:
    return np.array([kind in kinds for kind in TYPES])


def _of(kinds: NDArray[np.int8], wanted: str | tuple[str, ...]) -> NDArray[np.bool_]:
    is_wanted = _wanted("".join(wanted))
    return is_wanted[kinds]


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks.

    The index of titles is checked by `NameIndex`.
    """
    check_drift(checks)
    layout = _layout(checks, graph, chunks)
    nodes = check_nodes(checks, chunks, dimension, layout.size - layout.first("A"))
    checks.of(VECTOR_HASHES, np.uint64, (nodes,))
    rich = layout.first("O") - layout.first("S")
    checks.of("entries.vectors", np.float32, (rich, dimension))
    checks.csr("walk", layout.size, layout.size, ascending=True)
    kinds = checks.of(KINDS, np.uint8, checks.any("walk.indices").shape)
    check_range(kinds & (SIMILAR - 1), KINDS, len(EdgeKind))
    check_range(kinds, KINDS, 2 * SIMILAR)
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


def _layout(checks: Checks, graph: Graph, chunks: int) -> TypeBounds:
    array = checks.of("layout", np.int64, (8,))
    layout = TypeBounds.of(chunks, graph)
    expected = layout.bounds[:5].tolist()
    if array[:5].tolist() != expected:
        raise ValueError(f"array 'layout' begins with {array[:5].tolist()}, not {expected}")
    checks.borders("layout", int(array[-1]), 7)
    layout = TypeBounds(np.asarray(array))
    if layout.count("O") != layout.count("H"):
        raise ValueError(
            f"array 'layout' has {layout.count('H')} elements and {layout.count('O')} titles of them"
        )
    return layout
