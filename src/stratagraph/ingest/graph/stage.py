"""The graph of the corpus as a stage: extractions merged, described, and laid out as nodes and arrays.

Rows of nodes are entities (sorted by canonical name), then relations (by pair), then semantic units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.ingest.before import Before
from stratagraph.ingest.carryover import VECTOR_KEYS, VECTORS, CarryOver, Kept, text_keys
from stratagraph.ingest.extraction.candidates import settle
from stratagraph.ingest.extraction.stage import ExtractionConfig, extractions
from stratagraph.ingest.graph import merge_state
from stratagraph.ingest.graph.describe import (
    MOST_UNITS,
    Describer,
    Description,
    MergedNodes,
    entity_node,
    entity_text,
    fragments_of,
    relation_id,
    relation_node,
    unit_node,
)
from stratagraph.ingest.graph.entity_resolution import Rule, aliases, candidates, default_rule, resolve
from stratagraph.ingest.graph.layout import LaidOut, transposed
from stratagraph.ingest.graph.merge import Entity, Merge, Merged, finish, merge
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
from stratagraph.ingest.names.index import NameIndex
from stratagraph.ingest.nearest import Nearest
from stratagraph.kernels.ppr import transition_matrix
from stratagraph.models.gate import Gate
from stratagraph.system.locks import cached_property
from stratagraph.system.memory import release
from stratagraph.types.protocols import Corpus, Rows, Stored, Vectors
from stratagraph.types.records import Built, Carried, CarriedVectors

NAME = "graph"
_BATCH = 1024  # texts held at a time
_WITHOUT_MODEL = 2


@dataclass(frozen=True, slots=True)
class Embedded:
    """What of a graph gets vectors; `pooled` has those that came with the passages' own."""

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

    Long descriptions of entities and relations are condensed by the model, or extractively without one or if
    no method uses them, or taken over from `previous` if their fragments did not change. `embed` says what
    gets vectors. `rule` decides which similar entities
    are one, if `config.resolve`.
    """
    made = _Maker(corpus, extracted, gate, config, previous, use_llm, kept, embed)
    with gate.stage("merge"):
        change = await asyncio.to_thread(made.changed)
        if change is not None:
            return await made.updated(*change)
    searched = await asyncio.to_thread(made.searched)  # before the merger, which holds most of the memory
    with gate.stage("merge"):
        collected, state = await asyncio.to_thread(_collected, extracted, corpus.size)
        if not config.resolve:
            merged = await asyncio.to_thread(finish, collected, emptied=True)
        if not config.resolve and state:
            spelt = [collected.entities[entity.key] for entity in merged.entities]
            state |= merge_state.spellings(spelt) | merge_state.notes_array(merged.notes)
            state |= merge_state.describing(spelt)
            del spelt
    if config.resolve:
        collected = await resolved(corpus, extracted, collected, gate, rule=rule, use_llm=use_llm)
        merged, state = await asyncio.to_thread(finish, collected), {}
    del collected  # of each passage what it said, which is more than the graph
    await asyncio.to_thread(release)
    return await made.anew(merged, state, searched)


@dataclass(frozen=True)
class _Maker:
    """Lays out the graph of a corpus."""

    corpus: Corpus
    extracted: Stored
    gate: Gate
    config: ExtractionConfig
    previous: Stored | None
    use_llm: bool
    kept: Kept | None
    embed: Embedded

    def changed(self) -> tuple[Touched, LaidOut] | None:
        """The changed nodes and the new layout; None if a full merge is cheaper."""
        if self.previous is None or self.kept is None or self.config.resolve:
            return None
        before = self.previous.arrays
        needed = [CONDENSED]
        needed += [UNIT_VECTORS, UNIT_KEYS] if self.embed.units or self.embed.entities else []
        needed += [VECTORS, VECTOR_KEYS, NAME_CODES, NAME_KEYS] if self.embed.entities else []
        if any(name not in before for name in needed):
            return None
        if self.use_llm and self._unfinished(before[CONDENSED], int(before["counts"][0])):  # tried again
            return None
        try:
            change = touched(self.corpus, self.extracted, self.previous, self.kept)
            return None if change is None else (change, LaidOut(self.previous, change))
        except (LookupError, ValueError, TypeError) as error:
            raise Damaged(
                "part 'graph' of the index is damaged: what it keeps for updates does not fit its nodes "
                f"({error!r}). Restore the folder from a copy, or build again"
            ) from error

    async def anew(
        self, merged: Merged, state: dict[str, NDArray[Any]], searched: dict[str, NDArray[Any]]
    ) -> Built:
        """The graph of `merged`, with the arrays of `searched`, and `state` for the next update."""
        rows = {entity.key: row for row, entity in enumerate(merged.entities)}
        describer = self._describer()
        descriptions = await describer.entities(merged.entities, fragments_of(merged))
        of_relations = await describer.relations(
            merged.relations, lambda key: merged.entities[rows[key]].name
        )
        nodes = MergedNodes(merged, rows, descriptions, of_relations)
        arrays = _arrays(merged, rows)
        condensed = np.concatenate(
            [
                _condensed(descriptions.get(each.key) for each in merged.entities),
                _condensed(of_relations.get(relation_id(each)) for each in merged.relations),
            ]
        )
        if state:
            arrays |= state | {CONDENSED: condensed}
        arrays |= _names(NameIndex.build([entity.key for entity in merged.entities]))
        arrays |= await asyncio.to_thread(self._walked, arrays, _sources(merged.entities)) | searched
        origins: dict[str, Rows] = {}
        source = self._source()
        if self.embed.units or self.embed.entities:
            units = [(unit.text, unit.chunks[0]) for unit in merged.units]
            vectors, keys = await unit_vectors(source, units)
            arrays |= {UNIT_VECTORS: vectors, UNIT_KEYS: keys}
            origins[UNIT_VECTORS] = np.array([row for _, row in units], np.int64)
        if self.embed.entities:
            texts = [entity_text(entity, descriptions[entity.key]) for entity in merged.entities]
            members = transposed(arrays["units.indptr"], arrays["units.indices"], len(texts))
            said = await asyncio.to_thread(means, arrays[UNIT_VECTORS], members)
            stated = await asyncio.to_thread(_stated, merged) & said.any(axis=1)
            arrays |= await _entity_vectors(source, merged.entities, texts, said, stated)
        complete = not self._unfinished(condensed, len(merged.entities))
        carried = Carried(np.full(len(nodes), -1, np.int64), nodes, *nodes.sources())
        return Built(carried, arrays, merged.notes, complete=complete, origins=origins)

    async def updated(self, change: Touched, laid: LaidOut) -> Built:
        """The previous graph, with what was merged again."""
        assert self.previous is not None
        before = self.previous.arrays
        entities, relations, units = change.moved
        describer = self._describer()
        texts = await asyncio.to_thread(laid.unit_texts, MOST_UNITS)
        fragments = {
            entity.key: entity.fragments or tuple(texts[place][:MOST_UNITS])
            for place, entity in enumerate(change.entities)
        }
        descriptions = await describer.entities(change.entities, fragments)
        of_relations = await describer.relations(change.relations, laid.names.__getitem__)
        fresh = [
            *(entity_node(entity, descriptions[entity.key]) for entity in change.entities),
            *(
                relation_node(each, laid.names, of_relations.get(relation_id(each)))
                for each in change.relations
            ),
            *map(unit_node, change.units),
        ]
        arrays, count = dict(laid.arrays), len(entities.now)
        condensed = np.concatenate(
            [
                entities.spliced(
                    before[CONDENSED][:count],
                    _condensed(descriptions.get(each.key) for each in change.entities),
                ),
                relations.spliced(
                    before[CONDENSED][count:],
                    _condensed(of_relations.get(relation_id(each)) for each in change.relations),
                ),
            ]
        )
        arrays[CONDENSED] = condensed
        arrays |= change.tables.arrays() | merge_state.notes_array(change.notes)
        spelt = [merge_state.spelt(each) for each in change.spelt]
        arrays |= merge_state.Spellings(before).spliced(entities.origin, spelt)
        arrays[merge_state.DESCRIBING] = np.packbits(laid.describing)
        index = _prefixed(before, "names.")
        arrays |= _names(NameIndex.updated(index, entities.now, len(entities.origin), laid.new_names))
        of_entities = laid.indptr[: len(entities.origin) + 1], laid.indices
        arrays |= await asyncio.to_thread(self._walked, arrays, of_entities)
        arrays |= await asyncio.to_thread(self.searched)
        origins: dict[str, Rows] = {}
        source = self._source()
        if self.embed.units or self.embed.entities:
            vectors, keys = await unit_vectors(source, [(each.text, each.chunks[0]) for each in change.units])
            carried = CarriedVectors(before[UNIT_VECTORS], units.origin, vectors)
            arrays[UNIT_KEYS] = units.spliced(before[UNIT_KEYS], keys)
            arrays[UNIT_VECTORS] = cast(Vectors, carried)
            first = len(entities.origin) + len(relations.origin)
            origins[UNIT_VECTORS] = laid.indices[laid.indptr[first:-1]]
            if self.embed.entities:
                rows, members = laid.members
                said = await asyncio.to_thread(means, carried[rows], members)
                every = await asyncio.to_thread(laid.unit_texts, None)
                stated = np.fromiter(
                    (
                        described_by_units(entity.fragments, every[place])
                        for place, entity in enumerate(change.entities)
                    ),
                    np.bool_,
                    len(change.entities),
                )
                own = [node.text for node in fresh[: len(change.entities)]]
                made = await _entity_vectors(source, change.entities, own, said, stated & said.any(axis=1))
                carried = CarriedVectors(before[VECTORS], entities.origin, made.pop(VECTORS))
                arrays[VECTORS] = cast(Vectors, carried)
                arrays |= {name: entities.spliced(before[name], each) for name, each in made.items()}
        nodes = Carried(laid.origin, fresh, laid.indptr, laid.indices)
        complete = not self._unfinished(condensed, len(entities.origin))
        return Built(nodes, arrays, change.notes, complete=complete, origins=origins)

    def _describer(self) -> Describer:
        entities, relations = (self.use_llm and used for used in self._described)
        return Describer(self.corpus, self.gate, self.config, self.previous, (entities, relations))

    @property
    def _described(self) -> tuple[bool, bool]:
        """Whether a method uses the descriptions of entities, and of relations."""
        return self.embed.entities, self.embed.entities or self.embed.units

    def _unfinished(self, condensed: NDArray[np.uint8], entities: int) -> bool:
        """Whether a description that a method uses is condensed, but not by a model."""
        parts = condensed[:entities], condensed[entities:]
        return any(
            used and bool((part == _WITHOUT_MODEL).any())
            for used, part in zip(self._described, parts, strict=True)
        )

    def _source(self) -> Source:
        return Source(self.corpus, self.extracted, self.gate, self.embed.pooled, self.previous)

    def searched(self) -> dict[str, NDArray[Any]]:
        """The arrays that find chunks by their vectors and by their words."""
        before = None
        if self.previous is not None and self.kept is not None:
            origin = np.full(self.corpus.size, -1, np.int64)
            origin[self.kept.now] = self.kept.before
            before = self.previous.arrays, origin
        nearest = Nearest.index(self.corpus.vectors, "chunks", before)
        return nearest | _lexical(self.corpus, self.previous, self.kept)

    def _walked(
        self, arrays: Mapping[str, NDArray[Any]], sources: tuple[Rows, Rows]
    ) -> dict[str, NDArray[Any]]:
        """The transition matrix of the provenance graph, whose nodes are the chunks, then the entities.

        A chunk and an entity that it names are joined with weight 1, related entities with the weight of
        their relation. `sources` are the chunks of the entities.
        """
        indptr, indices = sources
        chunks, counts = self.corpus.size, np.diff(indptr)
        mentions = np.column_stack(
            [indices[: int(indptr[-1])], chunks + np.repeat(np.arange(len(counts)), counts)]
        )
        strengths = arrays["relations.weights"].astype(np.float64)
        weights = np.concatenate([np.ones(len(mentions)), strengths])
        edges = np.concatenate([mentions, chunks + arrays["relations.ends"]])
        matrix = transition_matrix(chunks + len(counts), edges, weights)
        return {"walk.indptr": matrix.indptr, "walk.indices": matrix.indices, "walk.data": matrix.data}


def _condensed(descriptions: Iterable[Description | None]) -> NDArray[np.uint8]:
    """For each description 0 if it is not condensed, 1 if it is as it should be, else `_WITHOUT_MODEL`."""
    states = (
        0 if each is None or not each.digest else 1 if each.enough else _WITHOUT_MODEL
        for each in descriptions
    )
    return np.fromiter(states, np.uint8)


def _sources(entities: Sequence[Entity]) -> tuple[Rows, Rows]:
    indptr = np.cumsum([0, *(len(entity.chunks) for entity in entities)], dtype=np.int64)
    chunks = (row for entity in entities for row in entity.chunks)
    return indptr, np.fromiter(chunks, np.int64, int(indptr[-1]))


def _names(index: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"names.{name}": array for name, array in index.items()}


async def _entity_vectors(
    source: Source,
    entities: Sequence[Entity],
    texts: Sequence[str],
    said: Vectors,
    stated: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Vectors of entities: of their units where these say all of it (`stated`), else of its text."""
    codes, mentions = (
        np.zeros((len(texts), -(-said.shape[1] // 8)), np.uint8),
        np.zeros(len(texts), np.uint64),
    )
    rows = np.flatnonzero(stated) if source.pooled is None else np.arange(len(texts))
    codes[rows], mentions[rows] = await name_codes(source, [entities[row] for row in rows.tolist()])
    vectors = await asyncio.to_thread(entity_vectors, said, codes, mentions)
    others, keys = np.flatnonzero(~stated), np.zeros(len(texts), np.uint64)
    own = [texts[row] for row in others.tolist()]
    carry = CarryOver(source.previous, source.gate)
    vectors[others] = await carry.embed("embed entities", own, vectors.shape[1])
    keys[others] = await asyncio.to_thread(text_keys, own)
    return {VECTORS: vectors, VECTOR_KEYS: keys, NAME_CODES: codes, NAME_KEYS: mentions}


def _stated(merged: Merged) -> NDArray[np.bool_]:
    """Whether the units that name an entity say all of its description, shape (entities,)."""
    units: dict[str, list[str]] = {entity.key: [] for entity in merged.entities}
    for unit in merged.units:
        for name in unit.entities:
            units[name].append(unit.text)
    told = (described_by_units(entity.fragments, units[entity.key]) for entity in merged.entities)
    return np.fromiter(told, np.bool_, len(merged.entities))


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
    """Extractions collected by what names mean: variants of a name are one entity, and namesakes several."""
    read = partial(extractions, extracted, corpus.size)
    merged = await asyncio.to_thread(finish, collected)
    identities = Identities(corpus, read, {entity.key: entity.name for entity in merged.entities})
    if use_llm and rule is default_rule:
        told = await identities.by_model(candidates(merged.entities, merged.units), gate)
    else:
        told = await asyncio.to_thread(identities.by_titles)
    if told.apart:
        collected = merge((row, collected_as(each, told.apart.get(row, {}))) for row, each in read())
        settle(collected, corpus.size)
    collected.rename(told.aliases)
    collected.notes.update(told.notes)
    if told.apart or told.aliases:
        merged = await asyncio.to_thread(finish, collected)
    fragments = fragments_of(merged)
    same = await resolve(
        merged.entities,
        [
            each
            for each in candidates(merged.entities, merged.units)
            if (each.alias, each.kept) not in told.judged
        ],
        gate,
        describe=lambda entity: fragments[entity.key],
        rule=rule,
    )
    collected.rename(aliases(same))
    collected.notes.update({f"resolved: {candidate}": 1 for candidate in same})
    return collected


def _arrays(merged: Merged, rows: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    named = [[rows[key] for key in unit.entities] for unit in merged.units]
    ends = (rows[key] for relation in merged.relations for key in (relation.source, relation.target))
    return {
        "counts": np.array([len(merged.entities), len(merged.relations), len(merged.units)], np.int64),
        "relations.ends": np.fromiter(ends, np.int64, 2 * len(merged.relations)).reshape(-1, 2),
        "relations.weights": np.array([relation.weight for relation in merged.relations], np.float32),
        "relations.described": np.array([relation.described for relation in merged.relations], np.bool_),
        "units.indptr": np.cumsum([0, *map(len, named)], dtype=np.int64),
        "units.indices": np.array([row for names in named for row in names], dtype=np.int64),
    }


def _lexical(corpus: Corpus, previous: Stored | None, kept: Kept | None) -> dict[str, NDArray[Any]]:
    """The BM25 arrays of the chunks, updated from the previous ones or built."""
    arrays = None
    if previous is not None and kept is not None:
        before = _prefixed(previous.arrays, "lexical.")
        coming = kept.coming(corpus.size)
        texts = dict(zip(coming, corpus.texts(coming), strict=True))
        arrays = LexicalIndex.updated(before, (kept.now, kept.before), kept.gone, texts)
    if arrays is None:
        arrays = LexicalIndex.build(_texts(corpus))
    return {f"lexical.{key}": array for key, array in arrays.items()}


def _texts(corpus: Corpus) -> Iterator[str]:
    for start in range(0, corpus.size, _BATCH):
        yield from corpus.texts(range(start, min(start + _BATCH, corpus.size)))


class Graph:
    """The stored graph, for methods: rows of entities, relations and units, and their arrays.

    Attributes
    ----------
    entities, relations, units
        Their numbers. Entity i is node i, relation i is node `entities + i`, unit i is node
        `entities + relations + i`.
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
        self.ends: Rows = arrays["relations.ends"]
        self.weights: NDArray[np.float32] = arrays["relations.weights"]
        self.described: NDArray[np.bool_] = arrays["relations.described"]
        self.unit_entities: tuple[Rows, Rows] = arrays["units.indptr"], arrays["units.indices"]
        self.sources: tuple[Rows, Rows] = arrays["sources.indptr"], arrays["sources.indices"]
        self.names = NameIndex(_prefixed(arrays, "names."))
        self.lexical = LexicalIndex(_prefixed(arrays, "lexical."))

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


def _prefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
