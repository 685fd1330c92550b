"""Vectors of the statements of passages, and of the entities that they name.

Where the embedder offers vectors of parts of texts, it runs over each passage once, and the vector of a
semantic unit is pooled from its tokens in the passage. Else the distinct texts of units are embedded. An
entity without a description of its own has the mean of its units' vectors; its name, as in the first
passage, is added with less weight, so that the entities of one sentence differ.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.ingest.carryover import (
    VECTOR_KEYS,
    VECTORS,
    CarryOver,
    Keys,
    lookup,
    text_keys,
    written_by_model,
)
from stratagraph.ingest.extraction.stored import extraction_of
from stratagraph.ingest.graph.layout import Entity
from stratagraph.ingest.graph.lists import Lists
from stratagraph.ingest.names.index import canonical
from stratagraph.kernels.ranges import borders
from stratagraph.models.gate import Gate
from stratagraph.text.sentences import added_as_text
from stratagraph.types.protocols import Corpus, Rows, Stored, Vectors
from stratagraph.types.records import Extraction, Node, content_key

UNIT_VECTORS, UNIT_KEYS = "units.vectors", "units.keys"
"""Arrays of the graph: the units' vectors, and keys of what they were made from."""
NAME_CODES, NAME_KEYS = "mentions.codes", "mentions.keys"
"""Arrays of the graph: the signs of the vectors of names, and keys of what they were made from (0: none)."""
STAGE, NAME_STAGE = "embed semantic units", "embed names"
_BLOCK = 8192  # vectors made at a time, beside those that stay
NAME_WEIGHT = 0.25
"""The weight of a name beside what is said of it, which has weight 1."""
HalfVectors = NDArray[np.float16]
Codes = NDArray[np.uint8]


class Pooled:
    """Vectors of parts of passages embedded in this build, until the graph takes them.

    `units` are vectors and `names` their codes, by keys; `done` are the ids of the passages.
    """

    def __init__(self) -> None:
        self.units: dict[int, HalfVectors] = {}
        self.names: dict[int, Codes] = {}
        self.done: set[str] = set()

    async def embed(
        self, stage: str, gate: Gate, corpus: Corpus, rows: Sequence[int], nodes: Sequence[Node]
    ) -> Vectors:
        """Vectors of passages, shape (passages, dimension); keeps those of statements and names.

        `nodes` are the passages' extractions; what a passage does not have word for word is left out.
        """
        chunks = await asyncio.to_thread(corpus.chunks, rows)
        units, names, spans = [], [], []
        for chunk, said in zip(chunks, map(extraction_of, nodes), strict=True):
            units.append(locate(chunk.text, [unit.text for unit in said.units]))
            names.append(_names(chunk.text, said))
            shift = len(chunk.searched_text) - len(chunk.text)
            places = (*units[-1].values(), *names[-1].values())
            spans.append([(start + shift, end + shift) for start, end in places])
        whole = [chunk.searched_text for chunk in chunks]
        vectors, parts = await gate.embed_spans(stage, whole, spans, [(node.id,) for node in nodes])
        for node, own, named, inner in zip(nodes, units, names, parts, strict=True):
            self.done.add(node.id)
            for unit, row in zip(own, inner.astype(np.float16), strict=False):
                self.units[content_key("statement", node.id, unit)] = row
            for name, code in zip(named, _codes(inner[len(own) :]), strict=True):
                self.names[content_key("name", node.id, name)] = code
        return vectors


