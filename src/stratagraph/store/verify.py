"""The full check of an index folder: checksums, SQLite's own check, and what numbers must obey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from stratagraph.errors import Damaged, Locked, StratagraphError
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import problem
from stratagraph.store.contents import Contents, are_infinite, meanings
from stratagraph.store.corpus import RecordedCorpus, ref_key
from stratagraph.store.database import SIDE_FILES
from stratagraph.store.external import ExternalPool, require_current
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal
from stratagraph.store.layout import CALLS, CURRENT, JOURNAL, MARKER, Layout, found_layout
from stratagraph.store.lock import LOCK, NOTE, WriterLock
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import HASHES, KEYS
from stratagraph.store.pool import FOLDER as VECTOR_FOLDER
from stratagraph.store.pool import HALVES
from stratagraph.store.records import CHUNKS, DOCUMENTS, NODES
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.protocols import VectorTable
from stratagraph.types.records import content_keys

Inspect = Callable[[Snapshot], Iterator[str]]
"""Checks beyond the store: whether settings are valid, and whether searches can follow the arrays."""
_FILES = (
    *(MARKER, CURRENT, f"{CURRENT}.tmp", LOCK, NOTE, f"{NOTE}.tmp"),
    *(database + suffix for database in (CALLS, JOURNAL) for suffix in ("", *SIDE_FILES)),
)

_NO_VECTORS = np.zeros((0, 1), np.float16)
_READ = 1 << 16  # nodes that are checked at a time


def verify(
    layout: Layout, calls: SqliteCalls, inspect: Inspect | None = None, table: VectorTable | None = None
) -> list[str]:
    """All problems of a folder, one line each, with the file's name first.

    If every file is as it was written, `inspect` checks the generation too.
    """
    problems = []
    for name in _FILES:  # links, pipes and the like
        try:
            layout.root.plain_status(name)
        except (Damaged, OSError) as error:
            problems.append(str(error))
    problems += [*_until_error(_generation(layout, inspect, table)), *calls.check()]
    journal = Journal(layout.root)
    if journal.exists():  # only damage is a problem; an unfinished or running operation is not
        with suppress(Locked, OSError), closing(journal):
            try:
                with WriterLock(layout.root, None):
                    journal.operation()
            except Locked:
                raise
            except StratagraphError as error:
                problems.append(str(error))
    return list(dict.fromkeys(problems))  # two checks may name the same file


def verify_folder(path: Path, inspect: Inspect | None = None) -> list[str]:
    """`verify` for an index that may be too damaged to open; `NotAnIndex` if there is no finished index."""
    try:
        layout = found_layout(path)
    except Damaged as error:
        return [str(error)]
    calls = SqliteCalls.of(layout.root)
    try:
        return verify(layout, calls, inspect)
    finally:
        calls.close()
        layout.root.close()


def _until_error(problems: Iterator[str]) -> Iterator[str]:
    """The problems, followed by an error that stops the search for more."""
    try:
        yield from problems
    except FileNotFoundError as error:
        yield f"{error.filename}: missing"
    except (StratagraphError, OSError) as error:
        yield str(error)


def _generation(layout: Layout, inspect: Inspect | None, table: VectorTable | None) -> Iterator[str]:
    current = layout.current()
    if current == 0:
        yield f"{CURRENT}: missing; no generation was ever published"
        return
    with layout.generation(current) as directory:
        manifest = Manifest.read(directory, current)
        contents = Contents(manifest)
        # Later checks read what earlier ones found sound.
        checks: tuple[Callable[[], Iterator[str]], ...] = (
            lambda: (line for file in manifest.files for line in _file(directory, file, contents)),
            contents.combine,
            lambda: meanings(contents, manifest),
            lambda: _nodes(contents, manifest),
            lambda: _corpus(RecordedCorpus(*contents.corpus_records(directory.path))),
        )
        for check in checks:
            wrong = list(_until_error(check()))
            yield from wrong
            if wrong:
                return
        if manifest.vectors and table is None:
            yield (
                f"the vectors are in a vector store ({manifest.vectors.get('store')}), which was not given: "
                "they were not checked, nor was what searches them"
            )
            return
        with closing(Snapshot(layout.path, directory, current, "sizes", table, moving=True)) as snapshot:
            unsound = list(_until_error(_rows(snapshot, Journal(layout.root))))
            yield from unsound
            if inspect is not None and not unsound:
                yield from inspect(snapshot)


def _rows(snapshot: Snapshot, journal: Journal) -> Iterator[str]:
    pool = snapshot.pool
    if not isinstance(pool, ExternalPool):
        return
    name = pool.rows.table.name
    if wrong := pool.wrong_rows():
        yield f"{name}: lacks {wrong} of {len(pool)} rows, or holds others in their places"
    elif journal.touched():
        yield f"{name}: rows of an update that was not finished are still to be removed"
    else:
        require_current(snapshot.manifest, pool.rows)
    journal.close()


def _file(directory: Directory, file: str, contents: Contents) -> Iterator[str]:
    try:
        with directory.reader(file) as opened:
            if wrong := problem(opened.fileno(), contents.manifest.files[file], "full"):
                yield f"{file}: {wrong}"
            else:
                contents.take(directory, file, opened.fileno())
                arrays = contents.arrays(file)
                if file.startswith(f"{VECTOR_FOLDER}/") and are_infinite(arrays.get(HALVES, _NO_VECTORS)):
                    yield f"{file}: holds values that no unit vector has"
    except FileNotFoundError:
        yield f"{file}: missing"
    except (StratagraphError, OSError) as error:
        yield str(error)


def _nodes(contents: Contents, manifest: Manifest) -> Iterator[str]:
    """Whether the nodes of each part can be read and match their keys."""
    for part in manifest.nodes:
        records, folder = contents.nodes(part), f"{NODES.folder}/{part}"
        keys, stored = contents.parts[part][KEYS], contents.parts[part][HASHES]
        order = np.argsort(records.slots)
        for start in range(0, len(records), _READ):
            rows = order[start : start + _READ]
            ids = content_keys(each.id for each in records.read(rows))
            hashes = content_keys(records.raw(rows))
            if (hashes != stored[rows]).any() or (ids != keys[rows]).any():
                yield f"{folder}: holds nodes that are not those that were written"
                break
        if len(np.unique(keys)) < len(records):
            yield f"{folder}: holds a node twice"


def _corpus(corpus: RecordedCorpus) -> Iterator[str]:
    """Whether chunks and documents can be read, are unique, and can be found."""
    chunks = corpus.chunk_records
    for start in range(0, corpus.size, _READ):
        rows = np.arange(start, min(start + _READ, corpus.size))
        beside = zip(chunks.column("refs", rows), chunks.column("noted", rows), strict=True)
        stored = ((ref_key(each.ref), bool(each.metadata)) for each in chunks.read(rows))
        if any(one != other for one, other in zip(stored, beside, strict=True)):
            yield f"{CHUNKS.folder}: holds chunks that are not found by their refs, or their metadata"
            break
    if len(set(corpus.ids(range(corpus.size)))) < corpus.size:
        yield f"{CHUNKS.folder}: holds a chunk twice"
    if any(one >= other for one, other in pairwise(corpus.document_states())):
        yield f"{DOCUMENTS.folder}: does not have each document once, in the order of the ids"
