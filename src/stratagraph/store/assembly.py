"""Chunks and documents of the next generation, from arriving documents and the previous generation.

Arriving documents are streamed into a scratch file, and from there into segments in canonical order:
documents by id, chunks by document and ordinal. Of the previous generation only numbers are read: the place
of each document, and the document of each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.protocols import Rows
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
from stratagraph.store.files import Directory
from stratagraph.store.scratch import Scratch
from stratagraph.store.segments import planned

_AT_ONCE = 256  # texts read at a time
_Read = Callable[[Sequence[int]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Written:
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

    chunks: Written
    documents: Written
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
    """Order the next generation; `of` is the document of each chunk of the previous one."""
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
) -> Written:
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
    return Written(files, kept, plan.slots[slots].astype(np.uint32))


def _chunk_segment(base: Records | None, coming: _Coming, old: Rows, new: Rows) -> dict[str, NDArray[Any]]:
    """The arrays of a segment of chunks."""
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
    """The arrays of a segment of documents."""
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
