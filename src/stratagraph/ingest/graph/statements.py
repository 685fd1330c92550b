"""Vectors of the statements of passages, and of the entities that they name.

Where the embedder offers vectors of parts of texts, it runs over each passage once, and the vector of a
semantic unit is pooled from its tokens in the passage. Else the distinct texts of units are embedded. An
entity without a description of its own has the mean of its units' vectors; its name, as in the first
passage, is added with less weight, so that the entities of one sentence differ.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stratagraph.ingest.carryover import CarryOver, Keys, lookup, text_keys, written_by_model
from stratagraph.ingest.extraction.stored import Said, said_by
from stratagraph.ingest.graph.layout import Entity
from stratagraph.ingest.names.index import canonical
from stratagraph.models.gate import Gate
from stratagraph.text.sentences import added_as_text
from stratagraph.types.protocols import Corpus, Rows, Stored, Vectors
from stratagraph.types.records import Node, content_key

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
        texts = [chunk.text for chunk in chunks]
        whole = [chunk.searched_text for chunk in chunks]
        statements = [said_by(node) for node in nodes]
        units = [locate(text, each.statements) for text, each in zip(texts, statements, strict=True)]
        names = [_names(text, each) for text, each in zip(texts, statements, strict=True)]
        above = [len(each) - len(text) for each, text in zip(whole, texts, strict=True)]
        spans = [
            [(start + shift, end + shift) for start, end in (*one.values(), *other.values())]
            for one, other, shift in zip(units, names, above, strict=True)
        ]
        vectors, parts = await gate.embed_spans(stage, whole, spans, [(node.id,) for node in nodes])
        for node, own, named, inner in zip(nodes, units, names, parts, strict=True):
            self.done.add(node.id)
            for unit, row in zip(own, inner.astype(np.float16), strict=False):
                self.units[_statement_key(node.id, unit)] = row
            for name, code in zip(named, _codes(inner[len(own) :]), strict=True):
                self.names[_named(node.id, name)] = code
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
        elif uneven and (match := re.search(_anywhere(statement), text)):
            spans[statement] = match.span()
        after = spans[statement][1] if statement in spans else after
    return {statement: span for statement, span in spans.items() if span[0] < span[1]}


def _anywhere(statement: str) -> str:
    """A pattern for a statement whatever white space is between its words; lines of a record end in ";"."""
    return r";?\s+".join(re.escape(word.removesuffix(";")) for word in statement.split())


def _names(text: str, said: Said) -> dict[str, tuple[int, int]]:
    """The first place of each name in a passage, by canonical names."""
    spans: dict[str, tuple[int, int]] = {}
    for name in said.names:
        at = text.find(name)
        if at >= 0 and name:
            spans.setdefault(canonical(name), (at, at + len(name)))
    return spans


def _statement_key(chunk: str, statement: str) -> int:
    return content_key("statement", chunk, statement)


def _named(chunk: str, name: str) -> int:
    return content_key("name", chunk, name)


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

    async def embed_again(self, rows: Iterable[int]) -> bool:
        """Embed passages whose parts are needed now and were not kept; False if there is none."""
        if self.pooled is None:
            return False
        ordered = sorted(set(rows))
        missing = [
            row
            for row, identity in zip(ordered, self.corpus.ids(ordered), strict=True)
            if identity not in self.pooled.done
        ]
        if missing:
            await self.pooled.embed(STAGE, self.gate, self.corpus, missing, self.extracted.nodes(missing))
        return bool(missing)


async def unit_vectors(source: Source, units: Sequence[tuple[str, int]]) -> tuple[HalfVectors, Keys]:
    """Vectors of semantic units, shape (units, dimension), and the keys by which an update finds them.

    `units` are texts with the first passage that states each. Where the embedder gives vectors of parts, a
    unit has the vector of its part of that passage, unless names were added to it.
    """
    texts = [text for text, _ in units]
    vectors = np.zeros((len(units), source.dimension), np.float16)
    if source.pooled is None:
        keys = text_keys(texts)
    else:
        ids = source.corpus.ids([row for _, row in units])
        keys = np.fromiter(map(_statement_key, ids, texts), np.uint64, len(units))
        _take_pooled(source.pooled, keys, vectors)
    _take_over(source.previous, keys, vectors)
    if await source.embed_again(units[place][1] for place in _zeros(vectors)) and source.pooled is not None:
        _take_pooled(source.pooled, keys, vectors)
    await _embed(source.gate, STAGE, list(map(added_as_text, texts)), _zeros(vectors), vectors)
    return vectors, keys


def _zeros(vectors: NDArray[np.floating]) -> list[int]:
    places: list[int] = np.flatnonzero(~vectors.any(axis=1)).tolist()
    return places


def _take_pooled(pooled: Pooled, keys: Keys, vectors: HalfVectors) -> None:
    for place, each in enumerate(keys.tolist()):
        row = pooled.units.get(each)
        if row is not None:
            vectors[place] = row


def _take_over(previous: Stored | None, keys: Keys, vectors: HalfVectors) -> None:
    if previous is None or UNIT_KEYS not in previous.arrays:
        return
    places = lookup(keys, previous.arrays[UNIT_KEYS])
    rows = np.flatnonzero((places >= 0) & ~vectors.any(axis=1))
    vectors[rows] = previous.arrays[UNIT_VECTORS][places[rows]]


async def name_codes(source: Source, entities: Sequence[Entity]) -> tuple[Codes, Keys]:
    """The signs of the vectors of names, shape (entities, dimension / 8), and keys; 0 where there is none.

    A name has the vector of its mention in the first passage that has it word for word. Without vectors of
    parts, its text is embedded.
    """
    if source.pooled is None:
        return await _codes_of_texts(source, [entity.name for entity in entities])
    names = _Mentions(source, source.pooled)
    coded, waiting = await asyncio.to_thread(names.find, entities, range(len(entities)))
    while waiting:
        await source.embed_again(waiting.values())
        more, waiting = await asyncio.to_thread(names.find, entities, list(waiting))
        coded |= more
    codes = np.zeros((len(entities), -(-source.dimension // 8)), np.uint8)
    keys = np.zeros(len(entities), np.uint64)
    for place, (key, code) in coded.items():
        keys[place], codes[place] = key, code
    return codes, keys


class _Mentions:
    """Finds the first mention of each entity among passages embedded now and in the previous graph.

    The previous graph has one mention of each entity. Texts are searched for names before anything is
    embedded, so that a passage is embedded again only if it is the first one with a name.
    """

    def __init__(self, source: Source, pooled: Pooled) -> None:
        self._source = source
        self._pooled = pooled
        self._ids = source.corpus.ids(range(source.corpus.size))
        self._written: dict[int, Collection[str]] = {}
        self._known: Mapping[int, int] = {}
        previous = source.previous
        if previous is not None and NAME_KEYS in previous.arrays:
            self._codes = previous.arrays[NAME_CODES]
            self._known = {each: row for row, each in enumerate(previous.arrays[NAME_KEYS].tolist()) if each}

    def find(
        self, entities: Sequence[Entity], places: Iterable[int]
    ) -> tuple[dict[int, tuple[int, Codes]], dict[int, int]]:
        """The key and code of each entity at some places, or the passage to embed for it; by places."""
        coded: dict[int, tuple[int, Codes]] = {}
        waiting: dict[int, int] = {}
        undecided = {place: iter(entities[place].chunks) for place in places}
        while undecided:
            ahead = {place: row for place, rows in undecided.items() if (row := next(rows, None)) is not None}
            unread = {}
            for place, row in ahead.items():
                if (one := self._at(entities[place].key, row)) is not None:
                    coded[place] = one
                elif self._ids[row] not in self._pooled.done:
                    unread[place] = row
            self._read(unread.values())
            waiting |= {
                place: row for place, row in unread.items() if entities[place].key in self._written[row]
            }
            undecided = {
                place: undecided[place] for place in ahead if place not in coded and place not in waiting
            }
        return coded, waiting

    def _at(self, name: str, row: int) -> tuple[int, Codes] | None:
        key = _named(self._ids[row], name)
        code = self._pooled.names.get(key)
        if code is None and key in self._known:
            code = self._codes[self._known[key]]
        return None if code is None else (key, code)

    def _read(self, rows: Iterable[int]) -> None:
        """Find the names that passages have word for word."""
        missing = sorted(set(rows) - self._written.keys())
        texts, nodes = self._source.corpus.texts(missing), self._source.extracted.nodes(missing)
        for row, text, node in zip(missing, texts, nodes, strict=True):
            self._written[row] = _names(text, said_by(node)).keys()


async def _codes_of_texts(source: Source, names: Sequence[str]) -> tuple[Codes, Keys]:
    keys = text_keys(names)
    codes = np.zeros((len(names), -(-source.dimension // 8)), np.uint8)
    places = np.full(len(names), -1, np.int64)
    if source.previous is not None and NAME_KEYS in source.previous.arrays:
        places = lookup(keys, source.previous.arrays[NAME_KEYS])
        codes[places >= 0] = source.previous.arrays[NAME_CODES][places[places >= 0]]
    missing = np.flatnonzero(places < 0).tolist()
    await _embed(source.gate, NAME_STAGE, names, missing, codes, _codes)
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


def entity_vectors(units: Vectors, codes: Codes, keys: Keys) -> Vectors:
    """Unit vectors of entities, from their units and names, shape (entities, dimension).

    Parameters
    ----------
    units
        The mean direction of each entity's units; zero where there is none, and then so is the result.
    codes, keys
        As `name_codes` gives them.
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


