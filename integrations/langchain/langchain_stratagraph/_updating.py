"""The changing half of a retriever: adding and deleting, each as one change of the folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_stratagraph._convert import IdKey, of_texts, to_chunks
from langchain_stratagraph._models import use_callbacks
from langchain_stratagraph._pieces import joined
from stratagraph import BuildReport, Index


class UpdatingRetriever(BaseRetriever):
    """A retriever over an index that can be changed."""

    index: Index
    id_key: IdKey | None = None

    def add_documents(
        self, documents: Iterable[Document], *, replace: bool = False, callbacks: Callbacks = None
    ) -> BuildReport:
        """Add documents; pieces of a document that the index holds already come to those it has.

        A piece that is there is replaced: one with the same `Document.id`, else one with the same metadata
        that begins at the same place (`start_index`, as `add_start_index=True` of text splitters gives it),
        else one with the same metadata and text. No other piece goes.

        Parameters
        ----------
        documents
            The documents, split as they should be indexed.
        replace
            Forget all other pieces of these documents, as for a new version of a file that was split anew:
            give all its pieces in one call.
        callbacks
            Told of the model calls.
        """
        chunks = to_chunks(documents, self.id_key)
        with use_callbacks(callbacks):
            return self.index.insert(chunks if replace else joined(self.index, chunks))

    async def aadd_documents(
        self, documents: Iterable[Document], *, replace: bool = False, callbacks: Callbacks = None
    ) -> BuildReport:
        """The async twin of `add_documents`."""
        chunks = to_chunks(documents, self.id_key)
        with use_callbacks(callbacks):
            return await self.index.ainsert(chunks if replace else joined(self.index, chunks))

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> BuildReport:
        """Add texts; arguments as in `add_documents`."""
        return self.add_documents(of_texts(texts, metadatas, ids), **arguments)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> BuildReport:
        """The async twin of `add_texts`."""
        return await self.aadd_documents(of_texts(texts, metadatas, ids), **arguments)

    def delete(
        self, ids: str | Iterable[str], *, missing_ok: bool = False, callbacks: Callbacks = None
    ) -> BuildReport:
        """Remove documents by their document id (see `id_key`); `KeyError` if one is not there."""
        with use_callbacks(callbacks):
            return self.index.delete(ids, missing_ok=missing_ok)

    async def adelete(
        self, ids: str | Iterable[str], *, missing_ok: bool = False, callbacks: Callbacks = None
    ) -> BuildReport:
        """The async twin of `delete`."""
        with use_callbacks(callbacks):
            return await self.index.adelete(ids, missing_ok=missing_ok)
