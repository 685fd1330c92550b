"""Arriving documents, on the disk until they are assembled."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.records import Chunk, Metadata, content_id
from stratagraph.store.database import Database, batches, connect_private, marks
from stratagraph.store.metadata import to_json

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
