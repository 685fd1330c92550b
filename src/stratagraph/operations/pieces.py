"""Pieces of documents: an index replaces whole documents, the frameworks add and delete pieces.

A document is put together when the index reads its chunks. The index then holds the writer's lock, so two
callers that add to one document at the same time lose no piece.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stratagraph.types.records import Chunk, json_native


def joined(index: Any, chunks: Sequence[Chunk], removed: Collection[str] = ()) -> Iterator[Chunk]:
    """Yield all chunks of the documents that change, for `insert` of the open `Index`.

    Of the new pieces, each replaces an equal one (see `place`), or is appended. A piece whose id is that of
    its document is the whole document. `removed` are ids of pieces to remove, of any document.
    """
    index.reload()
    new: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        new.setdefault(chunk.document_id, []).append(chunk)
    dropped = {*removed, *(chunk.ref for chunk in chunks if chunk.ref)}
    losing = [chunk.document_id for chunk in index.find_chunks(dropped)] if dropped else []
    documents = list(dict.fromkeys([*new, *losing]))
    present = index.chunks(documents)
    for document in documents:
        pieces = _merged(present.get(document, ()), new.get(document, ()), dropped)
        for ordinal, chunk in enumerate(pieces):
            yield replace(chunk, ordinal=ordinal, id="")
        if not pieces:  # a document without text is deleted by the index in the same step
            yield Chunk("", document)


def piece_id(chunk: Chunk) -> str:
    """The caller's id of a piece, else the index's."""
    return chunk.ref or chunk.id


def place(chunk: Chunk) -> tuple[object, ...]:
    """What identifies a piece in its document: its own id, else where it begins, else its text."""
    if chunk.ref:
        return (chunk.ref,)
    metadata = json.dumps(json_native(chunk.metadata), sort_keys=True)
    return chunk.start, metadata, "" if chunk.start >= 0 else chunk.text


def _merged(present: Sequence[Chunk], new: Sequence[Chunk], dropped: Collection[str]) -> list[Chunk]:
    """The present pieces of a document with new ones in place of equal ones."""
    if any(chunk.ref == chunk.document_id for chunk in new):
        return list(new)
    arriving: dict[tuple[object, ...], list[Chunk]] = {}
    for chunk in new:
        arriving.setdefault(place(chunk), []).append(chunk)
    pieces: list[Chunk] = []
    replaced = set()
    for chunk in present:
        where = place(chunk)
        if where in arriving:
            pieces += [] if where in replaced else arriving[where]
            replaced.add(where)
        elif piece_id(chunk) not in dropped:
            pieces.append(chunk)
    return [
        *pieces,
        *(chunk for where, group in arriving.items() if where not in replaced for chunk in group),
    ]
