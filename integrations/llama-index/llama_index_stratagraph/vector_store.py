"""An index in the place of a vector store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import node_to_metadata_dict
from pydantic import PrivateAttr

from llama_index_stratagraph._arguments import Setup, StrPath
from llama_index_stratagraph._convert import NODE_KEYS, as_given, to_chunks, to_node, to_stored, to_where
from stratagraph import Chunk, Index
from stratagraph._sync import blocking, either, run_here
from stratagraph.operations.pieces import joined, piece_id
from stratagraph.types.question import WALK, narrowed
from stratagraph.types.results import callers_own

_RANKS = {
    VectorStoreQueryMode.DEFAULT: "walk",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
    VectorStoreQueryMode.SPARSE: "bm25",
    VectorStoreQueryMode.TEXT_SEARCH: "bm25",
}


class StrataVectorStore(BasePydanticVectorStore):
    """An index folder as a LlamaIndex vector store, searched by the walk over names and passages.

    It stands where only a vector store fits: `VectorStoreIndex.from_vector_store`,
    `IngestionPipeline(vector_store=)`, `VectorIndexAutoRetriever`. Nodes come back as they were given. The
    folder embeds their texts itself and ignores embeddings that nodes have, so give LlamaIndex
    `MockEmbedding(embed_dim=1)`, and the model to this class.

    Similarities of a query are scores of the walk, which order the nodes of one query and are no cosines.
    The modes hybrid, sparse and text search rank by words. Keyword arguments of a query, such as `min_score`,
    are options of `stratagraph.Index.retrieve`; `where` narrows the query's own filters. A query without a
    text finds the passages nearest to its embedding, and has no option but `where`.

    Parameters
    ----------
    path
        Index folder, opened or begun empty. None uses a temporary folder.
    embed_model
        Embedding model. None uses `Settings.embed_model` if it was set, else the local default.
    settings
        Further settings of the folder, such as `config` and `cache`; see `WalkIndex`.

    Examples
    --------
    >>> store = StrataVectorStore("idx")  # doctest: +SKIP
    >>> index = VectorStoreIndex.from_vector_store(store, MockEmbedding(embed_dim=1))  # doctest: +SKIP
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    _core: Index = PrivateAttr()

    def __init__(self, path: StrPath | None = None, embed_model: Any = None, **settings: Any) -> None:
        super().__init__(stores_text=True)
        self._core = Setup(WALK, embed_model=embed_model, path=path, **settings).build([])

    @property
    def client(self) -> Index:
        """The open index."""
        return self._core

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes to their documents, in one change, and return their ids. A present node is replaced."""
        own = [node.model_copy(update={"metadata": callers_own(node.metadata)}) for node in nodes]
        kept = {each.node_id: node_to_metadata_dict(each, remove_text=True) for each in own}
        chunks = [
            replace(chunk, metadata={**chunk.metadata, **{key: kept[chunk.ref][key] for key in NODE_KEYS}})
            for chunk in to_chunks(own)
            if chunk.text.strip()
        ]
        if chunks:
            await either(self._core.insert, self._core.ainsert, joined(self._core, chunks))
        return [node.node_id for node in nodes]

    add = blocking(async_add, run_here)  # type: ignore[arg-type]

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete a document; an unknown one is ignored."""
        await either(self._core.delete, self._core.adelete, ref_doc_id, missing_ok=True)

    delete = blocking(adelete, run_here)  # type: ignore[arg-type]

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes by their ids, a filter, or both."""
        if ids := {piece_id(chunk) for chunk in self._chunks(node_ids, filters)}:
            await either(self._core.insert, self._core.ainsert, joined(self._core, (), ids))

    delete_nodes = blocking(adelete_nodes, run_here)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Delete all documents."""
        self._core.delete(list(self._core.documents()))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Nodes by their ids, a filter, or both."""
        return [to_stored(chunk) for chunk in self._chunks(node_ids, filters)]

    def _chunks(self, ids: list[str] | None, filters: MetadataFilters | None) -> list[Chunk]:
        if ids is None:
            ids = [chunk.id for group in self._core.chunks().values() for chunk in group]
        return self._core.find_chunks(ids, where=to_where(None, filters))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Search; see the class. `ValueError` for a mode that it does not have."""
        # `VectorStoreIndex` asks for no node by its id where it means all.
        own = to_where(None, query.filters, query.node_ids or None, query.doc_ids)
        core, where = self._core, narrowed(own, kwargs.pop("where", None))
        if query.mode not in _RANKS:
            names = ", ".join(mode.value for mode in _RANKS)
            raise ValueError(f"there is no query mode {query.mode.value!r}; there are {names}")
        if query.query_str is None:
            if kwargs:
                raise TypeError(
                    f"a query by its embedding has no argument {next(iter(kwargs))!r}, only where: "
                    "give it a text (query_str) to use the options of a search"
                )
            found = core.nearest(query.query_embedding or (), query.similarity_top_k, where=where)
        else:
            options = {"method": WALK, "rank": _RANKS[query.mode], "where": where, **kwargs}
            request = (query.query_str, query.similarity_top_k)
            found = (await either(core.retrieve, core.aretrieve, *request, **options)).hits
        nodes = [as_given(hit) or to_node(hit, None, None).node for hit in found]
        return VectorStoreQueryResult(nodes, [hit.score for hit in found], [node.node_id for node in nodes])

    query = blocking(aquery, run_here)  # type: ignore[arg-type]
