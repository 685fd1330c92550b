"""Answers as the core gives them: in a method's own way, or without any model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from typing import Any

import llama_index.core.instrumentation as instrument
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import BaseNode
from llama_index.core.types import RESPONSE_TEXT_TYPE

from llama_index_stratarag._models import to_chat_model
from llama_index_stratarag.retriever import StrataRetriever

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class CoreSynthesizer(BaseSynthesizer):
    """Gives the answer of `stratarag.Index.answer`, for the retriever's own settings.

    With a chat model that is the method's own way of answering (adaptive filtering for ArchRAG, the context
    in three parts for HiRAG). Without one the answer is extractive: the best supported sentences of the
    index, word for word, each with the number of its source. `response.metadata["stratarag"]` says which:
    `extractive`.

    Parameters
    ----------
    retriever
        Whose index and settings (`similarity_top_k`, `view`, filters) the answer rests on. Node
        postprocessors act on `source_nodes`, not on the answer.
    llm
        What writes it; None takes the index's own.
    max_tokens
        Bound on what the last prompt takes of the hits.
    streaming
        Hand the answer out as a stream, as it is written.
    """

    def __init__(
        self,
        retriever: StrataRetriever,
        *,
        llm: LLM | None = None,
        max_tokens: int = 4000,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        # The base class wants an LLM for its prompt lengths; this one is never called.
        super().__init__(llm=llm or MockLLM(), callback_manager=callback_manager, streaming=streaming)
        self._retriever = retriever
        self._arguments = {"llm": None if llm is None else to_chat_model(llm), "max_tokens": max_tokens}

    @property
    def _request(self) -> dict[str, Any]:
        return {**self._retriever.request, **self._arguments}

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are none."""

    @dispatcher.span
    def get_response(
        self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any
    ) -> RESPONSE_TEXT_TYPE:
        """The core's answer to the question."""
        core = self._retriever.core
        if self._streaming:
            return _generator(core.stream(query_str, **self._request))
        return core.answer(query_str, **self._request).text

    @dispatcher.span
    async def aget_response(
        self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any
    ) -> RESPONSE_TEXT_TYPE:
        """The async twin of `get_response`."""
        core = self._retriever.core
        if self._streaming:
            return _async_generator(core.astream(query_str, **self._request))
        return (await core.aanswer(query_str, **self._request)).text

    def _get_metadata_for_response(self, nodes: list[BaseNode]) -> dict[str, Any]:
        known = super()._get_metadata_for_response(nodes) or {}
        extractive = self._arguments["llm"] is None and not self._retriever.core.has_llm
        return {**known, "stratarag": {"extractive": extractive}}


def _generator(pieces: Iterator[str]) -> Generator[str, None, None]:
    yield from pieces


async def _async_generator(pieces: AsyncIterator[str]) -> AsyncGenerator[str, None]:
    async for piece in pieces:
        yield piece
