"""The arrays that let the next merger of extractions cost only what changed.

Arrays of the graph with the prefix `merge.`: postings of names before candidates are settled, with whether a
chunk leaves no doubt (`names`); of candidate terms (`terms`); of words in lower case, with how many two-word
terms begin with them (`lower`). Pairs of keys of a part and of a term in writing without capitals (`wider`).
Names in full with a form of address, as JSON (`addressed`). Of each entity its counted spellings and types,
as JSON (`spellings`), and whether its description is condensed (`condensed`). Of each chunk of each entity,
whether it describes it (`describing`). And counts (`notes`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.carryover import counts_array
from stratagraph.ingest.checks import Checks
from stratagraph.ingest.extraction.candidates import has_uncased, is_thing, parts_of, short_of
from stratagraph.ingest.graph.merge import EntityFragments, Merge
from stratagraph.kernels.bm25 import Keys, Postings
from stratagraph.kernels.checks import check_ascending
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Extraction, content_keys

PREFIX = "merge."
CONDENSED = f"{PREFIX}condensed"
"""Of each entity, then of each relation: 0 if its description is not condensed, 1 if it is, 2 if it is but
not by the model that should have done it."""
SPELLINGS = f"{PREFIX}spellings.starts", f"{PREFIX}spellings.bytes"
NOTES = f"{PREFIX}notes"
DESCRIBING = f"{PREFIX}describing"
"""For each chunk of an entity in `sources.indices`, whether it describes the entity, as bits."""
WIDER = f"{PREFIX}wider.parts", f"{PREFIX}wider.terms"
ADDRESSED = f"{PREFIX}addressed"
_TABLES = ("names", "terms", "lower")
_FIELDS = ("keys", "starts", "rows", "values")
Arrays = dict[str, NDArray[Any]]


class Wider(NamedTuple):
    """Terms in writing without capitals by their parts, which may be terms of other chunks.

    `parts` and `terms` hold the keys of a part and of a term, ascending, shape (pairs,).
    """

    parts: Keys
    terms: Keys

    @classmethod
    def of(cls, terms: Iterable[str]) -> Wider:
        """Of some terms."""
        uncased = [term for term in terms if has_uncased(term) and is_thing(term)]
        pairs = [(part, term) for term in uncased for part in parts_of(term) if part]
        return cls._ordered(
            content_keys([part for part, _ in pairs]), content_keys([term for _, term in pairs])
        )

    @classmethod
    def _ordered(cls, parts: Keys, terms: Keys) -> Wider:
        order = np.lexsort((terms, parts))
        parts, terms = parts[order], terms[order]
        fresh = np.ones(len(parts), np.bool_)
        fresh[1:] = (parts[1:] != parts[:-1]) | (terms[1:] != terms[:-1])
        return cls(parts[fresh], terms[fresh])

    def holding(self, part: Keys) -> Keys:
        """The keys of the terms that contain a part (an array of one key)."""
        left, right = (int(np.searchsorted(self.parts, part, side)[0]) for side in ("left", "right"))
        return self.terms[left:right]

    def updated(self, fresh: Wider, terms_now: Postings) -> Wider:
        """The pairs after an update: those with `fresh` ones, whose terms are in `terms_now`."""
        parts = np.concatenate([self.parts, fresh.parts])
        terms = np.concatenate([self.terms, fresh.terms])
        stays = terms_now.places(terms) >= 0
        return self._ordered(parts[stays], terms[stays])


class Tables(NamedTuple):
    """The postings of names, terms and words in lower case; and the names in full under a form of address."""

    names: Postings
    terms: Postings
    lower: Postings
    addressed: tuple[str, ...]
    wider: Wider

    @classmethod
    def of(cls, collected: Merge) -> Tables:
        """Of collected extractions, before `candidates.settle` decides on names and terms."""
        names = (
            (key, row, certain)
            for key, each in collected.entities.items()
            for row, certain in each.chunks.items()
        )
        terms = ((term, row, 1) for term, rows in collected.terms.items() for row in rows)
        return cls(
            _postings(names),
            _postings(terms),
            _lower(collected.terms),
            tuple(sorted(filter(short_of, collected.entities))),
            Wider.of(collected.terms),
        )

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]]) -> Tables | None:
        """The stored state; None in a graph that every update merges in full."""
        if ADDRESSED not in arrays:
            return None
        names, terms, lower = (
            Postings(*(arrays[f"{PREFIX}{table}.{each}"] for each in _FIELDS)) for table in _TABLES
        )
        wider = Wider(*(arrays[name] for name in WIDER))
        return cls(names, terms, lower, tuple(read_names(arrays)), wider)

    @property
    def postings(self) -> tuple[Postings, Postings, Postings]:
        """Those of names, terms and words in lower case."""
        return self.names, self.terms, self.lower

    def updated(self, rows: Rows, fresh: Tables, size: int) -> Tables:
        """See `Postings.updated`."""
        names, terms, lower = (
            one.updated(rows, new, size) for one, new in zip(self.postings, fresh.postings, strict=True)
        )
        addressed = sorted({*self.addressed, *fresh.addressed})
        used = names.places(content_keys(addressed)) >= 0
        addressed = [name for name, at in zip(addressed, used, strict=True) if at]
        return Tables(names, terms, lower, tuple(addressed), self.wider.updated(fresh.wider, terms))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        kinds = (np.uint64, np.int64, np.int32, np.uint16)
        arrays = {
            f"{PREFIX}{table}.{each}": np.asarray(getattr(postings, each)).astype(kind)
            for table, postings in zip(_TABLES, self.postings, strict=True)
            for each, kind in zip(_FIELDS, kinds, strict=True)
        }
        addressed = json.dumps(list(self.addressed), ensure_ascii=False)
        return (
            arrays
            | dict(zip(WIDER, self.wider, strict=True))
            | {ADDRESSED: np.frombuffer(addressed.encode("utf-8", "surrogatepass"), np.uint8)}
        )


def first_of_two(term: str) -> str:
    """The first word of a term of two words, else ""."""
    first, _, second = term.partition(" ")
    return first if second and " " not in second else ""


MEASURES = (CONDENSED, DESCRIBING, *(f"{PREFIX}{table}.values" for table in _TABLES))
ROWS = (SPELLINGS[0], *(f"{PREFIX}{table}.{each}" for table in _TABLES for each in ("starts", "rows")))
CONTENT = (SPELLINGS[1], ADDRESSED, NOTES, *WIDER, *(f"{PREFIX}{table}.keys" for table in _TABLES))
"""What these arrays hold."""


def _postings(triples: Iterable[tuple[str, int, int]]) -> Postings:
    numbers: dict[str, int] = {}
    flat = ((numbers.setdefault(key, len(numbers)), row, value) for key, row, value in triples)
    table = np.fromiter(chain.from_iterable(flat), np.int64).reshape(-1, 3)
    keys = content_keys(list(numbers))[table[:, 0]]
    return Postings.of(keys, table[:, 1], table[:, 2])


def _lower(terms: Mapping[str, Collection[int]]) -> Postings:
    """How many terms of two words begin with a word, by their chunks."""
    numbers: dict[str, int] = {}
    firsts = (
        (numbers.setdefault(word, len(numbers)), rows)
        for term, rows in terms.items()
        if (word := first_of_two(term))
    )
    flat = ((number, row) for number, rows in firsts for row in rows)
    table = np.fromiter(chain.from_iterable(flat), np.int64).reshape(-1, 2)
    span = int(table[:, 1].max(initial=0)) + 1
    pairs, times = np.unique(table[:, 0] * span + table[:, 1], return_counts=True)
    return Postings.of(content_keys(list(numbers))[pairs // span], pairs % span, times)


def closed(extraction: Extraction) -> bool:
    """Whether the parts of each term are terms of the chunk too, as with the rules (`Side.chosen`)."""
    terms = frozenset(extraction.terms)
    return all(
        has_uncased(term)
        or term.count(" ") == 1
        or (" " in term and all(part in terms for part in parts_of(term)))
        for term in terms
    )


def state_of(tables: Arrays, entities: Sequence[EntityFragments], notes: Mapping[str, int]) -> Arrays:
    """The arrays for the next update, after all was merged; `tables` were made before it was settled."""
    encoded = [spelling(each) for each in entities]
    describes = np.fromiter(chain.from_iterable(map(describing, entities)), np.bool_)
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    spellings: Arrays = dict(
        zip(SPELLINGS, (starts, np.frombuffer(b"".join(encoded), np.uint8)), strict=True)
    )
    return tables | spellings | {NOTES: counts_array(notes)} | {DESCRIBING: np.packbits(describes)}


def spelling(entity: EntityFragments) -> bytes:
    """The counted spellings and types of an entity, and whether it has descriptions, as JSON."""
    counted = [sorted(entity.names.items()), sorted(entity.types.items()), bool(entity.texts)]
    return json.dumps(counted, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def read_spelling(arrays: Mapping[str, NDArray[Any]], row: int) -> tuple[Counter[str], Counter[str], bool]:
    """Read back what `spelling` wrote for the entity at a row."""
    starts, content = (arrays[name] for name in SPELLINGS)
    raw = content[int(starts[row]) : int(starts[row + 1])].tobytes()
    names, types, described = json.loads(raw.decode("utf-8", "surrogatepass"))
    for name, count in (*names, *types):
        if not isinstance(name, str) or not isinstance(count, int):
            raise ValueError(f"array '{SPELLINGS[1]}' counts {name!r} as {count!r}")
    return Counter(dict(names)), Counter(dict(types)), bool(described)


def describing(entity: EntityFragments) -> list[bool]:
    """Whether each chunk of an entity describes it."""
    texts = {chunk for chunk, _ in entity.texts}
    return [chunk in texts for chunk in sorted(entity.chunks)]


def read_describing(arrays: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """The stored `describing` values of all entities, `count` in all."""
    return np.unpackbits(arrays[DESCRIBING], count=count).astype(np.bool_)


def read_names(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """The stored full names with forms of address."""
    names = json.loads(arrays[ADDRESSED].tobytes().decode("utf-8", "surrogatepass"))
    if not isinstance(names, list) or not all(isinstance(name, str) and short_of(name) for name in names):
        raise ValueError(f"array '{ADDRESSED}' holds {str(names)[:60]}, and no names under forms of address")
    return names


def check(checks: Checks, entities: int, relations: int, chunks: int) -> None:
    """Raise `ValueError` unless the arrays for updates fit each other and the graph."""
    for table in _TABLES:
        keys = checks.of(f"{PREFIX}{table}.keys", np.uint64, (None,))
        check_ascending(keys, f"{PREFIX}{table}.keys", strictly=True)
        rows = checks.rows(f"{PREFIX}{table}.rows", chunks, (None,), dtype=np.int32)
        checks.of(f"{PREFIX}{table}.values", np.uint16, rows.shape)
        checks.borders(f"{PREFIX}{table}.starts", len(rows), len(keys))
    checks.borders(SPELLINGS[0], len(checks.of(SPELLINGS[1], np.uint8, (None,))), entities)
    checks.of(NOTES, np.uint8, (None,))
    checks.of(ADDRESSED, np.uint8, (None,))
    checks.of(CONDENSED, np.uint8, (entities + relations,))
    parts = checks.of(WIDER[0], np.uint64, (None,))
    check_ascending(parts, WIDER[0])
    checks.of(WIDER[1], np.uint64, parts.shape)
    behind = int(checks.any("sources.indptr")[entities])
    checks.of(DESCRIBING, np.uint8, (-(-behind // 8),))


def key_of(name: str) -> Keys:
    """The key of a name, term or word, as an array of one."""
    return content_keys([name])
