"""What a chat model says of chunks: semantic units, entities and relations.

One answer serves the text decomposition of NodeRAG (2.2) and the extraction of ArchRAG and HiRAG. It is asked
for in the form `sentences` (`sentence_form`) or the full one (`parsing`). Elements are read one by one; what
cannot be kept is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice

from stratagraph.ingest.extraction import by_rules
from stratagraph.ingest.extraction.ontology import Ontology
from stratagraph.ingest.extraction.parsing import (
    ExtractionAnswer,
    ExtractionSchema,
    TypedExtractionSchema,
    Vocabulary,
    parse_extraction,
)
from stratagraph.ingest.extraction.sentence_form import (
    EXPECTED_TYPE,
    NamesSchema,
    NumberedSentences,
    TypedNamesSchema,
    cut,
    expected_names,
    numbered,
    parse_named_sentences,
)
from stratagraph.ingest.names.index import canonical, words
from stratagraph.ingest.names.spelling import canonical_name
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.types.records import Chunk, EntityMention, Extraction, RelationMention, SemanticUnit

MOST_ENTITIES = 200
"""Entities taken from one chunk; a model that lists more repeats itself."""

_EXPECTED = 1_300  # tokens that a budget reserves for the first extractions, of passages of 220 tokens

EXTRACT = Task(
    name="extract",
    prompt=load_prompt("stratagraph.ingest", "extract"),
    parse=parse_extraction,
    schema=ExtractionSchema,
    expected_output_tokens=_EXPECTED,
    placeholder=lambda values: _placeholder(values["passage"], values["relation_types"]),
)
GLEAN = Task(
    name="glean",
    prompt=load_prompt("stratagraph.ingest", "glean"),
    parse=parse_extraction,
    schema=ExtractionSchema,
    expected_output_tokens=200,
    placeholder=lambda values: ExtractionAnswer(),
)
SENTENCES = Task(
    name="extract",
    prompt=load_prompt("stratagraph.ingest", "sentences"),
    parse=parse_named_sentences,
    schema=NamesSchema,
    expected_output_tokens=1_000,
    placeholder=lambda values: expected_names(values["sentences"], values["relation_types"]),
)
# The same, with types of relations.
_TYPED_EXTRACT, _TYPED_GLEAN = (replace(task, schema=TypedExtractionSchema) for task in (EXTRACT, GLEAN))
_TYPED_SENTENCES = replace(SENTENCES, schema=TypedNamesSchema)
FORMS = ("sentences", "full")
TOGETHER = 8
"""Passages of one call in the form `sentences`, if they are short,"""
TOGETHER_TOKENS = 1_200
"""and their tokens."""


def title_of(chunk: Chunk) -> str:
    """The title of a chunk's document; empty without one."""
    title = chunk.metadata.get("title")
    return title if isinstance(title, str) else ""


async def ask(
    chunks: Sequence[Chunk], gate: Gate, *, form: str, ontology: Ontology, gleaning: int = 0
) -> list[list[ExtractionAnswer]]:
    """The answers of the model for chunks: none if it failed.

    In the full form each of `gleaning` rounds adds an answer.
    """
    if form == "sentences":
        return [[] if each is None else [each] for each in await _named(chunks, gate, ontology)]
    types = ontology.values(form)
    items = [CallItem({"passage": each.text, **types}, each.id, [each.id]) for each in chunks]
    vocabularies = [Vocabulary(each.text, title_of(each)) for each in chunks]
    extract, glean = (_TYPED_EXTRACT, _TYPED_GLEAN) if ontology.relations else (EXTRACT, GLEAN)
    firsts = await gate.map(extract, items)
    answers = [
        [] if answer is None else [own.own(answer)] for own, answer in zip(vocabularies, firsts, strict=True)
    ]
    for rounds in range(1, gleaning + 1):  # of the chunks whose rounds so far succeeded
        places = [place for place, own in enumerate(answers) if len(own) == rounds]
        again = []
        for place in places:
            names = dict.fromkeys(entity.name for answer in answers[place] for entity in answer.entities)
            listed = "\n".join(f"- {name}" for name in names) or "(none)"
            item = items[place]
            again.append(CallItem({**item.values, "known": listed}, item.item, item.sources))
        gleaned = await gate.map(glean, again)
        for place, more in zip(places, gleaned, strict=True):
            if more is not None:
                answers[place].append(vocabularies[place].own(more))
    return answers


