"""The core's answers as a runnable, for chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_stratagraph._convert import to_documents, to_retrieval
from langchain_stratagraph._models import to_chat_model, use_callbacks
from stratagraph import Answer, Retrieval
from stratagraph.question import Length

if TYPE_CHECKING:
    from langchain_stratagraph._base import IndexRetriever

Asked = str | Mapping[str, Any]
_FORM = 'a question, or {"question": ..., "documents": [...]}'


class AnswerRunnable(Runnable[Any, Any]):
    """From a question to its answer, in the method's own way; made by `retriever.as_answer_runnable()`.

    With a chat model the method's own prompts are used (adaptive filtering for ArchRAG, the context in
    three parts for HiRAG); without one the answer is extractive. `stream` and `astream` give it in pieces.
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
        """The answer to a question; `options` are those of the retriever, for this call."""
        return self._call_with_config(self._answer, input, config, **options)

    async def ainvoke(self, input: Asked, config: RunnableConfig | None = None, **options: Any) -> Any:
        """The async twin of `invoke`."""
        return await self._acall_with_config(self._aanswer, input, config, **options)

    def stream(self, input: Asked, config: RunnableConfig | None = None, **options: Any) -> Iterator[str]:
        """The answer in pieces, as the model writes them."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, **options)

    async def astream(
        self, input: Asked, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """The async twin of `stream`."""
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
                first = next(pieces, "")  # the model is called here, while the callbacks are in force
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
        """What the core's `answer` is asked, and with what."""
        arguments = {**self._retriever.answer_request(**options), **self._arguments}
        if isinstance(asked, str):
            return asked, arguments
        try:
            question, documents = asked["question"], list(asked["documents"])
        except (TypeError, KeyError) as error:
            raise TypeError(f"an answer is asked with {_FORM}, not {asked!r}") from error
        if others := [each for each in documents if not isinstance(each, Document)]:
            raise TypeError(f"documents must be LangChain Documents, not {type(others[0]).__name__}")
        retriever = self._retriever
        own = {name: arguments[name] for name in (*retriever.options, *retriever.fixed)}
        # What the call itself says of a search goes along: the core refuses it, since nothing is searched.
        return to_retrieval(question, retriever.method, documents), {**own, **options, **self._arguments}

    def _output(self, answer: Answer) -> Any:
        if not self._return_sources:
            return answer.text
        return {"answer": answer.text, "sources": to_documents(answer.retrieval)}


async def _alone(asked: Asked) -> AsyncIterator[Asked]:
    yield asked
