"""The graph of the corpus as a stage: extractions merged, described, and laid out as nodes and arrays.

Rows of nodes are entities (sorted by canonical name), then relations (by pair), then semantic units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.ingest.before import Before
from stratagraph.ingest.carryover import VECTOR_KEYS, VECTORS, CarryOver, Kept, Keys, keys_of, text_keys
from stratagraph.ingest.extraction.candidates import settle
from stratagraph.ingest.extraction.stage import ExtractionConfig
from stratagraph.ingest.extraction.stored import extractions
from stratagraph.ingest.graph import merge_state
from stratagraph.ingest.graph.describe import (
    Describer,
    Description,
    MergedNodes,
    entity_text,
    fragments_of,
    relation_id,
)
from stratagraph.ingest.graph.entity_resolution import Rule, aliases, candidates, default_rule, resolve
from stratagraph.ingest.graph.layout import LaidOut, prefixed
from stratagraph.ingest.graph.merge import Entity, Merge, finish, merge
from stratagraph.ingest.graph.merge_state import CONDENSED
from stratagraph.ingest.graph.same_things import Identities, collected_as
from stratagraph.ingest.graph.statements import (
    NAME_CODES,
    NAME_KEYS,
    UNIT_KEYS,
    UNIT_VECTORS,
    Pooled,
    Source,
    described_by_units,
    entity_vectors,
    means,
    name_codes,
    unit_vectors,
)
from stratagraph.ingest.graph.update import Touched, touched
from stratagraph.ingest.lexical import LexicalIndex
from stratagraph.ingest.marks import Marks, combined, list_sums
from stratagraph.ingest.names.index import HOLDS as NAME_HOLDS
from stratagraph.ingest.names.index import NameIndex, canonical
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.models.gate import Gate
from stratagraph.system.locks import cached_property
from stratagraph.system.memory import release
from stratagraph.types.built import Arrays, Built, Carried, Holds, declared
from stratagraph.types.protocols import Corpus, Rows, Stored, StoredCorpus, Vectors

NAME = "graph"
SHOWN = "entities.names"
"""The array of two keys of the name by which each entity is shown: of its canonical form, and as it is."""
_BATCH = 1024  # texts held at a time
_WITHOUT_MODEL = 2
HOLDS = {
    Holds.ROWS: (
        *("relations.ends", "units.indptr", "units.indices", "walk.indptr", "walk.indices"),
        *("lexical.starts", "lexical.rows", *merge_state.ROWS),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.ROWS]),
    ),
    Holds.MEASURES: (
        *("counts", "relations.weights", "relations.described", "walk.data", *merge_state.MEASURES),
        *(f"lexical.{each}" for each in ("language", "markers", "counts", "lengths", "norms")),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.MEASURES]),
    ),
    Holds.CONTENT: (
        *("lexical.keys", SHOWN, UNIT_KEYS, VECTOR_KEYS, NAME_CODES, NAME_KEYS, *merge_state.CONTENT),
        *(f"names.{each}" for each in NAME_HOLDS[Holds.CONTENT]),
    ),
    Holds.VECTORS: (VECTORS,),
}
"""What the arrays of the graph hold, beside those that say so where they are made."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Which nodes of a graph get vectors. `pooled` holds those computed together with the chunks' vectors."""

    units: bool = False
    entities: bool = False
    pooled: Pooled | None = None


