"""The retriever of an index: asks the core, and hands out LlamaIndex's own nodes where it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import llama_index.core.instrumentation as instrument
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_stratagraph._convert import to_node, to_where
from stratagraph import Index, Retrieval, check_search_options
from stratagraph.question import View, Where

if TYPE_CHECKING:
    from llama_index_stratagraph._base import StrataIndex

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class StrataRetriever(BaseRetriever):
    """Retrieves passages and summaries as scored nodes. Made by `index.as_retriever(...)`.

    A passage that came from LlamaIndex has its node's id, and is the docstore's own node where that has
    it; other nodes have the id of the hit. `metadata["stratagraph"]` tells `id`, `kind`, `level`, `score`,
    `sources` and `documents`; it stays out of prompts and embeddings. No model but the embedding is asked.

    Parameters
    ----------
    index
        The index.
    similarity_top_k
        Number of nodes returned; fewer come back only if the index has fewer.
    view
        `"nodes"`: the method's own ranking of passages and summaries. `"chunks"`: passages only. None: nodes.
    where
        A metadata filter in the core's form (a mapping or a function on the metadata).
    filters
        The same in LlamaIndex's form.
    options
        The method's own search options (`stratagraph.search_options`).
    search
        What all methods take beside these: `decompose`, `fill`, `rank`, `rerank` (see `stratagraph.Index`).
    """

    def __init__(
        self,
        index: StrataIndex,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        view: View | None = None,
        where: Where | None = None,
        filters: MetadataFilters | None = None,
        options: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        if isinstance(similarity_top_k, bool) or not hasattr(similarity_top_k, "__index__"):
            raise TypeError(f"similarity_top_k must be a whole number, not {similarity_top_k!r}")
        if similarity_top_k < 1:
            raise ValueError(f"similarity_top_k must be at least 1, not {similarity_top_k}")
        self._index = index
        self.similarity_top_k = similarity_top_k
        self.options = dict(options or {})
        check_search_options(index.method, self.options)
        self._request = {
            "view": view,
            "where": to_where(where, filters),
            "method": index.method,
            **(search or {}),
            **self.options,
        }
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    @property
    def method(self) -> str:
        """The core's name of the method that is searched."""
        return self._index.method

    @property
    def core(self) -> Index:
        """The core's index."""
        return self._index.core

    @property
    def request(self) -> dict[str, Any]:
        """What the core's `retrieve` is given beside the question."""
        return {"k": self.similarity_top_k, **self._request}

    @dispatcher.span
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieval = self.core.retrieve(_question(query_bundle), **self.request)
        held = self._index.docstore.get_nodes(_refs(retrieval), raise_error=False)
        return _nodes(retrieval, held)

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieval = await self.core.aretrieve(_question(query_bundle), **self.request)
        held = await self._index.docstore.aget_nodes(_refs(retrieval), raise_error=False)
        return _nodes(retrieval, held)


def _question(query: QueryBundle) -> str:
    """The text to search with: a query transformation's texts (HyDE, ...) where there are any."""
    return "\n".join(query.custom_embedding_strs) if query.custom_embedding_strs else query.query_str


def _refs(retrieval: Retrieval) -> list[str]:
    return [hit.ref for hit in retrieval.hits if hit.ref]


def _nodes(retrieval: Retrieval, held: Sequence[BaseNode]) -> list[NodeWithScore]:
    by_id = {node.node_id: node for node in held}
    return [
        to_node(hit, trace, by_id.get(hit.ref))
        for hit, trace in zip(retrieval.hits, retrieval.trace, strict=True)
    ]
