"""What a folder holds, in LlamaIndex's terms: documents, the nodes of each, and what a change leaves of them.

A document of the core is replaced or deleted as a whole. LlamaIndex adds and deletes single nodes; so the
document is given again, with the nodes it then has. Chunks that stay keep their ids, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from llama_index.core.storage.docstore.types import RefDocInfo

from stratagraph import Chunk, Index


def node_id(chunk: Chunk) -> str:
    """The framework's id of a chunk; the core's own where another program wrote the folder."""
    return chunk.ref or chunk.id


def merged(index: Index, new: Mapping[str, Sequence[Chunk]]) -> Iterator[Chunk]:
    """All chunks of the documents that new chunks belong to; a new one replaces one of the same node id.

    For `Index.insert`, which reads them under the writer's lock: of two who add to one document at the same
    time neither loses a node.
    """
    index.reload()
    held = index.chunks(new)
    for document, chunks in new.items():
        ids = {node_id(chunk) for chunk in chunks}
        kept = [chunk for chunk in held.get(document, ()) if node_id(chunk) not in ids]
        yield from renumbered([*kept, *chunks])


def without(index: Index, node_ids: Collection[str]) -> tuple[list[Chunk], list[str], list[str]]:
    """What deleting nodes leaves.

    Returns
    -------
    The chunks that remain of documents that lose some; the documents that lose all; and the node ids
    that are not in the index.
    """
    wanted = set(node_ids)
    found: set[str] = set()
    remaining: list[Chunk] = []
    emptied: list[str] = []
    documents = {chunk.document_id for chunk in index.find_chunks(wanted)}
    for document, chunks in index.chunks(documents).items():
        gone = {node_id(chunk) for chunk in chunks} & wanted
        found |= gone
        kept = [chunk for chunk in chunks if node_id(chunk) not in gone]
        if kept:
            remaining += renumbered(kept)
        else:
            emptied.append(document)
    return remaining, emptied, [node for node in node_ids if node not in found]


def renumbered(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks with ordinals from 0, as the caller's own, without the ids that the core gave them."""
    return [replace(chunk, ordinal=place, id="") for place, chunk in enumerate(chunks)]


def ref_docs(index: Index) -> dict[str, RefDocInfo]:
    """LlamaIndex's account of the documents in the index."""
    return {
        document: RefDocInfo(node_ids=[node_id(chunk) for chunk in chunks], metadata=dict(chunks[0].metadata))
        for document, chunks in index.chunks().items()
    }


def same_texts(index: Index, chunks: Iterable[Chunk]) -> list[Chunk] | None:
    """The chunks of the folder, if it holds the texts of `chunks` and no others, whatever their node ids.

    LlamaIndex gives nodes a random id each time; the same documents split again are the same all the same.
    """
    given: dict[str, list[str]] = {}
    for chunk in chunks:
        given.setdefault(chunk.document_id, []).append(chunk.text)
    held = index.chunks()
    if given != {name: [chunk.text for chunk in group] for name, group in held.items()}:
        return None
    return [chunk for group in held.values() for chunk in renumbered(group)]
