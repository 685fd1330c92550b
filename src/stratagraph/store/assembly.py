"""Chunks and documents of the next generation, from arriving documents and the previous generation.

Arriving documents are streamed into a scratch file, and from there into segments in canonical order:
documents by id, chunks by document and ordinal. Of the previous generation only numbers are read: the place
of each document, and the document of each chunk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.store.arrays import Arrays, Layers, as_plain, open_arrays, write_arrays
from stratagraph.store.checksums import FileEntry
from stratagraph.store.contents import NUMBERS, PARTS, opened, part_file, patch_file
from stratagraph.store.corpus import Corpus, ref_key
from stratagraph.store.database import Database, batches, connect_private, marks
from stratagraph.store.files import Directory
from stratagraph.store.metadata import to_json
from stratagraph.store.patches import are_numbers, patch
from stratagraph.store.records import NewRecords, encoded
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Chunk, Metadata, content_id

if TYPE_CHECKING:
    from stratagraph.store.snapshot import Snapshot

_AT_ONCE = 256  # texts read at a time


@dataclass(frozen=True, slots=True)
class Assembled:
    """The corpus of the next generation.

    Attributes
    ----------
    chunk_slots, document_slots
        Slot of each chunk and document in the previous generation, -1 for new ones (`records.write_records`).
    new_chunks, new_documents
        Read the new ones, in order.
    chunk_documents
        Number of each chunk's document.
    rows_now, rows_before
        Chunks that the previous generation has too: their rows now (ascending), and their rows there.
    arrived
        Rows of the chunks of arriving documents, ascending.
    """

    chunk_slots: Rows
    document_slots: Rows
    new_chunks: NewRecords
    new_documents: NewRecords
    chunk_documents: NDArray[np.int32]
    rows_now: Rows
    rows_before: Rows
    arrived: Rows


def assemble(scratch: Scratch, before: Corpus | None, removed: Collection[str]) -> Assembled:
    """Put the arriving documents among those of the previous generation (`before`), without `removed`."""
    scratch.seal()
    arrived = scratch.arrived()
    numbers = np.array([number for _, number in arrived], np.int64)
    count, of, places = 0, np.zeros(0, np.int64), np.zeros(len(arrived), np.int64)
    stays = np.ones(0, np.bool_)
    if before is not None:
        count, of = before.document_count, before.chunk_documents().astype(np.int64)
        places, has_document = before.search_documents([name for name, _ in arrived])
        gone, known = before.search_documents(list(removed))
        stays = np.ones(count, np.bool_)
        stays[places[has_document]] = False
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
    by_ordinal = pieces[np.argsort(pieces["ordinal"], kind="stable")]
    documents = np.concatenate([now[of[old]], arrivals[by_ordinal["document"]]])
    rows = np.argsort(documents, kind="stable")
    chunks_kept, documents_kept = rows < len(old), order < len(kept)
    chunks = np.concatenate([old, by_ordinal["place"]])[rows]  # rows before, or places in the scratch file
    new_chunks = np.flatnonzero(~chunks_kept)

    chunk_slots, document_slots = np.full(len(rows), -1, np.int64), np.full(len(order), -1, np.int64)
    rows_before = np.where(chunks_kept, chunks, -1)
    if before is not None:
        chunk_slots[chunks_kept] = before.chunk_records.slots[chunks[chunks_kept]]
        document_slots[documents_kept] = before.document_records.slots[kept[order[documents_kept]]]
        if len(new_chunks):
            ids = scratch.piece_ids()
            known_rows = before.row_of(ids)
            at = np.searchsorted(pieces["place"], chunks[new_chunks]).tolist()
            rows_before[new_chunks] = [known_rows.get(ids[each], -1) for each in at]
    rows_now = np.flatnonzero(rows_before >= 0)
    return Assembled(
        chunk_slots,
        document_slots,
        partial(scratch.new_chunks, chunks[new_chunks]),
        partial(scratch.new_documents, np.concatenate([kept, numbers])[order][~documents_kept]),
        documents[rows].astype(np.int32),
        rows_now,
        rows_before[rows_now],
        new_chunks,
    )


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
        self._database = Database(path, lambda: connect_private(path))
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

    def arrived(self) -> list[tuple[str, int]]:
        """Sorted ids of documents, with their numbers here."""
        pairs = self._database.rows("SELECT id, number FROM arrived")
        return sorted((identity, number) for identity, number in pairs)

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

    def new_chunks(self, places: Rows, numbers: Rows) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
        """The records and columns of chunks (`records.CHUNKS`) at some of these places."""
        columns = "place, id, ordinal, first, last, text, metadata, ref"
        for identity, ordinal, start, end, text, metadata, ref in self._read(
            columns, "pieces", places[numbers]
        ):
            halves = (
                int.from_bytes(bytes.fromhex(half), "little") for half in (identity[:16], identity[16:])
            )
            raw = encoded((text, ordinal, start, end, ref), metadata)
            yield raw, (*halves, ref_key(ref), metadata != "{}")

    def new_documents(self, of: Rows, numbers: Rows) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
        """The records of documents at some of these numbers here."""
        for identity, digest, metadata in self._read("number, id, digest, metadata", "arrived", of[numbers]):
            yield encoded((identity, digest), metadata), ()

    def _read(self, columns: str, table: str, wanted: Rows) -> Iterator[tuple[Any, ...]]:
        key = columns.partition(",")[0]
        for some in batches(wanted.tolist(), _AT_ONCE):
            sql = f"SELECT {columns} FROM {table} WHERE {key} IN ({marks(len(some))})"
            by_row = {each[0]: each[1:] for each in self._database.rows(sql, some)}
            yield from (by_row[each] for each in some)

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


class ArrayWriter:
    """Writes the arrays of the parts of a new generation.

    Parameters
    ----------
    directory, generation
        Of the new generation.
    base
        The previous generation, whose files may be shared; None if none may be.
    loses
        Whether chunks of that generation are gone. Then arrays that say something of rows are written whole,
        so that nothing of those chunks is left.
    link
        Shares files of a folder of the previous generation.
    files
        Files of the new generation by path; those that are written are added.
    """

    def __init__(
        self,
        directory: Directory,
        generation: int,
        base: Snapshot | None,
        *,
        loses: bool,
        link: Callable[[str, Directory, Sequence[str]], None],
        files: dict[str, FileEntry],
    ) -> None:
        self._directory = directory
        self._generation = generation
        self._base = base
        self._loses = loses
        self._link = link
        self._files = files

    def put(self, part: str, arrays: Mapping[str, NDArray[Any]], measures: Collection[str]) -> Arrays:
        """Write the arrays of a part; those that are given are returned, or those that were written."""
        plain = {name: as_plain(name, array) for name, array in arrays.items()}
        numbers = {
            name: array for name, array in plain.items() if name in measures or are_numbers(array.dtype)
        }
        contents = {name: array for name, array in plain.items() if name not in numbers}
        return Layers(self._put(part, PARTS, contents), self._put(part, NUMBERS, numbers))

    def _put(self, part: str, folder: str, arrays: Arrays) -> Arrays:
        """Write arrays as a patch of those before, if that is much smaller, and else whole."""
        file, before = part_file(part, folder), None
        if self._base is not None and not (self._loses and folder == PARTS):
            before = self._base.groups.get((part, folder))
        changes = None if before is None else patch(before, arrays, numbers=folder == NUMBERS)
        if changes is None:
            return self._written(file, arrays)
        with self._directory.make_all(folder) as directory:
            self._link(folder, directory, [file.removeprefix(f"{folder}/")])
        self._written(patch_file(part, folder), changes)
        return arrays

    def _written(self, path: str, arrays: Arrays) -> Arrays:
        folder, _, file = path.rpartition("/")
        with self._directory.make_all(folder) as directory:
            self._files[path] = write_arrays(directory, file, arrays)
            directory.sync()
        with opened(self._directory, path) as descriptor:
            return open_arrays(self._directory, path, descriptor)
