"""Answers in a method's own way, or without a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Literal

import llama_index.core.instrumentation as instrument
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.types import RESPONSE_TEXT_TYPE

from llama_index_stratagraph._convert import to_retrieval
from llama_index_stratagraph._models import to_chat_model
from llama_index_stratagraph.retriever import StrataRetriever
from stratagraph import Answer, AnswerStream, Hit, Retrieval
from stratagraph._sync import iterate
from stratagraph.types.question import Length
from stratagraph.types.results import NOTHING_FOUND

dispatcher = instrument.get_dispatcher(__name__)  # type: ignore[attr-defined]


class CoreSynthesizer(BaseSynthesizer):
    """Synthesizes the answer of `stratagraph.Index.answer` from nodes, without a new search.

    It uses the nodes as postprocessors left them; `[2]` in the answer cites `response.source_nodes[1]`. With
    an LLM it uses the method's prompts: adaptive filtering for ArchRAG, a context in three parts for HiRAG.
    Without one the answer consists of excerpts of the nodes, and
    `response.metadata["stratagraph"]["extractive"]` is true. `"finish"` beside it is that of
    `stratagraph.Answer`; of a stream, both are known after the last piece.

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
        about = self._about()
        given = {"retrieval": self._retrieval(query, nodes), "about": about, **response_kwargs}
        return _with_metadata(super().synthesize(query, nodes, additional_source_nodes, **given), about)

    async def asynthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TYPE:
        """Async version of `synthesize`."""
        about = self._about()
        given = {"retrieval": self._retrieval(query, nodes), "about": about, **response_kwargs}
        return _with_metadata(
            await super().asynthesize(query, nodes, additional_source_nodes, **given), about
        )

    @dispatcher.span
    def get_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        retrieval: Retrieval | None = None,
        about: dict[str, Any] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """Answer a question from a retrieval, or from plain texts if there is none."""
        core, given = self._retriever.core, retrieval or self._of_texts(query_str, text_chunks)
        if self._streaming:
            return _generator(core.astream(given, **self._arguments), about)
        return _text(core.answer(given, **self._arguments), about)

    @dispatcher.span
    async def aget_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        retrieval: Retrieval | None = None,
        about: dict[str, Any] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """Async version of `get_response`."""
        core, given = self._retriever.core, retrieval or self._of_texts(query_str, text_chunks)
        if self._streaming:
            return _async_generator(core.astream(given, **self._arguments), about)
        return _text(await core.aanswer(given, **self._arguments), about)

    def _retrieval(self, query: QueryType, nodes: Sequence[NodeWithScore]) -> Retrieval:
        question = query.query_str if isinstance(query, QueryBundle) else query
        return to_retrieval(question, self._retriever.method, nodes)

    def _of_texts(self, question: str, texts: Sequence[str]) -> Retrieval:
        hits = (Hit(f"text-{place}", "chunk", 0, text, 1.0, (), ()) for place, text in enumerate(texts, 1))
        return Retrieval(question, self._retriever.method, tuple(hits))

    def _about(self) -> dict[str, Any]:
        """What is known of an answer before it is written."""
        llm = self._arguments["llm"]
        extractive = llm is False or (llm is None and not self._retriever.core.has_llm)
        return {"extractive": extractive, "finish": None}


def _with_metadata(response: RESPONSE_TYPE, about: dict[str, Any]) -> RESPONSE_TYPE:
    response.metadata = {**(response.metadata or {}), "stratagraph": about}
    return response


def _text(answer: Answer, about: dict[str, Any] | None) -> str:
    """The answer's text; puts how it ended into `about`."""
    if about is not None:
        about.update(extractive=answer.extractive, finish=answer.finish)
    return answer.text


def _generator(stream: AnswerStream, about: dict[str, Any] | None) -> Generator[str, None, None]:
    yield from iterate(stream)
    if stream.answer is not None:
        _text(stream.answer, about)


async def _async_generator(stream: AnswerStream, about: dict[str, Any] | None) -> AsyncGenerator[str, None]:
    async for piece in stream:
        yield piece
    if stream.answer is not None:
        _text(stream.answer, about)
