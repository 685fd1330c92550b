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


@register
class ArchRAGIndex(StrataIndex):
    """An index by ArchRAG: communities of entities that are linked and alike, level upon level.

    `as_retriever` takes `levels`, `k_per_level`, `level_weights`, `abstractness`, `relations` and, for
    answers, `mode`. Query engines answer by adaptive filtering: the model writes scored points for each
    level first, and the best of them make the answer.

    Examples
    --------
    >>> index = ArchRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("How do the trading houses depend on each other?")  # doctest: +SKIP
    """

    method = "archrag"
    options = ("levels", "k_per_level", "level_weights", "abstractness", "relations", "mode")
    own_answers = True
    index_struct_cls = struct_class("archrag")


@register
class NodeRAGIndex(StrataIndex):
    """An index by NodeRAG: a graph of texts, entities, relations, units, attributes and overviews.

    `as_retriever` takes `mode` (`"ppr"` or `"entry"`), `names`, `entry_types`, `similar`, `restart`, `steps`,
    `limits`, `types` and `semantic_edges`.

    Examples
    --------
    >>> index = NodeRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("Who built the lighthouse?")  # doctest: +SKIP
    """

    method = "noderag"
    options = (
        "mode",
        "names",
        "entry_types",
        "similar",
        "restart",
        "steps",
        "limits",
        "types",
        "semantic_edges",
    )
    own_answers = True
    index_struct_cls = struct_class("noderag")


@register
class HiRAGIndex(StrataIndex):
    """An index by HiRAG: entities under layers of summary entities, and communities over all of them.

    `as_retriever` takes `mode` (`"hi"`, `"local"`, `"bridge"`, `"global"` or `"no_bridge"`), `entities`,
    `communities`, `key_entities`, `quotas` and `budgets`. Query engines answer from a context in three
    parts.

    Examples
    --------
    >>> index = HiRAGIndex.from_documents(documents, llm=llm)  # doctest: +SKIP
    >>> index.as_query_engine().query("What connects the shipyard to the school?")  # doctest: +SKIP
    """

    method = "hirag"
    options = ("mode", "entities", "communities", "key_entities", "quotas", "budgets")
    own_answers = True
    index_struct_cls = struct_class("hirag")
