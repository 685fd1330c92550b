"""The vectors of an index as rows of a vector store: their ids, fields, reading and writing.

A row never changes. Its id is made of the identity of the index and of the row's content. So an update adds
rows beside those that readers of the previous generation still use.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.pool import Halves
from stratagraph.store.segments import Keys
from stratagraph.types.built import DOCUMENT_FIELD, INDEX_FIELD, KIND_FIELD, VECTOR_FIELD, VectorRow
from stratagraph.types.protocols import Rows, Vectors, VectorTable
from stratagraph.types.records import content_key, content_keys

PASSAGES = "passages"
"""Kind of the vectors of chunks."""
BATCH = 256
"""Rows in one call of the store."""
NONE, MANY = "none", "many"
"""In place of a document's key: the vector belongs to no passage, or to passages of several documents."""
_MARK = "generation"
_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a field's key over those of a vector's


def new_identity() -> str:
    """A random name for the rows of an index: two folders with equal documents must not share rows."""
    return uuid.uuid4().hex[:16]


@dataclass(frozen=True)
class Fields:
    """Fields of the rows beside the vectors, by slot.

    `kind` and `document` number, for each slot, the entries of `kinds` and `documents`, shape (slots,).
    `members` has the kinds of the vectors of each array.
    """

    kinds: Sequence[str]
    kind: Rows
    members: Mapping[str, Rows]
    documents: Sequence[str]
    document: Rows

    @classmethod
    def of(cls, count: int, arrays: Mapping[str, NDArray[np.integer]], corpus: RecordedCorpus) -> Fields:
        """The fields of `count` slots, from the slots of each array (`PASSAGES`: those of the chunks)."""
        ids, chunk_documents = corpus.document_ids(range(corpus.document_count)), corpus.chunk_documents()
        bits = np.zeros(count, np.uint64)
        names = sorted(arrays)
        for number, name in enumerate(names):
            bits[arrays[name]] |= np.uint64(1 << number)
        distinct, kind = np.unique(bits, return_inverse=True)
        kinds = ["+".join(name for at, name in enumerate(names) if int(each) >> at & 1) for each in distinct]
        members = {
            name: np.flatnonzero(distinct >> np.uint64(at) & np.uint64(1)) for at, name in enumerate(names)
        }
        lowest, highest = np.full(count, len(ids) + 1, np.int64), np.full(count, -1, np.int64)
        slots = np.asarray(arrays[PASSAGES], np.int64)
        np.minimum.at(lowest, slots, chunk_documents)
        np.maximum.at(highest, slots, chunk_documents)
        document = np.where(highest < 0, len(ids), np.where(lowest == highest, highest, len(ids) + 1))
        keys = [f"{content_key(each):016x}" for each in ids]
        return cls(kinds, kind.astype(np.int64), members, [*keys, NONE, MANY], document)

    def keys(self, hashes: Keys) -> Keys:
        """64-bit key of each row, from its vector, kind and document, shape (slots,)."""
        both = self.kind * len(self.documents) + self.document
        distinct, places = np.unique(both, return_inverse=True)
        pairs = [divmod(each, len(self.documents)) for each in distinct.tolist()]
        mixed = content_keys(f"{self.kinds[kind]} {self.documents[document]}" for kind, document in pairs)
        return hashes ^ (mixed[places] * _MIX)

    def text(self, slot: int) -> dict[str, str]:
        """The fields of a slot as text."""
        return {
            KIND_FIELD: self.kinds[int(self.kind[slot])],
            DOCUMENT_FIELD: self.documents[int(self.document[slot])],
        }


def mark(generation: int) -> int:
    """Key of the row which says that all rows of a generation are there."""
    return content_key(f"{_MARK} {generation}")


class TableRows:
    """The rows of one index in a vector store, by their keys."""

    def __init__(self, table: VectorTable, identity: str, dimension: int) -> None:
        self.table = table
        self.identity = identity
        self.dimension = dimension
        self._first = int(identity, 16) << 64

    def put(self, keys: Keys, halves: Halves, fields: Sequence[Mapping[str, str]]) -> None:
        """Add at most `BATCH` rows."""
        rows = []
        for key, half, own in zip(keys.tolist(), halves, fields, strict=True):
            written = base64.b64encode(half.astype("<f2").tobytes()).decode("ascii")
            own = {INDEX_FIELD: self.identity, **own, VECTOR_FIELD: written}
            rows.append(VectorRow(self._id(key), half.astype(np.float32).tolist(), own))
        self.table.put(rows)

    def get(self, keys: Sequence[int]) -> dict[int, Halves]:
        """The vectors of rows that are there, by key."""
        vectors: dict[int, Halves] = {}
        for start in range(0, len(keys), BATCH):
            ids = [self._id(key) for key in keys[start : start + BATCH]]
            vectors.update(self._read(self.table.get(ids).items()))
        return vectors

    def search(
        self, vector: Vectors, k: int, where: Mapping[str, Sequence[str]]
    ) -> tuple[list[tuple[int, Halves]], int]:
        """Keys and vectors of the rows nearest to a vector, and the number of hits of the store."""
        nearest = self.table.search(vector.tolist(), k, {INDEX_FIELD: [self.identity], **where})
        return list(self._read(nearest)), len(nearest)

    def remove(self, keys: Sequence[int]) -> None:
        """Remove rows. They are looked up first: some stores refuse to remove what is not there."""
        for start in range(0, len(keys), BATCH):
            ids = [self._id(key) for key in keys[start : start + BATCH]]
            if present := list(self.table.get(ids)):
                self.table.delete(present)

    def set_mark(self, generation: int) -> None:
        """Mark the rows of this generation as complete."""
        key = mark(generation)
        if not self.get([key]):
            vector = np.zeros((1, self.dimension), np.float16)
            vector[0, 0] = 1
            self.put(np.array([key], np.uint64), vector, [{KIND_FIELD: _MARK, DOCUMENT_FIELD: NONE}])

    def marks(self, generations: Sequence[int]) -> list[int]:
        """Which of these generations are marked as complete."""
        keys = {mark(each): each for each in generations}
        return [keys[key] for key in self.get(list(keys))]

    def _id(self, key: int) -> str:
        return str(uuid.UUID(int=self._first | key))

    def _read(self, items: Any) -> Iterator[tuple[int, Halves]]:
        for identity, given in items:
            try:
                number = uuid.UUID(str(identity)).int
            except ValueError:
                continue  # somebody else's row
            if number >> 64 << 64 != self._first:
                continue
            try:
                if isinstance(given, str):
                    given = np.frombuffer(base64.b64decode(given, validate=True), "<f2")
                vector = np.asarray(given, np.float32).astype(np.float16)
            except (ValueError, TypeError):
                vector = np.zeros(0, np.float16)
            fits = vector.shape == (self.dimension,)
            yield number & (1 << 64) - 1, vector if fits else np.zeros(0, np.float16)
