"""Documents as given by callers: converted, split, and compared with the index."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from stratagraph.ingest.chunk import ChunkConfig, split
from stratagraph.ingest.files.walk import matches
from stratagraph.mapping import in_order
from stratagraph.text import CountTokens
from stratagraph.types.protocols import Mapper
from stratagraph.types.records import Chunk, Document, Metadata, StreamedDocument, content_id

_FILE = re.compile(
    r"\.(txt|md|markdown|rst|pdf|docx|pptx|xlsx|html?|csv|tsv|jsonl?|eml|mbox|ipynb|odt|epub)$", re.IGNORECASE
)
_LONGEST_PATH = 400  # characters
_DEEPEST = 20  # levels of metadata
_AT_ONCE = 2**18  # characters: some 40 ms of work
Documents = Iterable[str | Document | StreamedDocument | Chunk]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document to be taken in. Each call of `chunks` splits it again.

    `digest` tells whether it changed, and names its file (`file_of`). `document` is its source, if that is in
    memory and a worker may split it.
    """

    id: str
    digest: str
    metadata: Metadata
    chunks: Callable[[], Iterator[Chunk]]
    document: Document | None = None


@dataclass(slots=True)
class Intake:
    """What happened to the given documents. `emptied` had a text before and are blank now."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def check_documents(documents: object) -> None:
    """Raise `TypeError` if this is not an iterable of documents."""
    single = isinstance(documents, str | bytes | Document | StreamedDocument | Chunk | Mapping)
    if single or not isinstance(documents, Iterable):
        raise TypeError(
            f"documents must be a list or another iterable, not one {type(documents).__name__}; "
            "for a single text pass [text], for files pass read_documents([path])"
        )


def arrivals(documents: Documents, chunking: ChunkConfig, count_tokens: CountTokens) -> Iterator[Arrival]:
    """The documents in order, then chunks that the caller split, by document."""
    split_by_caller: dict[str, list[Chunk]] = {}
    for position, item in enumerate(documents):
        if isinstance(item, Chunk):
            split_by_caller.setdefault(_checked_id(item.document_id, position), []).append(item)
        else:
            yield _whole(as_document(item, position), chunking, count_tokens)
    for document_id, chunks in split_by_caller.items():
        yield _presplit(document_id, chunks)


def as_document(item: object, position: int) -> Document | StreamedDocument:
    """Convert an item to a document, or raise `TypeError`.

    Raises `ValueError` if a text is the path of a file, and warns if it looks like one.
    """
    if isinstance(item, str):
        if len(item) <= _LONGEST_PATH and "\n" not in item and _FILE.search(item):
            if os.path.isfile(item):
                raise ValueError(
                    f"document {position} is {item!r}, the path of a file, which would be indexed as a text; "
                    "to index the file give read_documents([path])"
                )
            if " " not in item:
                warnings.warn(
                    f"document {position} is indexed as the text {item!r}, which looks like a path; files "
                    "are read by stratagraph.read_documents",
                    UserWarning,
                    stacklevel=2,
                )
        return Document(content_id(item), item)
    if isinstance(item, Document | StreamedDocument):
        if isinstance(item, Document) and not isinstance(item.text, str):
            raise TypeError(f"the text of document {item.id!r} is {type(item.text).__name__}, not str")
        _checked_id(item.id, position)
        return item
    kind = type(item)
    raise TypeError(
        f"document {position} is of type {kind.__module__}.{kind.__qualname__}; give strings, "
        "stratagraph.Document(id, text, metadata) or Chunk(text, document_id). For files there is "
        "read_documents([path]); a framework's documents go to the framework's classes "
        "(langchain_stratagraph, llama_index_stratagraph)"
    )


def _checked_id(identity: object, position: int) -> str:
    if not isinstance(identity, str) or not identity:
        raise TypeError(f"the id of document {position} must be a non-empty string, not {identity!r}")
    return identity


def _whole(
    document: Document | StreamedDocument, chunking: ChunkConfig, count_tokens: CountTokens
) -> Arrival:
    sections = document.sections if isinstance(document, Document) else ()
    parts = [part for each in sections for part in (str(each.start), _canonical(each.metadata, document.id))]
    digest = content_id(document.digest, _canonical(document.metadata, document.id), *parts)
    if document.file:
        digest = f"{digest} {document.file}"
    whole = document if isinstance(document, Document) else None
    return Arrival(
        document.id, digest, document.metadata, lambda: split(document, chunking, count_tokens), whole
    )


def file_of(digest: str) -> str:
    """The file that a document was read from, by its digest; empty if it is from none."""
    return digest.partition(" ")[2]


def matching(digests: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Ids of the documents with these ids or files, in these folders, or that fit these globs."""
    files = {identity: file_of(digest) or identity for identity, digest in digests.items()}
    ids: dict[str, None] = {}
    for name in names:
        folder = name.rstrip("/") + "/"
        own = [
            identity
            for identity, file in files.items()
            if name in (identity, file) or identity.startswith(folder) or file.startswith(folder)
        ]
        globbed = (
            identity for identity, file in files.items() if matches(identity, name) or matches(file, name)
        )
        ids |= dict.fromkeys(own or globbed)
    return list(ids)


