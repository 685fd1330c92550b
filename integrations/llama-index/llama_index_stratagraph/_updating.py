"""Inserting, deleting and refreshing: the methods of `BaseIndex`, each as one change of the folder.

`BaseIndex` works node by node, and its async methods call sync ones. Here each method changes the folder
once and then the docstore. If it is interrupted between the two, a refresh mends the docstore at no cost.
A document of the core is replaced as a whole, so a change of nodes gives the document again with the nodes
it then has. Chunks that stay keep their ids and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion import arun_transformations, run_transformations
from llama_index.core.schema import BaseNode, Document, IndexNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.index_store import SimpleIndexStore

from llama_index_stratagraph._convert import to_chunks, to_stored
from llama_index_stratagraph._persist import FolderStruct, note
from stratagraph import Index
from stratagraph._sync import blocking, either, run_here
from stratagraph.operations.pieces import joined, piece_id

logger = logging.getLogger(__name__)


class UpdatingIndex(BaseIndex[FolderStruct]):
    """The part of an index class that changes the folder."""

    method: ClassVar[str]
    core: Index
    has_docstore: bool

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """The documents of the index, with their node ids and the metadata of the first node."""
        return {
            document: RefDocInfo(node_ids=list(map(piece_id, chunks)), metadata=dict(chunks[0].metadata))
            for document, chunks in self.core.chunks().items()
        }

    async def ainsert_nodes(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        """Add nodes to their documents; a node that the index holds is replaced."""
        for node in nodes:  # objects that cannot be serialised stay in memory, as in the base class
            if isinstance(node, IndexNode) and node.obj is not None:
                try:
                    node.dict()
                except ValueError:
                    self._object_map[node.index_id] = node.obj
                    node.obj = None
        with self._callback_manager.as_trace("insert_nodes"):
            if nodes:
                await either(self.core.insert, self.core.ainsert, joined(self.core, to_chunks(nodes)))
            await self._store(nodes)
            self._note()

    insert_nodes = blocking(ainsert_nodes, run_here)  # type: ignore[arg-type]

    def _insert(self, nodes: Sequence[BaseNode], **insert_kwargs: Any) -> None:
        if nodes:
            self.core.insert(joined(self.core, to_chunks(nodes)))

    async def adelete_nodes(
        self, node_ids: list[str], delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Delete nodes, and write summaries they contributed to again without them."""
        node_ids = list(node_ids)  # the docstore hands out its own list and shortens it
        present = {piece_id(chunk) for chunk in self.core.find_chunks(node_ids)}
        if unknown := [node for node in node_ids if node not in present]:
            logger.warning("%d of %d nodes not in the index: %s", len(unknown), len(node_ids), unknown[:5])
        if present:
            await either(self.core.insert, self.core.ainsert, joined(self.core, (), present))
        if delete_from_docstore:
            # Not `adelete_document`: it leaves the node in its document's list of nodes.
            await either(self._forget_nodes, lambda ids: asyncio.to_thread(self._forget_nodes, ids), node_ids)
        self._note()

    delete_nodes = blocking(adelete_nodes, run_here)  # type: ignore[arg-type]

    def _delete_node(self, node_id: str, **delete_kwargs: Any) -> None:
        self.delete_nodes([node_id], **delete_kwargs)

    def _forget_nodes(self, node_ids: Iterable[str]) -> None:
        for node in node_ids:
            self.docstore.delete_document(node, raise_error=False)

    async def ainsert(self, document: Document, **insert_kwargs: Any) -> None:
        """Split a document and add it; a document that has its id is replaced."""
        with self._callback_manager.as_trace("insert"):
            await self._replace([document], **insert_kwargs)

    insert = blocking(ainsert, run_here)  # type: ignore[arg-type]

    async def aupdate_ref_doc(self, document: Document, **update_kwargs: Any) -> None:
        """Replace a document, in one change."""
        with self._callback_manager.as_trace("update_ref_doc"):
            await self._replace([document], **update_kwargs.get("insert_kwargs", {}))

    update_ref_doc = blocking(aupdate_ref_doc, run_here)  # type: ignore[arg-type]

    async def arefresh_ref_docs(self, documents: Sequence[Document], **update_kwargs: Any) -> list[bool]:
        """Insert the new and changed documents, in one change; return which of them these were."""
        with self._callback_manager.as_trace("refresh_ref_docs"):
            store, present = self.docstore, self.core.documents()
            stale = []
            for document in documents:
                recorded = await either(store.get_document_hash, store.aget_document_hash, document.id_)
                lacking = document.id_ not in present and bool(document.get_content().strip())
                stale.append(lacking or recorded != document.hash)
            # Of several with one id, the last.
            changed = {doc.id_: doc for doc, is_stale in zip(documents, stale, strict=True) if is_stale}
            await self._replace(list(changed.values()), **update_kwargs.get("insert_kwargs", {}))
        return stale

    refresh_ref_docs = blocking(arefresh_ref_docs, run_here)  # type: ignore[arg-type]

    async def adelete_ref_doc(
        self, ref_doc_id: str, delete_from_docstore: bool = False, **delete_kwargs: Any
    ) -> None:
        """Delete a document and its nodes, in one change."""
        if ref_doc_id in self.core.documents():
            await either(self.core.delete, self.core.adelete, ref_doc_id)
            self._note()
        else:
            logger.warning("document %r is not in the index; nothing deleted from it", ref_doc_id)
        if delete_from_docstore:
            store = self.docstore
            await either(store.delete_ref_doc, store.adelete_ref_doc, ref_doc_id, raise_error=False)
            await either(store.delete_document, store.adelete_document, ref_doc_id, raise_error=False)

    delete_ref_doc = blocking(adelete_ref_doc, run_here)  # type: ignore[arg-type]

    async def _replace(self, documents: Sequence[Document], **transform_kwargs: Any) -> None:
        """Split the documents and replace what the index holds of them."""
        if not documents:
            return
        nodes = await split(documents, self._transformations, self._show_progress, **transform_kwargs)
        chunks = [chunk for chunk in to_chunks(nodes) if chunk.text.strip()]
        full, present = {chunk.document_id for chunk in chunks}, self.core.documents()
        if chunks:
            await either(self.core.insert, self.core.ainsert, chunks)
        if blank := [each.id_ for each in documents if each.id_ in present and each.id_ not in full]:
            await either(self.core.delete, self.core.adelete, blank)
        store = self.docstore
        for document in documents:
            await either(store.delete_ref_doc, store.adelete_ref_doc, document.id_, raise_error=False)
        await self._store(nodes, documents)
        self._note()

    async def _store(self, nodes: Sequence[BaseNode], documents: Sequence[Document] = ()) -> None:
        """Add nodes to the docstore, if the index has one, and the hashes of their documents."""
        store = self.docstore
        if self.has_docstore:
            await either(store.add_documents, store.async_add_documents, nodes, allow_update=True)
        hashes = {document.id_: document.hash for document in documents}
        await either(store.set_document_hashes, store.aset_document_hashes, hashes)

    def _finds_docstore(self) -> bool:
        """Whether the docstore has a document of the folder."""
        return any(
            self.docstore.get_ref_doc_info(document) is not None or self.docstore.document_exists(document)
            for document in self.core.documents()
        )

    def _complete_docstore(self) -> None:
        """Add nodes that only the folder has: of another program, or inserted after the last persist."""
        beside = [
            (chunk, (before, after))
            for group in self.core.chunks().values()
            for before, chunk, after in zip([None, *group], group, [*group[1:], None], strict=False)
        ]
        exists = self.docstore.document_exists
        lacking = [to_stored(chunk, each) for chunk, each in beside if not exists(piece_id(chunk))]
        self.docstore.add_documents(lacking, allow_update=True)

    def _note(self) -> None:
        """Write the folder and its generation into the index store."""
        self._index_struct.folder = str(self.core.path.absolute())
        self._index_struct.generation = self.core.generation
        self._index_struct.docstore = self.has_docstore
        self._storage_context.index_store.add_index_struct(self._index_struct)
        if not isinstance(self._storage_context.index_store, SimpleIndexStore):  # it is not persisted
            with suppress(OSError):  # a folder that others write is loaded with `path` alone
                note(self.core.path, self._index_struct)


class FolderDocstore(SimpleDocumentStore):
    """A docstore that reads from the folder the nodes that it does not hold itself."""

    def __init__(self, core: Index) -> None:
        super().__init__()
        self._core = core

    def get_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        """The node or document with this id."""
        if not super().document_exists(doc_id) and (chunks := self._core.find_chunks(doc_id)):
            return to_stored(chunks[0], self._core.neighbours(chunks[0].id)[chunks[0].id])
        return super().get_document(doc_id, raise_error)

    async def aget_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:
        """Async version of `get_document`."""
        return await asyncio.to_thread(self.get_document, doc_id, raise_error)


async def split(
    documents: Sequence[Document], transformations: Any, show_progress: bool, **arguments: Any
) -> Sequence[BaseNode]:
    """The nodes of documents. `ValueError` if two with one id differ; equal ones count once."""
    unique: dict[str, Document] = {}
    for document in documents:
        if unique.setdefault(document.id_, document).get_content() != document.get_content():
            raise ValueError(f"two documents have the id {document.id_!r} and different texts")
    return await either(
        run_transformations,
        arun_transformations,
        list(unique.values()),
        transformations,
        show_progress=show_progress,
        **arguments,
    )
