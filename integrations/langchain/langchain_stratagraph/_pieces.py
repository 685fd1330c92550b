"""Pieces of documents: the core replaces whole documents, LangChain adds and deletes pieces.

A document is put together only when the core reads its chunks, under the writer's lock, so that of two who
add to one document at the same time neither loses a piece.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from stratagraph import Chunk, Index


def joined(index: Index, chunks: Sequence[Chunk], gone: Collection[str] = ()) -> Iterator[Chunk]:
    """Yield all chunks of the documents that change, for `Index.insert`.

    Parameters
    ----------
    index
        Index that holds the other pieces.
    chunks
        New pieces. Each replaces an equal one (see `place`), or is appended. A piece whose id is that of its
        document is the whole document.
    gone
        Ids of pieces to remove, of any document.
    """
    index.reload()
    new: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        new.setdefault(chunk.document_id, []).append(chunk)
    dropped = {*gone, *(chunk.ref for chunk in chunks if chunk.ref)}
    losing = [chunk.document_id for chunk in index.find_chunks(dropped)] if dropped else []
    held = index.chunks(list(dict.fromkeys([*new, *losing])))
    for document in dict.fromkeys([*new, *losing]):
        pieces = _merged(held.get(document, ()), new.get(document, ()), dropped)
        # A document without a text is what tells the core, in the same step, that nothing of it is left.
        yield from _renumbered(pieces) if pieces else [Chunk("", document)]


def place(chunk: Chunk) -> tuple[object, ...]:
    """What identifies a piece in its document: its own id, else where it begins, else its text."""
    if chunk.ref:
        return (chunk.ref,)
    metadata = json.dumps(chunk.metadata, sort_keys=True)
    return chunk.start, metadata, "" if chunk.start >= 0 else chunk.text


def piece_id(chunk: Chunk) -> str:
    """The caller's id of a piece, else the core's."""
    return chunk.ref or chunk.id


def _merged(held: Iterable[Chunk], new: Sequence[Chunk], dropped: Collection[str]) -> list[Chunk]:
    """The held pieces with new ones in place of equal ones."""
    if any(chunk.ref == chunk.document_id for chunk in new):
        return list(new)
    coming: dict[tuple[object, ...], list[Chunk]] = {}
    for chunk in new:
        coming.setdefault(place(chunk), []).append(chunk)
    pieces: list[Chunk] = []
    replaced = set()
    for chunk in held:
        where = place(chunk)
        if where in coming:
            pieces += [] if where in replaced else coming[where]
            replaced.add(where)
        elif piece_id(chunk) not in dropped:
            pieces.append(chunk)
    return [*pieces, *(chunk for where, group in coming.items() if where not in replaced for chunk in group)]


def _renumbered(chunks: Iterable[Chunk]) -> list[Chunk]:
    return [replace(chunk, ordinal=number, id="") for number, chunk in enumerate(chunks)]
