"""Chunks and documents of a generation, published or being made."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import ClosedIndex
from stratagraph.store.records import ChunkRecord, DocumentRecord, Records
from stratagraph.store.segments import Keys
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Chunk, DocumentState, Metadata, content_key

_MANY = 1 / 64  # if a larger share of the documents is looked up, all are read


class RecordedCorpus:
    """The chunks of a corpus in canonical order (document id, then ordinal), with rows from 0.

    Documents are numbered in the order of their ids. Safe to use from several threads. An unknown row is an
    `IndexError`, a wrong record `Damaged`.
    """

    def __init__(
        self,
        path: Path,
        chunks: Records[ChunkRecord],
        documents: Records[DocumentRecord],
        chunk_documents: NDArray[np.int32],
    ) -> None:
        self.size = len(chunks)
        self._generation_path = path
        self._all_chunks = chunks
        self._all_documents = documents
        self._chunk_documents = chunk_documents
        self._closed = False

    def close(self) -> None:
        """Read no more of the corpus. Arrays in use stay valid."""
        self._closed = True

    @property
    def chunk_records(self) -> Records[ChunkRecord]:
        """The records of the chunks; `ClosedIndex` after `close`."""
        self._require_open()
        return self._all_chunks

    @property
    def document_records(self) -> Records[DocumentRecord]:
        """The records of the documents; `ClosedIndex` after `close`."""
        self._require_open()
        return self._all_documents

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedIndex(f"{self._generation_path} was closed; open the index again")

    def chunk_documents(self) -> NDArray[np.int32]:
        """The number of each chunk's document, shape (size,)."""
        return self._chunk_documents

    # Chunks

    @cached_property
    def id_halves(self) -> Keys:
        """The ids of all chunks as numbers, shape (size, 2)."""
        return np.stack([self.chunk_records.column(name) for name in ("ids", "tails")], axis=1)

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids, which stay the same in all generations."""
        both = np.stack([self.chunk_records.column(name, rows) for name in ("ids", "tails")], axis=1)
        text = both.astype("<u8").tobytes().hex()
        return [text[start : start + 32] for start in range(0, len(text), 32)]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts."""
        return self.chunk_records.field(rows, "text")

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks, with the document's metadata merged under their own."""
        pairs = zip(self.ids(rows), self.chunk_records.read(rows), strict=True)
        numbers = self._chunk_documents[np.asarray(rows, np.int64)].tolist()
        distinct = sorted(set(numbers))
        documents = dict(zip(distinct, self.document_records.read(distinct), strict=True))
        return [
            Chunk(
                each.text,
                documents[number].id,
                each.ordinal,
                each.start,
                each.end,
                {**documents[number].metadata, **each.metadata},
                identity,
                each.ref,
                each.prefix,
            )
            for number, (identity, each) in zip(numbers, pairs, strict=True)
        ]

    def row_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by chunk id; ids that are not there are left out."""
        wanted = [each for each in ids if len(each) == 32 and not each.strip("0123456789abcdef")]
        heads, tails = np.array([id_halves(each) for each in wanted], np.uint64).reshape(-1, 2).T
        rows = self.find(heads, tails).tolist()
        return {identity: row for identity, row in zip(wanted, rows, strict=True) if row >= 0}

    def find(self, heads: Keys, tails: Keys) -> Rows:
        """The row of the chunk with each id, given by its halves (`id_halves`); -1 if there is none."""
        rows = self.chunk_records.find(heads)
        there = np.flatnonzero(rows >= 0)
        rows[there[self.chunk_records.column("tails", rows[there]) != tails[there]]] = -1
        return rows

    def refs(self, refs: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the caller's own chunk ids, ascending; unknown ones are left out."""
        keys, rows = self._by_ref
        rows_of = {}
        for ref in sorted({ref for ref in refs if ref}):
            key = np.uint64(ref_key(ref))
            near = np.sort(rows[np.searchsorted(keys, key) : np.searchsorted(keys, key, "right")]).tolist()
            read = self.chunk_records.read(near)
            if own := [row for row, each in zip(near, read, strict=True) if each.ref == ref]:
                rows_of[ref] = own
        return rows_of

    @cached_property
    def _by_ref(self) -> tuple[Keys, Rows]:
        keys = self.chunk_records.column("refs")
        rows = np.flatnonzero(keys)
        order = np.argsort(keys[rows], kind="stable")
        return keys[rows][order], rows[order]

    def chunk_metadata(self) -> list[Metadata]:
        """Each chunk's metadata, in row order. Chunks without any of their own share their document's."""
        of_documents = list(self.document_metadata().values())
        merged = [of_documents[number] for number in self._chunk_documents.tolist()]
        rows = np.flatnonzero(self.chunk_records.column("noted")).tolist()
        for row, each in zip(rows, self.chunk_records.read(rows), strict=True):
            merged[row] = {**merged[row], **each.metadata}
        return merged

    # Documents

    @property
    def document_count(self) -> int:
        """Number of documents."""
        return len(self._all_documents)

    def document_states(self) -> Mapping[str, DocumentState]:
        """The state of each document by its id, sorted by id, read on demand."""
        return _States(self)

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their numbers."""
        return self.document_records.field(numbers, "id")

    def document_number(self, identity: str) -> int | None:
        """The number of a document; None if there is no such document."""
        places, is_found = self.search_documents([identity])
        return int(places[0]) if is_found[0] else None

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None. Unknown ids are left out."""
        if ids is None:
            numbers: Sequence[int] = range(self.document_count)
        else:
            places, is_found = self.search_documents(list(dict.fromkeys(ids)))
            numbers = places[is_found].tolist()
        return {each.id: each.metadata for each in self.document_records.read(numbers)}

    def search_documents(self, ids: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
        """The number of each document (or the number it would get), and whether it exists."""
        numbers = range(self.document_count)
        if len(ids) < _MANY * len(numbers):
            name_of: Callable[[int], str] = lambda number: self.document_ids([number])[0]  # noqa: E731
        else:
            name_of = self.document_ids(numbers).__getitem__
        places = [bisect_left(numbers, identity, key=name_of) for identity in ids]
        there = [
            place < len(numbers) and name_of(place) == identity
            for place, identity in zip(places, ids, strict=True)
        ]
        return np.array(places, np.int64), np.array(there, np.bool_)


class _States(Mapping[str, DocumentState]):
    """States by document id, read one by one; all at once after many reads."""

    def __init__(self, corpus: RecordedCorpus) -> None:
        self._corpus = corpus
        self._asked = 0
        self._all: dict[str, DocumentState] | None = None

    def __getitem__(self, identity: str) -> DocumentState:
        self._asked += 1
        if self._all is None and self._asked > _MANY * len(self):
            records = self._corpus.document_records.read(range(len(self)))
            self._all = {each.id: DocumentState(each.digest, each.file, each.root) for each in records}
        if self._all is not None:
            return self._all[identity]
        number = self._corpus.document_number(identity)
        if number is None:
            raise KeyError(identity)
        _, *state, _ = self._corpus.document_records.read([number])[0]
        return DocumentState(*state)

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.document_ids(range(len(self))))

    def __len__(self) -> int:
        return self._corpus.document_count


def ref_key(ref: str) -> int:
    """64-bit key of the caller's own chunk id; 0 for none."""
    return content_key(ref) or 1 if ref else 0


def id_halves(identity: str) -> tuple[int, int]:
    """The 128 bits of a chunk's id as two numbers."""
    head, tail = struct.unpack("<2Q", bytes.fromhex(identity))
    return head, tail