def means(
    vectors: NDArray[np.floating], members: Sequence[Sequence[int] | Rows] | tuple[Rows, Rows]
) -> Vectors:
    """The mean direction of each group of rows of vectors, shape (groups, dimension); else zero.

    `members` are the rows of each group, or the same as (borders, rows).
    """
    if isinstance(members, tuple):
        indptr, indices = members
    else:
        indptr = np.cumsum([0, *map(len, members)], dtype=np.int64)
        indices = np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int64)
    directions = np.zeros((len(indptr) - 1, vectors.shape[1]), np.float32)
    for start in range(0, len(directions), _BLOCK):
        borders = indptr[start : start + _BLOCK + 1]
        rows, places = np.unique(indices[borders[0] : borders[-1]], return_inverse=True)
        shape = (len(borders) - 1, len(rows))
        groups = csr_array((np.ones(len(places), np.float32), places, borders - borders[0]), shape=shape)
        directions[start : start + _BLOCK] = _unit(groups @ np.asarray(vectors[rows], np.float32))
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
    directions = await asyncio.to_thread(means, vectors, members)
    written = np.fromiter((written_by_model(node) for node in nodes), np.bool_, len(nodes))
    rows = np.flatnonzero(written | ~directions.any(axis=1)).tolist()
    if rows:
        directions[rows] = await carry.embed(stage, [nodes[row].text for row in rows], directions.shape[1])
    return directions.astype(np.float16).astype(np.float32)
