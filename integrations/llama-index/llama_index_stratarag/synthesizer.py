"""Answers where LlamaIndex has no LLM to write them: those of the core."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

import llama_index.core.instrumentation as instrument
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.llms import MockLLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import BaseNode
from llama_index.core.types import RESPONSE_TEXT_TYPE

from llama_index_stratarag.retriever import StrataRetriever

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class CoreSynthesizer(BaseSynthesizer):
    """Gives the answer of `stratarag.Index.answer`, for the retriever's own settings.

    Without a chat model that is an extractive answer: the best supported sentences of the index, word for
    word, each with the number of its source. `response.metadata["stratarag"]` says so: `extractive`.

    Parameters
    ----------
    retriever
        Whose index and settings (`similarity_top_k`, `view`, filters) the answer rests on. Node
        postprocessors act on `source_nodes`, not on the answer.
    streaming
        Hand the answer out as a stream (of one piece).
    """

    def __init__(
        self,
        retriever: StrataRetriever,
        *,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        # The base class wants an LLM for its prompt lengths; this one is never called.
        super().__init__(llm=MockLLM(), callback_manager=callback_manager, streaming=streaming)
        self._retriever = retriever

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are none."""

    @dispatcher.span
    def get_response(
        self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any
    ) -> RESPONSE_TEXT_TYPE:
        """The core's answer to the question."""
        text = self._retriever.core.answer(query_str, **self._retriever.request).text
        return _stream(text) if self._streaming else text

    @dispatcher.span
    async def aget_response(
        self, query_str: str, text_chunks: Sequence[str], **response_kwargs: Any
    ) -> RESPONSE_TEXT_TYPE:
        """The async twin of `get_response`."""
        text = (await self._retriever.core.aanswer(query_str, **self._retriever.request)).text
        return _astream(text) if self._streaming else text

    def _get_metadata_for_response(self, nodes: list[BaseNode]) -> dict[str, Any]:
        known = super()._get_metadata_for_response(nodes) or {}
        return {**known, "stratarag": {"extractive": not self._retriever.core.has_llm}}


def _stream(text: str) -> Generator[str, None, None]:
    yield text


async def _astream(text: str) -> AsyncGenerator[str, None]:
    yield text