async def _named(
    chunks: Sequence[Chunk], gate: Gate, ontology: Ontology
) -> Sequence[ExtractionAnswer | None]:
    """The names of all sentences. A call has several passages; one without an answer is asked again alone."""
    passages = [
        NumberedSentences(each.id, each.document_id, cut(each.text), title_of(each)) for each in chunks
    ]
    read_of = [None if each.sentences else ExtractionAnswer() for each in passages]
    task, types = _TYPED_SENTENCES if ontology.relations else SENTENCES, ontology.values("sentences")

    async def ask_of(groups: Sequence[Sequence[int]], *, final: bool) -> None:
        items = []
        for group in groups:
            own = [passages[at] for at in group]
            ids = [each.id for each in own]
            values = {"sentences": numbered(own), **types}
            items.append(CallItem(values, ", ".join(ids), ids, len(ids)))
        answers = await gate.map(task, items, final=final)
        for group, answer in zip(groups, answers, strict=True):
            if answer is not None:
                read = answer.of_passages([passages[at] for at in group])
                for at, one in zip(group, read, strict=True):
                    read_of[at] = one or (ExtractionAnswer() if final else None)

    groups: list[list[int]] = []
    tokens = 0
    for at, passage in enumerate(passages):
        if passage.sentences:
            size = gate.count_tokens(chunks[at].text)
            tokens += size
            if not groups or len(groups[-1]) == TOGETHER or tokens > TOGETHER_TOKENS:
                groups.append([])
                tokens = size
            groups[-1].append(at)
    shared = [group for group in groups if len(group) > 1]
    await ask_of(shared, final=False)
    await ask_of([group for group in groups if len(group) == 1], final=True)
    gate.require_answers()
    await ask_of([[at] for group in shared for at in group if read_of[at] is None], final=True)
    return read_of


_ENTITY_WORDS, _RELATION_WORDS = 22, 17  # as gpt-4o wrote on average in 252 answers (28 and 24 tokens)


def _placeholder(passage: str, relation_types: str) -> ExtractionAnswer:
    """What an estimate expects a model to say: the names and dates of the rules, and as many relations.

    In 400 passages of MuSiQue these are 10.4 names a passage, 3,177 different ones; gpt-3.5 found 8.7 and
    2,725, or 12.9 and 4,304 with all ends of its relations.
    """
    ruled = by_rules.extract(passage)
    names = [each.name for each in ruled.entities]
    others = [each for each in by_rules.question_entities(passage) if each not in set(names)]
    entities = []
    for each in (*names, *others):  # with the words with which the passage speaks of it
        begin = passage.rfind(".", 0, max(0, passage.find(each))) + 1
        entities.append(EntityMention(each, "concept", _cut(passage[begin:], _ENTITY_WORDS)))
    beside = [(unit, [each for each in others if each in unit.text]) for unit in ruled.units]
    units = tuple(SemanticUnit(unit.text, (*unit.entities, *more)) for unit, more in beside)
    related = [
        RelationMention(unit.entities[0], each, unit.text)
        for unit, more in beside
        for each in more
        if unit.entities
    ] + sorted(ruled.relations, key=lambda each: -each.strength)
    relations = (  # a model describes a relation in words of its own, not as a part of a unit
        replace(
            each,
            description=f"{each.target}: {_cut(each.description, _RELATION_WORDS)}",
            type=EXPECTED_TYPE if relation_types else "",
        )
        for each in related
    )
    return ExtractionAnswer(units, tuple(entities), tuple(islice(relations, len(entities))))


def _cut(text: str, words: int) -> str:
    return " ".join(text.split(maxsplit=words)[:words])


