"""LangChain documents to chunks, and hits to documents."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from stratagraph import Chunk, Hit, Retrieval
from stratagraph.types.records import Metadata, json_native
from stratagraph.types.results import CHUNK, OURS, callers_own

IdKey = str | Callable[[Document], str]
SOURCE = "source"
_LISTED = 3
_ROLES = {"human": "user", "ai": "assistant", "HumanMessageChunk": "user", "AIMessageChunk": "assistant"}


def to_chunks(documents: Iterable[Document], id_key: IdKey | None = None) -> list[Chunk]:
    """Chunks of documents, one each, grouped by document id in the order given.

    A text without any id that comes twice is taken once.
    """
    if isinstance(documents, Document):
        raise TypeError("documents must be a list of documents, not one; pass [document]")
    grouped: defaultdict[str, list[Document]] = defaultdict(list)
    for document in documents:
        if not isinstance(document, Document):
            raise TypeError(
                f"documents must be LangChain Documents, not {type(document).__name__}; "
                "for strings there is from_texts"
            )
        identity, by_content = document_id(document, id_key)
        if not (by_content and identity in grouped):
            grouped[identity].append(document)
    return [
        _chunk(document, identity, ordinal)
        for identity, pieces in grouped.items()
        for ordinal, document in enumerate(pieces)
    ]


def of_texts(
    texts: Iterable[str], metadatas: Sequence[Mapping[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    """Texts as documents; `ValueError` if the numbers of metadatas or ids differ."""
    texts = list(texts)
    for name, values in (("metadatas", metadatas), ("ids", ids)):
        if values is not None and len(values) != len(texts):
            raise ValueError(f"there are {len(texts)} texts and {len(values)} {name}")
    return [
        Document(
            id=ids[place] if ids else None,
            page_content=text,
            metadata=dict(metadatas[place]) if metadatas else {},
        )
        for place, text in enumerate(texts)
    ]


def document_id(document: Document, id_key: IdKey | None) -> tuple[str, bool]:
    """The id that a document is deleted by, and whether it is a hash of its text.

    Raises `ValueError` if `id_key` finds none.
    """
    if id_key is not None:
        identity = id_key(document) if callable(id_key) else document.metadata.get(id_key)
        if identity is None or identity == "":
            raise ValueError(f"a document has no {id_key!r} in its metadata: {sorted(document.metadata)}")
        return str(identity), False
    if document.id:
        return document.id, False
    if source := document.metadata.get(SOURCE):
        return str(source), False
    digest = hashlib.blake2b(document.page_content.encode("utf-8", "surrogatepass"), digest_size=16)
    return digest.hexdigest(), True


def _chunk(document: Document, identity: str, ordinal: int) -> Chunk:
    text = document.page_content
    index = document.metadata.get("start_index")
    start = index if isinstance(index, int) and not isinstance(index, bool) else -1
    return Chunk(
        text=text,
        document_id=identity,
        ordinal=ordinal,
        start=start,
        end=start + len(text) if start >= 0 else -1,
        metadata=callers_own(document.metadata),
        ref=document.id or "",
    )


def to_document(hit: Hit, trace: Metadata | None = None) -> Document:
    """A hit as a document: `Hit.identity` in its metadata, and with a trace `Hit.provenance` under `OURS`.

    `source` is the caller's where all sources of the hit share it, else the document ids.
    """
    metadata = callers_own(json_native(hit.metadata))
    if hit.kind != CHUNK:
        metadata = {key: value for key, value in metadata.items() if key == SOURCE}
    more = len(hit.documents) - _LISTED
    listed = ", ".join(hit.documents[:_LISTED]) + (f" and {more} more" if more > 0 else "")
    metadata = {**metadata, SOURCE: metadata.get(SOURCE) or listed, **hit.identity()}
    if trace is not None:
        metadata[OURS] = hit.provenance(trace)
    return Document(id=hit.ref or hit.id, page_content=hit.text, metadata=metadata)


def to_history(messages: Any) -> Any:
    """Messages, or pairs of a role and a text, as pairs with the core's roles.

    Messages of other roles (system, tool) are left out. Other values are passed on to the core, which rejects
    them by name.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, str | bytes | Mapping):
        return messages
    turns: list[Any] = []
    for each in messages:
        if isinstance(each, BaseMessage):
            if each.type in _ROLES:
                turns.append((_ROLES[each.type], str(each.text)))
        elif isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str):
            turns.append((_ROLES.get(each[0], each[0]), each[1]))
        else:
            turns.append(each)
    return turns


def to_documents(retrieval: Retrieval, *, traced: bool = False) -> list[Document]:
    """The hits of a retrieval as documents, with scores and traces if these are asked for."""
    pairs = zip(retrieval.hits, retrieval.trace, strict=True)
    return [to_document(hit, trace if traced else None) for hit, trace in pairs]


def to_retrieval(question: str, method: str, documents: Sequence[Document]) -> Retrieval:
    """Documents, of a retriever or others, as a retrieval with their present texts."""
    restored = []
    for place, document in enumerate(documents, 1):
        identity = document.id or f"document-{place}"
        restored.append(
            Hit.restored(
                document.page_content,
                document.metadata,
                id=identity,
                document=str(document.metadata.get(SOURCE, identity)),
                score=None,
                ref=document.id or "",
            )
        )
    hits, traces = (hit for hit, _ in restored), (trace for _, trace in restored)
    return Retrieval(question, method, tuple(hits), tuple(traces))
