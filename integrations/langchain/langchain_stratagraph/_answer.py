"""Answers of an index as a runnable."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_stratagraph._base import IndexRetriever, check_question
from langchain_stratagraph._convert import to_documents, to_history, to_retrieval
from langchain_stratagraph._models import to_chat_model
from stratagraph import Retrieval
from stratagraph._sync import blocking, blocking_iterator
from stratagraph.types.question import Length

RunManager = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun
Asked = str | Mapping[str, Any]
_FORM = 'a question, or {"question": ...} with "documents" or "history"'


class AnswerRunnable(Runnable[Any, Any]):
    """Answers questions in the method's own way. Returned by `retriever.as_answer_runnable()`.

    With a chat model it uses the method's prompts: adaptive filtering for ArchRAG, a context in three parts
    for HiRAG. Without one the answer consists of excerpts. `stream` and `astream` yield it as it is written.
    Callbacks and `astream_events` see the search as a run of the retriever.
    """

    def __init__(
        self,
        retriever: IndexRetriever,
        *,
        llm: Any,
        max_tokens: int,
        length: Length | None = None,
        return_sources: bool = False,
    ) -> None:
        self._retriever = retriever
        self._arguments = {"llm": to_chat_model(llm), "max_tokens": max_tokens, "length": length}
        self._return_sources = return_sources

    def bind(self, **kwargs: Any) -> Runnable[Any, Any]:
        """Bind arguments of `invoke`; see `Runnable.bind`. A filter narrows the retriever's own."""
        bound = copy(self)
        bound._retriever, options = self._retriever.narrowed(kwargs)
        return super(AnswerRunnable, bound).bind(**options)

    def invoke(self, input: Asked, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Answer a question. `options` are the retriever's, for this call."""
        return self._call_with_config(self._answer, input, config, **options)

    async def ainvoke(self, input: Asked, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Async version of `invoke`."""
        return await self._acall_with_config(self._aanswer, input, config, **options)

    def stream(self, input: Asked, config: RunnableConfig | None = None, **options: Any) -> Iterator[str]:
        """Yield the answer in pieces, as the model writes them."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, **options)

    async def astream(
        self, input: Asked, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Async version of `stream`."""
        async for piece in self._atransform_stream_with_config(
            _each([input]), self._apieces, config, **options
        ):
            yield piece

    async def _aanswer(self, asked: Asked, run_manager: RunManager, **options: Any) -> Any:
        question, arguments = self._prepared(asked, options)
        async with self._retriever.searching(question, run_manager.get_child()) as on_retrieved:
            answer = await self._retriever.index.aanswer(question, **arguments, on_retrieved=on_retrieved)
        if not self._return_sources:
            return answer.text
        sources = self._documents(answer.retrieval)
        return {"answer": answer.text, "sources": sources, "finish": answer.finish}

    _answer = blocking(_aanswer)

    async def _apieces(
        self, asked: Iterable[Asked] | AsyncIterable[Asked], run_manager: RunManager, **options: Any
    ) -> AsyncIterator[str]:
        async for each in _each(asked):
            question, arguments = self._prepared(each, options)
            async with self._retriever.searching(question, run_manager.get_child()) as on_retrieved:
                pieces = self._retriever.index.astream(question, **arguments, on_retrieved=on_retrieved)
                first = await anext(pieces, "")  # the model is called while the callbacks are set
            yield first
            async for piece in pieces:
                yield piece

    _pieces = blocking_iterator(_apieces)

    def _documents(self, retrieval: Retrieval) -> list[Document]:
        return to_documents(retrieval, traced=self._retriever.return_trace)

    def _prepared(self, asked: Asked, options: dict[str, Any]) -> tuple[str | Retrieval, dict[str, Any]]:
        """The question, or the documents as a retrieval, and the arguments of `Index.answer`."""
        retriever = self._retriever
        talk = asked if isinstance(asked, Mapping) and "history" in asked else {}
        if talk:
            options = {**options, "history": to_history(talk["history"])}
            if "documents" not in talk and "question" in talk:
                asked = talk["question"]
        arguments = {**retriever.request(**options), **self._arguments}
        if isinstance(asked, str):
            check_question(asked)
            if options.get("k") is None and "k" not in retriever.model_fields_set:
                arguments["k"] = None  # the method decides
            return asked, arguments
        try:
            question, documents = asked["question"], list(asked["documents"])
        except (TypeError, KeyError) as error:
            raise TypeError(f"an answer is asked with {_FORM}, not {asked!r}") from error
        if others := [each for each in documents if not isinstance(each, Document)]:
            raise TypeError(f"documents must be LangChain Documents, not {type(others[0]).__name__}")
        own = {name: arguments[name] for name in retriever.options if name in arguments}
        # Options of this call are passed on so that the core refuses search options: nothing is searched.
        return to_retrieval(question, retriever.method, documents), {**own, **options, **self._arguments}


async def _each(source: Iterable[Asked] | AsyncIterable[Asked]) -> AsyncIterator[Asked]:
    if isinstance(source, AsyncIterable):
        async for asked in source:
            yield asked
    else:
        for asked in source:
            yield asked
