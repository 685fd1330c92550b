"""The corpus' graph as a stage: extractions merged, described, and laid out as nodes and arrays.

Rows of nodes are entities first (sorted by canonical name), then relations (by pair), then semantic
units. All methods that work on entities start from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.ppr import transition_matrix
from stratarag.models.gate import CallItem, Gate, Task
from stratarag.models.structured import plain_text
from stratarag.pipeline import lexical_arrays
from stratarag.pipeline.carryover import VECTOR_KEYS, VECTORS, CarryOver, Kept, text_keys
from stratarag.pipeline.entity_resolution import Rule, aliases, default_rule, resolve
from stratarag.pipeline.extraction.stage import ExtractionConfig, extractions
from stratarag.pipeline.extraction.support import settle
from stratarag.pipeline.lexical import LexicalIndex
from stratarag.pipeline.merge import Entity, Merge, Merged, Relation, finish, merge
from stratarag.pipeline.names.index import NameIndex
from stratarag.pipeline.nearest import Nearest
from stratarag.pipeline.prompts import load_prompt
from stratarag.pipeline.statements import (
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
from stratarag.pipeline.summarize import extractive_summary
from stratarag.protocols import Corpus, Rows, Stored, Vectors
from stratarag.records import Built, Node, content_id
from stratarag.results import clip

NAME = "graph"
PROMPT = load_prompt("stratarag.pipeline", "describe")
STATEMENT_TOKENS = 8000
MOST_UNITS = 200
"""Units that describe an entity without a description; one that is everywhere needs no more."""
_BATCH = 1024  # texts held at a time


@dataclass(frozen=True, slots=True)
class Embedded:
    """What of a graph gets vectors: its units, or its units and entities.

    `pooled` has those that came with the passages' own; None if the embedder gives none of parts of texts.
    """

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
    """Merge the stored extractions of a corpus, describe what was merged, and lay it out.

    Long descriptions are condensed by the model, or extractively without one; one whose fragments did
    not change is taken over from `previous`, of whose corpus some chunks were `kept`. `embed` says what gets
    vectors. `rule` decides which alike entities are one, if `config.resolve` asks for that.
    """
    with gate.stage("merge"):
        collected = await asyncio.to_thread(_collected, extracted, corpus.size)
        merged = await asyncio.to_thread(finish, collected)
    if config.resolve:
        merged = await _resolved(collected, merged, gate, rule)
    rows = {entity.key: row for row, entity in enumerate(merged.entities)}
    describer = _Describer(corpus, gate, config, use_llm)
    descriptions = await describer.all(merged, previous)
    nodes = [
        *(_entity_node(entity, descriptions[entity.key]) for entity in merged.entities),
        *(_relation_node(each, merged.entities, rows, describer.directed(each)) for each in merged.relations),
        *(
            Node(content_id("unit", unit.text, *unit.entities), "unit", 0, unit.text, unit.chunks)
            for unit in merged.units
        ),
    ]
    condensed = [each for each in descriptions.values() if each.digest]
    arrays = _arrays(merged, rows) | _walk(merged, rows, corpus.size)
    arrays |= Nearest.index(corpus.vectors, "chunks")
    arrays |= await asyncio.to_thread(_lexical, corpus, previous, kept)
    origins: dict[str, Rows] = {}
    source = Source(corpus, extracted, gate, embed.pooled, previous)
    if embed.units or embed.entities:
        units = [(unit.text, unit.chunks[0]) for unit in merged.units]
        vectors, keys = await unit_vectors(source, units)
        arrays |= {UNIT_VECTORS: vectors, UNIT_KEYS: keys}
        origins[UNIT_VECTORS] = np.array([row for _, row in units], np.int64)
    if embed.entities:
        texts = [node.text for node in nodes[: len(merged.entities)]]
        arrays |= await _entity_vectors(source, merged, texts, arrays)
    return Built(
        nodes,
        arrays,
        merged.notes,
        complete=all(each.by_model for each in condensed),
        origins=origins,
    )


async def _entity_vectors(
    source: Source, merged: Merged, texts: Sequence[str], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Vectors of entities: of what units say where they alone describe one, else of its text."""
    names = _transposed(arrays["units.indptr"], arrays["units.indices"], len(texts))
    said = await asyncio.to_thread(means, arrays[UNIT_VECTORS], names)
    stated = await asyncio.to_thread(_stated, merged) & said.any(axis=1)
    codes, mentions = (
        np.zeros((len(texts), -(-said.shape[1] // 8)), np.uint8),
        np.zeros(len(texts), np.uint64),
    )
    rows = np.flatnonzero(stated) if source.pooled is None else np.arange(len(texts))
    codes[rows], mentions[rows] = await name_codes(source, [merged.entities[row] for row in rows.tolist()])
    vectors = await asyncio.to_thread(entity_vectors, said, codes, mentions)
    others, keys = np.flatnonzero(~stated), np.zeros(len(texts), np.uint64)
    own = [texts[row] for row in others.tolist()]
    carry = CarryOver(source.previous, source.gate)
    vectors[others] = await carry.embed("embed entities", own, vectors.shape[1])
    keys[others] = await asyncio.to_thread(text_keys, own)
    return {VECTORS: vectors, VECTOR_KEYS: keys, NAME_CODES: codes, NAME_KEYS: mentions}


def _stated(merged: Merged) -> NDArray[np.bool_]:
    """Whether the units that name an entity say all that its description does, shape (entities,)."""
    units: dict[str, list[str]] = {entity.key: [] for entity in merged.entities}
    for unit in merged.units:
        for name in unit.entities:
            units[name].append(unit.text)
    found = (described_by_units(entity.fragments, units[entity.key]) for entity in merged.entities)
    return np.fromiter(found, np.bool_, len(merged.entities))


def _transposed(indptr: Rows, indices: Rows, columns: int) -> tuple[Rows, Rows]:
    """Rows of each column, ascending, from columns of each row."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    return np.searchsorted(indices[order], np.arange(columns + 1)), rows[order]


def _collected(extracted: Stored, chunks: int) -> Merge:
    """All extractions, and of their candidates those that the corpus supports."""
    collected = merge(extractions(extracted, chunks))
    settle(collected, chunks)
    return collected


async def _resolved(collected: Merge, merged: Merged, gate: Gate, rule: Rule) -> Merged:
    """The graph with entities that are one thing made one; each such merger is a note."""
    fragments = _fragments(merged)
    found = await resolve(merged.entities, gate, describe=lambda entity: fragments[entity.key], rule=rule)
    collected.rename(aliases(found))
    collected.notes.update({f"resolved: {candidate}": 1 for candidate in found})
    return await asyncio.to_thread(finish, collected)


@dataclass(frozen=True, slots=True)
class _Description:
    """A description; of a condensed one also the digest of its fragments and who condensed it."""

    text: str
    digest: str = ""
    by_model: bool = False
    failed: bool = False

    def extra(self) -> dict[str, Any]:
        """What of it is kept beside the text."""
        if not self.digest:
            return {}
        return {"digest": self.digest, "by_model": self.by_model, "failed": self.failed}


class _Describer:
    """Makes the descriptions of entities from their fragments."""

    def __init__(self, corpus: Corpus, gate: Gate, config: ExtractionConfig, use_llm: bool) -> None:
        self._corpus = corpus
        self._gate = gate
        self._limit = config.description_tokens
        self._use_llm = use_llm

    async def all(self, merged: Merged, previous: Stored | None) -> dict[str, _Description]:
        """A description for every entity, by canonical name."""
        fragments = _fragments(merged)
        joined = {key: " ".join(texts) for key, texts in fragments.items()}
        long = {key for key, text in joined.items() if self._is_long(text)}
        digests = {key: content_id(str(self._limit), *fragments[key]) for key in sorted(long)}
        kept = self._taken_over(previous, digests)
        todo = [entity for entity in merged.entities if entity.key in long and entity.key not in kept]
        made = await self._condensed(todo, fragments, digests)
        short = {key: _Description(text) for key, text in joined.items() if key not in long}
        return short | kept | made

    def directed(self, relation: Relation) -> tuple[str, str]:
        """The descriptions of a relation and of the opposite one, which may be empty."""
        return self._bounded(relation.fragments), self._bounded(relation.opposite)

    def _bounded(self, fragments: Sequence[str]) -> str:
        """Fragments as they are, or their most central sentences if they are long."""
        joined = " ".join(fragments)
        if not self._is_long(joined):
            return joined
        return extractive_summary(fragments, self._limit, self._gate.count_tokens)

    def _is_long(self, text: str) -> bool:
        """Whether a text has more tokens than the limit; no tokenizer makes more of them than bytes."""
        return len(text.encode()) > self._limit and self._gate.count_tokens(text) > self._limit

    def _taken_over(self, previous: Stored | None, digests: Mapping[str, str]) -> dict[str, _Description]:
        """What the previous generation condensed from the very same fragments, and no worse than now."""
        if previous is None or not digests:
            return {}
        rows = previous.rows(list(digests))
        kept = {}
        for node in previous.nodes(list(rows.values())):
            same = node.extra.get("digest") == digests[node.id]
            by_model = bool(node.extra.get("by_model"))
            if same and by_model >= self._use_llm:
                kept[node.id] = _Description(node.extra["description"], digests[node.id], by_model)
        return kept

    async def _condensed(
        self, todo: Sequence[Entity], fragments: Mapping[str, Sequence[str]], digests: Mapping[str, str]
    ) -> dict[str, _Description]:
        answers: list[str | None] = [None] * len(todo)
        if self._use_llm and todo:
            with self._gate.stage("describe", len(todo)):
                answered = await self._gate.map(self._task(), [self._item(e, fragments) for e in todo])
            answers = list(answered)
        return {
            entity.key: _Description(
                answer or extractive_summary(fragments[entity.key], self._limit, self._gate.count_tokens),
                digests[entity.key],
                by_model=answer is not None,
                failed=self._use_llm and answer is None,
            )
            for entity, answer in zip(todo, answers, strict=True)
        }

    def _task(self) -> Task[str]:
        return Task(
            name="describe",
            prompt=PROMPT,
            parse=plain_text,
            expected_output_tokens=self._limit // 2,
            placeholder=lambda values: clip(values["statements"], self._limit // 2, self._gate.count_tokens),
        )

    def _item(self, entity: Entity, fragments: Mapping[str, Sequence[str]]) -> CallItem:
        statements = "\n".join(f"- {fragment}" for fragment in fragments[entity.key])
        values = {
            "name": entity.name,
            "statements": clip(statements, STATEMENT_TOKENS, self._gate.count_tokens),
            "words": str(self._limit // 2),
        }
        return CallItem(values, entity.name, self._corpus.ids(entity.chunks))


def _fragments(merged: Merged) -> dict[str, tuple[str, ...]]:
    """What describes each entity: its descriptions, or the units that name it where it has none."""
    units: dict[str, list[str]] = {entity.key: [] for entity in merged.entities if not entity.fragments}
    for unit in merged.units:
        for key in unit.entities:
            if key in units and len(units[key]) < MOST_UNITS:
                units[key].append(unit.text)
    return {entity.key: entity.fragments or tuple(units[entity.key]) for entity in merged.entities}


def _entity_node(entity: Entity, description: _Description) -> Node:
    extra = {
        "name": entity.name,
        "type": entity.type,
        "description": description.text,
        **description.extra(),
    }
    text = f"{entity.name}: {description.text}" if description.text else entity.name
    return Node(entity.key, "entity", 0, text, entity.chunks, extra)


def _relation_node(
    relation: Relation, entities: Sequence[Entity], rows: Mapping[str, int], directed: tuple[str, str]
) -> Node:
    source, target = entities[rows[relation.source]].name, entities[rows[relation.target]].name
    described, opposite = directed
    text = f"{source} - {target}: {described}" if described else f"{source} - {target}"
    if opposite:
        text += f"\n{target} - {source}: {opposite}"
    extra = {"source": source, "target": target, "weight": relation.weight}
    identity = content_id("relation", *sorted((relation.source, relation.target)))
    return Node(identity, "relation", 0, text, relation.chunks, extra)


def _ends(merged: Merged, rows: Mapping[str, int]) -> Rows:
    """Rows of the entities that each relation joins, shape (relations, 2)."""
    ends = (rows[key] for relation in merged.relations for key in (relation.source, relation.target))
    return np.fromiter(ends, np.int64, 2 * len(merged.relations)).reshape(-1, 2)


def _arrays(merged: Merged, rows: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    named = [[rows[key] for key in unit.entities] for unit in merged.units]
    return {
        "counts": np.array([len(merged.entities), len(merged.relations), len(merged.units)], np.int64),
        "relations.ends": _ends(merged, rows),
        "relations.weights": np.array([relation.weight for relation in merged.relations], np.float32),
        "units.indptr": np.cumsum([0, *map(len, named)], dtype=np.int64),
        "units.indices": np.array([row for names in named for row in names], dtype=np.int64),
        **{f"names.{key}": array for key, array in NameIndex.build([e.key for e in merged.entities]).items()},
    }


def _walk(merged: Merged, rows: Mapping[str, int], chunks: int) -> dict[str, NDArray[Any]]:
    """The transition matrix of the provenance graph; its nodes are the chunks, then the entities.

    A chunk and an entity that it names are joined with weight 1, related entities with the weight of
    their relation.
    """
    counts = np.fromiter((len(entity.chunks) for entity in merged.entities), np.int64, len(merged.entities))
    named = np.fromiter(
        (chunk for entity in merged.entities for chunk in entity.chunks), np.int64, counts.sum()
    )
    mentions = np.column_stack([named, chunks + np.repeat(np.arange(len(counts)), counts)])
    related = chunks + _ends(merged, rows)
    strengths = np.fromiter((each.weight for each in merged.relations), np.float64, len(merged.relations))
    ends = np.concatenate([mentions, related])
    weights = np.concatenate([np.ones(len(mentions)), strengths])
    matrix = transition_matrix(chunks + len(merged.entities), ends, weights)
    return {"walk.indptr": matrix.indptr, "walk.indices": matrix.indices, "walk.data": matrix.data}


def _lexical(corpus: Corpus, previous: Stored | None, kept: Kept | None) -> dict[str, NDArray[Any]]:
    """The words of the chunks, for BM25: those of the previous graph brought up to date, or read anew."""
    arrays = None
    if previous is not None and kept is not None:
        before = _prefixed(previous.arrays, "lexical.")
        coming = kept.coming(corpus.size)
        texts = dict(zip(coming, corpus.texts(coming), strict=True))
        arrays = lexical_arrays.update(before, (kept.now, kept.before), kept.gone, texts)
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
        How many there are. Entity i is node i, relation i is node `entities + i`, unit i is node
        `entities + relations + i`.
    ends
        Entity rows of each relation, shape (relations, 2).
    weights
        Strength of each relation, shape (relations,).
    names
        Finds entities by whole words.
    lexical
        Finds chunks by their words; None in a folder that was written before words were stored.
    vectors
        Of the entities, shape (entities, dimension); a `KeyError` unless a method `needs_vectors`.
    unit_vectors
        Of the semantic units, shape (units, dimension); a `KeyError` unless a method needs them.
    """

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        arrays = stored.arrays
        self.entities, self.relations, self.units = (int(count) for count in arrays["counts"])
        self.ends: Rows = arrays["relations.ends"]
        self.weights: NDArray[np.float32] = arrays["relations.weights"]
        self.unit_entities: tuple[Rows, Rows] = arrays["units.indptr"], arrays["units.indices"]
        self.sources: tuple[Rows, Rows] = arrays["sources.indptr"], arrays["sources.indices"]
        self.names = NameIndex(_prefixed(arrays, "names."))
        words = _prefixed(arrays, "lexical.")
        self.lexical = LexicalIndex(words) if words else None

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