def _presplit(document_id: str, chunks: list[Chunk]) -> Arrival:
    parts = [part for c in chunks for part in (c.text, c.ref, _canonical(c.metadata, document_id))]
    document_chunks = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.ordinal):
        # No file can hold a lone surrogate: it becomes U+FFFD.
        text = chunk.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        document_chunks.append(replace(chunk, text=text))
    return Arrival(
        document_id, content_id(*parts), {}, lambda: (c for c in document_chunks if c.text.strip())
    )


def _canonical(metadata: Metadata, document_id: str) -> str:
    if _is_deeper(metadata, _DEEPEST):
        raise ValueError(
            f"the metadata of document {document_id!r} is nested deeper than {_DEEPEST} levels; flatten it"
        )
    try:
        return json.dumps(dict(metadata), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the metadata of document {document_id!r} is not JSON: {error}. Give a dict of strings, "
            "numbers, lists and dicts; a date as date.isoformat()"
        ) from error


def _is_deeper(value: object, levels: int) -> bool:
    """Whether mappings and lists are nested deeper than the limit."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in value)


def split_ahead(
    coming: Iterable[Arrival],
    existing: Mapping[str, str],
    split_batch: Callable[[list[Document]], list[list[Chunk]]],
    mapper: Mapper,
    stop: Event,
) -> Iterator[Arrival]:
    """The arrivals in order, with chunks that workers split batch by batch.

    Documents whose digest is in `existing` are not split.
    """
    waiting: deque[list[Arrival]] = deque()

    def sent() -> Iterator[list[Document]]:
        for batch in _by_length(coming):
            waiting.append(batch)
            yield [bare for each in batch if (bare := _bare(each, existing)) is not None]

    for batches in in_order(mapper, split_batch, sent(), stop):
        chunk_lists = iter(batches)
        for each in waiting.popleft():
            if _bare(each, existing) is None:
                yield each
            else:
                own = each.metadata  # chunks without metadata of their own share it
                chunks = [
                    replace(c, metadata={**own, **c.metadata} if c.metadata else own)
                    for c in next(chunk_lists)
                ]
                yield replace(each, chunks=partial(iter, chunks))


def split_all(
    documents: list[Document], chunking: ChunkConfig, count_tokens: CountTokens
) -> list[list[Chunk]]:
    """The chunks of each document, without the document's metadata."""
    return [list(split(document, chunking, count_tokens)) for document in documents]


def _by_length(coming: Iterable[Arrival]) -> Iterator[list[Arrival]]:
    """Batches of about `_AT_ONCE` characters; a document that is not in memory ends one."""
    batch: list[Arrival] = []
    length = 0
    for arrival in coming:
        batch.append(arrival)
        length += _AT_ONCE if arrival.document is None else len(arrival.document.text)
        if length >= _AT_ONCE:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _bare(arrival: Arrival, existing: Mapping[str, str]) -> Document | None:
    """What a worker needs to split a document; None if it is not to be split."""
    if arrival.document is None or existing.get(arrival.id) == arrival.digest:
        return None
    return replace(arrival.document, metadata={})


def take_in(
    coming: Iterable[Arrival],
    existing: Mapping[str, str],
    add: Callable[[Arrival], bool],
) -> Intake:
    """Add new and changed documents, and tell what happened to each.

    `existing` holds the digests in the index; `add` stores a document and returns False if it has no text.
    Raises `ValueError` if an id comes twice with different content.
    """
    intake = Intake()
    digests: dict[str, str] = {}
    for arrival in coming:
        if arrival.id in digests:
            if arrival.digest != digests[arrival.id]:
                raise ValueError(
                    f"document id {arrival.id!r} was given twice with different content; "
                    "ids must be unique within one call"
                )
            intake.skipped.append(arrival.id)
            continue
        digests[arrival.id] = arrival.digest
        if existing.get(arrival.id) == arrival.digest:
            intake.unchanged.append(arrival.id)
        elif not add(arrival):
            (intake.emptied if arrival.id in existing else intake.skipped).append(arrival.id)
        else:
            (intake.updated if arrival.id in existing else intake.added).append(arrival.id)
    return intake


def require_some(intake: Intake) -> None:
    """Raise `ValueError` if there were no documents, or only blank ones."""
    if intake.added or intake.updated or intake.unchanged or intake.emptied:
        return
    if not intake.skipped:
        raise ValueError("no documents were given; nothing was written")
    names = ", ".join(repr(identity) for identity in intake.skipped[:5])
    raise ValueError(f"all {len(intake.skipped)} documents are blank ({names}); nothing was written")
