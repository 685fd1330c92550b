"""Retrievers, one per way of searching: LangChain's face of an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from langchain_stratarag._base import IndexRetriever


class TreeRetriever(IndexRetriever):
    """Retrieves from an LSH tree: passages and summaries of all levels in one ranking.

    Made by `from_documents`, `from_texts` or `load`, which tell what they take. Each `Document` has a
    hit's text, the caller's own metadata, and under `metadata["stratarag"]` the hit's `id`, `kind`, `level`,
    `score`, `sources` and `documents`.

    Parameters
    ----------
    index
        The open index of the core.
    k, view, where
        Number of documents (4), `"nodes"` or `"chunks"`, and a metadata filter; in each call, too.
    id_key
        Where a document's id stands; None takes its `id`, its `"source"` or a hash of its text.
    mode
        `"collapsed"`: the nearest nodes of all levels together. `"per_level"`: the nearest of each level,
        then the best of them.
    k_per_level
        Nodes taken from each level in mode `"per_level"`; None takes `k`.
    levels
        The levels searched, 0 for the passages; None means all.

    Examples
    --------
    >>> retriever = TreeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"
    options = ("mode", "k_per_level", "levels")

    mode: Literal["collapsed", "per_level"] = "collapsed"
    k_per_level: int | None = Field(default=None, ge=1)
    levels: tuple[int, ...] | None = None


class HierarchicalRetriever(IndexRetriever):
    """Retrieves from ArchRAG's hierarchy: entities, their relations and communities of all levels.

    Made by `from_documents`, `from_texts` or `load`, which tell what they take. Each `Document` has a
    hit's text, the caller's own metadata, and under `metadata["stratarag"]` the hit's `id`, `kind`, `level`,
    `score`, `sources` and `documents`.

    Parameters
    ----------
    index
        The open index of the core.
    k, view, where
        Number of documents (4), `"nodes"` or `"chunks"`, and a metadata filter; in each call, too.
    id_key
        Where a document's id stands; None takes its `id`, its `"source"` or a hash of its text.
    levels
        The levels searched, 0 for the entities; None means all.
    k_per_level
        Results taken from each level; None takes what `k` needs, at least 5.
    level_weights
        Factors of the levels' scores, by level; a level that is not in it has 1.
    abstractness
        How abstract the question is, from 0 (one fact) to 1 (the whole); `"rule"` judges by its words,
        `"model"` by a call in the answer; None weighs all levels equally.
    relations
        Whether relations among the entities found are results too.
    mode
        Of an answer (`as_answer_runnable`): `"filter"` lets the model write scored points for each level
        first, `"direct"` does not.

    Examples
    --------
    >>> retriever = HierarchicalRetriever.from_documents(docs, llm=chat_model, path="idx")  # doctest: +SKIP
    >>> retriever.invoke("How do the trading houses depend on each other?", k=8)  # doctest: +SKIP
    """

    method = "archrag"
    options = ("levels", "k_per_level", "level_weights", "abstractness", "relations", "mode")

    levels: tuple[int, ...] | None = None
    k_per_level: int | None = Field(default=None, ge=1)
    level_weights: dict[int, float] = Field(default_factory=dict)
    abstractness: float | Literal["rule", "model"] | None = "rule"
    relations: bool = True
    mode: Literal["filter", "direct"] = "filter"


class DualSearchRetriever(IndexRetriever):
    """Retrieves NodeRAG's entry points: what the question names, and what is similar to it.

    Names are matched as whole words; semantic units, attributes and high-level elements by similarity. Made
    as the other retrievers are.

    Parameters
    ----------
    index
        The open index of the core.
    k, view, where
        Number of documents (4), `"nodes"` or `"chunks"`, and a metadata filter; in each call, too.
    id_key
        Where a document's id stands; None takes its `id`, its `"source"` or a hash of its text.
    names
        Whether names and titles in the question are entry points.
    entry_types
        Types searched by similarity, of T, S, A and H.
    similar
        Entry points by similarity; at least as many as documents are asked for.
    types
        Types that are returned; None means every entry point.

    Examples
    --------
    >>> retriever = DualSearchRetriever.load("idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse?")  # doctest: +SKIP
    """

    method = "noderag"
    fixed: ClassVar[Mapping[str, Any]] = {"mode": "entry"}
    options: ClassVar[tuple[str, ...]] = ("names", "entry_types", "similar", "types")

    names: bool = True
    entry_types: tuple[str, ...] = ("S", "A", "H")
    similar: int = Field(default=10, ge=0)
    types: tuple[str, ...] | None = None


class PPRRetriever(DualSearchRetriever):
    """Retrieves by NodeRAG's full method: from the entry points on by shallow personalised PageRank.

    Parameters
    ----------
    index, k, view, where, id_key, names, entry_types, similar
        As for `DualSearchRetriever`.
    types
        Types that are returned; None means T, S, A, H and R.
    restart, steps
        Of the walk; `steps=None` goes on to convergence.
    limits
        Nodes taken of each type at most.
    semantic_edges
        Whether the walk uses the edges of similarity.

    Examples
    --------
    >>> retriever = PPRRetriever.from_documents(docs, path="idx", k=8, steps=3)  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse where the storm was first seen?")  # doctest: +SKIP
    """

    fixed: ClassVar[Mapping[str, Any]] = {"mode": "ppr"}
    options = (*DualSearchRetriever.options, "restart", "steps", "limits", "semantic_edges")

    restart: float = Field(default=0.5, gt=0, lt=1)
    steps: int | None = Field(default=2, ge=0)
    limits: dict[str, int] = Field(default_factory=dict)
    semantic_edges: bool = True


class BridgeRetriever(IndexRetriever):
    """Retrieves HiRAG's three kinds of knowledge: entities, the paths that join them, and communities.

    Made as the other retrievers are. `metadata["stratarag"]` of each `Document` tells `kind` and `level`.

    Parameters
    ----------
    index
        The open index of the core.
    k, view, where
        Number of documents (4), `"nodes"` or `"chunks"`, and a metadata filter; in each call, too.
    id_key
        Where a document's id stands; None takes its `id`, its `"source"` or a hash of its text.
    mode
        `"hi"` has all three parts, `"local"`, `"bridge"` and `"global"` one, `"no_bridge"` two.
    entities, communities, key_entities
        Entities found by similarity, communities considered, and entities of each between which the bridge
        runs.
    quotas
        Shares of the local, bridge and global part in the documents.
    budgets
        Shares of the parts in the context of an answer (`as_answer_runnable`).

    Examples
    --------
    >>> retriever = BridgeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What connects the shipyard to the school of music?")  # doctest: +SKIP
    """

    method = "hirag"
    options = ("mode", "entities", "communities", "key_entities", "quotas", "budgets")

    mode: Literal["hi", "local", "global", "bridge", "no_bridge"] = "hi"
    entities: int = Field(default=20, ge=1)
    communities: int = Field(default=10, ge=1)
    key_entities: int = Field(default=10, ge=1)
    quotas: tuple[float, float, float] = (0.4, 0.4, 0.2)
    budgets: tuple[float, float, float] = (0.3, 0.4, 0.3)
