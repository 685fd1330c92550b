"""stratagraph for LangChain: a retriever for each method, over stratagraph's index folders.

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratagraph._lazy import lazy_names
from stratagraph.errors import require

if TYPE_CHECKING:
    from langchain_stratagraph._export import to_graph_documents as to_graph_documents
    from langchain_stratagraph._vectors import PreparedVectors as PreparedVectors
    from langchain_stratagraph.document_index import StrataDocumentIndex as StrataDocumentIndex
    from langchain_stratagraph.retrievers import BridgeRetriever as BridgeRetriever
    from langchain_stratagraph.retrievers import DualSearchRetriever as DualSearchRetriever
    from langchain_stratagraph.retrievers import HierarchicalRetriever as HierarchicalRetriever
    from langchain_stratagraph.retrievers import PPRRetriever as PPRRetriever
    from langchain_stratagraph.retrievers import TreeRetriever as TreeRetriever
    from langchain_stratagraph.tools import create_search_tool as create_search_tool
    from langchain_stratagraph.vector_store import StrataTranslator as StrataTranslator
    from langchain_stratagraph.vector_store import StrataVectorStore as StrataVectorStore

require("langchain", "langchain_core")

if not TYPE_CHECKING:  # a type checker takes the names imported above
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "langchain_stratagraph._export": "to_graph_documents",
            "langchain_stratagraph._vectors": "PreparedVectors",
            "langchain_stratagraph.document_index": "StrataDocumentIndex",
            "langchain_stratagraph.retrievers": (
                "BridgeRetriever DualSearchRetriever HierarchicalRetriever PPRRetriever TreeRetriever"
            ),
            "langchain_stratagraph.tools": "create_search_tool",
            "langchain_stratagraph.vector_store": "StrataTranslator StrataVectorStore",
        },
    )
