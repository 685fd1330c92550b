"""Chunks and documents of the next generation, from arriving documents and the previous generation.

Records of arriving documents go into a scratch file, and from there into segments in canonical order:
documents by id, chunks by document and ordinal. Of the previous generation only numbers are read: the place
of each document, and the document of each chunk.
"""

from __future__ import annotations

import tempfile
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.corpus import RecordedCorpus, id_halves, ref_key
from stratagraph.store.files import naming
from stratagraph.store.records import encoded, to_json
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Chunk, DocumentState, Metadata, chunk_id

_PIECE = np.dtype(
    [(name, np.int64) for name in ("document", "ordinal", "start", "length")]
    + [(name, np.uint64) for name in ("ids", "tails", "refs", "noted")]
)
"""An arriving chunk: the number of its document, its ordinal, the place of its record, and columns."""


class Assembly:
    """Chunks and documents of the next generation: `add` documents, then `assemble`.

    Encoded records of arriving documents and chunks are in an unnamed temporary file to save memory;
    `numbers` has the number of each document by its id, in the order of arrival.

    After `assemble`, `chunk_slots` and `document_slots` are the slots in the previous generation, -1 for new
    records, which `new_chunks` and `new_documents` read (`records.write_records`). `chunk_documents` has the
    number of each chunk's document. `rows_now` are the chunks that the previous generation has too,
    ascending, and `rows_before` their rows there. `arrived` are the rows of the chunks of arriving documents,
    ascending.
    """

    def __init__(self, folder: Path) -> None:
        self.numbers: dict[str, int] = {}
        self._naming = partial(naming, folder, "scratch")
        self._file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # see `close`
        self._places: list[tuple[int, int]] = []  # of the record of each document
        self._pieces = array("q")  # the fields of `_PIECE` of each chunk

    def add(
        self, document_id: str, state: DocumentState, metadata: Metadata, chunks: Iterable[Chunk]
    ) -> None:
        """Store one document; on an error, nothing of it."""
        if document_id in self.numbers:
            raise ValueError(f"document {document_id!r} was already added in this operation")
        count, stored = len(self._pieces), to_json(metadata, f"document {document_id!r}")
        try:
            record = encoded((document_id, *state), stored)
        except UnicodeEncodeError as error:
            raise ValueError(f"document id {document_id!r} is not valid Unicode ({error})") from error
        try:
            self._add_chunks(document_id, metadata, chunks)
            self._places.append(self._write(record))
        except BaseException as error:
            del self._pieces[count:]
            if isinstance(error, UnicodeEncodeError):
                reason = f"its text is not valid Unicode ({error.reason})"
                raise ValueError(f"document {document_id!r}: {reason}") from error
            raise
        self.numbers[document_id] = len(self.numbers)

    def _add_chunks(self, document_id: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        occurrences: Counter[int] = Counter()
        for chunk in chunks:
            if chunk.document_id != document_id:
                raise ValueError(f"document {document_id!r} was given a chunk of {chunk.document_id!r}")
            own = {
                key: value
                for key, value in chunk.metadata.items()
                if key not in metadata or metadata[key] != value
            }
            stored = to_json(own, f"document {document_id!r}, chunk {chunk.ordinal}")
            fields = (chunk.text, chunk.ordinal, chunk.start, chunk.end, chunk.ref, chunk.prefix)
            record = encoded(fields, stored)
            head, tail = id_halves(chunk_id(chunk, 0))
            repeats = occurrences[head]
            occurrences[head] += 1
            if repeats:  # a text that stands twice in a document gets another id each time
                head, tail = id_halves(chunk_id(chunk, repeats))
            place = (len(self.numbers), chunk.ordinal, *self._write(record))
            columns = np.array([head, tail, ref_key(chunk.ref), bool(own)], np.uint64)
            self._pieces.extend((*place, *columns.view(np.int64).tolist()))

    def _write(self, record: bytes) -> tuple[int, int]:
        with self._naming():
            start = self._file.tell()
            self._file.write(record)
        return start, len(record)

    def pieces(self) -> NDArray[Any]:
        """The arriving chunks in the order of their arrival, an array of type `_PIECE`."""
        return np.frombuffer(self._pieces, _PIECE)

    def assemble(self, before: RecordedCorpus | None, removed: Collection[str]) -> None:
        """Put the arriving documents among those of the previous generation (`before`), without `removed`.

        A `KeyError` names a document that is to be removed and does not exist.
        """
        arrived = sorted(self.numbers)
        numbers = np.array([self.numbers[name] for name in arrived], np.int64)
        count, of, places = 0, np.zeros(0, np.int64), np.zeros(len(arrived), np.int64)
        stays, missing = np.ones(0, np.bool_), list(removed)
        if before is not None:
            count, of = before.document_count, before.chunk_documents().astype(np.int64)
            places, there = before.search_documents(arrived)
            removed_places, exist = before.search_documents(missing)
            missing = [name for name, exists in zip(missing, exist.tolist(), strict=True) if not exists]
            stays = np.ones(count, np.bool_)
            stays[places[there]] = False
            stays[removed_places[exist]] = False
        if missing:
            raise KeyError(f"no document {missing[0]!r} in the previous generation")
        kept = np.flatnonzero(stays)
        # A new document goes before the document at its place, a changed one in place of its earlier version.
        order = np.argsort(np.concatenate([2 * kept + 1, 2 * places]), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))

        now = np.full(count, -1, np.int64)
        now[kept] = place[: len(kept)]
        arrivals = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
        arrivals[numbers] = place[len(kept) :]
        old = np.flatnonzero(stays[of])
        pieces = self.pieces()
        by_ordinal = np.argsort(pieces["ordinal"], kind="stable")
        documents = np.concatenate([now[of[old]], arrivals[pieces["document"][by_ordinal]]])
        rows = np.argsort(documents, kind="stable")
        chunks_kept, documents_kept = rows < len(old), order < len(kept)
        chunks = np.concatenate([old, by_ordinal])[rows]  # rows before, or numbers of arriving chunks
        new_chunks = self.arrived = np.flatnonzero(~chunks_kept)

        self.chunk_slots, self.document_slots = (np.full(len(each), -1, np.int64) for each in (rows, order))
        rows_before = np.where(chunks_kept, chunks, -1)
        if before is not None:
            self.chunk_slots[chunks_kept] = before.chunk_records.slots[chunks[chunks_kept]]
            self.document_slots[documents_kept] = before.document_records.slots[kept[order[documents_kept]]]
            rows_before[new_chunks] = before.find(
                *(pieces[half][chunks[new_chunks]] for half in ("ids", "tails"))
            )
        self.rows_now = np.flatnonzero(rows_before >= 0)
        self.rows_before = rows_before[self.rows_now]
        self.chunk_documents = documents[rows].astype(np.int32)
        self._new_chunks = chunks[new_chunks]
        self._new_documents = np.concatenate([kept, numbers])[order][~documents_kept]

    def new_chunks(self, numbers: Rows) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
        """The records and columns (`records.CHUNKS`) of new chunks, by their numbers among these."""
        for _, _, start, length, *columns in self.pieces()[self._new_chunks[numbers]].tolist():
            yield self._read(start, length), tuple(columns)

    def new_documents(self, numbers: Rows) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
        """The records of new documents, by their numbers among these."""
        for number in self._new_documents[numbers].tolist():
            yield self._read(*self._places[number]), ()

    def _read(self, start: int, length: int) -> bytes:
        with self._naming():
            self._file.seek(start)
            return self._file.read(length)

    def close(self) -> None:
        """Close and so remove the file; harmless when done before."""
        with suppress(OSError):  # of what a full disk did not take
            self._file.close()
