"""Chunks and documents of the next generation, from arriving documents and the previous generation.

Arriving documents are streamed into a scratch file, and from there into segments in canonical order:
documents by id, chunks by document and ordinal. Of the previous generation only numbers are read: the place
of each document, and the document of each chunk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.store import corpus
from stratagraph.store.blocks import Block, Records, packed, write_segments
from stratagraph.store.checksums import FileEntry
from stratagraph.store.corpus import (
    NAME_BOUNDS,
    NAMES,
    StoredCorpus,
    chunk_record,
    document_record,
    halves,
    ref_key,
)
from stratagraph.store.database import Database, batches, connect_private, marks
from stratagraph.store.files import Directory
from stratagraph.store.metadata import to_json
from stratagraph.store.segments import planned
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Chunk, Metadata, content_id

_AT_ONCE = 256  # texts read at a time
_Read = Callable[[Sequence[int]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """Segments of chunks or documents: new files, names of kept files, and the slot of each record."""

    files: dict[str, FileEntry]
    kept: tuple[str, ...]
    slots: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Assembled:
    """The corpus of the next generation.

    Attributes
    ----------
    chunk_documents
        Place of each chunk's document in the sorted ids.
    rows_now, rows_before
        Chunks that the previous generation has too: their rows now (ascending), and their rows there.
    arrived
        Rows of the chunks of arriving documents, ascending.
    """

    chunks: WrittenRecords
    documents: WrittenRecords
    chunk_documents: NDArray[np.int32]
    rows_now: Rows
    rows_before: Rows
    arrived: Rows


def assemble(
    directory: Directory,
    generation: int,
    scratch: Scratch,
    before: StoredCorpus | None,
    of: NDArray[np.integer],
    *,
    removed: Collection[str],
    compact: bool,
) -> Assembled:
    """Write the chunks and documents that the previous generation lacks.

    Parameters
    ----------
    directory
        Of the next generation.
    scratch
        Arriving documents.
    before, of
        The corpus of the previous generation, and the document of each of its chunks.
    removed
        Ids of documents to remove, all in `before`.
    compact
        Whether everything is written anew.
    """
    scratch.seal()
    order = _ordered(scratch, before, of, removed)
    chunk_slots = np.full(len(order.chunks), -1, np.int64)
    document_slots = np.full(len(order.documents), -1, np.int64)
    chunk_base, document_base = None, None
    if before is not None:
        chunk_base, document_base = before.chunk_records, before.document_records
        chunk_slots[order.chunks_kept] = before.chunk_slots[order.chunks[order.chunks_kept]]
        document_slots[order.documents_kept] = before.document_slots[order.documents[order.documents_kept]]
    chunks = _Coming(order.chunks[~order.chunks_kept], scratch.read_pieces)
    documents = _Coming(order.documents[~order.documents_kept], scratch.read_arrived)
    with directory.make(corpus.FOLDER) as above, above.make(corpus.CHUNKS) as folder:
        made = partial(_chunk_segment, chunk_base, chunks)
        written_chunks = _written(folder, generation, chunk_base, chunk_slots, made, compact)
    with directory.make(corpus.FOLDER) as above, above.make(corpus.DOCUMENTS) as folder:
        made = partial(_document_segment, before, documents)
        written_documents = _written(folder, generation, document_base, document_slots, made, compact)
    now, then = _known(scratch, before, order)
    came = np.flatnonzero(~order.chunks_kept)
    return Assembled(written_chunks, written_documents, order.chunk_documents, now, then, came)


@dataclass(frozen=True, slots=True)
class _Order:
    """Documents (by id) and chunks of the next generation, in order.

    Each is given by its number in the previous generation if it is `kept`, else in the scratch file.
    """

    documents: Rows
    documents_kept: NDArray[np.bool_]
    chunks: Rows
    chunks_kept: NDArray[np.bool_]
    chunk_documents: NDArray[np.int32]


def _ordered(
    scratch: Scratch, before: StoredCorpus | None, of: NDArray[np.integer], removed: Collection[str]
) -> _Order:
    arrived = scratch.arrived()
    numbers = np.array([number for _, number in arrived], np.int64)
    count, places, there = _found(before, [name for name, _ in arrived])
    _, gone, known = _found(before, [each.encode("utf-8", "surrogatepass") for each in removed])
    stays = np.ones(count, np.bool_)
    stays[places[there]] = False
    stays[gone[known]] = False
    kept = np.flatnonzero(stays)
    # What came stands before the document that it was found before, or in its place.
    order = np.argsort(np.concatenate([2 * kept + 1, 2 * places]), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))

    now = np.full(count, -1, np.int64)
    now[kept] = place[: len(kept)]
    arrivals = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
    arrivals[numbers] = place[len(kept) :]
    old = np.flatnonzero(stays[of])
    pieces = scratch.pieces()
    pieces = pieces[np.argsort(pieces["ordinal"], kind="stable")]
    documents = np.concatenate([now[of[old]], arrivals[pieces["document"]]])
    rows = np.argsort(documents, kind="stable")
    return _Order(
        np.concatenate([kept, numbers])[order],
        order < len(kept),
        np.concatenate([old, pieces["place"]])[rows],
        rows < len(old),
        documents[rows].astype(np.int32),
    )


def _found(before: StoredCorpus | None, names: Sequence[bytes]) -> tuple[int, Rows, NDArray[np.bool_]]:
    """Number of documents, the place of each name among them, and whether it is there."""
    if before is None:
        return 0, np.zeros(len(names), np.int64), np.zeros(len(names), np.bool_)
    return len(before.names), *before.names.search(names)


def _known(scratch: Scratch, before: StoredCorpus | None, order: _Order) -> tuple[Rows, Rows]:
    """Rows of chunks that the previous generation has too (ascending), and their rows there."""
    rows = np.where(order.chunks_kept, order.chunks, -1)
    came = np.flatnonzero(~order.chunks_kept)
    if before is not None and len(came):
        ids = scratch.piece_ids()
        found = before.row_of(ids)
        places = scratch.pieces()["place"]
        at = np.searchsorted(places, order.chunks[came]).tolist()
        rows[came] = [found.get(ids[each], -1) for each in at]
    now = np.flatnonzero(rows >= 0)
    return now, rows[now]


class _Coming:
    """Records from the scratch file, by their numbers there."""

    def __init__(self, numbers: Rows, read: _Read) -> None:
        self._numbers = numbers
        self._read = read

    def read(self, coming: Rows) -> Iterator[tuple[Any, ...]]:
        """The fields of each, a few records at a time."""
        for start in range(0, len(coming), _AT_ONCE):
            yield from self._read(self._numbers[coming[start : start + _AT_ONCE]].tolist())


def _written(
    directory: Directory,
    generation: int,
    base: Records | None,
    slots: Rows,
    arrays: Callable[[Rows, Rows], dict[str, NDArray[Any]]],
    compact: bool,
) -> WrittenRecords:
    """Write the records whose slots in `base` are -1; `arrays` makes the arrays of one segment."""
    before = 0 if base is None else len(base)
    coming = np.flatnonzero(slots < 0)
    slots[coming] = before + np.arange(len(coming))
    used = np.zeros(before + len(coming), np.bool_)
    used[slots] = True
    plan = planned(
        [] if base is None else base.sizes,
        used,
        np.arange(len(coming)),
        fewest=corpus.FEWEST,
        compact=compact,
    )
    files = write_segments(directory, generation, plan, arrays, before)
    kept = () if base is None else tuple(base.files[number] for number in plan.kept)
    return WrittenRecords(files, kept, plan.slots[slots].astype(np.uint32))


def _chunk_segment(base: Records | None, coming: _Coming, old: Rows, new: Rows) -> dict[str, NDArray[Any]]:
    ids: list[str] = []
    refs: list[int] = []
    noted: list[bool] = []

    def content() -> Iterator[Block | bytes]:
        if base is not None:
            yield from base.content(old, corpus.BLOCK)
        for identity, ordinal, start, end, text, metadata, ref in coming.read(new):
            ids.append(identity)
            refs.append(ref_key(ref))
            noted.append(metadata != "{}")
            yield chunk_record(text, ordinal, start, end, ref, metadata)

    found = packed(content(), corpus.BLOCK)
    heads, tails = halves(ids)
    columns: dict[str, NDArray[Any]] = {
        "ids": heads,
        "tails": tails,
        "refs": np.array(refs, np.uint64),
        "noted": np.array(noted, np.bool_),
    }
    if base is not None:
        columns = {name: np.concatenate([base.values(name, old), each]) for name, each in columns.items()}
    return found | columns


def _document_segment(
    base: StoredCorpus | None, coming: _Coming, old: Rows, new: Rows
) -> dict[str, NDArray[Any]]:
    names = [] if base is None else base.names.of_slots(old)

    def content() -> Iterator[Block | bytes]:
        if base is not None:
            yield from base.document_records.content(old, corpus.BLOCK)
        for identity, digest, metadata in coming.read(new):
            names.append(identity.encode())
            yield document_record(digest, metadata)

    found = packed(content(), corpus.BLOCK)
    return found | {
        NAMES: np.frombuffer(b"".join(names), np.uint8),
        NAME_BOUNDS: np.cumsum([0, *map(len, names)], dtype=np.int64),
    }


_SCRATCH = """
CREATE TABLE arrived (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT, metadata TEXT);
CREATE TABLE pieces (
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    ref TEXT NOT NULL
);
CREATE TABLE repeats (place INTEGER PRIMARY KEY, occurrence TEXT NOT NULL);
"""
# A text that stands twice in a document gets another id each time; sorting on disk finds the repeats
# without holding the document.
_NUMBER_REPEATS = """
INSERT INTO repeats SELECT place, CAST(occurrence AS TEXT) FROM (
    SELECT place, ROW_NUMBER() OVER (PARTITION BY id ORDER BY place) - 1 AS occurrence FROM pieces
) WHERE occurrence > 0;
UPDATE pieces SET id = content_id(
    (SELECT arrived.id FROM arrived WHERE arrived.number = pieces.document), text,
    (SELECT occurrence FROM repeats WHERE repeats.place = pieces.place)
) WHERE place IN (SELECT place FROM repeats);
"""


class Scratch:
    """Arriving documents, kept on the disk instead of in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path, lambda: connect_private(path), reopen=False)
        with self._database.use() as connection:
            connection.executescript(_SCRATCH)
            connection.create_function("content_id", 3, content_id, deterministic=True)

    def add(self, document_id: str, digest: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        """Store one document; on an error, nothing of it."""
        stored = to_json(metadata, f"document {document_id!r}")
        with self._database.transaction() as connection:
            try:
                number = connection.execute(
                    "INSERT INTO arrived (id, digest, metadata) VALUES (?, ?, ?)",
                    (document_id, digest, stored),
                ).lastrowid
            except sqlite3.IntegrityError:
                raise ValueError(f"document {document_id!r} was already added in this operation") from None
            except UnicodeEncodeError as error:
                raise ValueError(f"document id {document_id!r} is not valid Unicode ({error})") from error
            try:
                connection.executemany(
                    "INSERT INTO pieces (id, document, ordinal, first, last, text, metadata, ref)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    _pieces(number or 0, document_id, metadata, chunks),
                )
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"document {document_id!r}: its text is not valid Unicode ({error.reason})"
                ) from error

    def seal(self) -> None:
        """Give the repeats their ids."""
        with self._database.transaction() as connection:
            for statement in _statements(_NUMBER_REPEATS):
                connection.execute(statement)

    def arrived(self) -> list[tuple[bytes, int]]:
        """Sorted ids of documents as UTF-8, with their numbers here."""
        found = self._database.rows("SELECT id, number FROM arrived")
        return sorted((identity.encode(), number) for identity, number in found)

    def pieces(self) -> NDArray[Any]:
        """Place, document and ordinal of each chunk, in the order of arrival."""
        kind = np.dtype([("place", np.int64), ("document", np.int64), ("ordinal", np.int64)])
        with self._database.use() as connection:
            return np.fromiter(
                connection.execute("SELECT place, document, ordinal FROM pieces ORDER BY place"), kind
            )

    def piece_ids(self) -> list[str]:
        """Ids of the chunks, in the order of arrival."""
        return [identity for (identity,) in self._database.rows("SELECT id FROM pieces ORDER BY place")]

    def read_pieces(self, places: Sequence[int]) -> list[tuple[Any, ...]]:
        """Of chunks: id, ordinal, start, end, text, JSON of their own metadata, ref."""
        return self._read("place, id, ordinal, first, last, text, metadata, ref", "pieces", places)

    def read_arrived(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """Of documents: id, digest, JSON of metadata."""
        return self._read("number, id, digest, metadata", "arrived", numbers)

    def _read(self, columns: str, table: str, wanted: Sequence[int]) -> list[tuple[Any, ...]]:
        key = columns.partition(",")[0]
        found: dict[int, tuple[Any, ...]] = {}
        for some in batches(wanted):
            sql = f"SELECT {columns} FROM {table} WHERE {key} IN ({marks(len(some))})"
            found.update((each[0], each[1:]) for each in self._database.rows(sql, some))
        return [found[each] for each in wanted]

    def close(self) -> None:
        """Close the file; harmless when done before."""
        self._database.close()


def _pieces(
    number: int, document_id: str, metadata: Metadata, chunks: Iterable[Chunk]
) -> Iterator[tuple[object, ...]]:
    for chunk in chunks:
        if chunk.document_id != document_id:
            raise ValueError(f"document {document_id!r} was given a chunk of {chunk.document_id!r}")
        own = {
            key: value
            for key, value in chunk.metadata.items()
            if key not in metadata or metadata[key] != value
        }
        yield (
            content_id(document_id, chunk.text, "0"),
            number,
            chunk.ordinal,
            chunk.start,
            chunk.end,
            chunk.text,
            to_json(own, f"document {document_id!r}, chunk {chunk.ordinal}") if own else "{}",
            chunk.ref,
        )


def _statements(script: str) -> list[str]:
    """Statements one by one: `executescript` would commit the transaction first."""
    return [statement for statement in script.split(";\n") if statement.strip()]
