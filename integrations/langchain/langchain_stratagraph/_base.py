"""What all retrievers have in common: making one, changing what is in it, asking it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, Field, field_validator, model_validator

from langchain_stratagraph._answer import AnswerRunnable
from langchain_stratagraph._convert import IdKey, of_texts, to_chunks, to_documents
from langchain_stratagraph._models import to_chat_model, to_embedder, use_callbacks
from langchain_stratagraph._updating import UpdatingRetriever
from langchain_stratagraph.document_index import StrataDocumentIndex
from stratagraph import (
    Estimate,
    Index,
    Prices,
    abuild_index,
    abuild_shards,
    aestimate,
    aopen_index,
    build_index,
    build_shards,
    check_search_options,
    estimate,
    open_index,
    search_options,
)
from stratagraph.config import as_config
from stratagraph.errors import MethodMissing, NotAnIndex
from stratagraph.protocols import ChatModel, Embedder
from stratagraph.question import SHARED_OPTIONS, Length, View, Where

LLM = Runnable[Any, Any] | ChatModel | None  # LangChain's language models are runnables
Embedding = Embeddings | Embedder | None
StrPath = str | os.PathLike[str]


class IndexRetriever(UpdatingRetriever):
    """A retriever over one method of an index folder.

    Make one with `from_documents`, `from_texts` or `load` (each with an async twin), or with
    `index=` from an index that the core has opened. The split of the documents given is kept: each
    `Document` becomes one chunk, and nothing splits it again.

    Each `Document` returned has the text of a hit as `page_content`, the id that the caller gave
    (else the hit's) as `id`, and in `metadata` the chunk's own metadata plus one key, `"stratagraph"`, with
    `id`, `kind`, `level`, `score`, `sources` (chunk ids) and `documents` (document ids). One key of our own
    cannot clash with a loader's `score` or `id`; `where` filters see the caller's keys alone. `source` is
    always there: the caller's own, or of a summary of several documents their ids.

    Parameters
    ----------
    index
        The open index of the core, for everything that a retriever has no word for (`stats`, `answer`, ...).
    k
        Number of documents returned; fewer come back only if the index holds fewer.
    view
        `"nodes"`: the method's own ranking of passages and summaries. `"chunks"`: source passages only. None:
        nodes for a search, and for an answer what suits it.
    where
        A metadata filter: keys with values, lists or `$`-operators, or a function on the metadata. `filter`
        is the same by the name that LangChain's vector stores have for it.
    id_key
        Where the id of a document stands, by which it is updated and deleted: a metadata key or a function.
        None takes `Document.id` where it is set, else `metadata["source"]` (so that the pieces of a text
        splitter belong together), else a hash of the text.

    `k`, `view`, `where` and the method's own options can be given per call, too:
    `retriever.invoke("question", k=8, where={"year": 2024})`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    method: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[Mapping[str, Any]] = {}
    left_out: ClassVar[frozenset[str]] = frozenset()

    k: int = Field(default=4, ge=1)
    view: View | None = None
    where: Where | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take the method's search options as fields, with their defaults and descriptions."""
        super().__init_subclass__(**kwargs)
        if "method" not in cls.__dict__:
            return  # a caller's own subclass inherits what its base has
        apart = {*cls.fixed, *cls.left_out}
        found = [option for option in search_options(cls.method) if option.name not in apart]
        cls.options = tuple(option.name for option in found)
        cls.__annotations__ = {**inspect.get_annotations(cls)}
        for option in found:
            cls.__annotations__[option.name] = option.type
            setattr(cls, option.name, Field(default=option.default, description=option.description))
        lines = [f"{option.name}\n    {option.description}" for option in found]
        text = inspect.cleandoc(cls.__doc__ or "")
        cls.__doc__ = "\n\n".join([text, "Search options, as fields and in each call:", *lines])

    @model_validator(mode="before")
    @classmethod
    def _takes_filter(cls, data: Any) -> Any:
        return with_where(data) if isinstance(data, Mapping) else data

    @field_validator("index")
    @classmethod
    def _holds_the_method(cls, index: Index) -> Index:
        held = index.methods
        if cls.method in held:
            return index
        raise MethodMissing(
            f"{cls.__name__} needs the method {cls.method}, and index {str(index.path)!r} "
            f"holds {', '.join(held)}; add it with index.add_method({cls.method!r})"
        )

    # Making one

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        llm: LLM = None,
        embedding: Embedding = None,
        path: StrPath | None = None,
        config: Any = None,
        budget: Any = None,
        cache: StrPath | None = None,
        progress: Any = False,
        callbacks: Callbacks = None,
        shards: int | str | None = None,
        vectors: Any = None,
        mapper: Any = None,
        **settings: Any,
    ) -> Self:
        """Build an index of documents and return a retriever on it.

        Parameters
        ----------
        documents
            Documents, split as they should be indexed.
        llm
            A chat model that writes the summaries; None means none is called (extractive summaries).
        embedding
            Embeddings; None means the local default.
        path
            The index folder; None means a temporary one, gone when `retriever.index` is closed.
        config, budget, cache, progress
            As in `stratagraph.build_index`.
        callbacks
            Handlers for the model calls of the build.
        shards
            Build shards in the folder: so many, or one for each value of this metadata key; see
            `stratagraph.build_shards`.
        vectors
            A vector store of LangChain (`QdrantVectorStore`, `PGVector`, `Chroma` ...) in which vectors
            are kept and searched instead of in the folder; it needs a `path`. What the store embeds by is
            not used.
        mapper
            Where what no model is paid for runs, as `"processes"` or `"ray"`; see `stratagraph.mapper`. Later
            updates through this retriever use it too.
        **settings
            Fields of the retriever: `k`, `view`, `where`, `id_key` and the method's own.

        Raises
        ------
        ValueError
            If there are no documents, only blank ones, or a setting is not valid; and as
            `stratagraph.build_index` does.
        """
        cls._check(settings)
        chunks = to_chunks(documents, settings.get("id_key"))
        with use_callbacks(callbacks):
            given: dict[str, Any] = {
                "method": cls.method,
                "llm": to_chat_model(llm),
                "embedder": embedding,
                "config": config,
                "budget": budget,
                "cache": cache,
                "progress": progress,
                "mapper": mapper,
            }
            if shards is None:
                index = build_index(chunks, path=path, vectors=vectors, **given)
            else:
                _refuse_vectors(vectors)
                index = build_shards(chunks, *_spread(path, shards), **given)
        return cls._over(index, settings)

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        *,
        llm: LLM = None,
        embedding: Embedding = None,
        path: StrPath | None = None,
        config: Any = None,
        budget: Any = None,
        cache: StrPath | None = None,
        progress: Any = False,
        callbacks: Callbacks = None,
        shards: int | str | None = None,
        vectors: Any = None,
        mapper: Any = None,
        **settings: Any,
    ) -> Self:
        """The async twin of `from_documents`."""
        cls._check(settings)
        chunks = to_chunks(documents, settings.get("id_key"))
        with use_callbacks(callbacks):
            given: dict[str, Any] = {
                "method": cls.method,
                "llm": to_chat_model(llm),
                "embedder": embedding,
                "config": config,
                "budget": budget,
                "cache": cache,
                "progress": progress,
                "mapper": mapper,
            }
            if shards is None:
                index = await abuild_index(chunks, path=path, vectors=vectors, **given)
            else:
                _refuse_vectors(vectors)
                index = await abuild_shards(chunks, *_spread(path, shards), **given)
        return cls._over(index, settings)

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
        """What `from_documents` would cost, without a model call; see `stratagraph.estimate`.

        `prices` are those of the model; None takes those that are known.
        """
        chunks = to_chunks(documents, id_key)
        return estimate(
            chunks, cls.method, to_chat_model(llm), config, cache, prices, embedder=to_embedder(embedding)
        )

    @classmethod
    async def aestimate(
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
        """The async twin of `estimate`."""
        chunks = to_chunks(documents, id_key)
        return await aestimate(
            chunks, cls.method, to_chat_model(llm), config, cache, prices, embedder=to_embedder(embedding)
        )

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Build an index of texts; arguments as in `from_documents`."""
        return cls.from_documents(of_texts(texts, metadatas, ids), **arguments)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> Self:
        """The async twin of `from_texts`."""
        return await cls.afrom_documents(of_texts(texts, metadatas, ids), **arguments)

    @classmethod
    def load(
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
        """Open an index folder, whoever wrote it. `llm` is needed for `add_documents` and `delete` only.

        So is `spacy`, the pipeline that the folder's settings name, if they name one. `vectors` is the
        vector store of an index that was built with one. `partial` opens shards of which some are missing:
        the others answer, and nothing can be changed.

        Raises
        ------
        MethodMissing
            If the folder does not hold this retriever's method; and as `stratagraph.open_index` does.
        """
        cls._check(settings)
        given = {"spacy": spacy, "vectors": vectors, "partial": partial}
        return cls._over(open_index(path, to_chat_model(llm), embedding, **given), settings)

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
        """The async twin of `load`."""
        cls._check(settings)
        given = {"spacy": spacy, "vectors": vectors, "partial": partial}
        core = await aopen_index(path, to_chat_model(llm), embedding, **given)
        return cls._over(core, settings)

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
        **settings: Any,
    ) -> StrataDocumentIndex:
        """What `langchain_core.indexing.index` writes into: a folder that is there, or will be.

        Arguments as in `from_documents`.
        """
        cls._check(settings)
        building = {"llm": llm, "embedding": embedding, "path": path, "config": config, "budget": budget}
        try:
            core = open_index(
                path or "",
                to_chat_model(llm),
                embedding,
                budget=budget,
                cache=cache,
                progress=progress,
                spacy=as_config(config).extraction.spacy,
                vectors=vectors,
            )
        except NotAnIndex:
            more = {"cache": cache, "progress": progress, "vectors": vectors, **settings}
            return StrataDocumentIndex.beginning(cls, {**building, **more})
        return cls._over(core, settings).as_document_index()

    def as_document_index(self) -> StrataDocumentIndex:
        """The same index as what `langchain_core.indexing.index` writes into."""
        return StrataDocumentIndex.over(self)

    @classmethod
    def _check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse a wrong setting before anything is paid for; each is checked alone, without an index."""
        blank = cls.model_construct()
        settings = with_where(settings)
        for name, value in settings.items():
            cls.__pydantic_validator__.validate_assignment(blank, name, value)
        own = {name: value for name, value in settings.items() if name in cls.options}
        check_search_options(cls.method, {**cls.fixed, **own})

    @classmethod
    def _over(cls, index: Index, settings: Mapping[str, Any]) -> Self:
        try:
            return cls(index=index, **settings)
        except BaseException:
            index.close()
            raise

    # Asking it

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        view: View | None = None,
        where: Where | None = None,
        **options: Any,
    ) -> list[Document]:
        request = self.request(k, view, where, **options)
        with use_callbacks(run_manager.get_child()):
            return to_documents(self.index.retrieve(query, **request))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        view: View | None = None,
        where: Where | None = None,
        **options: Any,
    ) -> list[Document]:
        request = self.request(k, view, where, **options)
        with use_callbacks(run_manager.get_child()):
            return to_documents(await self.index.aretrieve(query, **request))

    def as_answer_runnable(
        self,
        llm: LLM = None,
        *,
        max_tokens: int = 4000,
        length: Length | None = None,
        return_sources: bool = False,
    ) -> Runnable[Any, Any]:
        """A runnable from a question to its answer, in the method's own way (`stratagraph.Index.answer`).

        It retrieves as much as suits the method's answers, unless `k` was set. Instead of a question it takes
        `{"question": ..., "documents": [...]}`, too, with documents that were retrieved before, and maybe
        reranked: then it searches nothing and answers from these.

        Parameters
        ----------
        llm
            What writes it; None takes the index's own. Without any, the answer is extractive.
        max_tokens
            Bound on what the last prompt takes of the hits.
        length
            `"brief"` or `"full"`; None takes what suits the method.
        return_sources
            Give `{"answer": text, "sources": documents}`: `[2]` in the text is the second document. Streams
            give text alone.
        """
        return AnswerRunnable(
            self, llm=llm, max_tokens=max_tokens, length=length, return_sources=return_sources
        )

    def request(
        self, k: int | None = None, view: View | None = None, where: Where | None = None, **options: Any
    ) -> dict[str, Any]:
        """What the core's `retrieve` is given beside the question: a call's own arguments over the fields."""
        return {"k": self.k if k is None else k, **self._beside_k(view, where, options)}

    def answer_request(
        self, k: int | None = None, view: View | None = None, where: Where | None = None, **options: Any
    ) -> dict[str, Any]:
        """The same for the core's `answer`, where a `k` that nobody set is left to the method."""
        chosen = self.k if k is None and "k" in self.model_fields_set else k
        return {"k": chosen, **self._beside_k(view, where, options)}

    def _beside_k(self, view: View | None, where: Where | None, options: dict[str, Any]) -> dict[str, Any]:
        options.pop("verbose", None)  # BaseRetriever reads it and leaves it among the arguments
        options = with_where({"where": where, **options})
        where = options.pop("where")
        shared: dict[str, Any] = {name: options.pop(name) for name in SHARED_OPTIONS if name in options}
        if unknown := sorted(set(options) - set(self.options)):
            known = ", ".join(["k", "view", "where", "filter", *SHARED_OPTIONS, *self.options])
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]!r}; it has {known}")
        return {
            "view": view or self.view,
            "where": self.where if where is None else where,
            "method": self.method,
            **shared,
            **self.fixed,
            **{name: options.get(name, getattr(self, name)) for name in self.options},
        }


def with_where(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with what is called `filter` under our name for it.

    Raises
    ------
    ValueError
        If both are given.
    """
    given = dict(arguments)
    found = given.pop("filter", None)
    if found is None:
        return given
    if given.get("where") is not None:
        raise ValueError("give a filter as `where` or as `filter`, not both")
    return {**given, "where": found}


def _refuse_vectors(vectors: Any) -> None:
    if vectors is not None:
        raise ValueError("vectors= is for one index, not for shards")


def _spread(path: StrPath | None, shards: int | str) -> tuple[StrPath, int | None, str | None]:
    """Where shards are built, how many, and by which key."""
    if path is None:
        raise ValueError("shards need a folder: give path=...")
    return (path, None, shards) if isinstance(shards, str) else (path, shards, None)
