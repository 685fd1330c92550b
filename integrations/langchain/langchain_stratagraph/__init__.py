"""stratagraph for LangChain: a retriever for each method, over stratagraph's index folders."""

from __future__ import annotations

from stratagraph.errors import MissingExtra

try:
    from langchain_stratagraph._export import to_graph_documents
    from langchain_stratagraph._vectors import PreparedVectors
    from langchain_stratagraph.document_index import StrataDocumentIndex
    from langchain_stratagraph.retrievers import (
        BridgeRetriever,
        DualSearchRetriever,
        HierarchicalRetriever,
        PPRRetriever,
        TreeRetriever,
    )
    from langchain_stratagraph.tools import create_search_tool
    from langchain_stratagraph.vector_store import StrataTranslator, StrataVectorStore
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "langchain_core":
        raise
    raise MissingExtra("langchain-core", "langchain") from error

__all__ = [
    "BridgeRetriever",
    "DualSearchRetriever",
    "HierarchicalRetriever",
    "PPRRetriever",
    "PreparedVectors",
    "StrataDocumentIndex",
    "StrataTranslator",
    "StrataVectorStore",
    "TreeRetriever",
    "create_search_tool",
    "to_graph_documents",
]
