"""Answers of an index as a runnable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_stratagraph._base import IndexRetriever
from langchain_stratagraph._convert import to_documents, to_retrieval
from langchain_stratagraph._models import to_chat_model, use_callbacks
from stratagraph import Answer, Retrieval
from stratagraph.question import Length

Asked = str | Mapping[str, Any]
_FORM = 'a question, or {"question": ..., "documents": [...]}'


class AnswerRunnable(Runnable[Any, Any]):
    """Answers questions in the method's own way. Returned by `retriever.as_answer_runnable()`.

    With a chat model it uses the method's prompts: adaptive filtering for ArchRAG, a context in three parts
    for HiRAG. Without one the answer is extractive. `stream` and `astream` yield the answer as it is written.
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
            _alone(input), self._apieces, config, **options
        ):
            yield piece

    def _pieces(
        self, asked: Iterator[Asked], run_manager: CallbackManagerForChainRun, **options: Any
    ) -> Iterator[str]:
        for each in asked:
            question, arguments = self._prepared(each, options)
            with use_callbacks(run_manager.get_child()):
                pieces = self._retriever.index.stream(question, **arguments)
                first = next(pieces, "")  # the model is called while the callbacks are set
            yield first
            yield from pieces

    async def _apieces(
        self, asked: AsyncIterator[Asked], run_manager: AsyncCallbackManagerForChainRun, **options: Any
    ) -> AsyncIterator[str]:
        async for each in asked:
            question, arguments = self._prepared(each, options)
            with use_callbacks(run_manager.get_child()):
                pieces = self._retriever.index.astream(question, **arguments)
                first = await anext(pieces, "")
            yield first
            async for piece in pieces:
                yield piece

    def _answer(self, asked: Asked, run_manager: CallbackManagerForChainRun, **options: Any) -> Any:
        question, arguments = self._prepared(asked, options)
        with use_callbacks(run_manager.get_child()):
            return self._output(self._retriever.index.answer(question, **arguments))

    async def _aanswer(
        self, asked: Asked, run_manager: AsyncCallbackManagerForChainRun, **options: Any
    ) -> Any:
        question, arguments = self._prepared(asked, options)
        with use_callbacks(run_manager.get_child()):
            return self._output(await self._retriever.index.aanswer(question, **arguments))

    def _prepared(self, asked: Asked, options: dict[str, Any]) -> tuple[str | Retrieval, dict[str, Any]]:
        """The question, or the documents as a retrieval, and the arguments of `Index.answer`."""
        retriever = self._retriever
        arguments = {**retriever.request(**options), **self._arguments}
        if isinstance(asked, str):
            if options.get("k") is None and "k" not in retriever.model_fields_set:
                arguments["k"] = None  # the method decides
            return asked, arguments
        try:
            question, documents = asked["question"], list(asked["documents"])
        except (TypeError, KeyError) as error:
            raise TypeError(f"an answer is asked with {_FORM}, not {asked!r}") from error
        if others := [each for each in documents if not isinstance(each, Document)]:
            raise TypeError(f"documents must be LangChain Documents, not {type(others[0]).__name__}")
        own = {name: arguments[name] for name in (*retriever.options, *retriever.fixed)}
        # Options of the call go along, so that the core refuses those of a search: nothing is searched.
        return to_retrieval(question, retriever.method, documents), {**own, **options, **self._arguments}

    def _output(self, answer: Answer) -> Any:
        if not self._return_sources:
            return answer.text
        return {"answer": answer.text, "sources": to_documents(answer.retrieval)}


async def _alone(asked: Asked) -> AsyncIterator[Asked]:
    yield asked
