"""stratarag for LangChain: a retriever per method, over the index folders that the core writes."""

from __future__ import annotations

from langchain_stratarag.retrievers import TreeRetriever

__all__ = ["TreeRetriever"]
