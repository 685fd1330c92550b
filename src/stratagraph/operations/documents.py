"""Documents as given by callers: converted, split, and compared with the index."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from stratagraph.ingest.chunk import ChunkConfig, split
from stratagraph.ingest.files.walk import matches
from stratagraph.text import CountTokens
from stratagraph.types.records import (
    Chunk,
    Document,
    DocumentState,
    Metadata,
    StreamedDocument,
    content_id,
    json_native,
)

_FILE = re.compile(
    r"\.(txt|md|markdown|rst|pdf|docx|pptx|xlsx|html?|csv|tsv|jsonl?|eml|mbox|ipynb|odt|epub)$", re.IGNORECASE
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # category Cc, but tab and line break
_LONGEST_PATH = 400  # characters
_DEEPEST = 20  # levels of metadata
Documents = Iterable[str | Document | StreamedDocument | Chunk]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document to be taken in. Each call of `chunks` splits it again.

    `state` shows whether the document changed.
    """

    id: str
    state: DocumentState
    metadata: Metadata
    chunks: Callable[[], Iterator[Chunk]]


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


def arrivals(
    documents: Documents, chunking: ChunkConfig, count_tokens: CountTokens, notes: Counter[str]
) -> Iterator[Arrival]:
    """The documents in order, then the documents whose chunks the caller gives.

    Metadata is converted to JSON types. `notes` counts the values that were NaN, for the report.
    """
    split_by_caller: dict[str, list[Chunk]] = {}
    for position, item in enumerate(documents):
        if isinstance(item, Chunk):
            for name, kind in (("text", str), ("prefix", str), ("ordinal", int)):
                if not isinstance(value := getattr(item, name), kind) or isinstance(value, bool):
                    what = "a whole number" if kind is int else "a string"
                    raise TypeError(
                        f"chunk {position}, of document {item.document_id!r}: {name} must be {what}, "
                        f"not {value!r}"
                    )
            split_by_caller.setdefault(_checked_id(item.document_id, position), []).append(item)
            continue
        document = _cleaned(as_document(item, position))
        metadata, text = _as_json(document.metadata, document.id, notes)
        document = replace(document, metadata=metadata)
        parts = [document.digest, text]
        if isinstance(document, Document) and document.sections:
            sections = []
            for section in document.sections:
                metadata, text = _as_json(section.metadata, document.id, notes)
                sections.append(replace(section, metadata=metadata))
                parts += [str(section.start), text]
            document = replace(document, sections=sections)
        state = DocumentState(content_id(*parts), document.file, document.root)
        yield Arrival(document.id, state, document.metadata, partial(split, document, chunking, count_tokens))
    for document_id, given in split_by_caller.items():
        parts, chunks = [], []
        for chunk in given:
            metadata, canonical = _as_json(chunk.metadata, document_id, notes)
            parts += [chunk.text, chunk.ref, canonical, *([chunk.prefix] if chunk.prefix else [])]
            if (text := _storable(chunk.text)).strip():
                chunks.append(replace(chunk, text=text, prefix=_storable(chunk.prefix), metadata=metadata))
        chunks.sort(key=lambda chunk: chunk.ordinal)
        yield Arrival(document_id, DocumentState(content_id(*parts)), {}, partial(iter, chunks))


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


def _clean(text: str) -> str:
    """A text with LF for CR LF, and a space for each other control character."""
    return _CONTROL.sub(" ", text.replace("\r\n", "\n"))


def _storable(text: str) -> str:
    """A text of a chunk as `_clean` makes it; no file can hold a lone surrogate, which becomes U+FFFD."""
    return _clean(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _clean_blocks(blocks: Callable[[], Iterator[str]]) -> Iterator[str]:
    rest = ""
    for block in blocks():
        whole = rest + block
        rest = "\r" if whole.endswith("\r") else ""  # the next block may begin with its LF
        yield _clean(whole.removesuffix("\r"))
    yield _clean(rest)


def _cleaned(document: Document | StreamedDocument) -> Document | StreamedDocument:
    """A document without control characters, whose sections begin where they began."""
    if isinstance(document, StreamedDocument):
        return replace(document, read=partial(_clean_blocks, document.blocks))
    if not _CONTROL.search(document.text):
        return document
    sections, seen, shorter = [], 0, 0
    for each in document.sections:
        shorter += document.text.count("\r\n", seen, each.start)
        seen = each.start
        sections.append(replace(each, start=each.start - shorter))
    return replace(document, text=_clean(document.text), sections=tuple(sections))


def _checked_id(identity: object, position: int) -> str:
    if not isinstance(identity, str) or not identity:
        raise TypeError(f"the id of document {position} must be a non-empty string, not {identity!r}")
    return identity


def matching(states: Mapping[str, DocumentState], names: Iterable[str]) -> list[str]:
    """Ids of the documents with these ids or files, in these folders, or that fit these globs."""
    files = {identity: state.file or identity for identity, state in states.items()}
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


def _as_json(metadata: object, document_id: str, notes: Counter[str]) -> tuple[Metadata, str]:
    """Metadata in JSON types as it is stored, and as a text."""
    if _is_deeper(metadata, _DEEPEST):
        raise ValueError(
            f"the metadata of document {document_id!r} is nested deeper than {_DEEPEST} levels; flatten it"
        )
    try:
        if not isinstance(metadata, Mapping):
            raise TypeError(f"it is of type {type(metadata).__name__}; give a dict")
        missing: list[str] = []
        converted: Metadata = json_native(metadata, missing)
        notes.update(f"values of {key!r} in metadata were NaN, and are null" for key in missing)
        return converted, json.dumps(converted, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the metadata of document {document_id!r} is not JSON: {error}") from error


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in value)


def require_some(intake: Intake) -> None:
    """Raise `ValueError` if all given documents are blank."""
    if intake.added or intake.updated or intake.unchanged or intake.emptied or not intake.skipped:
        return
    names = ", ".join(repr(identity) for identity in intake.skipped[:5])
    raise ValueError(f"all {len(intake.skipped)} documents are blank ({names}); nothing was written")
