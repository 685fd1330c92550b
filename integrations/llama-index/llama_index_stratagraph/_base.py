"""The base of the index classes: building, opening and querying."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self

from llama_index.core import Settings
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import LLMType, resolve_llm
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, Document, IndexNode, TransformComponent
from llama_index.core.storage.storage_context import StorageContext
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, SimpleVectorStore

from llama_index_stratagraph._arguments import Setup, StrPath, check_constructor, chosen
from llama_index_stratagraph._convert import document_id, to_chunks, to_where
from llama_index_stratagraph._models import settings_llm
from llama_index_stratagraph._persist import STRUCTS, FolderStore, FolderStruct, located
from llama_index_stratagraph._updating import FolderDocstore, UpdatingIndex, split
from llama_index_stratagraph.retriever import StrataRetriever
from llama_index_stratagraph.synthesizer import CoreSynthesizer
from stratagraph import Chunk, Estimate, Index, Prices, search_options
from stratagraph._sync import blocking_constructor, either, run_here
from stratagraph.errors import MethodMissing
from stratagraph.types.question import SHARED_OPTIONS, WALK, Length, narrowed

_RETRIEVER = [
    name
    for name in inspect.signature(StrataRetriever).parameters
    if name not in ("index", "options", "search")
]


class StrataIndex(UpdatingIndex):
    """LlamaIndex's `BaseIndex` over an index folder, for one method. Use one of its subclasses.

    Each node becomes one chunk with its node id; nothing splits it further. Each call that changes the index
    is one change of the folder, and the docstore follows it. Inserting a document again replaces it.

    Parameters
    ----------
    nodes
        Nodes to index. For documents use `from_documents`.
    llm
        LLM that writes summaries. None uses `Settings.llm` if it was set. With none set, or with False, no
        model is called and summaries are extractive. OpenAI is never the default.
    embed_model
        Embedding model. None uses `Settings.embed_model` if it was set. With none set, or with False, it is
        the model the index was built with, and stratagraph's local default for a new one.
    path
        Index folder. None uses a private folder, removed with the index object. Either way
        `index.storage_context.persist(dir)` copies it, and `load_index_from_storage` opens the copy.
    core
        An open index of stratagraph, instead of nodes.
    config, budget, cache
        See `stratagraph.build_index`.
    shards
        Build an index of shards: their number, or the metadata key whose values name them; see
        `stratagraph.build_shards`.
    vectors
        LlamaIndex vector store (`QdrantVectorStore`, `PGVectorStore`, `ChromaVectorStore` ...) that holds
        the vectors instead of the folder. None uses that of `storage_context`, unless it is the default, a
        `SimpleVectorStore`. Needs `path`. Persisting then copies nothing: the persisted index
        names the folder, and is loaded with the same `vectors`.
    mapper
        Where work without model calls runs, such as `"processes"` or `"ray"`; see `stratagraph.mapper`.
        Later changes through this index use it too.
    partial
        Open an index of shards though some are missing. It answers from the others and cannot be changed.
    prune, rebuild
        When `path` holds an index: delete its documents that are not given, or build it anew; see
        `stratagraph.build_index`.
    date_key
        Metadata key that dates a document, for `as_of` and `recency` of `as_retriever`.
    objects, index_struct, storage_context, callback_manager, transformations, show_progress
        See `BaseIndex`.

    Attributes
    ----------
    core
        The open index of stratagraph. Use it for what LlamaIndex has no method for.
    """

    method: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class of a method its struct, and add the method's search options to its docstring."""
        super().__init_subclass__(**kwargs)
        if "method" not in cls.__dict__:
            return  # a user's subclass is loaded as its base
        cls.index_struct_cls = STRUCTS[cls.method]
        options = search_options(cls.method)
        cls.options = tuple(option.name for option in options)
        lines = [f"{option.name}\n    {option.description}" for option in options]
        text = inspect.cleandoc(cls.__doc__ or "")
        cls.__doc__ = "\n\n".join([text, "Search options of `as_retriever`:", *lines])

    def __init__(
        self,
        nodes: Sequence[BaseNode] | None = None,
        *,
        llm: Any = None,
        embed_model: Any = None,
        path: StrPath | None = None,
        core: Index | None = None,
        config: Any = None,
        budget: Any = None,
        cache: StrPath | None = None,
        shards: int | str | None = None,
        vectors: Any = None,
        mapper: Any = None,
        partial: bool = False,
        prune: bool = False,
        rebuild: bool = False,
        date_key: str | None = None,
        objects: Sequence[IndexNode] | None = None,
        index_struct: FolderStruct | None = None,
        storage_context: StorageContext | None = None,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        show_progress: bool = False,
    ) -> None:
        self._setup = _setup(type(self), locals())
        stored = core is None and index_struct is not None and index_struct.docstore
        if core is None and index_struct is not None:
            core = self._setup.open(path or located(index_struct))
        context = storage_context
        if core is not None:
            self.core = core
            self._check_method()
            index_struct = index_struct or self._struct()
            context = context or StorageContext.from_defaults(docstore=FolderDocstore(core))
        super().__init__(
            nodes=None if nodes is None else list(nodes),
            objects=None if objects is None else list(objects),
            index_struct=index_struct,
            storage_context=context,
            callback_manager=callback_manager,
            transformations=transformations,
            show_progress=show_progress,
        )
        self.has_docstore = (nodes is not None or storage_context is not None) and self._finds_docstore()
        if stored and not self.has_docstore:
            path = str(self.core.path)
            self.core.close()
            raise ValueError(
                f"the docstore of this storage context has no document of the index in {path!r}: give the "
                "one it was persisted with, as in StorageContext.from_defaults(docstore=...), or open the "
                f"folder without one by {type(self).__name__}.load({path!r})"
            )
        if self.has_docstore and nodes is None and self.index_struct.generation != self.core.generation:
            self._complete_docstore()
        FolderStore.of(self.storage_context).add(self.index_struct, self)
        self._note()

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        storage_context: StorageContext | None = None,
        show_progress: bool = False,
        callback_manager: CallbackManager | None = None,
        transformations: list[TransformComponent] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Split documents and build an index. Keyword arguments are those of the constructor.

        If `path` holds an index, it is brought to these documents, as by `stratagraph.build_index`. A
        document is updated by its id (`Document(id_=...)`). With the random id that LlamaIndex gives to
        others, only the same text is known again.

        The documents' hashes are stored after the build, so that `refresh_ref_docs` after a failed build
        finds the documents changed.
        """
        check_constructor(cls, kwargs)
        transformations = transformations or Settings.transformations
        given = {"show_progress": show_progress, "storage_context": storage_context}
        setup = _setup(cls, {**kwargs, **given})
        with (callback_manager or Settings.callback_manager).as_trace("index_construction"):
            nodes = await split(documents, transformations, show_progress)
            nodes = [*nodes, *(kwargs.get("objects") or ())]
            if documents and not nodes:
                raise ValueError(f"all {len(documents)} documents are blank; nothing was written")
            index = cls(
                core=await either(setup.build, setup.abuild, _flat(nodes)),
                storage_context=storage_context,
                callback_manager=callback_manager,
                show_progress=show_progress,
                transformations=transformations,
                **kwargs,
            )
            index.has_docstore = True
            await index._store(nodes, documents)
        if len(index.core.documents()) > len({document_id(node) for node in nodes}):
            index._complete_docstore()
        index._note()
        return index

    from_documents = blocking_constructor(afrom_documents, run_here)  # type: ignore[arg-type]

    @classmethod
    def estimate(
        cls,
        documents: Sequence[Document],
        *,
        llm: Any = None,
        embed_model: Any = None,
        transformations: list[TransformComponent] | None = None,
        config: Any = None,
        cache: StrPath | None = None,
        prices: Prices | None = None,
    ) -> Estimate:
        """Estimate the model calls, tokens and cost of `from_documents`, without calling a model.

        `prices` are the model's prices; None looks them up. See `stratagraph.estimate`.
        """
        nodes = run_transformations(documents, transformations or Settings.transformations)
        setup = Setup(cls.method, llm, embed_model, config=config, cache=cache)
        return setup.estimate(_flat(nodes), prices)

    @classmethod
    async def aload(cls, path: StrPath, *, llm: Any = None, embed_model: Any = None, **kwargs: Any) -> Self:
        """Open an index folder, written by LlamaIndex, LangChain or stratagraph itself.

        Keyword arguments are those of the constructor. Nodes stay in the folder alone, unless the docstore
        of a given `storage_context` has some of them.

        Raises
        ------
        MethodMissing
            If the index does not hold this class's method. Other errors are those of
            `stratagraph.open_index`.
        """
        check_constructor(cls, kwargs)
        setup = _setup(cls, {**kwargs, "path": path, "llm": llm, "embed_model": embed_model})
        return cls(core=await either(setup.open, setup.aopen), llm=llm, embed_model=embed_model, **kwargs)

    load = blocking_constructor(aload, run_here)  # type: ignore[arg-type]

    def build_index_from_nodes(self, nodes: Sequence[BaseNode], **build_kwargs: Any) -> FolderStruct:
        """Build the folder, then add the nodes to the docstore."""
        struct = self._build_index_from_nodes(nodes, **build_kwargs)
        self.docstore.add_documents(nodes, allow_update=True)
        return struct

    def _build_index_from_nodes(self, nodes: Sequence[BaseNode], **build_kwargs: Any) -> FolderStruct:
        self.core = self._setup.build(_flat(nodes))
        return self._struct()

    def _check_method(self) -> None:
        if self.method in (*self.core.methods, WALK):
            return
        methods, path = ", ".join(self.core.methods) or "no method", str(self.core.path)
        self.core.close()
        raise MethodMissing(
            f"{type(self).__name__} needs the method {self.method}, and index {path!r} holds {methods}; "
            f"open it with stratagraph.open_index and add_method({self.method!r})"
        )

    def _struct(self) -> FolderStruct:
        return self.index_struct_cls(folder=str(self.core.path.absolute()), method=self.method)

    def close(self) -> None:
        """Close the index; a private folder is removed."""
        self.core.close()

    def as_retriever(self, **kwargs: Any) -> StrataRetriever:
        """Return a `StrataRetriever`, with its arguments or the method's search options."""
        names = [*_RETRIEVER, *SHARED_OPTIONS, *self.options]
        arguments = chosen(f"{type(self).__name__}.as_retriever", kwargs, names)
        options = {name: arguments.pop(name) for name in self.options if name in arguments}
        arguments["search"] = {name: arguments.pop(name) for name in SHARED_OPTIONS if name in arguments}
        defaults = {"object_map": self._object_map, "callback_manager": self._callback_manager}
        return StrataRetriever(self, options=options, **{**defaults, **arguments})

    def as_query_engine(
        self,
        llm: LLMType | Literal[False] | None = None,
        *,
        length: Length | None = None,
        max_tokens: int | None = None,
        **kwargs: Any,
    ) -> BaseQueryEngine:
        """Return a query engine that answers in the method's own way.

        Parameters
        ----------
        llm
            LLM that writes answers. None uses the index's LLM, then `Settings.llm` if it was set. Without
            any, and with False, answers are extractive and no key is needed.
        length
            `"brief"` or `"full"`. None uses the method's default.
        max_tokens
            Maximum number of tokens of the nodes in the last prompt, 4000 by default.
        **kwargs
            Arguments of `as_retriever` and of LlamaIndex's query engines. A `response_synthesizer`, or a
            `response_mode` with an LLM of LlamaIndex, replaces the method's own way of answering.
        """
        model = None if llm is False else self._query_llm(llm)
        asked_for = {"response_synthesizer", "response_mode"} & kwargs.keys()
        if model is None and "response_mode" in kwargs and "response_synthesizer" not in kwargs:
            raise ValueError("response_mode needs an LLM of LlamaIndex: pass llm=..., or set Settings.llm")
        own = {"length": length, "max_tokens": max_tokens}
        given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        if asked_for and given:
            names = " and ".join(given)
            raise ValueError(f"{names}: only for the core's own answers; {asked_for.pop()} asks for others")
        if llm is False:
            kwargs = {"guided": False, **kwargs}
        # The synthesizer reads of the traces how the question was completed and guided.
        suited: dict[str, Any] = {"similarity_top_k": self.core.answer_k(self.method), "return_trace": True}
        if self.core.has_llm:
            suited["guided"] = True
        retriever = self.as_retriever(**{**suited, **kwargs})
        retriever.chosen_only = True
        if model is not None and asked_for:
            return RetrieverQueryEngine.from_args(retriever, llm=model, **kwargs)
        return RetrieverQueryEngine(
            retriever,
            response_synthesizer=kwargs.get("response_synthesizer")
            or CoreSynthesizer(
                retriever,
                llm=False if llm is False else model,
                **given,
                streaming=bool(kwargs.get("streaming", False)),
                callback_manager=self._callback_manager,
            ),
            node_postprocessors=kwargs.get("node_postprocessors"),
            callback_manager=self._callback_manager,
        )

    def as_query_engine_tool(
        self, name: str = "answer", description: str | None = None, *, names: int = 0, **kwargs: Any
    ) -> QueryEngineTool:
        """Return a tool of an agent that answers a question, with the documents as sources.

        Parameters
        ----------
        name, description
            What the agent's model reads. None says how many documents there are that the filter admits.
        names
            How many of the most frequent names in them it says too; see `stratagraph.Index.about`.
        **kwargs
            Arguments of `as_query_engine`.
        """
        text = description or f"Answers a question from {self._about(names, kwargs)}. Ask in plain language."
        return QueryEngineTool.from_defaults(self.as_query_engine(**kwargs), name=name, description=text)

    def as_retriever_tool(
        self, name: str = "search", description: str | None = None, *, names: int = 0, **kwargs: Any
    ) -> RetrieverTool:
        """Return a tool of an agent that finds passages; see `as_query_engine_tool` and `as_retriever`."""
        text = description or f"Finds passages in {self._about(names, kwargs)}. Ask in plain language."
        return RetrieverTool.from_defaults(self.as_retriever(**kwargs), name=name, description=text)

    def _about(self, names: int, arguments: Mapping[str, Any]) -> str:
        """What a tool with these arguments of `as_retriever` finds passages in."""
        given = (arguments.get(name) for name in ("where", "filters", "node_ids", "doc_ids"))
        as_of = arguments.get("as_of")
        until = None if as_of is None else self.core.until(as_of)
        return self.core.about(names, narrowed(to_where(*given), until))

    def as_chat_engine(
        self, chat_mode: ChatMode = ChatMode.BEST, llm: LLMType | None = None, **kwargs: Any
    ) -> BaseChatEngine:
        """Return a chat engine; see `BaseIndex.as_chat_engine`.

        Raises
        ------
        ValueError
            If there is no LLM.
        """
        model = self._query_llm(llm)
        if model is None:
            raise ValueError("a chat engine needs an LLM: pass llm=..., or set llama_index.core.Settings.llm")
        return super().as_chat_engine(chat_mode=chat_mode, llm=model, **kwargs)

    def _query_llm(self, llm: LLMType | None) -> LLM | None:
        if llm is not None:
            return resolve_llm(llm, callback_manager=self._callback_manager)
        own = self._setup.llm
        if own is None or own is False:
            return None if own is False else settings_llm()
        return own if isinstance(own, LLM) else None if self.core.has_llm else settings_llm()