async def build_graph(
    corpus: Corpus,
    extracted: Stored,
    gate: Gate,
    *,
    config: ExtractionConfig,
    previous: Stored | None,
    use_llm: bool,
    kept: Kept | None = None,
    embed: Embedded = Embedded(),
    rule: Rule = default_rule,
) -> Built:
    """Merge the stored extractions of a corpus, describe the result, and lay it out.

    The model condenses long descriptions of entities and relations if a method uses them; else the best
    sentences stand for them. A description is taken over from `previous` if its fragments did not change.
    `embed` says what gets vectors. With `config.resolve`, `rule` decides which similar entities are one.
    """
    # Whether a method uses the descriptions of entities, and of relations.
    used = embed.entities, embed.entities or embed.units
    # Before the merger, which holds most of the memory.
    words, nearest = await asyncio.to_thread(_search_arrays, corpus, previous, kept)
    with gate.stage("merge"):
        laid = collected = None
        if previous is not None and kept is not None and not config.resolve:
            laid = await asyncio.to_thread(_updated, corpus, extracted, previous, kept, embed, use_llm, used)
        if laid is None:
            collected, tables = await asyncio.to_thread(_collected, extracted, corpus.size)
    if collected is not None:
        if config.resolve:
            collected = await resolved(corpus, extracted, collected, gate, rule=rule, use_llm=use_llm)
            tables = {}
        change = await asyncio.to_thread(_finished, collected, tables)
        del collected  # the fragments of all chunks, which take more memory than the graph
        await asyncio.to_thread(release)
        laid = await asyncio.to_thread(LaidOut, None, change)
    assert laid is not None
    change, merged = laid.change, laid.change.graph
    entities, relations, units = change.moved
    unit_texts = await asyncio.to_thread(laid.unit_texts, whole=embed.entities)
    describer = Describer(corpus, gate, config, previous, (use_llm and used[0], use_llm and used[1]))
    fragments = {
        entity.key: entity.fragments or tuple(texts)
        for entity, texts in zip(merged.entities, unit_texts, strict=True)
    }
    descriptions = await describer.entities(merged.entities, fragments)
    of_relations = await describer.relations(merged.relations, laid.names.__getitem__)
    before, count = laid.before.get(CONDENSED, np.zeros(0, np.uint8)), len(entities.now)
    of_merged = (
        _condensed(descriptions.get(each.key) for each in merged.entities),
        _condensed(of_relations.get(relation_id(each)) for each in merged.relations),
    )
    condensed = np.concatenate(
        [entities.spliced(before[:count], of_merged[0]), relations.spliced(before[count:], of_merged[1])]
    )
    arrays = dict(laid.arrays)
    if change.state:
        arrays |= {**change.state, CONDENSED: condensed}
    arrays |= await asyncio.to_thread(laid.name_index)
    shown = [keys_of("name", map(form, (each.name for each in merged.entities))) for form in (canonical, str)]
    arrays[SHOWN] = laid.joined(SHOWN, entities, np.column_stack(shown))
    sources = laid.indptr[: len(entities.origin) + 1], laid.indices
    arrays |= await asyncio.to_thread(_walk_arrays, corpus.size, arrays, sources)
    built = nearest
    source = Source(corpus, extracted, gate, embed.pooled, previous)
    if embed.units or embed.entities:
        statements = [(unit.text, unit.chunks[0]) for unit in merged.units]
        fresh, keys = await unit_vectors(source, statements)
        vectors = laid.carried(UNIT_VECTORS, units, fresh)
        arrays[UNIT_KEYS] = laid.joined(UNIT_KEYS, units, keys)
        first = len(entities.origin) + len(relations.origin)
        built |= Holds.VECTORS.of({UNIT_VECTORS: vectors}, laid.indices[laid.indptr[first:-1]])
    if embed.entities:
        directions = await asyncio.to_thread(means, vectors, laid.naming)
        by_units = (
            described_by_units(entity.fragments, texts)
            for entity, texts in zip(merged.entities, unit_texts, strict=True)
        )
        stated = np.fromiter(by_units, np.bool_, len(unit_texts)) & np.asarray(directions.any(axis=1))
        entity_texts = [entity_text(entity, descriptions[entity.key]) for entity in merged.entities]
        entity_arrays = await _entity_vectors(source, merged.entities, entity_texts, directions, stated)
        arrays[VECTORS] = laid.carried(VECTORS, entities, entity_arrays.pop(VECTORS))
        arrays |= {name: laid.joined(name, entities, each) for name, each in entity_arrays.items()}
    nodes = MergedNodes(merged, laid.names, descriptions, of_relations)
    carried = Carried(laid.origin, nodes, laid.indptr, laid.indices)
    complete = not _unfinished(condensed, len(entities.origin), used)
    return Built(carried, built | declared(arrays | words, HOLDS), merged.notes, complete)


def _updated(
    corpus: Corpus,
    extracted: Stored,
    previous: Stored,
    kept: Kept,
    embed: Embedded,
    use_llm: bool,
    used: tuple[bool, bool],
) -> LaidOut | None:
    """The rows of the updated graph; None if everything must be merged again or if that is cheaper."""
    before = previous.arrays
    needed = [CONDENSED]
    needed += [UNIT_VECTORS, UNIT_KEYS] if embed.units or embed.entities else []
    needed += [VECTORS, VECTOR_KEYS, NAME_CODES, NAME_KEYS] if embed.entities else []
    if any(name not in before for name in needed):
        return None
    # The model is asked again for descriptions that it did not give.
    if use_llm and _unfinished(before[CONDENSED], int(before["counts"][0]), used):
        return None
    try:
        change = touched(corpus, extracted, previous, kept)
        return None if change is None else LaidOut(previous, change)
    except (LookupError, ValueError, TypeError) as error:
        raise Damaged(
            "part 'graph' of the index is damaged: what it keeps for updates does not fit its nodes "
            f"({error!r}). Restore the folder from a copy, or build again"
        ) from error


def _finished(collected: Merge, tables: dict[str, NDArray[Any]]) -> Touched:
    """The whole graph, with the arrays for an update unless there are no `tables`."""
    merged = finish(collected, emptied=True)
    state: dict[str, NDArray[Any]] = {}
    if tables:
        entities = [collected.entities[entity.key] for entity in merged.entities]
        state = merge_state.state_of(tables, entities, merged.notes)
    return Touched.all_of(merged, state)


