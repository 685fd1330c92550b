"""Retrievers, one per way of searching: LangChain's face of an index."""

from __future__ import annotations

from typing import Literal

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
