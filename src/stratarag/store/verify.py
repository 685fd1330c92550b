"""The full check of an index folder: checksums, SQLite's own check, and what the numbers must obey."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.errors import Damaged, StrataragError
from stratarag.store.arrays import fingerprint, open_array
from stratarag.store.calls import SqliteCalls
from stratarag.store.database import connect_frozen, named_errors
from stratarag.store.layout import CORPUS, MANIFEST, Layout
from stratarag.store.manifest import Manifest
from stratarag.store.view import CHUNK_DOCUMENTS, INDICES, INDPTR, VECTORS, array_file

_ROWS = 1 << 16  # vectors looked at at a time


def verify(layout: Layout, calls: SqliteCalls) -> list[str]:
    """The problems of a folder, all of them, one readable line each, with the file's name first."""
    return [*_told(_generation(layout)), *_told(iter(calls.check()))]


def verify_folder(path: Path) -> list[str]:
    """`verify` of an index so damaged that it may not open.

    Raises
    ------
    NotAnIndex
        If the folder holds no finished index at all.
    """
    layout = Layout(path)
    try:
        layout.require()
    except Damaged as error:
        return [str(error)]
    calls = SqliteCalls(layout.calls)
    try:
        return verify(layout, calls)
    finally:
        calls.close()


def _told(problems: Iterator[str]) -> Iterator[str]:
    """The problems, and as the last one an error that keeps the others from being looked for."""
    try:
        yield from problems
    except FileNotFoundError as error:
        yield f"{error.filename}: missing"
    except (StrataragError, OSError) as error:
        yield str(error)


def _generation(layout: Layout) -> Iterator[str]:
    current = layout.current()
    if current == 0:
        yield "CURRENT: missing; no generation was ever published"
        return
    directory = layout.generation(current)
    path = directory / MANIFEST
    manifest = Manifest.from_json(path.read_text("utf-8", errors="replace"), path=path)
    root = os.path.realpath(directory)
    wrong = {name: problem for name in manifest.files if (problem := _problem(root, name, manifest))}
    yield from wrong.values()
    for needed, problems in _meanings(directory, manifest):
        if not wrong.keys() & needed:  # a file that is not as it was written has no meaning to check
            yield from _told(problems)


def _problem(root: str, name: str, manifest: Manifest) -> str | None:
    """What is wrong with a file as such."""
    path, entry = Path(root, name), manifest.files[name]
    if not os.path.realpath(path).startswith(root + os.sep):  # a link may lead out where the name does not
        return f"{name}: leads out of the index folder"
    try:
        found = fingerprint(path)
    except FileNotFoundError:
        return f"{name}: missing"
    except OSError as error:
        return f"{name}: {error.strerror}"
    if found == entry:
        return None
    return (
        f"{name}: altered (SHA-256 {found.sha256[:12]}..., {found.bytes} bytes; "
        f"written were {entry.sha256[:12]}..., {entry.bytes} bytes)"
    )


def _meanings(directory: Path, manifest: Manifest) -> Iterator[tuple[set[str], Iterator[str]]]:
    """Checks of what the files say, each with the files that it reads."""
    yield {CORPUS}, _tables(directory, manifest)
    yield {VECTORS}, _vectors(directory, manifest)
    yield {CHUNK_DOCUMENTS}, _chunk_documents(directory, manifest)
    for name, count in manifest.nodes.items():
        files = {array_file(name, INDPTR), array_file(name, INDICES)}
        yield files, _sources(directory, name, count, manifest.chunks)
    for name in manifest.files:
        if name.endswith("vectors.npy") and name != VECTORS:
            yield {name}, _finite_file(directory, name)


def _tables(directory: Path, manifest: Manifest) -> Iterator[str]:
    path = directory / CORPUS
    with named_errors(path), closing(connect_frozen(path)) as connection:
        for (problem,) in connection.execute("PRAGMA integrity_check(5)"):
            if problem != "ok":
                yield f"{CORPUS}: {problem}"
        yield from _count(connection, "documents", "number", manifest.documents)
        yield from _count(connection, "chunks", "row", manifest.chunks)
        for name, count in manifest.nodes.items():
            yield from _count(connection, "nodes", "row", count, name)


def _count(
    connection: sqlite3.Connection, table: str, number: str, expected: int, *part: str
) -> Iterator[str]:
    scope = "WHERE method = ?" if part else ""
    sql = f"SELECT COUNT(*), COUNT(DISTINCT id), COALESCE(MAX({number}), -1) FROM {table} {scope}"
    rows, ids, last = connection.execute(sql, part).fetchone()
    if not rows == ids == last + 1 == expected:
        yield (
            f"{CORPUS}: {' '.join([table, *part])}: {rows} rows, {ids} different ids, "
            f"last number {last}; the manifest says {expected}"
        )


def _vectors(directory: Path, manifest: Manifest) -> Iterator[str]:
    vectors = open_array(directory / VECTORS)
    if vectors.shape != (manifest.chunks, manifest.dimension):
        yield f"{VECTORS}: shape {vectors.shape}, not {(manifest.chunks, manifest.dimension)}"
    elif not _finite(vectors):
        yield f"{VECTORS}: holds values that are not finite"


def _chunk_documents(directory: Path, manifest: Manifest) -> Iterator[str]:
    documents = open_array(directory / CHUNK_DOCUMENTS)
    if documents.shape != (manifest.chunks,) or not _within(documents, manifest.documents):
        yield f"{CHUNK_DOCUMENTS}: does not give each chunk one of {manifest.documents} documents"


def _finite_file(directory: Path, name: str) -> Iterator[str]:
    if not _finite(open_array(directory / name)):
        yield f"{name}: holds values that are not finite"


def _sources(directory: Path, part: str, nodes: int, chunks: int) -> Iterator[str]:
    indptr = open_array(directory / array_file(part, INDPTR))
    indices = open_array(directory / array_file(part, INDICES))
    ends = (int(indptr[0]), int(indptr[-1])) if len(indptr) == nodes + 1 else None
    if ends != (0, len(indices)) or (np.diff(indptr) < 0).any():
        yield f"{array_file(part, INDPTR)}: does not divide the sources among {nodes} nodes"
    if not _within(indices, chunks):
        yield f"{array_file(part, INDICES)}: points at chunks beyond the {chunks} that exist"


def _finite(values: NDArray[Any]) -> bool:
    if values.dtype.kind != "f":
        return True
    return all(
        bool(np.isfinite(values[start : start + _ROWS]).all()) for start in range(0, len(values), _ROWS)
    )


def _within(rows: NDArray[Any], size: int) -> bool:
    return not rows.size or (int(rows.min()) >= 0 and int(rows.max()) < size)
