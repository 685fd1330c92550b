"""LlamaIndex's models as the core's, and the global `Settings` read without waking their defaults."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.llms import LLM, CustomLLM, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.utils import resolve_llm
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel, ValidationError

from stratarag.errors import ParseFailed

_UNNAMED = ("", "unknown")
_UNREADABLE = (ValueError, TypeError, AttributeError)  # what structured predictions raise for a bad answer


def settings_llm() -> LLM | None:
    """The LLM of `Settings`, or None if none was set there or it was switched off.

    The public property would make an OpenAI client where nothing is set, and ask for its key.
    `Settings.llm = None` leaves a `MockLLM` that repeats its prompt, which is no model to build with.
    """
    held = Settings._llm
    if held is None or (type(held) is MockLLM and held.max_tokens is None):
        return None
    return Settings.llm


def settings_embed_model() -> BaseEmbedding | None:
    """The embedding of `Settings`, or None, as `settings_llm`; switched off, it is a mock of dimension 1."""
    held = Settings._embed_model
    if held is None or (type(held) is MockEmbedding and held.embed_dim == 1):
        return None
    return Settings.embed_model


def to_chat_model(llm: Any) -> Any:
    """What the core takes as a chat model. None means the one of `Settings`, False means none."""
    if llm is None:
        llm = settings_llm()
    if llm is None or llm is False:
        return None
    if not isinstance(llm, LLM):
        if hasattr(llm, "complete") or hasattr(llm, "acomplete"):
            return llm
        llm = resolve_llm(llm)
    return BlockingChatModel(llm) if _blocks(llm) else AsyncChatModel(llm)


def to_embedder(embed_model: Any) -> Any:
    """What the core takes as an embedder. None means the one of `Settings`, False the core's default."""
    if embed_model is None:
        embed_model = settings_embed_model()
    if embed_model is None or embed_model is False:
        return None
    if isinstance(embed_model, str):
        embed_model = resolve_embed_model(embed_model)
    if not isinstance(embed_model, BaseEmbedding):
        return embed_model
    return AsyncEmbedder(embed_model) if _embeds_async(embed_model) else BlockingEmbedder(embed_model)


class BlockingChatModel:
    """An LLM of LlamaIndex behind `stratarag.protocols.ChatModel`, for which the core provides threads.

    With a `schema`, a function-calling model is made to call one tool of that schema, and the arguments
    are the answer, whether they fit or not: the core repairs. A model class with a structured prediction
    of its own is asked for that. Other models answer in text.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        given = llm.metadata.model_name
        self.name = llm.class_name() if given in _UNNAMED else given
        self._tools = llm if isinstance(llm, FunctionCallingLLM) and _calls_functions(llm) else None
        self._predicts = self._tools is None and _overrides(llm, LLM, "structured_predict")

    def complete(self, prompt: str, *, schema: type[BaseModel] | None = None) -> str:
        """The model's answer; JSON text where `schema` was honoured."""
        if schema is not None and self._tools is not None:
            answer = self._tools.chat_with_tools([get_function_tool(schema)], prompt, tool_required=True)
            return _arguments(self._tools, answer)
        if schema is not None and self._predicts:
            try:
                found = self._llm.structured_predict(schema, _template(), text=prompt)
            except _UNREADABLE as error:
                return _unread(error, schema)
            return str(found.model_dump_json())
        return self._llm.predict(_template(), text=prompt)

    def stream(self, prompt: str) -> Iterator[str]:
        """The answer in pieces."""
        yield from self._llm.stream(_template(), text=prompt)


class AsyncChatModel(BlockingChatModel):
    """The same for an LLM whose asynchronous methods do not stop the event loop."""

    async def acomplete(self, prompt: str, *, schema: type[BaseModel] | None = None) -> str:
        """The async twin of `complete`."""
        if schema is not None and self._tools is not None:
            tools = [get_function_tool(schema)]
            return _arguments(
                self._tools, await self._tools.achat_with_tools(tools, prompt, tool_required=True)
            )
        if schema is not None and self._predicts:
            try:
                found = await self._llm.astructured_predict(schema, _template(), text=prompt)
            except _UNREADABLE as error:
                return _unread(error, schema)
            return str(found.model_dump_json())
        return await self._llm.apredict(_template(), text=prompt)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The async twin of `stream`."""
        async for piece in await self._llm.astream(_template(), text=prompt):
            yield piece


def _blocks(llm: LLM) -> bool:
    """Whether an LLM's asynchronous methods are those of `CustomLLM`, which call the synchronous ones."""
    return isinstance(llm, CustomLLM) and not (
        _overrides(llm, CustomLLM, "achat") or _overrides(llm, CustomLLM, "acomplete")
    )


def _calls_functions(llm: FunctionCallingLLM) -> bool:
    return llm.metadata.is_function_calling_model


def _template() -> PromptTemplate:
    """A new one each time: LlamaIndex sets an output parser on the template that it is given."""
    return PromptTemplate("{text}")


def _arguments(llm: FunctionCallingLLM, answer: ChatResponse) -> str:
    calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
    return json.dumps(calls[0].tool_kwargs, ensure_ascii=False) if calls else answer.message.content or ""


def _unread(error: Exception, schema: type[BaseModel]) -> str:
    """The answer that a structured prediction could not read, for the core to repair.

    Raises
    ------
    ParseFailed
        Where the error does not hold the answer; the core asks again.
    """
    faults = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    for fault in faults:
        if not fault["loc"] or (fault["type"] == "missing" and len(fault["loc"]) == 1):
            whole = fault["input"]
            return whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False, default=str)
    reasons = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults] or [str(error)]
    raise ParseFailed(f"it does not fit {schema.__name__}: {'; '.join(reasons[:5])}") from error


def _overrides(instance: object, base: type, name: str) -> bool:
    """Whether a subclass has its own method. Where it stands tells; LlamaIndex wraps what one can get."""
    return _home(type(instance), name) is not _home(base, name)


def _home(kind: type, name: str) -> type:
    return next(each for each in kind.__mro__ if name in vars(each))


class BlockingEmbedder:
    """An embedding of LlamaIndex behind `stratarag.protocols.Embedder`; the core provides threads.

    It shows the name of its model, and the length of vector that it asks of it, where embeddings of other
    frameworks have them too, so that a folder knows the same model again.
    """

    def __init__(self, embedding: BaseEmbedding) -> None:
        self._embedding = embedding
        if embedding.model_name in _UNNAMED:
            self.name = type(embedding).__qualname__
        else:
            self.model_name = embedding.model_name
            self.dimensions = getattr(embedding, "dimensions", None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return self._embedding.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question, with the instruction that the model may want before it."""
        return self._embedding.get_query_embedding(text)


class AsyncEmbedder(BlockingEmbedder):
    """The same for an embedding that has asynchronous methods of its own."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """The async twin of `embed_documents`."""
        return await self._embedding.aget_text_embedding_batch(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """The async twin of `embed_query`."""
        return await self._embedding.aget_query_embedding(text)


def _embeds_async(embedding: BaseEmbedding) -> bool:
    """Whether the asynchronous methods neither block the loop nor lose the synchronous side's batches."""
    if _overrides(embedding, BaseEmbedding, "_aget_text_embeddings"):
        return True
    singly = _overrides(embedding, BaseEmbedding, "_aget_text_embedding")
    return singly and not _overrides(embedding, BaseEmbedding, "_get_text_embeddings")