def to_extraction(answers: Sequence[ExtractionAnswer], notes: Counter[str]) -> Extraction:
    """One chunk's answers (the first and any gleaned ones) as a consistent extraction.

    Every name that a relation or a unit uses becomes an entity of the chunk (NodeRAG's reconstruction of
    relations, without another call). `notes` counts what was added and what was dropped.
    """
    for answer in answers:
        for kind, count in answer.unread.items():
            notes[f"{kind} that could not be read dropped"] += count
        if answer.foreign:
            notes["names that are not of the passage dropped"] += answer.foreign
    chunk = _Chunk(notes)
    chunk.add_entities(entity for answer in answers for entity in answer.entities)
    for relation in chain.from_iterable(answer.relations for answer in answers):
        chunk.add_relation(relation)
    for unit in chain.from_iterable(answer.units for answer in answers):
        chunk.add_unit(unit)
    return Extraction(
        tuple(dict.fromkeys(chunk.units)),
        tuple(chunk.entities.values()),
        tuple(dict.fromkeys(chunk.relations)),
    )


class _Chunk:
    """One chunk's extraction while it is put together; `notes` counts what is added or dropped."""

    def __init__(self, notes: Counter[str]) -> None:
        self.entities: dict[str, EntityMention] = {}
        self.relations: list[RelationMention] = []
        self.units: list[SemanticUnit] = []
        self._notes = notes

    def add_entities(self, entities: Iterable[EntityMention]) -> None:
        """Add entities by canonical name; descriptions of a name are joined unless one repeats another."""
        beyond: set[str] = set()
        for entity in entities:
            key = canonical(entity.name)
            before = self.entities.get(key)
            if not canonical_name(entity.name):
                self._notes["names that are no names dropped"] += 1
            elif before is not None:
                text, added = before.description, entity.description
                repeats = re.search(rf"(?<!\w){re.escape(added)}(?!\w)", text) is not None
                if added and not repeats:
                    text = f"{text} {added}".strip()
                self.entities[key] = EntityMention(before.name, before.type or entity.type, text)
            elif len(self.entities) < MOST_ENTITIES:
                self.entities[key] = entity
            else:
                beyond.add(key)
        if beyond:
            self._notes["entities beyond the limit of a chunk dropped"] += len(beyond)

    def add_relation(self, relation: RelationMention) -> None:
        """Add a relation of two names; what is said of one name becomes a unit."""
        source, target, text = relation.source, relation.target, relation.description
        name = next(filter(canonical_name, (source, target)), None)
        if canonical_name(source) and canonical_name(target) and canonical(source) != canonical(target):
            if self._ensure((source, target), "relation ends added as entities"):
                self.relations.append(relation)
            else:
                self._notes["relations of entities beyond the limit of a chunk dropped"] += 1
        elif name is None or not text:
            self._notes["relations without two names dropped"] += 1
        else:
            if f" {' '.join(words(name))} " not in f" {' '.join(words(text))} ":
                text = f"{name} {text}" if canonical_name(source) else f"{text} {name}"
            self._notes["relations without two names kept as units"] += 1
            self.add_unit(SemanticUnit(text, (name,)))

    def add_unit(self, unit: SemanticUnit) -> None:
        if not unit.text:
            self._notes["units without text dropped"] += 1
            return
        names: dict[str, None] = {}
        for name in (part for each in unit.entities for part in self._parts(each)):
            if not canonical_name(name):
                self._notes["names of units that are no names dropped"] += 1
            elif self._ensure((name,), "entities of units added"):
                names[name] = None
            else:
                self._notes["names of units beyond the limit of a chunk dropped"] += 1
        self.units.append(SemanticUnit(unit.text, tuple(names)))

    def _parts(self, name: str) -> list[str]:
        """`Ada, Bo` is two names if both are known and the whole is not."""
        parts = [part.strip() for part in re.split("[,;]", name)]
        several = all(canonical(part) in self.entities for part in parts)
        return parts if several and canonical(name) not in self.entities else [name]

    def _ensure(self, names: Iterable[str], note: str) -> bool:
        """Make all names entities, if the limit permits; whether they are."""
        missing = {key: name for name in names if (key := canonical(name)) not in self.entities}
        if len(self.entities) + len(missing) > MOST_ENTITIES:
            return not missing
        if missing:
            self._notes[note] += len(missing)
        self.entities.update({key: EntityMention(name) for key, name in missing.items()})
        return True
