"""Extractions as flat tables, from which the graph is grouped (`grouping`).

A text is known by its key (`content_key`). The tables of a corpus are those of its chunks, one after the
other; `NAME.starts` are the borders of the chunks:

    mentions    spelling, times; role: 0 a further spelling of a name of the chunk, 1 the first spelling of a
                name that the chunk leaves in doubt, 2 of another name
    typed       mention, kind (an entity type), times
    statements  mention, text; in the order of the texts
    relations   source and target (mentions), text, strength, apart (`described_apart`); in the order of the
                texts, the strongest first
    labels      relation, kind (a relation type)
    units       text, names (how many rows of `linked` are its own)
    linked      mention
    terms       term

Mentions and relations are counted from the first one of the chunk. `dropped` counts what a chunk has that is
no name or no relation (`DROPPED`). Dictionaries hold what follows from a text alone, by ascending keys:

    strings     every spelling, canonical name, term and type: name, the key of its canonical name (0: it has
                none); length in characters, at most 255; and the text itself (`strings.bytes`)
    phrases     every term: head and tail, which lack its last and its first word; form, of `THING` and
                `TWO_WORDS`
    addressed   every name in full with a form of address: rest, the name without it; short, the form of
                address with the last name
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.ingest.carryover import Kept
from stratagraph.ingest.extraction.candidates import is_thing, parts_of, short_of
from stratagraph.ingest.extraction.stored import BATCH, extraction_of
from stratagraph.ingest.names.spelling import LONGEST_NAME, canonical_name
from stratagraph.kernels.ranges import KeyTable, among, borders, distinct, firsts
from stratagraph.types.built import Holds
from stratagraph.types.protocols import Rows, Stored
from stratagraph.types.records import Extraction, RelationMention, content_key

Arrays = dict[str, NDArray[Any]]
Keys = NDArray[np.uint64]

PREFIX = "tables."
TABLES: dict[str, dict[str, DTypeLike]] = {
    "mentions": {"spelling": np.uint64, "times": np.int32, "role": np.uint8},
    "typed": {"mention": np.int32, "kind": np.uint64, "times": np.int32},
    "statements": {"mention": np.int32, "text": np.uint64},
    "relations": {
        "source": np.int32,
        "target": np.int32,
        "text": np.uint64,
        "strength": np.float64,
        "apart": np.bool_,
    },
    "labels": {"relation": np.int32, "kind": np.uint64},
    "units": {"text": np.uint64, "names": np.int32},
    "linked": {"mention": np.int32},
    "terms": {"term": np.uint64},
}
DICTIONARIES: dict[str, dict[str, DTypeLike]] = {
    "strings": {"key": np.uint64, "name": np.uint64, "length": np.uint8},
    "phrases": {"key": np.uint64, "head": np.uint64, "tail": np.uint64, "form": np.uint8},
    "addressed": {"key": np.uint64, "rest": np.uint64, "short": np.uint64},
}
HOLDS = {
    Holds.ROWS: tuple(
        f"{PREFIX}{each}"
        for each in (
            *("typed.mention", "statements.mention", "relations.source", "relations.target", "units.names"),
            *("labels.relation", "linked.mention", "strings.starts"),
            *(f"{table}.starts" for table in TABLES),
        )
    ),
    Holds.MEASURES: tuple(
        f"{PREFIX}{each}"
        for each in (
            *("mentions.times", "mentions.role", "typed.times", "relations.strength", "relations.apart"),
            *("strings.length", "phrases.form", "dropped"),
        )
    ),
    Holds.CONTENT: tuple(
        f"{PREFIX}{table}.{name}"
        for table, kinds in {
            **TABLES,
            **DICTIONARIES,
            "strings": {**DICTIONARIES["strings"], "bytes": np.uint8},
        }.items()
        for name, kind in kinds.items()
        if kind is np.uint64 or name == "bytes"
    ),
}
"""What the arrays hold."""
DROPPED = (
    "names that are no names dropped",
    "relations without two names dropped",
    "relations of an entity with itself dropped",
)
FIRST, CERTAIN = 1, 2  # roles of mentions
THING, TWO_WORDS = 1, 2
"""The form of a term: whether its words may name a thing, and whether there are two. The numbers add up."""
_CODES = {"u8": "Q", "i4": "i", "f8": "d", "u1": "B", "b1": "B"}
"""Type codes of `array`, which holds a number in an eighth of a list's bytes."""
_LONGEST = 255  # characters that are counted
_HEAD = 16  # bytes of a text that are compared at once


