"""Answers in a method's own way, or without a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from typing import Any, Literal

import llama_index.core.instrumentation as instrument
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.types import RESPONSE_TEXT_TYPE

from llama_index_stratagraph._convert import to_retrieval
from llama_index_stratagraph._models import to_chat_model
from llama_index_stratagraph.retriever import StrataRetriever
from stratagraph import Hit, Retrieval
from stratagraph.types.question import Length
from stratagraph.types.results import NOTHING_FOUND

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class CoreSynthesizer(BaseSynthesizer):
    """Synthesizes the answer of `stratagraph.Index.answer` from nodes, without a new search.

    It uses the nodes as postprocessors left them; `[2]` in the answer cites `response.source_nodes[1]`. With
    an LLM it uses the method's prompts: adaptive filtering for ArchRAG, a context in three parts for HiRAG.
    Without one the answer consists of excerpts of the nodes, and
    `response.metadata["stratagraph"]["extractive"]` is true.

    Parameters
    ----------
    retriever
        Retriever whose index, method and search options are used.
    llm
        LLM that writes the answer. None uses the index's; with False excerpts are returned.
    max_tokens
        Maximum number of tokens of the nodes in the last prompt.
    length
        `"brief"` or `"full"`. None uses the method's default.
    streaming
        Return the answer as a stream.
    """

    def __init__(
        self,
        retriever: StrataRetriever,
        *,
        llm: LLM | Literal[False] | None = None,
        max_tokens: int = 4000,
        length: Length | None = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        # The base class needs an LLM for prompt lengths; this one is never called.
        super().__init__(
            llm=llm or MockLLM(),
            callback_manager=callback_manager,
            streaming=streaming,
            empty_response=NOTHING_FOUND,
        )
        self._retriever = retriever
        self._arguments = {
            "llm": to_chat_model(llm) if llm else llm,
            "max_tokens": max_tokens,
            "length": length,
            **retriever.options,
        }

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """There are no prompts to update."""

    def synthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TYPE:
        """Answer a question from nodes."""
        return super().synthesize(
            query, nodes, additional_source_nodes, retrieval=self._retrieval(query, nodes), **response_kwargs
        )

    async def asynthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TYPE:
        """Async version of `synthesize`."""
        return await super().asynthesize(
            query, nodes, additional_source_nodes, retrieval=self._retrieval(query, nodes), **response_kwargs
        )

    @dispatcher.span
    def get_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        retrieval: Retrieval | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """Answer a question from a retrieval, or from plain texts if there is none."""
        core, given = self._retriever.core, retrieval or self._of_texts(query_str, text_chunks)
        if self._streaming:
            return _generator(core.stream(given, **self._arguments))
        return core.answer(given, **self._arguments).text

    @dispatcher.span
    async def aget_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        retrieval: Retrieval | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """Async version of `get_response`."""
        core, given = self._retriever.core, retrieval or self._of_texts(query_str, text_chunks)
        if self._streaming:
            return _async_generator(core.astream(given, **self._arguments))
        return (await core.aanswer(given, **self._arguments)).text

    def _retrieval(self, query: QueryType, nodes: Sequence[NodeWithScore]) -> Retrieval:
        question = query.query_str if isinstance(query, QueryBundle) else query
        return to_retrieval(question, self._retriever.method, nodes)

    def _of_texts(self, question: str, texts: Sequence[str]) -> Retrieval:
        hits = (Hit(f"text-{place}", "chunk", 0, text, 1.0, (), ()) for place, text in enumerate(texts, 1))
        return Retrieval(question, self._retriever.method, tuple(hits))

    def _get_metadata_for_response(self, nodes: list[BaseNode]) -> dict[str, Any]:
        metadata = super()._get_metadata_for_response(nodes) or {}
        llm = self._arguments["llm"]
        extractive = llm is False or (llm is None and not self._retriever.core.has_llm)
        return {**metadata, "stratagraph": {"extractive": extractive}}


def _generator(pieces: Iterator[str]) -> Generator[str, None, None]:
    yield from pieces


async def _async_generator(pieces: AsyncIterator[str]) -> AsyncGenerator[str, None]:
    async for piece in pieces:
        yield piece
