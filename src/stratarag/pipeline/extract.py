"""Extraction as a stage: once per chunk, by the model or without one, kept for every method.

The result is a list of nodes, one per chunk, whose text is the extraction as JSON. It is stored like a
method's index, so that an update takes over what it has and a deleted chunk takes its extraction along.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stratarag.models.gateway import CallItem, Gate
from stratarag.pipeline.context import clip
from stratarag.pipeline.extract_llm import EXTRACT, GLEAN, ExtractionAnswer, to_extraction
from stratarag.pipeline.extract_nlp import extract
from stratarag.protocols import Corpus, Stored
from stratarag.records import (
    Built,
    Chunk,
    EntityMention,
    Extraction,
    Node,
    RelationMention,
    SemanticUnit,
    content_id,
)

NAME = "extraction"
TYPES = ("person", "organization", "place", "event", "work", "product", "concept", "date")
PASSAGE_TOKENS = 6000
"""What an extraction prompt takes of one chunk; a caller's own chunk may be of any length."""
GIVEN = "given"
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """How entities and relations are found.

    Parameters
    ----------
    mode
        `auto`: by the model where there is one and a method needs it, else without. `llm`, `nlp`: so.
    entity_types
        Types that the model is offered; it may use others.
    gleaning
        Further rounds per chunk in which the model is asked what was missed.
    description_tokens
        A merged description longer than this is condensed.
    resolve
        Whether names that look like one entity's are merged (see `pipeline.resolve`).
    """

    mode: Literal["auto", "llm", "nlp"] = "auto"
    entity_types: tuple[str, ...] = TYPES
    gleaning: int = 0
    description_tokens: int = 300
    resolve: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "llm", "nlp"):
            raise ValueError(f"mode must be 'auto', 'llm' or 'nlp', not {self.mode!r}")
        if self.gleaning < 0:
            raise ValueError(f"gleaning must be at least 0, not {self.gleaning}")
        if self.description_tokens < 20:
            raise ValueError(f"description_tokens must be at least 20, not {self.description_tokens}")
        object.__setattr__(self, "entity_types", tuple(self.entity_types))


Given = Mapping[str, Extraction]
"""Extractions that exist already, by the caller's id of a passage (`Chunk.ref`) or by document id."""


async def extract_corpus(
    corpus: Corpus,
    gate: Gate,
    *,
    config: ExtractionConfig,
    previous: Stored | None,
    use_llm: bool,
    given: Given | None = None,
) -> Built:
    """The extraction of every chunk: taken over from `previous`, given, or made now.

    A chunk for which the model fails is extracted without it, is marked so, and is tried again by the
    next update; the failure is in the gate's list.
    """
    notes: Counter[str] = Counter()
    nodes: list[Node] = []
    with gate.stage("extract", corpus.size):
        for start in range(0, corpus.size, _BATCH):
            rows = range(start, min(start + _BATCH, corpus.size))
            nodes += await _batch(corpus, rows, gate, config, previous, use_llm, given or {}, notes)
    maker = _maker(config, True)
    complete = all(node.extra["maker"] in (maker, GIVEN) for node in nodes)
    return Built(nodes, notes=dict(sorted(notes.items())), complete=complete)


async def _batch(
    corpus: Corpus,
    rows: range,
    gate: Gate,
    config: ExtractionConfig,
    previous: Stored | None,
    use_llm: bool,
    given: Given,
    notes: Counter[str],
) -> list[Node]:
    chunks = corpus.chunks(rows)
    made = _known(previous, rows, chunks, _maker(config, use_llm) if use_llm else None)
    for row, chunk in zip(rows, chunks, strict=True):
        found = _found(given, chunk)
        if found is not None:
            made[row] = _node(row, chunk, found, GIVEN)
    todo = [(row, chunk) for row, chunk in zip(rows, chunks, strict=True) if row not in made]
    if use_llm:
        made |= await _by_model(todo, gate, config, notes)
    else:
        made |= await asyncio.to_thread(_without_model, todo)
    return [made[row] for row in rows]


def _found(given: Given, chunk: Chunk) -> Extraction | None:
    """What the caller gave for a chunk: the passage's own, or of its document's what it names."""
    if chunk.ref and chunk.ref in given:
        return given[chunk.ref]
    whole = given.get(chunk.document_id)
    return None if whole is None else _within(whole, chunk.text)


def _maker(config: ExtractionConfig, use_llm: bool) -> str:
    """What an extraction depends on beside its chunk; with another maker it is made again."""
    return content_id("llm", str(config.gleaning), *config.entity_types) if use_llm else "nlp"


