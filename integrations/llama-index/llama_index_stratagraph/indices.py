"""Indexes, one per method: LlamaIndex's face of an index folder."""

from __future__ import annotations

from llama_index_stratagraph._base import StrataIndex
from llama_index_stratagraph._registry import register, struct_class


@register
class LSHTreeIndex(StrataIndex):
    """An index by the LSH tree: passages, and summaries of groups of them, level upon level.

    Examples
    --------
    >>> index = LSHTreeIndex.from_documents(documents)  # doctest: +SKIP
    >>> index.as_query_engine().query("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"
    index_struct_cls = struct_class("lshtree")


@register
class ArchRAGIndex(StrataIndex):
    """An index by ArchRAG: communities of entities that are linked and alike, level upon level.

    Query engines answer by adaptive filtering: the model writes scored points for each level first, and the
    best of them make the answer.

    Examples
    --------
    >>> index = ArchRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("How do the trading houses depend on each other?")  # doctest: +SKIP
    """

    method = "archrag"
    index_struct_cls = struct_class("archrag")


@register
class NodeRAGIndex(StrataIndex):
    """An index by NodeRAG: a graph of texts, entities, relations, units, attributes and overviews.

    Examples
    --------
    >>> index = NodeRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("Who built the lighthouse?")  # doctest: +SKIP
    """

    method = "noderag"
    index_struct_cls = struct_class("noderag")


@register
class HiRAGIndex(StrataIndex):
    """An index by HiRAG: entities under layers of summary entities, and communities over all of them.

    Query engines answer from a context in three parts.

    Examples
    --------
    >>> index = HiRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("What connects the shipyard to the school?")  # doctest: +SKIP
    """

    method = "hirag"
    index_struct_cls = struct_class("hirag")
