"""Extraction as a stage: once per chunk, by the model or without one, kept for every method.

The result is one node per chunk, whose text is the extraction as JSON. It is stored like a method's index,
so that an update takes it over and a deleted chunk takes its extraction along.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import StoreError
from stratagraph.ingest.carryover import Kept, counts_array, read_counts
from stratagraph.ingest.extraction import by_spacy
from stratagraph.ingest.extraction.by_model import FORMS, ask, title_of, to_extraction
from stratagraph.ingest.extraction.by_rules import extract
from stratagraph.ingest.extraction.ontology import TYPES, Ontology, checked_types
from stratagraph.ingest.extraction.stored import BATCH, EMPTY, MAKERS, NOTES, TITLES, to_json
from stratagraph.ingest.names.index import words
from stratagraph.models.gate import Gate
from stratagraph.text.sentences import clip
from stratagraph.types.built import Built, Carried, Holds
from stratagraph.types.protocols import Corpus, Rows, Stored
from stratagraph.types.records import (
    Chunk,
    EntityMention,
    Extraction,
    Node,
    RelationMention,
    SemanticUnit,
    content_id,
    content_key,
)

NAME = "extraction"
PASSAGE_TOKENS = 6000
"""What an extraction prompt takes of one chunk; a caller's chunk may have any length."""
GIVEN = "given"
LOCAL = "without a model: "
LOCAL_VERSION = "4"
"""Raised with each change of the rules, so that an update extracts again what other rules extracted."""
NOTHING = "chunks in which nothing was found"
MOST_GLEANING = 20
"""Each round is a call per chunk, and the settings may come from a stranger's folder."""
_AT_ONCE = 64  # passages: some 20 ms of work
_Passage = tuple[str, str]
"""A text and its title."""


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """How entities and relations are found.

    Parameters
    ----------
    mode
        `auto` uses the model if there is one and a method needs it. `llm` and `nlp` force that way.
    form
        What the model is asked for. `sentences`: the names that each sentence speaks of; the sentences are
        kept as they are, and several short chunks share a call. `full`: facts, and descriptions of entities
        and relations, as in the papers; it takes eight times as many output tokens.
    entity_types
        Types that the model is offered: names, or a mapping of names to descriptions. It may use others. An
        entity of another type gets the given type that it stands for in another case or number or as a longer
        phrase ("shipping company"); if there is none, it keeps its own, which the report counts.
    relation_types
        Types of relations that the model names, as for `entity_types`; none by default. They take more output
        tokens. A relation of no such type stays without one.
    gleaning
        Further rounds per chunk in which the model is asked what was missed, in the full form.
    description_tokens
        A merged description longer than this is condensed. In the short forms it consists of sentences of the
        passages, and a model condenses it if it is four times as long.
    resolve
        Whether variants of a name become one entity, and namesakes several: as a model judges where one
        extracts, else by titles of documents and descriptions (see `ingest.graph.same_things`).
    spacy
        Name or folder of an installed spaCy pipeline that finds names where no model does (`[nlp]` extra);
        None takes regular expressions. With another one texts are read again; a new version under the same
        name is not noticed.
    """

    mode: Literal["auto", "llm", "nlp"] = "auto"
    form: Literal["sentences", "full"] = "sentences"
    entity_types: Mapping[str, str] | Sequence[str] = TYPES
    relation_types: Mapping[str, str] | Sequence[str] = ()
    gleaning: int = 0
    description_tokens: int = 300
    resolve: bool = False
    spacy: str | None = None

    def __post_init__(self) -> None:
        for name in ("entity_types", "relation_types"):
            object.__setattr__(self, name, checked_types(getattr(self, name), name))
        if not self.entity_types:
            raise ValueError("entity_types must have at least one type; leave it out to get the default ones")
        for name in ("gleaning", "description_tokens"):
            if not isinstance(getattr(self, name), int):
                raise TypeError(f"{name} must be a whole number, not {getattr(self, name)!r}")
        if not isinstance(self.resolve, bool):
            raise TypeError(f"resolve must be True or False, not {self.resolve!r}")
        if self.spacy is not None and (not isinstance(self.spacy, str) or not self.spacy):
            raise TypeError(f"spacy must be the name or folder of a pipeline, not {self.spacy!r}")
        if self.mode not in ("auto", "llm", "nlp"):
            raise ValueError(f"mode must be 'auto', 'llm' or 'nlp', not {self.mode!r}")
        if self.form not in FORMS:
            raise ValueError(f"form must be 'sentences' or 'full', not {self.form!r}")
        if self.gleaning and self.form != "full":
            raise ValueError(
                f"gleaning asks for what the full form missed, and the form is {self.form!r}: "
                "set form='full', or gleaning=0"
            )
        if not 0 <= self.gleaning <= MOST_GLEANING:
            raise ValueError(f"gleaning must be from 0 to {MOST_GLEANING}, not {self.gleaning}")
        if self.description_tokens < 20:
            raise ValueError(f"description_tokens must be at least 20, not {self.description_tokens}")
        if self.relation_types and self.mode == "nlp":
            raise ValueError(
                "relation_types are named by a model, and mode 'nlp' asks none: leave out one of them"
            )

    @property
    def prompt(self) -> str:
        """The name of the prompt that asks for extractions."""
        return f"ingest/{'extract' if self.form == 'full' else self.form}"


