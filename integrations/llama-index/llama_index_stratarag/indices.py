"""Indexes, one per method: LlamaIndex's face of an index folder."""

from __future__ import annotations

from llama_index_stratarag._base import StrataIndex
from llama_index_stratarag._registry import register, struct_class


@register
class LSHTreeIndex(StrataIndex):
    """An index by the LSH tree: passages, and summaries of groups of them, level upon level.

    `as_retriever` takes `mode` (`"collapsed"` or `"per_level"`), `k_per_level` and `levels`.

    Examples
    --------
    >>> index = LSHTreeIndex.from_documents(documents)  # doctest: +SKIP
    >>> index.as_query_engine().query("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"
    options = ("mode", "k_per_level", "levels")
    index_struct_cls = struct_class("lshtree")
