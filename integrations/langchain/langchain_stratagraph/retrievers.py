"""A retriever for each way of searching, and how to build or open its index."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from langchain_stratagraph._answer import AnswerRunnable
from langchain_stratagraph._base import IndexRetriever, with_where
from langchain_stratagraph._convert import IdKey, of_texts, to_chunks
from langchain_stratagraph._models import to_chat_model, to_embedder, use_callbacks
from langchain_stratagraph.document_index import StrataDocumentIndex
from stratagraph import (
    Estimate,
    Index,
    Prices,
    aopen_index,
    check_search_options,
    estimate,
    open_index,
)
from stratagraph._sync import blocking_constructor
from stratagraph.api import abuild_any
from stratagraph.config import as_config
from stratagraph.errors import NotAnIndex
from stratagraph.system.threads import in_thread
from stratagraph.types.protocols import ChatModel, Embedder
from stratagraph.types.question import WALK, Length

LLM = Runnable[Any, Any] | ChatModel | Mapping[str, Any] | str | None  # LangChain's models are runnables
Embedding = Embeddings | Embedder | None
StrPath = str | os.PathLike[str]
DEFAULT_K = 8
"""Hits of an agent's search of an index, if `k` is not given."""


class MethodRetriever(IndexRetriever):
    """A retriever that can build or open its index, and answer from it."""

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedding = None,
        *,
        llm: LLM = None,
        path: StrPath | None = None,
        config: Any = None,
        budget: Any = None,
        cache: StrPath | None = None,
        progress: Any = False,
        callbacks: Callbacks = None,
        shards: int | str | None = None,
        vectors: Any = None,
        mapper: Any = None,
        prune: bool = False,
        rebuild: bool = False,
        date_key: str | None = None,
        **settings: Any,
    ) -> Self:
        """Build an index from documents and return a retriever over it.

        Parameters
        ----------
        documents
            Documents, split as they should be indexed.
        embedding
            Embeddings. None uses the local default.
        llm
            Chat model that writes summaries. None writes extractive summaries without a model.
        path
            Index folder. None uses a temporary folder, removed when `retriever.index` is closed. If it holds
            an index, that is brought to these documents.
        config, budget, cache, progress
            See `stratagraph.build_index`.
        callbacks
            Callbacks for the model calls of the build.
        shards
            Build an index of shards: their number, or the metadata key whose values name them; see
            `stratagraph.build_shards`.
        vectors
            LangChain vector store (`QdrantVectorStore`, `PGVector`, `Chroma` ...) that holds the vectors
            instead of the folder. Needs `path`. The store's own embeddings are not used.
        mapper
            Where work without model calls runs, such as `"processes"` or `"ray"`; see `stratagraph.mapper`.
            Later changes through this retriever use it too.
        prune, rebuild
            When `path` holds an index: delete its documents that are not given, or build it anew; see
            `stratagraph.build_index`.
        date_key
            Metadata key that dates a document, for `as_of` and `recency`.
        **settings
            Fields of the retriever: `k`, `view`, `where`, `id_key` and the method's search options.

        Raises
        ------
        ValueError
            If all documents are blank, or a setting is not valid.

        Notes
        -----
        Other errors are those of `stratagraph.build_index`.

        Examples
        --------
        >>> retriever = TreeRetriever.from_documents(docs, llm=chat_model, path="idx")  # doctest: +SKIP
        """
        cls._check(settings)
        chunks = await in_thread(to_chunks, documents, settings.get("id_key"))
        with use_callbacks(callbacks):
            index = await abuild_any(
                chunks,
                method=cls.method,
                llm=to_chat_model(llm),
                embedder=embedding,
                path=path,
                config=config,
                budget=budget,
                cache=cache,
                progress=progress,
                shards=shards,
                vectors=vectors,
                mapper=mapper,
                prune=prune,
                rebuild=rebuild,
                date_key=date_key,
            )
        return cls._over(index, settings)

    from_documents = blocking_constructor(afrom_documents)  # type: ignore[arg-type]

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Build an index from texts. Keyword arguments are those of `from_documents`."""
        return await cls.afrom_documents(of_texts(texts, metadatas, ids), **arguments)

    from_texts = blocking_constructor(afrom_texts)  # type: ignore[arg-type]

    @classmethod
    def estimate(
        cls,
        documents: Iterable[Document],
        *,
        llm: LLM = None,
        embedding: Embedding = None,
        config: Any = None,
        cache: StrPath | None = None,
        prices: Prices | None = None,
        id_key: IdKey | None = None,
    ) -> Estimate:
        """Estimate the model calls, tokens and cost of `from_documents`, without calling a model.

        `prices` are the model's prices; None looks them up. See `stratagraph.estimate`.
        """
        chunks = to_chunks(documents, id_key)
        model, embedder = to_chat_model(llm), to_embedder(embedding)
        return estimate(chunks, cls.method, model, config, cache, prices, embedder=embedder)

    @classmethod
    async def aload(
        cls,
        path: StrPath,
        *,
        llm: LLM = None,
        embedding: Embedding = None,
        spacy: str | None = None,
        vectors: Any = None,
        partial: bool = False,
        **settings: Any,
    ) -> Self:
        """Open an index folder, written by LangChain, LlamaIndex or stratagraph itself.

        Parameters
        ----------
        path
            Index folder.
        llm
            Chat model. Only `add_documents`, `delete` and answers use it.
        embedding
            Embeddings the index was built with. None uses the local default.
        spacy
            spaCy pipeline for changes of the index, if its settings name one.
        vectors
            Vector store that holds the vectors, if the index was built with one.
        partial
            Open an index of shards though some are missing. It answers from the others and cannot be changed.
        **settings
            Fields of the retriever, as in `from_documents`.

        Raises
        ------
        MethodMissing
            If the index does not hold this retriever's method. Other errors are those of
            `stratagraph.open_index`.
        """
        cls._check(settings)
        arguments = {"spacy": spacy, "vectors": vectors, "partial": partial}
        return cls._over(await aopen_index(path, to_chat_model(llm), embedding, **arguments), settings)

    load = blocking_constructor(aload)  # type: ignore[arg-type]

    @classmethod
    def document_index(
        cls,
        path: StrPath | None = None,
        *,
        llm: LLM = None,
        embedding: Embedding = None,
        config: Any = None,
        budget: Any = None,
        cache: StrPath | None = None,
        progress: Any = False,
        vectors: Any = None,
        date_key: str | None = None,
        **settings: Any,
    ) -> StrataDocumentIndex:
        """Return a document index for `langchain_core.indexing.index`.

        It opens the folder at `path`, or begins an empty index there. Its arguments are those of
        `from_documents`.
        """
        cls._check(settings)
        given: dict[str, Any] = {"budget": budget, "cache": cache, "progress": progress, "vectors": vectors}
        spacy = as_config(config).extraction.spacy
        try:
            index = open_index(path or "", to_chat_model(llm), embedding, spacy=spacy, **given)
        except NotAnIndex:
            given |= {"llm": llm, "embedding": embedding, "config": config, "date_key": date_key}
            return cls.from_documents([], path=path, **given, **settings).as_document_index()
        return cls._over(index, settings).as_document_index()

    def as_document_index(self) -> StrataDocumentIndex:
        """Return this index as a document index for `langchain_core.indexing.index`."""
        return StrataDocumentIndex(retriever=self)

    def as_answer_runnable(
        self,
        llm: LLM = None,
        *,
        max_tokens: int = 4000,
        length: Length | None = None,
        return_sources: bool = False,
    ) -> Runnable[Any, Any]:
        """Return a runnable that answers questions in the method's own way; see `stratagraph.Index.answer`.

        Its input is a question, or `{"question": ..., "documents": [...]}` with documents retrieved before,
        for example reranked ones. With documents it does not search. `"history"` in the input holds the
        messages before the question. Unless `k` was set, the method decides how many documents an answer
        rests on.

        Parameters
        ----------
        llm
            Chat model that writes the answer. None uses the index's model; without one the answer is
            extractive.
        max_tokens
            Maximum number of tokens of the documents in the last prompt.
        length
            `"brief"` or `"full"`. None uses the method's default.
        return_sources
            Return `{"answer": text, "sources": documents, "finish": reason}`, where `[2]` in the text cites
            the second document, and `finish` is that of `stratagraph.Answer`. Streams return the text only.

        Examples
        --------
        >>> retriever.as_answer_runnable(chat_model).invoke("Who built the lighthouse?")  # doctest: +SKIP
        """
        return AnswerRunnable(
            self, llm=llm, max_tokens=max_tokens, length=length, return_sources=return_sources
        )

    @classmethod
    def _check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse an invalid setting before a model is called."""
        blank = cls.model_construct()
        settings = with_where(settings)
        for name, value in settings.items():
            if name not in cls.model_fields:
                details = InitErrorDetails(type=cls.unknown(name), loc=(name,), input=value)
                raise ValidationError.from_exception_data(cls.__name__, [details])
            cls.__pydantic_validator__.validate_assignment(blank, name, value)
        own = {name: value for name, value in settings.items() if name in cls.options}
        check_search_options(cls.method, own)

    @classmethod
    def _over(cls, index: Index, settings: Mapping[str, Any]) -> Self:
        try:
            return cls(index=index, **settings)
        except BaseException:
            index.close()
            raise