Given = Mapping[str, Extraction]
"""Extractions that exist already, by the id of a passage (the caller's `Chunk.ref`, or ours) or document."""


async def extract_corpus(
    corpus: Corpus,
    gate: Gate,
    *,
    config: ExtractionConfig,
    previous: Stored | None,
    use_llm: bool,
    kept: Kept | None = None,
    given: Given | None = None,
    may_load: bool = True,
) -> Built:
    """The extraction of every chunk: taken over from `previous`, given, or made now.

    `may_load` says whether the caller named the spaCy pipeline in `config`: one that only a folder names is
    not loaded, since it may run code of its own. A chunk for which the model fails is extracted by rules, and
    is tried again by the next update; the failure is in the gate's list.
    """
    notes: Counter[str] = Counter()
    stage = _Stage(corpus, gate, config, use_llm, _placed(corpus, given, notes) if given else {}, may_load)
    rows = await asyncio.to_thread(stage.taken_over, previous, kept)
    todo: list[int] = np.flatnonzero(rows < 0).tolist()
    with gate.stage("extract", corpus.size):
        nodes = list[Node]()
        for at in range(0, len(todo), BATCH):
            nodes += await stage.made(todo[at : at + BATCH])
    makers, titles = np.zeros(corpus.size, np.uint64), np.zeros(corpus.size, np.uint64)
    makers[todo] = _keys(node.extra["maker"] for node in nodes)
    titles[todo] = [content_key("title", stage.titles[row]) if row in stage.titles else 0 for row in todo]
    counts = _noted(nodes)
    if previous is not None and len(todo) < corpus.size:
        own = rows >= 0
        makers[own], titles[own] = (previous.arrays[each][rows[own]] for each in (MAKERS, TITLES))
        gone = np.setdiff1d(np.arange(len(previous.arrays[MAKERS])), rows)
        counts = counts + read_counts(previous.arrays, NOTES) - _noted(previous.nodes(gone.tolist()))
    by_model = np.isin(makers, _keys(stage.wanted))
    notes.update(counts)
    if use_llm:
        notes["chunks extracted without the model"] = int(np.count_nonzero(~by_model))
    elif config.relation_types:
        notes["chunks whose relations have no types: no model extracts"] = corpus.size
    places = np.arange(corpus.size + 1)
    return Built(
        Carried(rows, nodes, places, places[:-1]) if len(todo) < corpus.size else nodes,
        Holds.CONTENT.of({MAKERS: makers, TITLES: titles, NOTES: counts_array(counts)}),
        notes={key: count for key, count in sorted(notes.items()) if count},
        complete=bool(by_model.all()),
    )