def described_apart(relation: RelationMention, extraction: Extraction) -> bool:
    """Whether a relation has a description that is not part of a unit of the same chunk.

    A model describes relations in words of its own; rules repeat the sentence, which is a unit.
    """
    description = relation.description
    return bool(description) and not any(description in unit.text for unit in extraction.units)


class Flat:
    """The tables of chunks, which are added in order."""

    def __init__(self, extractions: Iterable[Extraction] = ()) -> None:
        self._columns = {
            table: [array(_CODES[np.dtype(kind).str[1:]]) for kind in kinds.values()]
            for table, kinds in TABLES.items()
        }
        self._starts = {table: array("q", [0]) for table in TABLES}
        self._dropped: list[tuple[int, int, int]] = []
        self._keys: dict[str, int] = {"": 0}  # of strings and of texts
        self._names: dict[str, str] = {}  # the canonical name of each string
        self._terms: dict[str, None] = {}
        self._nameless: set[str] = set()  # terms and types that are no names
        for each in extractions:
            self.add(each)

    def add(self, extraction: Extraction) -> None:
        """Add the rows of the next chunk."""
        entities, relations, units = extraction.entities, extraction.relations, extraction.units
        spelt = [each.name for each in entities]
        for each in relations:
            spelt += (each.source, each.target)
        for unit in units:
            spelt += unit.entities
        times = Counter(spelt)
        names = {spelling: self._name(spelling) for spelling in times}
        doubtful = {names[each.name] for each in entities if each.doubtful}
        if doubtful:
            doubtful -= {names[each.name] for each in entities if not each.doubtful}
        place: dict[str, int] = {}  # of each spelling
        first: dict[str, int] = {}  # of each canonical name
        roles = []
        for spelling, name in names.items():
            if name:
                roles.append(0 if name in first else FIRST if name in doubtful else CERTAIN)
                first.setdefault(name, len(place))
                place[spelling] = len(place)
        key, string = self._key, self._string
        self._extend("mentions", map(key, place), map(times.__getitem__, place), roles)
        named = [each for each in entities if each.name in place]
        kinds = Counter((place[each.name], each.type) for each in named if each.type)
        self._extend("typed", (at for at, _ in kinds), (string(kind) for _, kind in kinds), kinds.values())
        said = sorted({(each.description, place[each.name]) for each in named if each.description})
        self._extend("statements", (at for _, at in said), (key(text) for text, _ in said))
        stated, lone, of_itself = [], 0, 0
        for each in relations:
            if each.source not in place or each.target not in place:
                lone += 1
            elif names[each.source] == names[each.target]:
                of_itself += 1
            else:
                stated.append(each)
        stated.sort(key=lambda each: (each.description, -each.strength))
        texts = {unit.text for unit in units}
        self._extend(
            "relations",
            (place[each.source] for each in stated),
            (place[each.target] for each in stated),
            (key(each.description) for each in stated),
            (each.strength for each in stated),
            (each.description not in texts and described_apart(each, extraction) for each in stated),
        )
        labels = [(at, each.type) for at, each in enumerate(stated) if each.type]
        self._extend("labels", (at for at, _ in labels), (string(kind) for _, kind in labels))
        linked = [
            [first[name] for name in dict.fromkeys([names[each] for each in unit.entities]) if name]
            for unit in units
        ]
        self._extend("units", (key(unit.text) for unit in units), map(len, linked))
        self._extend("linked", chain.from_iterable(linked))
        terms = dict.fromkeys(extraction.terms)
        self._terms |= terms
        self._extend("terms", map(string, terms))
        nameless = sum(times[spelling] for spelling, name in names.items() if not name)
        self._dropped.append((nameless, lone, of_itself))

    def texts(self) -> dict[int, str]:
        """The descriptions and units of the chunks, by key."""
        return {key: text for text, key in self._keys.items()}

    def arrays(self) -> Arrays:
        """The arrays of all chunks that were added."""
        arrays: Arrays = {}
        for table, kinds in TABLES.items():
            for (name, kind), column in zip(kinds.items(), self._columns[table], strict=True):
                arrays[f"{table}.{name}"] = np.array(column, kind)
            arrays[f"{table}.starts"] = np.array(self._starts[table], np.int64)
        arrays["dropped"] = np.array(self._dropped, np.int32).reshape(-1, len(DROPPED))
        used = (string for string, name in self._names.items() if name or string in self._nameless)
        strings, keys = self._sorted(used)
        encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
        arrays |= {
            "strings.key": keys,
            "strings.name": np.array([self._key(self._names[each]) for each in strings], np.uint64),
            "strings.length": np.array([min(len(each), _LONGEST) for each in strings], np.uint8),
            "strings.starts": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
            "strings.bytes": np.frombuffer(b"".join(encoded), np.uint8),
        }
        terms, keys = self._sorted(self._terms)
        parts = [(*parts_of(term), "", "")[:2] for term in terms]
        seconds = [term.partition(" ")[2] for term in terms]
        arrays |= {
            "phrases.key": keys,
            "phrases.head": np.array([self._key(head) for _, head in parts], np.uint64),
            "phrases.tail": np.array([self._key(tail) for tail, _ in parts], np.uint64),
            "phrases.form": np.array(
                [
                    THING * is_thing(term) + TWO_WORDS * (bool(second) and " " not in second)
                    for term, second in zip(terms, seconds, strict=True)
                ],
                np.uint8,
            ),
        }
        names, keys = self._sorted(name for name in set(self._names.values()) if short_of(name))
        arrays |= {
            "addressed.key": keys,
            "addressed.rest": np.array([self._key(name.partition(" ")[2]) for name in names], np.uint64),
            "addressed.short": np.array([self._key(short_of(name)) for name in names], np.uint64),
        }
        return {f"{PREFIX}{name}": column for name, column in arrays.items()}

    def _extend(self, table: str, *columns: Iterable[Any]) -> None:
        """Add the rows of a chunk to a table."""
        for column, values in zip(self._columns[table], columns, strict=True):
            column.extend(values)
        self._starts[table].append(len(self._columns[table][0]))

    def _sorted(self, strings: Iterable[str]) -> tuple[list[str], Keys]:
        """Strings by their keys."""
        chosen = list(strings)
        keys = np.array([self._key(each) for each in chosen], np.uint64)
        by_key = np.argsort(keys)
        return [chosen[at] for at in by_key.tolist()], keys[by_key]

    def _name(self, string: str) -> str:
        """The canonical name of a string, which is remembered with its name."""
        name = self._names.get(string)
        if name is None:
            name = self._names[string] = canonical_name(string)
            if name and name not in self._names:  # it is its own name, unless it grew too long
                self._names[name] = name if len(name) <= LONGEST_NAME else ""
        return name

    def _string(self, string: str) -> int:
        """The key of a term or a type, which is among the strings even if it is no name."""
        if not self._name(string):
            self._nameless.add(string)
        return self._key(string)

    def _key(self, text: str) -> int:
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = content_key(text)
        return key