class TreeRetriever(MethodRetriever):
    """Retrieve passages and summaries of every level of an LSH tree, in one ranking.

    Examples
    --------
    >>> retriever = TreeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What do the letters say about the flood?")  # doctest: +SKIP
    """

    method = "lshtree"
    mode: Literal["collapsed", "per_level"] = "collapsed"
    k_per_level: int | None = None
    levels: tuple[int, ...] | None = None


class HierarchicalRetriever(MethodRetriever):
    """Retrieve entities, relations and communities of every level of ArchRAG's hierarchy, among passages.

    Examples
    --------
    >>> retriever = HierarchicalRetriever.from_documents(docs, llm=chat_model, path="idx")  # doctest: +SKIP
    >>> retriever.invoke("How do the trading houses depend on each other?", k=8)  # doctest: +SKIP
    """

    method = "archrag"
    levels: tuple[int, ...] | None = None
    k_per_level: int | None = None
    relations: bool = True
    merge: Literal["grounded", "paper"] = "grounded"
    mode: Literal["filter", "direct"] = "filter"
    whole: bool = False


class PPRRetriever(MethodRetriever):
    """Retrieve passages by personalised PageRank over names, passages and their links, in any index.

    The walk starts at the names in the question and at passages with its words. Building an index for it
    calls no chat model.

    Examples
    --------
    >>> retriever = PPRRetriever.from_documents(docs, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse where the storm was first seen?")  # doctest: +SKIP
    """

    method = WALK


