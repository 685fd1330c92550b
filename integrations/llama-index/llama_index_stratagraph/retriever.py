"""The retriever of an index."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import llama_index.core.instrumentation as instrument
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_stratagraph._convert import to_history, to_node, to_where
from llama_index_stratagraph._updating import UpdatingIndex
from stratagraph import Index, check_search_options
from stratagraph._sync import either, run_here
from stratagraph.types.checks import positive
from stratagraph.types.question import SHARED_OPTIONS, View, Where

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class StrataRetriever(BaseRetriever):
    """Retrieves passages and summaries as scored nodes. Returned by `index.as_retriever(...)`.

    A passage has the id of its LlamaIndex node, and is that node if the docstore has it. Other results have
    the id of the hit. Scalar keys of the metadata say what was found: `stratagraph_id`, `stratagraph_kind`,
    `stratagraph_level`, `stratagraph_documents` (ids, as JSON), for results other than passages
    `stratagraph_sources` (chunk ids) and `stratagraph_metadata` as well. They are excluded from prompts and
    embeddings, and no question changes them.

    Scores order the nodes of one search and never rise with rank. They are no cosines: `min_score` cuts off
    by similarity, a postprocessor does not.

    Parameters
    ----------
    index
        The index.
    similarity_top_k
        Number of nodes to return. Fewer are returned only if the index holds fewer.
    view
        None, the default, returns the method's own nodes among passages. `"chunks"` returns the walk's
        passages.
    where
        Metadata filter of stratagraph: a mapping or a function of the metadata.
    filters
        Metadata filter of LlamaIndex.
    node_ids, doc_ids
        Ids of the nodes, and of the documents, to search in. None: all.
    options
        Search options of the method; see `stratagraph.search_options`.
    search
        Search options that all methods share, such as `rerank`; see `stratagraph.Index.retrieve`. `history`
        is a list of chat messages, or a memory of LlamaIndex, which is read at each question.
    return_trace
        Add `metadata["stratagraph"]`, with `score` and `trace`, which differ from question to question.

    Attributes
    ----------
    chosen_only
        Whether of a guided search only the nodes are returned that the model chose, as query engines do.

    Examples
    --------
    >>> retriever = index.as_retriever(similarity_top_k=8, where={"year": 2024})  # doctest: +SKIP
    >>> retriever.retrieve("Who built the lighthouse?")  # doctest: +SKIP
    """

    def __init__(
        self,
        index: UpdatingIndex,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        view: View | None = None,
        where: Where | None = None,
        filters: MetadataFilters | None = None,
        options: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
        return_trace: bool = False,
        node_ids: Sequence[str] | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> None:
        self._index = index
        self.similarity_top_k = positive("similarity_top_k", similarity_top_k)
        self.options = dict(options or {})
        check_search_options(index.method, self.options)
        shared = dict(search or {})
        if unknown := sorted(shared.keys() - set(SHARED_OPTIONS)):
            names = ", ".join(SHARED_OPTIONS)
            raise TypeError(f"search has no option {unknown[0]!r}; it has {names}")
        self._history = shared.pop("history", None)
        self._request = {
            "view": view,
            "where": to_where(where, filters, node_ids, doc_ids),
            "method": index.method,
            **shared,
            **self.options,
        }
        self.chosen_only = False
        self._return_trace = return_trace
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    @property
    def method(self) -> str:
        """Name of the method that is searched."""
        return self._index.method

    @property
    def core(self) -> Index:
        """The open index of stratagraph."""
        return self._index.core

    @dispatcher.span
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_here(self._nodes(query_bundle))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self._nodes(query_bundle)

    async def _nodes(self, query: QueryBundle) -> list[NodeWithScore]:
        history, docstore = self._history, self._index.docstore
        if isinstance(history, BaseMemory):
            history = await either(history.get, history.aget)
        # The texts of a query transformation such as HyDE, else the question.
        question = "\n".join(query.custom_embedding_strs or [query.query_str])
        request = {"k": self.similarity_top_k, **self._request, "history": to_history(history)}
        retrieval = await either(self.core.retrieve, self.core.aretrieve, question, **request)
        if self.chosen_only:
            retrieval = retrieval.chosen()
        refs = [hit.ref for hit in retrieval.hits if hit.ref] if self._index.has_docstore else []
        stored = await either(docstore.get_nodes, docstore.aget_nodes, refs, raise_error=False)
        by_id = {node.node_id: node for node in stored}
        others = [hit.id for hit in retrieval.hits if hit.ref not in by_id]
        find: Any = self.core.neighbours
        beside = await either(find, partial(asyncio.to_thread, find), others)
        return [
            to_node(
                hit,
                trace if self._return_trace else None,
                by_id.get(hit.ref),
                beside.get(hit.id, (None, None)),
            )
            for hit, trace in zip(retrieval.hits, retrieval.trace, strict=True)
        ]