def tabulated(
    extracted: Stored, chunks: int, previous: Stored | None = None, kept: Kept | None = None
) -> tuple[Arrays, dict[int, str]]:
    """The tables of all extractions, and the texts of those that were read.

    Chunks that the previous corpus has too, with the same extraction, keep their rows in the tables of the
    `previous` graph, and their extractions are not read.
    """
    rows = np.full(chunks, -1, np.int64)
    if (
        previous is not None
        and kept is not None
        and kept.extracted is not None
        and f"{PREFIX}dropped" in previous.arrays
    ):
        rows[:] = kept.rows_before
        known = np.flatnonzero(rows >= 0)
        rows[known[extracted.hashes[known] != kept.extracted.hashes[rows[known]]]] = -1
    flat = Flat()
    new = np.flatnonzero(rows < 0).tolist()
    for start in range(0, len(new), BATCH):
        for node in extracted.nodes(new[start : start + BATCH]):
            flat.add(extraction_of(node))
    arrays = flat.arrays()
    if previous is not None and len(new) < chunks:
        arrays = joined(previous.arrays, arrays, rows)
    return arrays, flat.texts()


def joined(before: Mapping[str, NDArray[Any]], fresh: Arrays, rows: Rows) -> Arrays:
    """What `Flat` gives of all chunks: of those of the tables `before`, and of the new ones (`fresh`).

    `rows` are the previous rows of chunks, or -1, shape (chunks,). Dictionaries lose what no table uses.
    """
    new = rows < 0
    picked = _Picked(before, fresh, np.where(new, -np.cumsum(new, dtype=np.int64), rows))
    arrays = picked.columns(["dropped"])
    for table, columns in TABLES.items():
        arrays |= picked.columns([f"{table}.{name}" for name in columns], f"{table}.starts")
    used: dict[str, Keys | None] = dict.fromkeys(DICTIONARIES)
    loses = np.count_nonzero(~new) < len(before[f"{PREFIX}dropped"])
    if loses:
        using = "mentions.spelling", "typed.kind", "labels.kind", "terms.term"
        direct = distinct(np.concatenate([arrays[f"{PREFIX}{each}"] for each in using]))
        names = np.concatenate(
            [
                each[f"{PREFIX}strings.name"][among(each[f"{PREFIX}strings.key"], direct)]
                for each in (before, fresh)
            ]
        )
        used["strings"] = distinct(np.concatenate([direct, names]))
        used["phrases"] = distinct(arrays[f"{PREFIX}terms.term"])
    for table, columns_of in DICTIONARIES.items():
        names_of = [f"{table}.{name}" for name in columns_of]
        old, new_keys = (each[f"{PREFIX}{table}.key"] for each in (before, fresh))
        stay, added = np.arange(len(old)), np.flatnonzero(~among(new_keys, old))
        if (wanted := used[table]) is not None:
            stay, added = np.flatnonzero(among(old, wanted)), added[among(new_keys[added], wanted)]
        picked = _Picked(
            before, fresh, np.insert(stay, np.searchsorted(old[stay], new_keys[added]), -1 - added)
        )
        arrays |= picked.columns(names_of)
        if table == "strings":
            arrays |= picked.columns(["strings.bytes"], "strings.starts")
            if loses:
                used["addressed"] = distinct(arrays[f"{PREFIX}strings.name"])
    return arrays


