"""An index class for each way of searching."""

from __future__ import annotations

from llama_index_stratagraph._base import StrataIndex
from stratagraph.types.question import WALK


class WalkIndex(StrataIndex):
    """Index of passages and the names in them, searched by personalised PageRank over their links.

    Building it calls no chat model.

    Examples
    --------
    >>> index = WalkIndex.from_documents(documents)  # doctest: +SKIP
    >>> index.as_query_engine().query("Who built the lighthouse in the storm?")  # doctest: +SKIP
    """

    method = WALK


class LSHTreeIndex(StrataIndex):
    """LSH tree index: passages, and summaries of groups of similar passages on several levels.

    Examples
    --------
    >>> index = LSHTreeIndex.from_documents(documents)  # doctest: +SKIP
    >>> index.as_query_engine().query("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"


class ArchRAGIndex(StrataIndex):
    """ArchRAG index: entities, relations, and communities of linked and similar entities on several levels.

    Query engines answer by adaptive filtering: the LLM writes scored points for each level, and the answer is
    written from the best of them.

    Examples
    --------
    >>> index = ArchRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("How do the trading houses depend on each other?")  # doctest: +SKIP
    """

    method = "archrag"


class NodeRAGIndex(StrataIndex):
    """NodeRAG index: a graph of texts, units, entities, relations, attributes and high-level elements.

    Examples
    --------
    >>> index = NodeRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("Who built the lighthouse?")  # doctest: +SKIP
    """

    method = "noderag"


class HiRAGIndex(StrataIndex):
    """HiRAG index: entities, layers of summary entities above them, and communities of both.

    Query engines answer from a context in three parts: local entities, bridge relations, global reports.

    Examples
    --------
    >>> index = HiRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("What connects the shipyard to the school?")  # doctest: +SKIP
    """

    method = "hirag"