class _Stage:
    """Extracts from the chunks of a corpus. `titles` are those that were read with chunks, by row."""

    def __init__(
        self,
        corpus: Corpus,
        gate: Gate,
        config: ExtractionConfig,
        use_llm: bool,
        given: Mapping[int, Extraction],
        may_load: bool,
    ) -> None:
        self._corpus, self._gate, self._config, self._use_llm = corpus, gate, config, use_llm
        self._given, self._may_load = given, may_load
        self._ontology = Ontology(config.entity_types, config.relation_types)
        self._local = LOCAL + content_id(LOCAL_VERSION, *((config.spacy,) if config.spacy else ()))
        self.wanted = self._maker(config.gleaning), GIVEN
        self.titles: dict[int, str] = {}

    def _maker(self, gleaned: int) -> str:
        """What a model's extraction depends on beside its chunk; one by another maker is made again."""
        return content_id("llm", self._config.form, str(gleaned), *self._ontology.identity)

    def taken_over(self, previous: Stored | None, kept: Kept | None) -> Rows:
        """The previous row of each chunk whose extraction stays, or -1, shape (chunks,). Reads no extraction.

        With a model, those stay that it made or the caller gave. Without one, those that any model made, and
        those that the rules would make the same now: of the same title, which may have changed if the
        document was given again.
        """
        rows = np.full(self._corpus.size, -1, np.int64)
        if previous is None:
            return rows
        if kept is None:
            places = previous.rows(self._corpus.ids(range(len(rows))))
            rows[:] = [places.get(each, -1) for each in self._corpus.ids(range(len(rows)))]
        else:
            rows[:] = kept.rows_before
        rows[list(self._given)] = -1
        known = np.flatnonzero(rows >= 0)
        makers, titles = (np.asarray(previous.arrays[each])[rows[known]] for each in (MAKERS, TITLES))
        if self._use_llm:
            stays = np.isin(makers, _keys(self.wanted))
        else:
            now = titles.copy()
            again = np.flatnonzero(np.isin(known, [] if kept is None else kept.arrived))
            for at in range(0, len(again), BATCH):
                some = again[at : at + BATCH]
                now[some] = [
                    content_key("title", title_of(each)) for each in self._corpus.chunks(known[some].tolist())
                ]
            stays = (titles == 0) | ((makers == _keys([self._local])) & (titles == now))
        rows[known[~stays]] = -1
        return rows

    async def made(self, rows: Sequence[int]) -> list[Node]:
        """The nodes of some chunks: given, or made now."""
        nodes, todo = dict[int, Node](), list[tuple[int, Chunk]]()
        for row, chunk in zip(rows, self._corpus.chunks(rows), strict=True):
            if row in self._given:
                nodes[row] = _node(row, chunk.id, to_json(self._given[row]), GIVEN)
            else:
                todo.append((row, chunk))
        if todo:
            if pipeline := self._config.spacy:  # a missing pipeline is an error before any model call
                if not self._may_load:
                    raise StoreError(
                        f"the settings of the folder name the spaCy pipeline {pipeline!r}, and loading "
                        "it may run code of its own. If you trust it, open the index with "
                        f"open_index(..., spacy={pipeline!r}) and insert again"
                    )
                await asyncio.to_thread(by_spacy.load, pipeline)
            nodes |= await (self._by_model(todo) if self._use_llm else self._by_rules(todo))
        return [nodes[row] for row in rows]

    async def _by_model(self, todo: Sequence[tuple[int, Chunk]]) -> dict[int, Node]:
        """Nodes by the model, or by rules for the chunks for which it fails."""
        config, count_tokens, ontology = self._config, self._gate.count_tokens, self._ontology
        shown = [replace(chunk, text=clip(chunk.text, PASSAGE_TOKENS, count_tokens)) for _, chunk in todo]
        answers = await ask(shown, self._gate, form=config.form, ontology=ontology, gleaning=config.gleaning)
        nodes = await self._by_rules([each for each, own in zip(todo, answers, strict=True) if not own])
        for (row, chunk), read, own in zip(todo, shown, answers, strict=True):
            if own:
                notes: Counter[str] = Counter()
                if len(read.text) < len(chunk.text):
                    notes["chunks too long for a prompt, read in part"] += 1
                text = to_json(ontology.applied(to_extraction(own, notes), notes))
                nodes[row] = _node(row, chunk.id, text, self._maker(len(own) - 1), notes)
        return nodes

    async def _by_rules(self, todo: Sequence[tuple[int, Chunk]]) -> dict[int, Node]:
        """Nodes without a model."""
        titles = {row: title_of(chunk) for row, chunk in todo}
        self.titles |= titles
        passages = [(chunk.text, titles[row]) for row, chunk in todo]
        extracted = partial(_extracted, pipeline=self._config.spacy)
        texts = await self._gate.compute(extracted, passages, batch=_AT_ONCE)
        return {
            row: _node(row, chunk.id, text, self._local)
            for (row, chunk), text in zip(todo, texts, strict=True)
        }