class _Picked:
    """Some rows of two sets of tables, in one order. Row i of the second set is given as -1 - i."""

    def __init__(
        self, one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]], rows: Rows
    ) -> None:
        self._sides = one, other
        of_other = rows < 0
        numbers = np.where(of_other, -1 - rows, rows)
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (of_other[1:] != of_other[:-1]) | (np.diff(numbers) != 1)
        starts = np.flatnonzero(begins)
        lengths = np.diff(starts, append=len(rows))
        self._runs = list(
            zip(of_other[starts].tolist(), numbers[starts].tolist(), lengths.tolist(), strict=True)
        )

    def columns(self, names: Iterable[str], starts: str = "") -> Arrays:
        """Some columns with one item for each row, or with those between borders, which come too."""
        arrays: Arrays = {}
        runs = [(side, first, first + length) for side, first, length in self._runs]
        if starts:
            of_sides = [each[f"{PREFIX}{starts}"] for each in self._sides]
            sizes = [np.diff(of_sides[side][first : end + 1]) for side, first, end in runs]
            arrays[f"{PREFIX}{starts}"] = borders(np.concatenate([np.zeros(0, np.int64), *sizes]))
            runs = [(side, int(of_sides[side][first]), int(of_sides[side][end])) for side, first, end in runs]
        for name in names:
            one, other = (each[f"{PREFIX}{name}"] for each in self._sides)
            pieces = [(other if side else one)[first:end] for side, first, end in runs]
            arrays[f"{PREFIX}{name}"] = np.concatenate([other[:0], *pieces])
        return arrays


class Strings:
    """The texts of names, spellings, terms and types, by their places in the dictionary."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.keys: Keys = arrays[f"{PREFIX}strings.key"]
        self._table = KeyTable(self.keys)
        self._starts: NDArray[np.int64] = arrays[f"{PREFIX}strings.starts"]
        self._bytes: NDArray[np.uint8] = arrays[f"{PREFIX}strings.bytes"]

    def find(self, keys: Keys) -> Rows:
        """The place of each key, or -1."""
        return self._table.find(keys)

    def text(self, place: int) -> str:
        """The text at a place."""
        content = self._bytes[int(self._starts[place]) : int(self._starts[place + 1])]
        return content.tobytes().decode("utf-8", "surrogatepass")

    def texts(self, places: Rows) -> list[str]:
        """The texts at some places."""
        starts, ends = self._starts[places].tolist(), self._starts[places + 1].tolist()
        content = self._bytes.data
        return [
            str(content[start:end], "utf-8", "surrogatepass") for start, end in zip(starts, ends, strict=True)
        ]

    def order(self, places: Rows) -> Rows:
        """The order of some texts as strings, which is that of their bytes."""
        starts = self._starts[places]
        sizes = self._starts[places + 1] - starts
        content = np.concatenate([self._bytes, np.zeros(_HEAD, np.uint8)])
        heads = np.lib.stride_tricks.sliding_window_view(content, _HEAD)[starts]
        heads[np.arange(_HEAD) >= sizes[:, None]] = 0
        first, second = heads.view(">u8").astype(np.uint64).T
        order = np.argsort(first)
        sizes = np.diff(firsts(first[order]), append=len(order))
        tied = np.flatnonzero(np.repeat(sizes > 1, sizes))
        order[tied] = order[tied][np.lexsort((second[order[tied]], first[order[tied]]))]
        begins = firsts(first[order], second[order])
        sizes = np.diff(begins, append=len(order))
        for begin, size in np.column_stack([begins, sizes])[sizes > 1].tolist():
            some = order[begin : begin + size].tolist()
            order[begin : begin + size] = sorted(some, key=lambda at: self.text(int(places[at])))
        return order