def _flat(nodes: Sequence[BaseNode]) -> list[Chunk]:
    """The chunks of nodes by document, without blank ones unless all are blank."""
    chunks = to_chunks(nodes)
    return [chunk for chunk in chunks if chunk.text.strip()] or chunks


def _setup(kind: type[StrataIndex], arguments: dict[str, Any]) -> Setup:
    """The constructor's arguments that concern the folder."""
    names = {field.name for field in fields(Setup)}
    own = {name: value for name, value in arguments.items() if name in names}
    context = arguments.get("storage_context")
    store = None if context is None else context.vector_stores.get(DEFAULT_VECTOR_STORE)
    if store is not None and type(store) is not SimpleVectorStore:
        core, other = arguments.get("core"), own.get("vectors")
        elsewhere = (core is not None and core.vectors is None) or (other is not None and other is not store)
        if elsewhere or all(arguments.get(name) is None for name in ("core", "index_struct", "path")):
            why = (
                "keeps its vectors elsewhere" if elsewhere else "has no path, and would leave its rows there"
            )
            raise ValueError(
                f"the storage context has the vector store {type(store).__name__}, and this index {why}: "
                "build it with path=... and this context alone, so that the store holds its vectors, or give "
                "a storage context without vector_store"
            )
        own["vectors"] = store
    return Setup(kind.method, **own, progress=arguments.get("show_progress", False))