def _placed(corpus: Corpus, given: Given, notes: Counter[str]) -> dict[int, Extraction]:
    """The given extractions by row: a passage's own, or its part of its document's."""
    if not isinstance(given, Mapping):
        raise TypeError(
            "extraction must map ids of documents or refs of chunks to Extractions, and this is a "
            f"{type(given).__name__}; of what an importer returns, give `.extractions`"
        )
    for key, value in given.items():
        if not isinstance(value, Extraction):
            raise TypeError(f"the extraction given for {key!r} is {type(value).__name__}, not Extraction")
    placed: dict[int, Extraction] = {}
    documents: dict[str, list[int]] = {}
    used: set[str] = set()
    for start in range(0, corpus.size, BATCH):
        rows = range(start, min(start + BATCH, corpus.size))
        for row, chunk in zip(rows, corpus.chunks(rows), strict=True):
            if own := next((own for own in (chunk.ref, chunk.id) if own and own in given), ""):
                placed[row] = given[own]
                used.add(own)
            elif chunk.document_id in given:
                documents.setdefault(chunk.document_id, []).append(row)
    for document_id, places in documents.items():
        used.add(document_id)
        placed |= dict(zip(places, distribute(given[document_id], corpus.texts(places)), strict=True))
    notes["given extractions that match no passage"] = len(set(given) - used)
    return placed


def _keys(makers: Iterable[str]) -> NDArray[np.uint64]:
    key = cache(partial(content_key, "maker"))  # they are few
    return np.fromiter(map(key, makers), np.uint64)


def _noted(nodes: Iterable[Node]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.extra.get("notes", {}))
    return counts


def _node(row: int, identity: str, text: str, maker: str, notes: Mapping[str, int] = {}) -> Node:
    counted = dict(notes)
    if text == EMPTY:
        counted[NOTHING] = 1
    extra = {"maker": maker, "notes": counted} if counted else {"maker": maker}
    return Node(identity, "extraction", 0, text, [row], extra)


def _extracted(passages: list[_Passage], *, pipeline: str | None) -> list[str]:
    if pipeline is not None:
        return [to_json(extraction) for extraction in by_spacy.extract_all(passages, pipeline)]
    return [to_json(extract(text, title=title)) for text, title in passages]


def distribute(whole: Extraction, texts: Sequence[str]) -> list[Extraction]:
    """A document's extraction, shared among its passages by the names in their texts, word by word.

    A relation or unit goes to the passages that have most of its names. What no passage names goes to the
    first.
    """
    if len(texts) == 1:
        return [whole]
    folded_texts = [f" {' '.join(words(text))} " for text in texts]
    entities: list[list[EntityMention]] = [[] for _ in texts]
    relations: list[list[RelationMention]] = [[] for _ in texts]
    units: list[list[SemanticUnit]] = [[] for _ in texts]
    for entity in whole.entities:
        for place in _places([entity.name], folded_texts):
            entities[place].append(entity)
    for relation in whole.relations:
        for place in _places([relation.source, relation.target], folded_texts):
            relations[place].append(relation)
    for unit in whole.units:
        for place in _places(unit.entities, folded_texts):
            units[place].append(unit)
    parts = zip(units, entities, relations, strict=True)
    return [Extraction(tuple(u), tuple(e), tuple(r)) for u, e, r in parts]


def _places(names: Sequence[str], folded_texts: Sequence[str]) -> list[int]:
    """The passages that have most of some names; the first if none has any."""
    folded = [f" {' '.join(words(name))} " for name in names]
    counts = [sum(name in text for name in folded) for text in folded_texts]
    most = max(counts)
    return [place for place, count in enumerate(counts) if count == most] if most else [0]
