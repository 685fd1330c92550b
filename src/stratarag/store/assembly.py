"""From arriving documents and the previous generation to the tables of the next one.

Arrivals are streamed into a scratch file. The next generation's file is then filled from it and from
the previous one in canonical order, so it never held anything that is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratarag.protocols import Rows
from stratarag.records import Chunk, Metadata, content_id
from stratarag.store.database import Database, connect_private, frozen_uri, named_errors, require_sound
from stratarag.store.tables import INDEXES, TABLES, Tables, to_json

_SCRATCH = """
CREATE TABLE arrived (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT, metadata TEXT);
CREATE TABLE pieces (
    place INTEGER PRIMARY KEY, id TEXT NOT NULL, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL,
    ref TEXT NOT NULL
);
CREATE TABLE gone (id TEXT PRIMARY KEY);
CREATE TABLE repeats (place INTEGER PRIMARY KEY, occurrence TEXT NOT NULL);
CREATE TABLE kept (before INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE plan (row INTEGER PRIMARY KEY, document INTEGER, fresh INTEGER, place INTEGER);
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
_ASSEMBLE = """
INSERT INTO main.documents SELECT ROW_NUMBER() OVER (ORDER BY id) - 1, id, digest, metadata FROM (
    SELECT id, digest, metadata FROM before.documents
    WHERE id NOT IN (SELECT id FROM scratch.gone) AND id NOT IN (SELECT id FROM scratch.arrived)
    UNION ALL SELECT id, digest, metadata FROM scratch.arrived
) ORDER BY 1;
INSERT INTO scratch.kept SELECT old.number, new.number
    FROM before.documents old JOIN main.documents new ON new.id = old.id
    WHERE old.id NOT IN (SELECT id FROM scratch.arrived);
INSERT INTO scratch.plan
    SELECT ROW_NUMBER() OVER (ORDER BY document, ordinal, place) - 1, document, fresh, place FROM (
        SELECT kept.number AS document, old.ordinal AS ordinal, 0 AS fresh, old.row AS place
        FROM before.chunks old JOIN scratch.kept ON kept.before = old.document
        UNION ALL
        SELECT documents.number, pieces.ordinal, 1, pieces.place
        FROM scratch.pieces JOIN scratch.arrived ON arrived.number = pieces.document
        JOIN main.documents ON documents.id = arrived.id
    ) ORDER BY 1;
INSERT INTO main.chunks
    SELECT plan.row, COALESCE(old.id, new.id), plan.document, COALESCE(old.ordinal, new.ordinal),
        COALESCE(old.first, new.first), COALESCE(old.last, new.last), COALESCE(old.text, new.text),
        COALESCE(old.metadata, new.metadata), COALESCE(old.ref, new.ref)
    FROM scratch.plan
    LEFT JOIN before.chunks old ON plan.fresh = 0 AND old.row = plan.place
    LEFT JOIN scratch.pieces new ON plan.fresh = 1 AND new.place = plan.place
    ORDER BY plan.row;
"""
_KNOWN = """
SELECT row, place FROM scratch.plan WHERE fresh = 0
UNION ALL
SELECT plan.row, old.row FROM scratch.plan
    JOIN scratch.pieces ON pieces.place = plan.place JOIN before.chunks old ON old.id = pieces.id
    WHERE plan.fresh = 1
ORDER BY 1
"""


class Scratch:
    """Documents that arrive, on the disk and not in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path, lambda: connect_private(path), reopen=False)
        with self._database.use() as connection:
            connection.executescript(_SCRATCH)
            connection.create_function("content_id", 3, content_id, deterministic=True)

    def add(self, document_id: str, digest: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        """Store one document, all of it or (on an error) nothing."""
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

    def seal(self, removed: Collection[str]) -> None:
        """Give the repeats their ids and close the file."""
        with self._database.transaction() as connection:
            connection.executemany("INSERT INTO gone VALUES (?)", ((identity,) for identity in set(removed)))
            for statement in _statements(_NUMBER_REPEATS):
                connection.execute(statement)
        self.close()

    def close(self) -> None:
        """Close the file."""
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


@dataclass(frozen=True, slots=True)
class Assembled:
    """The next generation's tables, still writable for nodes.

    `documents` is their number; `chunk_documents[row]` is the place of the chunk's document in the sorted
    ids; `rows_now` and `rows_before` are the chunks that the previous generation has too, ascending in
    `rows_now`; `arrived` are those of documents that came, ascending.
    """

    tables: Tables
    documents: int
    chunk_documents: NDArray[np.int32]
    rows_now: Rows
    rows_before: Rows
    arrived: Rows


def assemble(path: Path, scratch: Path, previous: Path | None) -> Assembled:
    """Fill a new corpus file from the sealed scratch file and the previous corpus file.

    The previous file stays attached as `before`.
    """
    database = Database(path, lambda: connect_private(path), reopen=False)
    try:
        with database.use() as connection:
            _attach(connection, scratch, previous)
        with database.transaction() as connection:
            for statement in _statements(_ASSEMBLE):
                connection.execute(statement)
            for statement in _statements(INDEXES):
                connection.execute(statement)
        with database.use() as connection:
            assembled = _read_plan(connection, database)
            connection.execute("DETACH scratch")
        return assembled
    except BaseException:
        database.close()
        raise


def _attach(connection: sqlite3.Connection, scratch: Path, previous: Path | None) -> None:
    with named_errors(scratch):
        connection.execute("ATTACH ? AS scratch", (scratch.absolute().as_uri(),))
    if previous is None:
        connection.execute("ATTACH ':memory:' AS before")
        connection.executescript(TABLES.format(schema="before"))
    else:
        with named_errors(previous):
            connection.execute("ATTACH ? AS before", (frozen_uri(previous),))
        require_sound(connection, previous, schema="before")  # all of it is read next
    connection.executescript(TABLES.format(schema="main"))


def _read_plan(connection: sqlite3.Connection, database: Database) -> Assembled:
    size = connection.execute("SELECT COUNT(*) FROM scratch.plan").fetchone()[0]
    count = connection.execute("SELECT COUNT(*) FROM main.documents").fetchone()[0]
    documents = np.fromiter(
        (row[0] for row in connection.execute("SELECT document FROM scratch.plan ORDER BY row")),
        np.int32,
        size,
    )
    pair = np.dtype([("now", np.int64), ("before", np.int64)])
    known = np.fromiter(connection.execute(_KNOWN), pair)
    arrived = np.fromiter(
        (row[0] for row in connection.execute("SELECT row FROM scratch.plan WHERE fresh = 1 ORDER BY row")),
        np.int64,
    )
    tables = Tables(database, size, count)
    return Assembled(tables, count, documents, known["now"].copy(), known["before"].copy(), arrived)
