"""The core's answers as a runnable, for chains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_stratarag._models import to_chat_model, use_callbacks

if TYPE_CHECKING:
    from langchain_stratarag._base import IndexRetriever


class AnswerRunnable(Runnable[str, str]):
    """From a question to its answer, in the method's own way; made by `retriever.as_answer_runnable()`.

    With a chat model the method's own prompts are used (adaptive filtering for ArchRAG, the context in
    three parts for HiRAG); without one the answer is extractive. `stream` and `astream` give it in pieces.
    """

    def __init__(self, retriever: IndexRetriever, *, llm: Any, max_tokens: int) -> None:
        self._retriever = retriever
        self._arguments = {"llm": to_chat_model(llm), "max_tokens": max_tokens}

    def invoke(self, input: str, config: RunnableConfig | None = None, **options: Any) -> str:
        """The answer to a question; `options` are those of the retriever, for this call."""
        return self._call_with_config(self._answer, input, config, **options)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **options: Any) -> str:
        """The async twin of `invoke`."""
        return await self._acall_with_config(self._aanswer, input, config, **options)

    def stream(self, input: str, config: RunnableConfig | None = None, **options: Any) -> Iterator[str]:
        """The answer in pieces, as the model writes them."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, **options)

    async def astream(
        self, input: str, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """The async twin of `stream`."""
        async for piece in self._atransform_stream_with_config(
            _alone(input), self._apieces, config, **options
        ):
            yield piece

    def _pieces(
        self, questions: Iterator[str], run_manager: CallbackManagerForChainRun, **options: Any
    ) -> Iterator[str]:
        for question in questions:
            with use_callbacks(run_manager.get_child()):
                pieces = self._retriever.index.stream(question, **self._request(options))
                first = next(pieces, "")  # the model is called here, while the callbacks are in force
            yield first
            yield from pieces

    async def _apieces(
        self, questions: AsyncIterator[str], run_manager: AsyncCallbackManagerForChainRun, **options: Any
    ) -> AsyncIterator[str]:
        async for question in questions:
            with use_callbacks(run_manager.get_child()):
                pieces = self._retriever.index.astream(question, **self._request(options))
                first = await anext(pieces, "")
            yield first
            async for piece in pieces:
                yield piece

    def _answer(self, question: str, run_manager: CallbackManagerForChainRun, **options: Any) -> str:
        with use_callbacks(run_manager.get_child()):
            return self._retriever.index.answer(question, **self._request(options)).text

    async def _aanswer(
        self, question: str, run_manager: AsyncCallbackManagerForChainRun, **options: Any
    ) -> str:
        with use_callbacks(run_manager.get_child()):
            return (await self._retriever.index.aanswer(question, **self._request(options))).text

    def _request(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**self._retriever.request(**options), **self._arguments}


async def _alone(question: str) -> AsyncIterator[str]:
    yield question
