"""An index folder as a destination of `langchain_core.indexing.index`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from pydantic import ConfigDict

from langchain_stratagraph._base import IndexRetriever
from langchain_stratagraph._convert import SOURCE, to_chunks
from langchain_stratagraph._models import use_callbacks
from stratagraph import Chunk, Index
from stratagraph.operations.pieces import joined, piece_id
from stratagraph.types.question import Where
from stratagraph.types.records import json_native
from stratagraph.types.results import callers_own


class StrataDocumentIndex(DocumentIndex):
    """A document index for `langchain_core.indexing.index`, with any `cleanup` mode.

    Create it with `document_index(path, ...)` of a retriever class, or with `as_document_index()` of a
    retriever. A document is one piece of the text that `metadata["source"]`, or the retriever's `id_key`,
    names. It is replaced and deleted by `Document.id`; without an id it gets a hash of its text and metadata.
    Each batch is one change of the folder, so give `index` a large `batch_size`. Blank documents are returned
    as `failed`.

    Examples
    --------
    >>> destination = TreeRetriever.document_index("idx", embedding=embeddings)  # doctest: +SKIP
    >>> index(docs, records, destination, cleanup="full", source_id_key="source")  # doctest: +SKIP
    >>> destination.retriever.invoke("What do the letters say about the flood?")  # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: IndexRetriever

    def upsert(
        self, items: Sequence[Document], /, *, callbacks: Callbacks = None, **kwargs: Any
    ) -> UpsertResponse:
        """Add documents; one with the id of a document in the index replaces it."""
        _refuse(kwargs)
        documents, blank = _sorted(items)
        if documents or self._held(blank):
            with use_callbacks(callbacks):
                self._index.insert(joined(self._index, self._chunks(documents), blank))
        ids = dict.fromkeys(map(document_key, items))
        return UpsertResponse(succeeded=[each for each in ids if each not in blank], failed=list(blank))

    def delete(
        self, ids: list[str] | None = None, *, callbacks: Callbacks = None, **kwargs: Any
    ) -> DeleteResponse:
        """Delete documents by `Document.id`; unknown ids are ignored.

        Raises
        ------
        ValueError
            If no ids are given.
        """
        _refuse(kwargs)
        if ids is None:
            raise ValueError("give the ids of the documents to delete")
        present = self._held(ids)
        if present:
            with use_callbacks(callbacks):
                self._index.insert(joined(self._index, (), present))
        return DeleteResponse(num_deleted=len(present), num_failed=0, succeeded=present, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return the documents with these ids, as they were given.

        Unknown ones, and those that the retriever's `where` hides, are left out.
        """
        _refuse(kwargs)
        return [
            Document(id=piece_id(chunk), page_content=chunk.text, metadata=callers_own(chunk.metadata))
            for chunk in self._pieces(ids, self.retriever.request()["where"])
        ]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return self.retriever._get_relevant_documents(query, run_manager=run_manager, **options)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await self.retriever._aget_relevant_documents(query, run_manager=run_manager, **options)

    @property
    def _index(self) -> Index:
        return self.retriever.index

    def _chunks(self, documents: Sequence[Document]) -> list[Chunk]:
        return to_chunks(documents, self.retriever.id_key or document_of)

    def _pieces(self, ids: Sequence[str], where: Where | None = None) -> list[Chunk]:
        if not ids:
            return []
        self._index.reload()
        return self._index.find_chunks(ids, where=where)

    def _held(self, ids: Sequence[str]) -> list[str]:
        """The ids that are in the index, in the order given."""
        present = {piece_id(chunk) for chunk in self._pieces(ids)}
        return [each for each in dict.fromkeys(ids) if each in present]


def document_of(document: Document) -> str:
    """The document of a piece: its source, else the piece itself."""
    return str(document.metadata.get(SOURCE) or document.id)


def _refuse(arguments: dict[str, Any]) -> None:
    """Raise `TypeError` for an argument that would be ignored."""
    if arguments:
        raise TypeError(f"StrataDocumentIndex knows no argument {min(arguments)!r} here")


def _sorted(items: Sequence[Document]) -> tuple[list[Document], list[str]]:
    """The documents with text, each with an id (of equal ids the last one), and the ids of blank ones."""
    documents = {document_key(each): each for each in items}
    blank = [identity for identity, each in documents.items() if not each.page_content.strip()]
    good = [
        Document(id=identity, page_content=each.page_content, metadata=each.metadata)
        for identity, each in documents.items()
        if identity not in blank
    ]
    return good, blank


def document_key(document: Document) -> str:
    """The document's id, else a hash of its metadata and text."""
    if document.id:
        return document.id
    metadata = json.dumps(json_native(document.metadata), sort_keys=True)
    content = f"{metadata}\n{document.page_content}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()
