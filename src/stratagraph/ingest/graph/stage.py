"""The graph of the corpus as a stage: extractions grouped, described, and laid out as nodes and arrays.

Rows of nodes are entities (by canonical name), then relations (by pair), then semantic units (by mark).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import VECTOR_KEYS, VECTORS, Before, Kept, Keys, keys_of
from stratagraph.ingest.checks import damage
from stratagraph.ingest.extraction.stage import ExtractionConfig
from stratagraph.ingest.graph.describe import Describer, GraphNodes, entity_text, relation_id
from stratagraph.ingest.graph.entity_resolution import Rule, default_rule, resolved
from stratagraph.ingest.graph.grouping import Grouping
from stratagraph.ingest.graph.layout import ENTITIES, MARKS, RELATIONS, UNITS, GraphLayout, prefixed, spliced
from stratagraph.ingest.graph.statements import (
    NAME_CODES,
    NAME_KEYS,
    UNIT_KEYS,
    UNIT_VECTORS,
    Pooled,
    Source,
    described_by_units,
    entity_arrays,
    means,
    unit_vectors,
)
from stratagraph.ingest.graph.tables import HOLDS as TABLES_HOLD
from stratagraph.ingest.graph.tables import tabulated
from stratagraph.ingest.lexical import LexicalIndex
from stratagraph.ingest.marks import Marks, combined, list_sums
from stratagraph.ingest.names.index import HOLDS as NAME_HOLDS
from stratagraph.ingest.names.index import NameIndex, canonical
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.models.gate import Gate
from stratagraph.system.locks import cached_property
from stratagraph.types.built import Arrays, Built, Carried, Holds, declared
from stratagraph.types.protocols import Corpus, Rows, Stored, StoredCorpus, Vectors

NAME = "graph"
SHOWN = "entities.names"
"""The array of two keys of the name by which each entity is shown: of its canonical form, and as it is."""
UNCONDENSED = "uncondensed"
"""The array of whether the description of each entity, then relation, is one that a model should condense."""
_BATCH = 1024  # texts held at a time
HOLDS = {
    Holds.ROWS: (
        *("relations.ends", "units.indptr", "units.indices", "walk.indptr", "walk.indices"),
        *("lexical.starts", "lexical.rows", *TABLES_HOLD[Holds.ROWS]),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.ROWS]),
    ),
    Holds.MEASURES: (
        *("counts", "relations.weights", "relations.described", "walk.data", UNCONDENSED),
        *(f"lexical.{each}" for each in ("language", "markers", "counts", "lengths", "norms")),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.MEASURES]),
        *TABLES_HOLD[Holds.MEASURES],
    ),
    Holds.CONTENT: (
        *("lexical.keys", SHOWN, MARKS, UNIT_KEYS, VECTOR_KEYS, NAME_CODES, NAME_KEYS),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.CONTENT]),
        *TABLES_HOLD[Holds.CONTENT],
    ),
    Holds.VECTORS: (VECTORS,),
}
"""What the arrays of the graph hold, beside those that say so where they are made."""


async def build_graph(
    corpus: Corpus,
    extracted: Stored,
    gate: Gate,
    *,
    config: ExtractionConfig,
    previous: Stored | None,
    use_llm: bool,
    kept: Kept | None = None,
    embeds_units: bool = False,
    embeds_entities: bool = False,
    pooled: Pooled | None = None,
    rule: Rule = default_rule,
) -> Built:
    """Group the stored extractions of a corpus, describe the result, and lay it out.

    The model condenses long descriptions of entities and relations if a method uses them; else the best
    sentences stand for them. A description is taken over from `previous` if its fragments did not change.
    If entities are embedded, so are units; `pooled` holds vectors that were made with those of the chunks.
    With `config.resolve`, `rule` decides which similar entities are one.
    """
    # Whether a method uses the descriptions of entities, and of relations.
    embeds_units |= embeds_entities
    used = embeds_entities, embeds_units
    words, nearest = await asyncio.to_thread(_search_arrays, corpus, previous, kept)
    needed = [MARKS]
    needed += [UNIT_VECTORS, UNIT_KEYS] if embeds_units else []
    needed += [VECTORS, VECTOR_KEYS, NAME_CODES, NAME_KEYS] if embeds_entities else []
    before = None if previous is None or not previous.arrays.keys() >= {*needed} else previous
    again = None  # the model is asked again for descriptions that it did not give
    if before is not None and use_llm:
        again = _unfinished(before.arrays, used)
    with gate.stage("merge"), damage("graph", (LookupError, TypeError, ValueError)):
        tables, texts = await asyncio.to_thread(tabulated, extracted, corpus.size, previous, kept)
        graph = await asyncio.to_thread(Grouping, tables)
    if config.resolve:
        graph = await resolved(corpus, extracted, tables, graph, gate, rule=rule, use_llm=use_llm)
    with damage("graph", (LookupError, TypeError, ValueError)):
        laid = await asyncio.to_thread(GraphLayout, graph, extracted, texts, before, again)
    entities, relations, units = await asyncio.to_thread(laid.records)
    names = laid.shown()
    unit_texts = await asyncio.to_thread(laid.unit_texts, entities, whole=embeds_entities)
    describer = Describer(corpus, gate, config, previous, (use_llm and used[0], use_llm and used[1]))
    fragments = {
        entity.key: entity.fragments or tuple(texts)
        for entity, texts in zip(entities, unit_texts, strict=True)
    }
    descriptions = await describer.entities(entities, fragments)
    of_relations = await describer.relations(relations, names)
    arrays = tables | laid.arrays | await asyncio.to_thread(laid.name_index)
    shown = [keys_of("name", map(form, (each.name for each in entities))) for form in (canonical, str)]
    arrays[SHOWN] = laid.joined(SHOWN, ENTITIES, np.column_stack(shown))
    ids = (*(each.key for each in entities), *map(relation_id, relations))
    every = descriptions | of_relations
    fresh = np.array([each in every and not every[each].enough for each in ids], np.bool_)
    first = len(laid.rows_before_by_kind[ENTITIES]) + len(laid.rows_before_by_kind[RELATIONS])
    if before is not None:
        fresh = spliced(before.arrays[UNCONDENSED], laid.rows_before[:first], fresh)
    arrays[UNCONDENSED] = fresh
    sources = laid.indptr[: len(laid.rows_before_by_kind[ENTITIES]) + 1], laid.indices
    arrays |= await asyncio.to_thread(_walk_arrays, corpus.size, arrays, sources)
    built = nearest
    source = Source(corpus, extracted, gate, pooled, previous)
    if embeds_units:
        statements = [(unit.text, unit.chunks[0]) for unit in units]
        vectors_of_units, keys = await unit_vectors(source, statements)
        vectors = laid.carried(UNIT_VECTORS, UNITS, vectors_of_units)
        arrays[UNIT_KEYS] = laid.joined(UNIT_KEYS, UNITS, keys)
        built |= Holds.VECTORS.of({UNIT_VECTORS: vectors}, laid.indices[laid.indptr[first:-1]])
    if embeds_entities:
        directions = await asyncio.to_thread(means, vectors, laid.naming)
        by_units = (
            described_by_units(entity.fragments, texts)
            for entity, texts in zip(entities, unit_texts, strict=True)
        )
        stated = np.fromiter(by_units, np.bool_, len(unit_texts)) & np.asarray(directions.any(axis=1))
        entity_texts = [entity_text(entity, descriptions[entity.key]) for entity in entities]
        of_entities = await entity_arrays(source, entities, entity_texts, directions, stated)
        arrays[VECTORS] = laid.carried(VECTORS, ENTITIES, of_entities.pop(VECTORS))
        arrays |= {name: laid.joined(name, ENTITIES, each) for name, each in of_entities.items()}
    nodes = GraphNodes(entities, relations, units, names, descriptions, of_relations)
    carried = Carried(laid.rows_before, nodes, laid.indptr, laid.indices)
    notes = {note: count for note, count in sorted(graph.notes.items()) if count}
    complete = not _unfinished(arrays, used).any()
    return Built(carried, built | declared(arrays | words, HOLDS), notes, complete)


def _unfinished(arrays: Mapping[str, NDArray[Any]], used: tuple[bool, bool]) -> NDArray[np.bool_]:
    """Whether the description of each entity, then relation, is long, used, and no model condensed it."""
    unfinished: NDArray[np.bool_] = arrays[UNCONDENSED] & np.repeat(used, arrays["counts"][:2])
    return unfinished


def _search_arrays(
    corpus: Corpus, previous: Stored | None, kept: Kept | None
) -> tuple[dict[str, NDArray[Any]], Arrays]:
    """The arrays that find chunks by their words (BM25) and by their vectors, updated or built."""
    before = words = None
    if previous is not None and kept is not None:
        before = previous.arrays, kept.rows_before
        coming = _searched_texts(corpus, np.flatnonzero(kept.rows_before < 0).tolist())
        stored = prefixed(previous.arrays, "lexical.")
        words = LexicalIndex.updated(stored, kept.rows_before, kept.removed_texts, coming)
    if words is None:
        words = LexicalIndex.build(_searched_texts(corpus, range(corpus.size)))
    nearest = Nearest.index(corpus.vectors, "chunks", before)
    return {f"lexical.{key}": array for key, array in words.items()}, nearest


def _searched_texts(corpus: Corpus, rows: Sequence[int]) -> Iterator[str]:
    for start in range(0, len(rows), _BATCH):
        yield from (chunk.searched_text for chunk in corpus.chunks(rows[start : start + _BATCH]))


def _walk_arrays(
    chunks: int, arrays: Mapping[str, NDArray[Any]], sources: tuple[Rows, Rows]
) -> dict[str, NDArray[Any]]:
    """The transition matrix of the provenance graph, whose nodes are the chunks, then the entities.

    A chunk and an entity that it names are joined with weight 1, related entities with the weight of their
    relation. `sources` are the chunks of the entities.
    """
    indptr, indices = sources
    counts = np.diff(indptr)
    owners = chunks + np.repeat(np.arange(len(counts)), counts)
    mentions = np.column_stack([indices[: int(indptr[-1])], owners])
    weights = np.concatenate([np.ones(len(mentions)), arrays["relations.weights"].astype(np.float64)])
    edges = np.concatenate([mentions, chunks + arrays["relations.ends"]])
    matrix = transition_matrix(chunks + len(counts), edges, weights)
    return {"walk.indptr": matrix.indptr, "walk.indices": matrix.indices, "walk.data": matrix.data}


class Graph:
    """The stored graph, for methods: rows of entities, relations and units, and their arrays.

    `entities`, `relations` and `units` are their numbers: entity i is node i, relation i is node
    `entities + i`, unit i is node `entities + relations + i`. `shown` are the keys of the names by which
    entities are shown (`SHOWN`). `ends` are the entity rows of each relation, shape (relations, 2), `weights`
    its strength, and `described` whether its description says more than a semantic unit
    (`tables.described_apart`). `names` finds entities by whole words, `lexical` chunks by their words.
    `vectors` and `unit_vectors` raise `KeyError` unless a method needs them. `before` is the previous graph;
    None in a first build and in searches.
    """

    def __init__(self, stored: Stored, before: Before | None = None) -> None:
        self.stored = stored
        self.before = before
        arrays = stored.arrays
        self.entities, self.relations, self.units = (int(count) for count in arrays["counts"])
        self.shown: Keys = arrays[SHOWN]
        self.ends: Rows = arrays["relations.ends"]
        self.weights: NDArray[np.float32] = arrays["relations.weights"]
        self.described: NDArray[np.bool_] = arrays["relations.described"]
        self.unit_entities: tuple[Rows, Rows] = arrays["units.indptr"], arrays["units.indices"]
        self.sources: tuple[Rows, Rows] = arrays["sources.indptr"], arrays["sources.indices"]
        self.names = NameIndex(prefixed(arrays, "names."))
        self.lexical = LexicalIndex(prefixed(arrays, "lexical."))
        self._marks: Marks | None = None

    def marks(self, corpus: StoredCorpus) -> Marks:
        """The mark of each row: of its id, its content, its chunks and, of a relation, its strength."""
        if self._marks is None:
            indptr, indices = self.sources
            chunks = list_sums(indptr, combined(corpus.id_halves)[indices])
            strengths = np.zeros(len(chunks), np.uint32)
            strengths[self.entities : self.entities + self.relations] = self.weights.view(np.uint32)
            self._marks = combined(self.stored.keys, self.stored.hashes, chunks, strengths)
        return self._marks

    @cached_property
    def frequency(self) -> Rows:
        """In how many chunks each entity is, shape (entities,)."""
        return np.diff(self.sources[0][: self.entities + 1])

    @property
    def vectors(self) -> Vectors:
        """See the class."""
        return self.stored.arrays[VECTORS]

    @property
    def unit_vectors(self) -> Vectors:
        """See the class."""
        return self.stored.arrays[UNIT_VECTORS]