def _known(
    previous: Stored | None, rows: range, chunks: Sequence[Chunk], maker: str | None
) -> dict[int, Node]:
    """What the previous generation has and may be kept, with the row of today.

    With a model, only what it made (or the caller gave) is kept; without one, everything is: what a
    model once made is better than what can be made now.
    """
    if previous is None:
        return {}
    before = previous.rows([chunk.id for chunk in chunks])
    nodes = dict(zip(before, previous.nodes(list(before.values())), strict=True))
    return {
        row: Node(chunk.id, node.kind, 0, node.text, [row], node.extra)
        for row, chunk in zip(rows, chunks, strict=True)
        if (node := nodes.get(chunk.id)) is not None
        and (maker is None or node.extra.get("maker") in (maker, GIVEN))
    }


def _node(row: int, chunk: Chunk, extraction: Extraction, maker: str) -> Node:
    return Node(chunk.id, "extraction", 0, to_json(extraction), [row], {"maker": maker})


def _without_model(todo: Sequence[tuple[int, Chunk]]) -> dict[int, Node]:
    return {row: _node(row, chunk, _locally(chunk), "nlp") for row, chunk in todo}


def _locally(chunk: Chunk) -> Extraction:
    title = chunk.metadata.get("title")
    return extract(chunk.text, title=title if isinstance(title, str) else "")


async def _by_model(
    todo: Sequence[tuple[int, Chunk]], gate: Gate, config: ExtractionConfig, notes: Counter[str]
) -> dict[int, Node]:
    types = ", ".join(config.entity_types)
    passages = [clip(chunk.text, PASSAGE_TOKENS, gate.count_tokens) for _, chunk in todo]
    items = [
        CallItem({"passage": passage, "types": types}, chunk.id, [chunk.id])
        for passage, (_, chunk) in zip(passages, todo, strict=True)
    ]
    found = await gate.map(EXTRACT, items)
    answers = [[answer] if answer is not None else [] for answer in found]
    for _ in range(config.gleaning):
        await _glean(items, answers, gate)
    made = {}
    for (row, chunk), given in zip(todo, answers, strict=True):
        if given:
            made[row] = _node(row, chunk, to_extraction(given, notes), _maker(config, True))
        else:
            made[row] = _node(row, chunk, _locally(chunk), "nlp, since the model failed")
    return made


async def _glean(items: Sequence[CallItem], answers: list[list[ExtractionAnswer]], gate: Gate) -> None:
    """One round of asking what was missed, for the chunks that have an answer."""
    asked = [place for place, given in enumerate(answers) if given]
    again = [
        CallItem(
            {**items[place].values, "known": _known_names(answers[place])},
            items[place].item,
            items[place].sources,
        )
        for place in asked
    ]
    gleaned = await gate.map(GLEAN, again)
    for place, more in zip(asked, gleaned, strict=True):
        if more is not None:
            answers[place].append(more)


def _known_names(answers: Sequence[ExtractionAnswer]) -> str:
    names = dict.fromkeys(entity.name for answer in answers for entity in answer.entities)
    return "\n".join(f"- {name}" for name in names) or "(none)"


def _within(extraction: Extraction, text: str) -> Extraction:
    """What of a document's extraction belongs to one chunk of it: what the chunk's text names.

    An extraction of which nothing is named (its names are written otherwise) is taken whole.
    """
    folded = text.casefold()

    def named(name: str) -> bool:
        return name.casefold() in folded

    entities = tuple(entity for entity in extraction.entities if named(entity.name))
    if not entities or len(entities) == len(extraction.entities):
        return extraction
    relations = tuple(r for r in extraction.relations if named(r.source) or named(r.target))
    units = tuple(unit for unit in extraction.units if any(named(name) for name in unit.entities))
    return Extraction(units, entities, relations, extraction.terms)


def to_json(extraction: Extraction) -> str:
    """An extraction as compact JSON."""
    return json.dumps(
        {
            "units": [[unit.text, *unit.entities] for unit in extraction.units],
            "entities": [[entity.name, entity.type, entity.description] for entity in extraction.entities],
            "relations": [
                [relation.source, relation.target, relation.description, relation.strength]
                for relation in extraction.relations
            ],
            "terms": list(extraction.terms),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_json(text: str) -> Extraction:
    """The extraction that `to_json` wrote."""
    value = json.loads(text)
    return Extraction(
        units=tuple(SemanticUnit(unit, tuple(names)) for unit, *names in value["units"]),
        entities=tuple(EntityMention(*entity) for entity in value["entities"]),
        relations=tuple(RelationMention(*relation) for relation in value["relations"]),
        terms=tuple(value["terms"]),
    )


def extractions(stored: Stored, size: int) -> Iterator[tuple[int, Extraction]]:
    """All stored extractions with their chunk rows, a batch at a time."""
    for start in range(0, size, _BATCH):
        rows = range(start, min(start + _BATCH, size))
        for row, node in zip(rows, stored.nodes(rows), strict=True):
            yield row, from_json(node.text)
