"""One walk over several indexes: names, words and edges are counted over all of them.

Passages are numbered through all parts. Entities of one name are one entity, so that a walk goes from part
to part by names. Only numbers are copied: 8 bytes for each name, 24 for each place of a node, 4 for each
passage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.lexical import LexicalIndex, Scored, content_words, rarest, term_keys
from stratagraph.ingest.names.index import NameIndex
from stratagraph.kernels.bm25 import idf
from stratagraph.kernels.ppr import JoinedGraph, joined_pagerank
from stratagraph.kernels.ranges import Parts
from stratagraph.kernels.topk import joined
from stratagraph.search.walk import PER_EDGE, RESTART, STEPS, Similar, Words, mentions, transition
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows, Vectors

Mask = NDArray[np.bool_]
_NO_ROWS: Rows = np.zeros(0, np.int64)
_NO_SCORES: NDArray[np.float32] = np.zeros(0, np.float32)


def admitted(parts: Parts, allowed: Mask | None) -> list[tuple[int, Mask | None]]:
    """The parts in which a filter admits passages, each with its mask."""
    if allowed is None:
        return [(part, None) for part in range(len(parts))]
    masks = [(part, allowed[parts.of(part)]) for part in range(len(parts))]
    return [(part, mask) for part, mask in masks if mask.any()]


class JoinedNearest:
    """The nearest vectors of several sets, in the numbering of all."""

    def __init__(self, nearest: Sequence[Similar], parts: Parts) -> None:
        self._nearest = nearest
        self._parts = parts

    def search(self, query: Vectors, k: int, allowed: Mask | None = None) -> tuple[Rows, NDArray[np.float32]]:
        """Rows and similarities of the `k` nearest admitted vectors, nearest first."""
        results = []
        for part, mask in admitted(self._parts, allowed):
            rows, similarity = self._nearest[part].search(query, k, mask)
            results.append((rows + self._parts.starts[part], similarity))
        return joined(results, k)


class JoinedWords:
    """BM25 over the passages of several indexes, by the frequencies and lengths of all of them.

    Each index stems in the language of its own passages, and so does a word of the question there.
    """

    def __init__(self, words: Sequence[LexicalIndex], parts: Parts) -> None:
        mean = sum(each.words for each in words) / max(parts.size, 1)
        self._words = [each.within(mean) for each in words]
        self._parts = parts
        spoken: Counter[str] = Counter()
        for each in words:
            spoken[each.language] += each.passages
        self.language = max(spoken, key=spoken.__getitem__, default="none")

    def scores(self, question: str, allowed: Mask | None = None) -> Scored:
        """The scores of all admitted passages that have a word of the question, by ascending row."""
        words = content_words(question, self.language)
        terms = {name: term_keys(words, name) for name in {each.language for each in self._words}}
        postings = [each.postings(terms[each.language]) for each in self._words]
        frequencies: Rows = np.stack([counts for _, counts in postings]).sum(axis=0)
        chosen = rarest(frequencies)
        rows, scores = [_NO_ROWS], [_NO_SCORES]
        for part, mask in admitted(self._parts, allowed):
            starts, counts = postings[part]
            once = np.unique(terms[self._words[part].language][chosen], return_index=True)[1]
            read = chosen[np.sort(once)]
            read = read[counts[read] > 0]
            if not len(read):
                continue
            rarity = idf(self._parts.size, frequencies[read])
            own = self._words[part].scored(starts[read], counts[read], mask, rarity)
            rows.append(own.rows + self._parts.starts[part])
            scores.append(own.scores)
        return Scored(np.concatenate(rows), np.concatenate(scores))

    def frequencies(self, asked: Sequence[str], allowed: Mask | None = None) -> Rows:
        """How many admitted passages of all indexes have a word, shape (words,)."""
        frequencies = np.zeros(len(asked), np.int64)
        for part, mask in admitted(self._parts, allowed):
            frequencies += self._words[part].frequencies(asked, mask)
        return frequencies


class JoinedNames(NameIndex):
    """The names of several indexes, each once; a name's row is its number in all of them.

    Attributes
    ----------
    numbers
        Of each index, the numbers of its names, int32, shape (names,).
    """

    def __init__(self, names: Sequence[NameIndex]) -> None:
        self._names = names
        keys = [each.keys() for each in names]
        distinct = np.unique(np.concatenate([np.zeros(0, np.uint64), *keys]))
        distinct = distinct[distinct > 0]
        self.numbers = _numbered(keys, distinct)
        self._count = max((int(each.max(initial=-1)) + 1 for each in self.numbers), default=0)
        sizes = [0, *(size for each in names for size in each.sizes)]
        self._sizes = sorted({*sizes} - {0})
        self._arrays = {"name_keys": distinct, "name_rows": np.arange(len(distinct), dtype=np.int32)}

    def __len__(self) -> int:
        return self._count

    def match(self, entity: str, limit: int = 100) -> Rows:
        """See `NameIndex.match`."""
        rows = [each.match(entity, limit) for each in self._names]
        lengths = [each.lengths(own) for each, own in zip(self._names, rows, strict=True)]
        numbers, length = self._each_once(rows, lengths)
        return numbers[np.lexsort((numbers, length))][:limit]

    def fuzzy(self, entity: str, limit: int = 10) -> tuple[Rows, NDArray[np.float32]]:
        """See `NameIndex.fuzzy`."""
        rows, scores = zip(*(each.fuzzy(entity, limit) for each in self._names), strict=True)
        numbers, likeness = self._each_once(rows, scores)
        order = np.lexsort((numbers, -likeness))[:limit]
        return numbers[order], likeness[order]

    def _each_once(self, rows: Sequence[Rows], values: Sequence[NDArray[Any]]) -> tuple[Rows, NDArray[Any]]:
        """The numbers of the names that several indexes found, each with its first value."""
        own = [numbers[each].astype(np.int64) for numbers, each in zip(self.numbers, rows, strict=True)]
        distinct, first = np.unique(np.concatenate(own), return_index=True)
        return distinct, np.concatenate(values)[first]


class JoinedGround:
    """What a walk over several indexes stands on (`search.walk.Ground`)."""

    def __init__(self, graphs: Sequence[Graph], parts: Parts) -> None:
        self._graphs = graphs
        self._parts = parts
        self.lexical: Words = JoinedWords([graph.lexical for graph in graphs], parts)
        joined_names = JoinedNames([graph.names for graph in graphs])
        self.names: NameIndex = joined_names
        self._numbers = joined_names.numbers
        self.frequency: Rows = np.zeros(len(self.names), np.int64)
        for numbers, graph in zip(self._numbers, graphs, strict=True):
            self.frequency += np.bincount(
                numbers, np.diff(graph.sources[0][: graph.entities + 1]), len(self.names)
            ).astype(np.int64)

    def walked(self, nodes: Rows, weights: NDArray[np.float64]) -> tuple[Rows, NDArray[np.float32]]:
        """See `search.walk.Ground`."""
        return joined_pagerank(
            self._edges, nodes, weights=weights, restart=RESTART, steps=STEPS, per_edge=PER_EDGE
        )

    def mentioned(self, entities: Rows, allowed: Mask) -> bool:
        """See `search.walk.Ground`."""
        return any(
            mask is not None and mentions(graph, np.flatnonzero(np.isin(self._numbers[part], entities)), mask)
            for (part, mask), graph in (
                (each, self._graphs[each[0]]) for each in admitted(self._parts, allowed)
            )
        )

    @cached_property
    def _edges(self) -> JoinedGraph:
        matrices, numbers, strengths = [], [], []
        for part, graph in enumerate(self._graphs):
            own = self._parts.of(part)
            matrix = transition(graph, own.stop - own.start)
            passages = np.arange(own.start, own.stop)
            entities = self._parts.size + self._numbers[part]
            matrices.append(matrix)
            numbers.append(np.concatenate([passages, entities]).astype(np.int32))
            strengths.append(_strengths(matrix.indptr, matrix.data, len(passages)))
        return JoinedGraph.of(matrices, numbers, strengths, self._parts.size + len(self.names))


def _numbered(keys: Sequence[NDArray[np.uint64]], distinct: NDArray[np.uint64]) -> list[NDArray[np.int32]]:
    """Numbers by the rank of keys; a name without words has no key and gets a number of its own."""
    numbers, following = [], len(distinct)
    for own in keys:
        number = np.searchsorted(distinct, own).astype(np.int32)
        without = np.flatnonzero(own == 0)
        number[without] = following + np.arange(len(without))
        following += len(without)
        numbers.append(number)
    return numbers


def _strengths(indptr: NDArray[np.integer], data: NDArray[np.float32], passages: int) -> NDArray[np.float64]:
    """The sum of the edge weights at each entity before normalisation, and 1 for passages.

    The first edge of an entity leads to a passage, and had a weight of 1.
    """
    strengths = np.ones(len(indptr) - 1)
    firsts = indptr[passages:-1]
    some = np.flatnonzero(np.diff(indptr[passages:]) > 0)
    strengths[passages + some] = 1 / np.maximum(data[firsts[some]], np.finfo(np.float32).tiny)
    return strengths