class DualSearchRetriever(MethodRetriever):
    """Retrieve semantic units, attributes, high-level elements and relations by NodeRAG, among passages.

    Dual search finds entry points: entities by their names in the question, matched as whole words, and nodes
    with much to say by similarity. A shallow personalised PageRank spreads from them.

    Examples
    --------
    >>> retriever = DualSearchRetriever.from_documents(docs, llm=chat_model, path="idx")  # doctest: +SKIP
    >>> retriever.invoke("Who built the lighthouse?", steps=3)  # doctest: +SKIP
    """

    method = "noderag"
    mode: Literal["ppr", "entry"] = "ppr"
    names: bool = True
    entry_types: tuple[str, ...] = ("S", "A", "H")
    similar: int = 10
    restart: float = 0.5
    steps: int | None = 2
    limits: Mapping[str, int] = {}
    types: tuple[str, ...] | None = None
    semantic_edges: bool = True


class BridgeRetriever(MethodRetriever):
    """Retrieve HiRAG's local entities, bridge relations and community reports, among passages.

    Examples
    --------
    >>> retriever = BridgeRetriever.from_documents(docs, llm=chat_model, path="idx", k=8)  # doctest: +SKIP
    >>> retriever.invoke("What connects the shipyard to the school of music?")  # doctest: +SKIP
    """

    method = "hirag"
    mode: Literal["hi", "local", "global", "bridge", "no_bridge"] = "hi"
    entities: int = 20
    communities: int = 10
    key_entities: int = 10
    quotas: tuple[float, float, float] | None = None
    whole: bool = False


_KINDS: dict[str, type[MethodRetriever]] = {
    each.method: each
    for each in (BridgeRetriever, DualSearchRetriever, HierarchicalRetriever, PPRRetriever, TreeRetriever)
}


def retriever_of(
    source: Index | IndexRetriever, options: Mapping[str, Any]
) -> tuple[IndexRetriever, dict[str, Any]]:
    """What an agent searches with: a retriever, narrowed by `where` of the options, and the other options.

    An index is searched by the method among the options, else by its first one, or the walk.
    """
    others = dict(options)
    if isinstance(source, Index):
        method = others.pop("method", None) or next(iter(source.methods), WALK)
        if method not in _KINDS:
            raise ValueError(f"there is no method {method!r}; there are {', '.join(sorted(_KINDS))}")
        source = _KINDS[method](index=source, k=DEFAULT_K)
    if not isinstance(source, IndexRetriever):
        raise TypeError(
            f"an agent searches with a retriever of stratagraph or an index, not {type(source).__name__}; "
            "a StrataVectorStore has one, its `retriever`"
        )
    retriever, others = source.narrowed(others)
    retriever.request(**others)  # refuses unknown options before an agent runs
    return retriever, others