def locate(text: str, statements: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The offsets of statements that a passage has word for word; white space may differ."""
    spans: dict[str, tuple[int, int]] = {}
    uneven = "\n" in text or "  " in text
    after = 0
    for statement in statements:
        at = text.find(statement, after)
        if at < 0:
            at = text.find(statement)
        if at >= 0:
            spans[statement] = (at, at + len(statement))
        elif uneven:  # lines of a record end in ";" in a statement
            words = (re.escape(word.removesuffix(";")) for word in statement.split())
            if match := re.search(r";?\s+".join(words), text):
                spans[statement] = match.span()
        after = spans[statement][1] if statement in spans else after
    return {statement: span for statement, span in spans.items() if span[0] < span[1]}


def _names(text: str, said: Extraction) -> dict[str, tuple[int, int]]:
    """The first place of each entity's name in a passage, by canonical names."""
    spans: dict[str, tuple[int, int]] = {}
    for name in (entity.name for entity in said.entities):
        at = text.find(name)
        if at >= 0 and name:
            spans.setdefault(canonical(name), (at, at + len(name)))
    return spans


def _codes(vectors: NDArray[np.floating]) -> Codes:
    return np.packbits(vectors > 0, axis=1)


@dataclass(frozen=True, slots=True)
class Source:
    """What the vectors of a graph are made from.

    `extracted` says what each passage states; `pooled` holds the parts of passages embedded in this build,
    None if the embedder gives no parts; `previous` is the previous graph.
    """

    corpus: Corpus
    extracted: Stored
    gate: Gate
    pooled: Pooled | None
    previous: Stored | None

    @property
    def dimension(self) -> int:
        """Of all vectors."""
        return int(self.corpus.vectors.shape[1])

    def before(self, array: str) -> Stored | None:
        """The previous graph, if it has an array."""
        return None if self.previous is None or array not in self.previous.arrays else self.previous

    async def embed_again(self, pooled: Pooled, rows: Iterable[int]) -> None:
        """Embed passages whose parts are needed now and were not kept."""
        ordered = sorted(set(rows))
        identities = zip(ordered, self.corpus.ids(ordered), strict=True)
        missing = [row for row, identity in identities if identity not in pooled.done]
        if missing:
            await pooled.embed(STAGE, self.gate, self.corpus, missing, self.extracted.nodes(missing))


async def unit_vectors(source: Source, units: Sequence[tuple[str, int]]) -> tuple[HalfVectors, Keys]:
    """Vectors of semantic units, shape (units, dimension), and the keys by which an update finds them.

    `units` are texts with the first passage that states each. Where the embedder gives vectors of parts, a
    unit has the vector of its part of that passage, unless names were added to it.
    """
    texts, pooled = [text for text, _ in units], source.pooled
    vectors = np.zeros((len(units), source.dimension), np.float16)
    missing: list[int] = list(range(len(units)))

    def take_pooled(parts: Pooled) -> None:
        for place in missing:
            if (row := parts.units.get(int(keys[place]))) is not None:
                vectors[place] = row

    if pooled is None:
        keys = text_keys(texts)
    else:
        ids = source.corpus.ids([row for _, row in units])
        own = (content_key("statement", *each) for each in zip(ids, texts, strict=True))
        keys = np.fromiter(own, np.uint64, len(units))
        take_pooled(pooled)
    if (previous := source.before(UNIT_KEYS)) is not None:
        places = lookup(keys, previous.arrays[UNIT_KEYS])
        rows = np.flatnonzero((places >= 0) & ~vectors.any(axis=1))
        vectors[rows] = previous.arrays[UNIT_VECTORS][places[rows]]
    missing = np.flatnonzero(~vectors.any(axis=1)).tolist()
    if pooled is not None and missing:
        await source.embed_again(pooled, (units[place][1] for place in missing))
        take_pooled(pooled)
        missing = np.flatnonzero(~vectors.any(axis=1)).tolist()
    await _embed(source.gate, STAGE, list(map(added_as_text, texts)), missing, vectors)
    return vectors, keys


async def name_codes(source: Source, entities: Sequence[Entity]) -> tuple[Codes, Keys]:
    """The signs of the vectors of names, shape (entities, dimension / 8), and keys; 0 where there is none.

    A name has the vector of its mention in the first passage that has it word for word: one embedded now, or
    that of the previous graph, which has one mention of each entity. Texts are searched for names before
    anything is embedded, so that a passage is embedded again only if it is the first one with a name.
    Without vectors of parts, the text of a name is embedded.
    """
    codes = np.zeros((len(entities), -(-source.dimension // 8)), np.uint8)
    previous, pooled = source.before(NAME_KEYS), source.pooled
    keys_before, codes_before = np.zeros(0, np.uint64), codes[:0]
    if previous is not None:
        keys_before, codes_before = previous.arrays[NAME_KEYS], previous.arrays[NAME_CODES]
    if pooled is None:
        names = [entity.name for entity in entities]
        keys = text_keys(names)
        places = lookup(keys, keys_before)
        codes[places >= 0] = codes_before[places[places >= 0]]
        await _embed(source.gate, NAME_STAGE, names, np.flatnonzero(places < 0).tolist(), codes, _codes)
        return codes, keys
    keys = np.zeros(len(entities), np.uint64)
    known = {each: row for row, each in enumerate(keys_before.tolist()) if each}
    ids, written = source.corpus.ids(range(source.corpus.size)), dict[int, Collection[str]]()

    def find(places: Iterable[int], parts: Pooled) -> dict[int, int]:
        """Fill in the codes of entities at some places; returns the passage to embed for the others."""
        waiting = dict[int, int]()
        undecided = {place: iter(entities[place].chunks) for place in places}
        while undecided:
            ahead = {place: row for place, rows in undecided.items() if (row := next(rows, None)) is not None}
            unread = {}
            for place, row in ahead.items():
                key = content_key("name", ids[row], entities[place].key)
                if key in parts.names or key in known:
                    keys[place] = key
                    codes[place] = parts.names[key] if key in parts.names else codes_before[known[key]]
                elif ids[row] not in parts.done:
                    unread[place] = row
            rows = sorted(set(unread.values()) - written.keys())
            texts, nodes = source.corpus.texts(rows), source.extracted.nodes(rows)
            for row, text, node in zip(rows, texts, nodes, strict=True):
                written[row] = _names(text, extraction_of(node)).keys()
            waiting |= {place: row for place, row in unread.items() if entities[place].key in written[row]}
            undecided = {place: undecided[place] for place in ahead if not (keys[place] or place in waiting)}
        return waiting

    waiting = await asyncio.to_thread(find, range(len(entities)), pooled)
    while waiting:
        await source.embed_again(pooled, waiting.values())
        waiting = await asyncio.to_thread(find, list(waiting), pooled)
    return codes, keys


async def _embed(
    gate: Gate,
    stage: str,
    texts: Sequence[str],
    places: Sequence[int],
    rows: NDArray[Any],
    made: Callable[[Vectors], NDArray[Any]] = np.asarray,
) -> None:
    """Fill in rows computed from the vectors of some texts, a batch at a time."""
    if not places:
        return
    with gate.stage(stage, len(places)):
        for start in range(0, len(places), _BLOCK):
            some = places[start : start + _BLOCK]
            rows[some] = made(await gate.embed(stage, [texts[place] for place in some]))


async def entity_arrays(
    source: Source,
    entities: Sequence[Entity],
    texts: Sequence[str],
    directions: Vectors,
    stated: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """Vectors of entities: of their units where these say everything (`stated`), else of their texts."""
    codes = np.zeros((len(texts), -(-source.dimension // 8)), np.uint8)
    mentions = np.zeros(len(texts), np.uint64)
    rows = np.flatnonzero(stated) if source.pooled is None else np.arange(len(texts))
    codes[rows], mentions[rows] = await name_codes(source, [entities[row] for row in rows.tolist()])
    vectors = await asyncio.to_thread(entity_vectors, directions, codes, mentions)
    others, keys = np.flatnonzero(~stated), np.zeros(len(texts), np.uint64)
    own = [texts[row] for row in others.tolist()]
    vectors[others] = await CarryOver(source.previous, source.gate).embed(
        "embed entities", own, source.dimension
    )
    keys[others] = await asyncio.to_thread(text_keys, own)
    return {VECTORS: vectors, VECTOR_KEYS: keys, NAME_CODES: codes, NAME_KEYS: mentions}


def entity_vectors(units: Vectors, codes: Codes, keys: Keys) -> Vectors:
    """Unit vectors of entities, shape (entities, dimension), from names (`name_codes`) and units.

    `units` is the mean direction of each entity's units; where it is zero, so is the result.
    """
    dimension = units.shape[1]
    vectors = np.zeros(units.shape, np.float32)
    for start in range(0, len(units), _BLOCK):
        some = slice(start, start + _BLOCK)
        signs = np.unpackbits(codes[some], axis=1, count=dimension).astype(np.float32) * 2 - 1
        signs *= NAME_WEIGHT / np.sqrt(dimension) * ((keys[some] != 0) & units[some].any(axis=1))[:, None]
        vectors[some] = _unit(units[some] + signs)
    return vectors


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), np.float32)


def means(vectors: NDArray[np.floating], members: Lists) -> Vectors:
    """The mean direction of each list of rows of vectors, shape (lists, dimension); else zero."""
    starts, directions = members.starts, np.zeros((len(members.starts) - 1, vectors.shape[1]), np.float32)
    for begin in range(0, len(directions), _BLOCK):
        own = starts[begin : begin + _BLOCK + 1]
        rows, places = np.unique(members.values[own[0] : own[-1]], return_inverse=True)
        shape = (len(own) - 1, len(rows))
        groups = csr_array((np.ones(len(places), np.float32), places, own - own[0]), shape=shape)
        directions[begin : begin + _BLOCK] = _unit(groups @ np.asarray(vectors[rows], np.float32))
    return directions


def described_by_units(fragments: Sequence[str], units: Sequence[str]) -> bool:
    """Whether an entity's description contains nothing but what its units say."""
    if not units:
        return False
    statements, joined = set(units), ""
    for fragment in fragments:
        if fragment in statements:
            continue
        joined = joined or "\n".join(units)
        if fragment not in joined and not any(unit in fragment for unit in units):
            return False
    return True


async def group_vectors(
    nodes: Sequence[Node],
    members: Sequence[Sequence[int] | Rows],
    vectors: NDArray[np.floating],
    *,
    stage: str,
    carry: CarryOver,
) -> Vectors:
    """Vectors of nodes that stand for groups, shape (nodes, dimension).

    A text that a model wrote is embedded. An extractive one has the mean direction of its members (rows of
    `vectors`), unless none of them has a vector. Vectors are rounded as they are stored, so that what is
    derived from them is the same in a build and in an update.
    """
    rows = np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int64)
    lists = Lists(borders(np.fromiter(map(len, members), np.int64)), rows)
    directions = await asyncio.to_thread(means, vectors, lists)
    written = np.fromiter((written_by_model(node) for node in nodes), np.bool_, len(nodes))
    if others := np.flatnonzero(written | ~directions.any(axis=1)).tolist():
        texts = [nodes[row].text for row in others]
        directions[others] = await carry.embed(stage, texts, directions.shape[1])
    return directions.astype(np.float16).astype(np.float32)
