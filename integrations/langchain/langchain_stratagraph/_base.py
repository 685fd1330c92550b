"""An index of stratagraph as a retriever: searching it and changing it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseCallbackManager,
    CallbackManager,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableSerializable, ensure_config
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from langchain_stratagraph._convert import IdKey, document_id, of_texts, to_chunks, to_documents, to_history
from langchain_stratagraph._models import set_callbacks, use_callbacks
from stratagraph import BuildReport, Index, Retrieval, search_options
from stratagraph._sync import blocking, either, run_here
from stratagraph.errors import MethodMissing
from stratagraph.operations.pieces import joined
from stratagraph.system.threads import in_thread
from stratagraph.types.question import SHARED_OPTIONS, WALK, Guided, Rank, View, Where, narrowed


class BlankQuestion(ToolException, ValueError):
    """The question is blank. A tool with `handle_tool_error=True` returns the message to its agent."""


def check_question(question: object) -> None:
    """Raise `BlankQuestion` for a blank text."""
    if isinstance(question, str) and not question.strip():
        raise BlankQuestion(f"the question is blank: {question!r}; give the words to search for")


class IndexRetriever(BaseRetriever):
    """Retriever over one method of a stratagraph index. Use one of its subclasses.

    Build one with `from_documents` or `from_texts`, open one with `load`, or pass `index=`, an index that
    `stratagraph.open_index` has opened. Each given document becomes one chunk and is not split further.

    A returned document has the text of a hit as `page_content`. Its `id` is the id of the document that was
    given, or the hit's id if there was none. Its `metadata` is the chunk's metadata, `"source"`, unless the
    chunk has one (the ids of the documents behind the hit), and scalar keys that no question changes:
    `stratagraph_id`, `stratagraph_kind`, `stratagraph_level`, `stratagraph_documents` (ids, as JSON), and for
    a node `stratagraph_sources` (chunk ids) and `stratagraph_metadata`. Answers can be made from them again.

    Attributes
    ----------
    index
        The open index. Use it for what a retriever has no method for, such as `retriever.index.stats()`.
    k
        Number of documents to return. Fewer are returned only if the index holds fewer.
    view
        `"chunks"` returns the walk's passages. None returns the method's own nodes among passages.
    where
        Metadata filter: a mapping of keys to values, lists or `$` operators, or a function of the metadata.
        `filter`, the name LangChain's vector stores use, is accepted as well. A filter of a call, of `bind`
        or of a configurable field narrows it.
    base_where
        Filter that `where` narrows. `configurable_fields(where=...)` keeps the retriever's own here.
    min_score
        Leave out hits whose embedding has a lower cosine with the question.
    guided
        True lets the index's chat model choose the documents that are needed together, or spread the search
        for an overview (`"choice"` and `"overview"` say which). None guides answers.
    guided_steps
        Searches of a guided question at most; None means two.
    decompose
        True lets the chat model name what the question is about, as NodeRAG does.
    fill
        False returns the method's own ranking, without passages of the walk.
    rank
        How passages are ranked instead of by the walk: `"bm25"`, `"dense"` or `"hybrid"`.
    as_of
        Only what was there by this date, such as `"2024-06-30"`; the index must have a `date_key`. It is a
        filter: an `as_of` of a call narrows it.
    recency
        Half-life in days: newer documents are preferred; see `stratagraph.Index.retrieve`.
    rerank
        Reranker of the hits: an object or the name of a model; see `stratagraph.Index.retrieve`.
    return_trace
        Add `metadata["stratagraph"]`: the hit's `score` and `trace` with its identity. These differ from
        question to question, so that LangChain takes the same passage of two questions for two documents.
    id_key
        Metadata key, or function of a document, that gives the id by which a document is updated and
        deleted. None uses `Document.id`, then `metadata["source"]`, then a hash of the text.

    Examples
    --------
    All fields but `index`, `base_where` and `id_key` can also be given for one call, and `history`, the
    messages before the question:

    >>> retriever.invoke("Who built it?", k=8, where={"year": 2024})  # doctest: +SKIP
    >>> retriever.invoke("When?", history=[("human", "Who built it?"), ("ai", "Ada.")])  # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    method: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()

    index: Index
    k: int = Field(default=4, ge=1)
    view: View | None = None
    where: Where | None = None
    if TYPE_CHECKING:
        filter: Where | None = None  # `where` by the name of vector stores
    base_where: Where | None = None
    min_score: float | None = Field(default=None, ge=-1, le=1)
    guided: Guided | None = None
    guided_steps: int | None = Field(default=None, ge=1)
    decompose: bool = False
    fill: bool = True
    rank: Rank = "walk"
    as_of: Any = None
    recency: float | None = Field(default=None, gt=0)
    rerank: Any = None
    return_trace: bool = False
    id_key: IdKey | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Describe the method's search options, which are fields of the class, in its docstring."""
        super().__init_subclass__(**kwargs)
        if "method" not in cls.__dict__:
            return  # a user's subclass inherits the fields of its base
        options = search_options(cls.method)
        cls.options = tuple(option.name for option in options)
        lines = [f"{option.name}\n    {option.description}" for option in options]
        text = inspect.cleandoc(cls.__doc__ or "")
        if lines:
            text = "\n\n".join([text, "Search options, as fields or for one call:", *lines])
        cls.__doc__ = text

    @model_validator(mode="before")
    @classmethod
    def _with_known_names(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        data = with_where(data)
        for name in data:
            if name not in cls.model_fields:
                raise cls.unknown(name)
        return data

    @classmethod
    def unknown(cls, name: str) -> PydanticCustomError:
        """The error for an argument that is no field."""
        fields = [each for each in cls.model_fields if each not in BaseRetriever.model_fields]
        return PydanticCustomError(
            "unknown_field",
            "{kind} has no field '{name}'; it has {fields}",
            {"kind": cls.__name__, "name": name, "fields": ", ".join(["filter", *fields])},
        )

    @field_validator("index")
    @classmethod
    def _holds_the_method(cls, index: Index) -> Index:
        methods = index.methods
        if cls.method in (*methods, WALK):
            return index
        raise MethodMissing(
            f"{cls.__name__} needs the method {cls.method}, and index {str(index.path)!r} "
            f"holds {', '.join(methods) or 'no method'}; add it with index.add_method({cls.method!r})"
        )

    # Searching

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return run_here(self._documents(query, run_manager, options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await self._documents(query, run_manager, options)

    async def _documents(self, query: str, run_manager: Any, options: dict[str, Any]) -> list[Document]:
        check_question(query)
        traced = options.pop("return_trace", self.return_trace)
        request = self.request(**options)
        with use_callbacks(run_manager.get_child()):
            retrieval = await either(self.index.retrieve, self.index.aretrieve, query, **request)
        return to_documents(retrieval, traced=traced)

    async def asearch(self, question: str, **options: Any) -> Retrieval:
        """Search as a part of the run that is going on, of a tool or of a node; options as for `invoke`."""
        request = self.request(**options)
        async with self.searching(question, ensure_config().get("callbacks")) as on_retrieved:
            retrieval = await either(self.index.retrieve, self.index.aretrieve, question, **request)
            assert on_retrieved is not None
            await on_retrieved(retrieval)
        return retrieval

    @asynccontextmanager
    async def searching(
        self, question: str | Retrieval, callbacks: Callbacks
    ) -> AsyncIterator[Callable[[Retrieval], Awaitable[None]] | None]:
        """Make a search a run of this retriever, inside the run of the callbacks.

        The block calls what it is given with what was retrieved. Model calls before that are parts of the
        retriever's run, those after it parts of the run around it. Of a retrieval there is nothing to search.
        """
        if isinstance(question, Retrieval):
            with use_callbacks(callbacks):
                yield None
            return
        kind: Any = type(callbacks) if isinstance(callbacks, BaseCallbackManager) else CallbackManager
        # `configure` adds the handlers of the context, such as those of `collect_runs`.
        manager = kind.configure(callbacks, local_tags=self.tags, local_metadata=self.metadata)
        run = await _awaited(manager.on_retriever_start(None, question, name=self.get_name()))
        ended = False

        async def on_retrieved(retrieval: Retrieval) -> None:
            nonlocal ended
            ended = True
            set_callbacks(callbacks)
            await _awaited(run.on_retriever_end(to_documents(retrieval, traced=self.return_trace)))

        with use_callbacks(run.get_child()):
            try:
                yield on_retrieved
            except BaseException as error:
                if not ended:
                    await _awaited(run.on_retriever_error(error))
                raise

    def request(
        self, k: int | None = None, view: View | None = None, where: Where | None = None, **options: Any
    ) -> dict[str, Any]:
        """Arguments of `Index.retrieve`: those of the call, then the fields; a filter narrows the field."""
        options.pop("verbose", None)  # BaseRetriever reads it and leaves it among the arguments
        options = with_where({"where": where, **options})
        where = options.pop("where")
        shared: dict[str, Any] = {name: options.pop(name) for name in SHARED_OPTIONS if name in options}
        if "history" in shared:
            shared["history"] = to_history(shared["history"])
        if self.guided is not None:
            shared.setdefault("guided", self.guided)
        if self.guided_steps is not None and shared.get("guided") is not False:
            shared.setdefault("guided_steps", self.guided_steps)
        if unknown := sorted(set(options) - set(self.options)):
            names = ", ".join(
                ["k", "view", "where", "filter", "return_trace", *SHARED_OPTIONS, *self.options]
            )
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]!r}; it has {names}")
        own = {name: options.get(name, getattr(self, name)) for name in self.options}
        defaults = type(self).model_fields
        return {
            "k": self.k if k is None else k,
            "view": view or self.view,
            "where": narrowed(self._where, where),
            "method": self.method,
            "decompose": self.decompose,
            "fill": self.fill,
            "rank": self.rank,
            "recency": self.recency,
            "rerank": self.rerank,
            "min_score": self.min_score,
            **shared,
            **{name: value for name, value in own.items() if value != defaults[name].default},
        }

    @property
    def _where(self) -> Where | None:
        """The filter that holds in every call."""
        until = None if self.as_of is None else self.index.until(self.as_of)
        return narrowed(narrowed(self.base_where, self.where), until)

    def narrowed(self, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """A copy whose filter is narrowed by that of some options, and the other options."""
        others = with_where(options)
        where = narrowed(self.where, others.pop("where", None))
        if (as_of := others.pop("as_of", None)) is not None:
            where = narrowed(where, self.index.until(as_of))
        return self.model_copy(update={"where": where}), others

    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        """Bind arguments of `invoke`; see `Runnable.bind`. A filter narrows the retriever's own."""
        bound, options = self.narrowed(kwargs)
        return super(IndexRetriever, bound).bind(**options)

    def configurable_fields(self, **kwargs: Any) -> RunnableSerializable[str, list[Document]]:
        """Make fields configurable; see `Runnable.configurable_fields`.

        A configured `where` or `as_of` narrows the retriever's own.
        """
        own = {"base_where": self._where, "where": None, "as_of": None}
        fixed = own if kwargs.keys() & {"where", "as_of"} else {}
        return super(IndexRetriever, self.model_copy(update=fixed)).configurable_fields(**kwargs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool that retrieves; see `Runnable.as_tool`.

        A blank question gets a note in place of documents, so that an agent can go on.
        """
        tool = super().as_tool(args_schema, name=name, description=description, arg_types=arg_types)
        tool.handle_tool_error = True
        return tool

    # Changing the index

    async def aadd_documents(
        self, documents: Iterable[Document], *, replace: bool = False, callbacks: Callbacks = None
    ) -> list[str]:
        """Add documents to the index, in one change, and return the id by which each is deleted (`id_key`).

        Pieces of a document that the index holds are added to its pieces. A new piece replaces the piece with
        the same `Document.id`, else the one with the same metadata and `start_index` (as text splitters set
        it with `add_start_index=True`), else the one with the same metadata and text.

        Parameters
        ----------
        documents
            Documents, split as they should be indexed.
        replace
            Remove all other pieces of these documents. Use it for a new version of a file, and give all
            pieces of a document in one call.
        callbacks
            Callbacks for the model calls.

        Notes
        -----
        What the change did and cost is in `retriever.index.last_report`.
        """
        given = documents if isinstance(documents, Document) else await in_thread(list, documents)
        chunks = to_chunks(given, self.id_key)
        with use_callbacks(callbacks):
            await self.index.ainsert(chunks if replace else joined(self.index, chunks))
        return [document_id(document, self.id_key)[0] for document in given]

    add_documents = blocking(aadd_documents)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **arguments: Any,
    ) -> list[str]:
        """Add texts and return their ids. Keyword arguments are those of `add_documents`."""
        return await self.aadd_documents(of_texts(texts, metadatas, ids), **arguments)

    add_texts = blocking(aadd_texts)

    async def adelete(
        self, ids: str | Iterable[str], *, missing_ok: bool = False, callbacks: Callbacks = None
    ) -> BuildReport:
        """Delete documents by document id (see `id_key`). An unknown id raises `KeyError`."""
        with use_callbacks(callbacks):
            return await self.index.adelete(ids, missing_ok=missing_ok)

    delete = blocking(adelete)


async def _awaited(value: Any) -> Any:
    """The result of a method of a callback manager of either kind."""
    return await value if inspect.isawaitable(value) else value


def with_where(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the argument `filter` to `where`.

    Raises
    ------
    ValueError
        If both are given.
    """
    renamed = dict(arguments)
    where = renamed.pop("filter", None)
    if where is None:
        return renamed
    if renamed.get("where") is not None:
        raise ValueError("give a filter as `where` or as `filter`, not both")
    return {**renamed, "where": where}