def _unfinished(condensed: NDArray[np.uint8], entities: int, used: tuple[bool, bool]) -> bool:
    """Whether a description that a method uses is long, and no model condensed it."""
    parts = condensed[:entities], condensed[entities:]
    return any(
        is_used and bool((part == _WITHOUT_MODEL).any()) for is_used, part in zip(used, parts, strict=True)
    )


def _search_arrays(
    corpus: Corpus, previous: Stored | None, kept: Kept | None
) -> tuple[dict[str, NDArray[Any]], Arrays]:
    """The arrays that find chunks by their words (BM25) and by their vectors, updated or built."""
    before = words = None
    if previous is not None and kept is not None:
        origin = np.full(corpus.size, -1, np.int64)
        origin[kept.now] = kept.before
        before = previous.arrays, origin
        coming = kept.coming(corpus.size)
        texts = dict(zip(coming, _searched_texts(corpus, coming), strict=True))
        words = LexicalIndex.updated(
            prefixed(previous.arrays, "lexical."), (kept.now, kept.before), kept.removed_texts, texts
        )
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


def _condensed(descriptions: Iterable[Description | None]) -> NDArray[np.uint8]:
    """The values of `CONDENSED` for some descriptions."""
    states = (
        0 if each is None or not each.digest else 1 if each.enough else _WITHOUT_MODEL
        for each in descriptions
    )
    return np.fromiter(states, np.uint8)


async def _entity_vectors(
    source: Source,
    entities: Sequence[Entity],
    texts: Sequence[str],
    directions: Vectors,
    stated: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Vectors of entities: of their units where these say everything (`stated`), else of their texts."""
    codes = np.zeros((len(texts), -(-directions.shape[1] // 8)), np.uint8)
    mentions = np.zeros(len(texts), np.uint64)
    rows = np.flatnonzero(stated) if source.pooled is None else np.arange(len(texts))
    codes[rows], mentions[rows] = await name_codes(source, [entities[row] for row in rows.tolist()])
    vectors = await asyncio.to_thread(entity_vectors, directions, codes, mentions)
    others, keys = np.flatnonzero(~stated), np.zeros(len(texts), np.uint64)
    own = [texts[row] for row in others.tolist()]
    carry = CarryOver(source.previous, source.gate)
    vectors[others] = await carry.embed("embed entities", own, vectors.shape[1])
    keys[others] = await asyncio.to_thread(text_keys, own)
    return {VECTORS: vectors, VECTOR_KEYS: keys, NAME_CODES: codes, NAME_KEYS: mentions}


def _collected(extracted: Stored, chunks: int) -> tuple[Merge, dict[str, NDArray[Any]]]:
    """All extractions with the candidates that the corpus supports, and the arrays for an update."""
    collected, whole = Merge(), True
    for chunk, extraction in extractions(extracted, chunks):
        collected.add(chunk, extraction)
        whole = whole and merge_state.closed(extraction)
    state = merge_state.Tables.of(collected).arrays() if whole else {}
    settle(collected, chunks)
    collected.terms.clear()
    return collected, state


async def resolved(
    corpus: Corpus, extracted: Stored, collected: Merge, gate: Gate, *, rule: Rule, use_llm: bool
) -> Merge:
    """Merge the variants of a name into one entity, and split namesakes into several."""
    read = partial(extractions, extracted, corpus.size)
    merged = await asyncio.to_thread(finish, collected)
    identities = Identities(corpus, read, {entity.key: entity.name for entity in merged.entities})
    if use_llm and rule is default_rule:
        identified = await identities.by_model(candidates(merged.entities, merged.units), gate)
    else:
        identified = await asyncio.to_thread(identities.by_titles)
    if identified.apart:
        collected = merge((row, collected_as(each, identified.apart.get(row, {}))) for row, each in read())
        settle(collected, corpus.size)
    collected.rename(identified.aliases)
    collected.notes.update(identified.notes)
    if identified.apart or identified.aliases:
        merged = await asyncio.to_thread(finish, collected)
    fragments = fragments_of(merged)
    same = await resolve(
        merged.entities,
        [each for each in candidates(merged.entities) if (each.alias, each.kept) not in identified.judged],
        gate,
        describe=lambda entity: fragments[entity.key],
        rule=rule,
    )
    collected.rename(aliases(same))
    collected.notes.update({f"resolved: {candidate}": 1 for candidate in same})
    return collected


class Graph:
    """The stored graph, for methods: rows of entities, relations and units, and their arrays.

    Attributes
    ----------
    entities, relations, units
        Their numbers. Entity i is node i, relation i is node `entities + i`, unit i is node
        `entities + relations + i`.
    shown
        The keys of the names by which entities are shown (`SHOWN`), shape (entities, 2).
    ends, weights, described
        Entity rows of each relation, shape (relations, 2), its strength, and whether its description says
        more than a semantic unit (`merge.described_apart`), shapes (relations,).
    names, lexical
        Find entities by whole words, and chunks by their words.
    vectors, unit_vectors
        Of the entities, and of the units, shape (rows, dimension); `KeyError` unless a method needs them.
    before
        The previous graph; None in a first build and in searches.
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
