"""Retrievers, one per way of searching: LangChain's face of an index.

The fields for a method's search options come from the core (`stratagraph.search_options`).
"""

from __future__ import annotations

from langchain_stratagraph._base import IndexRetriever


class TreeRetriever(IndexRetriever):
    """Retrieves from an LSH tree: passages and summaries of all levels in one ranking.

    Examples
    --------
    >>> retriever = TreeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"


class HierarchicalRetriever(IndexRetriever):
    """Retrieves from ArchRAG's hierarchy: entities, their relations and communities of all levels.

    Examples
    --------
    >>> retriever = HierarchicalRetriever.from_documents(docs, llm=chat_model, path="idx")  # doctest: +SKIP
    >>> retriever.invoke("How do the trading houses depend on each other?", k=8)  # doctest: +SKIP
    """

    method = "archrag"


class PPRRetriever(IndexRetriever):
    """Retrieves by NodeRAG's full method: from entry points on by shallow personalised PageRank.

    Examples
    --------
    >>> retriever = PPRRetriever.from_documents(docs, path="idx", k=8, steps=3)  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse where the storm was first seen?")  # doctest: +SKIP
    """

    method = "noderag"
    fixed = {"mode": "ppr"}  # noqa: RUF012 - a ClassVar in the base


class DualSearchRetriever(IndexRetriever):
    """Retrieves NodeRAG's entry points: what the question names, and what is similar to it.

    Names are matched as whole words; semantic units, attributes and high-level elements by similarity.

    Examples
    --------
    >>> retriever = DualSearchRetriever.load("idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse?")  # doctest: +SKIP
    """

    method = "noderag"
    fixed = {"mode": "entry"}  # noqa: RUF012 - a ClassVar in the base
    left_out = frozenset({"restart", "steps", "limits", "semantic_edges"})


class BridgeRetriever(IndexRetriever):
    """Retrieves HiRAG's three kinds of knowledge: entities, the paths that join them, and communities.

    Examples
    --------
    >>> retriever = BridgeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What connects the shipyard to the school of music?")  # doctest: +SKIP
    """

    method = "hirag"
