"""LlamaIndex's models as the core's, and the global `Settings` without their defaults."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.llms import LLM, CustomLLM, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.utils import resolve_llm
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.prompts import BasePromptTemplate, ChatPromptTemplate, PromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import BaseModel, ValidationError

from stratagraph._sync import PerLoop, either, run_here
from stratagraph.errors import ParseFailed, RerankerError
from stratagraph.models.identity import sampling_settings, server_address
from stratagraph.models.messages import (
    Completion,
    Messages,
    from_openai,
    response_format,
    sent_schema,
)

M = TypeVar("M", bound=BaseModel)

_UNNAMED = ("", "unknown")
_UNREADABLE = (ValueError, TypeError, AttributeError)  # what structured predictions raise for a bad answer


def settings_llm() -> LLM | None:
    """The LLM of `Settings`, or None if none was set there.

    The public property would make an OpenAI client and ask for its key. `Settings.llm = None` leaves a
    `MockLLM`, which counts as none.
    """
    llm = Settings._llm
    if llm is None or (type(llm) is MockLLM and llm.max_tokens is None):
        return None
    return Settings.llm


def settings_embed_model() -> BaseEmbedding | None:
    """The embedding model of `Settings`, or None if none was set there; see `settings_llm`."""
    embed_model = Settings._embed_model
    if embed_model is None or (type(embed_model) is MockEmbedding and embed_model.embed_dim == 1):
        return None
    return Settings.embed_model


def to_chat_model(llm: Any) -> Any:
    """A model for the core. None uses the one of `Settings`, False none."""
    if llm is None:
        llm = settings_llm()
    if llm is None or llm is False:
        return None
    if isinstance(llm, str):
        llm = resolve_llm(llm)
    if not isinstance(llm, LLM):
        return llm  # the core refuses what is no model
    return BlockingChatModel(llm) if _blocks(llm) else AsyncChatModel(llm)


def to_embedder(embed_model: Any) -> Any:
    """An embedder for the core. None uses the one of `Settings`, False the core's default."""
    if embed_model is None:
        embed_model = settings_embed_model()
    if embed_model is None or embed_model is False:
        return None
    if isinstance(embed_model, str):
        embed_model = resolve_embed_model(embed_model)
    if not isinstance(embed_model, BaseEmbedding):
        return embed_model
    return AsyncEmbedder(embed_model) if _embeds_async(embed_model) else BlockingEmbedder(embed_model)


def to_reranker(reranker: Any) -> Any:
    """A node postprocessor for the core; other values unchanged."""
    return Postprocessor(reranker) if isinstance(reranker, BaseNodePostprocessor) else reranker


class Postprocessor:
    """A node postprocessor of LlamaIndex, which chooses texts."""

    def __init__(self, postprocessor: BaseNodePostprocessor) -> None:
        self._postprocessor = postprocessor

    def choose(self, question: str, texts: list[str], k: int) -> list[int]:
        """The places of the nodes that the postprocessor returns."""
        found = self._postprocessor.postprocess_nodes(_nodes(texts), query_str=question)
        return self._places(found, len(texts))

    async def achoose(self, question: str, texts: list[str], k: int) -> list[int]:
        """Async version of `choose`."""
        found = await self._postprocessor.apostprocess_nodes(_nodes(texts), query_str=question)
        return self._places(found, len(texts))

    def _places(self, nodes: Sequence[NodeWithScore], count: int) -> list[int]:
        places = {str(place): place for place in range(count)}
        for each in nodes:
            if each.node.node_id not in places:
                raise RerankerError(
                    f"{type(self._postprocessor).__name__} returned a node that it was not given: "
                    f"{each.node.node_id!r}"
                )
        return [places[each.node.node_id] for each in nodes]


def _nodes(texts: Sequence[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(texts)]


class BlockingChatModel:
    """An LLM of LlamaIndex as `stratagraph.types.protocols.ChatModel`; the core runs it in threads.

    With a `schema`, OpenAI's models and Ollama are asked in their own format, and the raw text is returned.
    Other function-calling models must call one tool of that schema, whose arguments are the answer. A class
    with a structured prediction of its own is asked for that; other models answer in text. The LLM is a copy
    that does not retry by itself, at temperature 0 if none was set. Async clients belong to one event loop,
    so each loop gets a copy.
    """

    def __init__(self, llm: LLM) -> None:
        self._given = llm
        self._prepare(cold=True)
        model = getattr(llm, "model", None) or llm.metadata.model_name
        self.name = llm.class_name() if model in _UNNAMED else model
        self.address = server_address(llm)
        self.settings = _settings(self._llm)

    def __reduce__(self) -> tuple[type[BlockingChatModel], tuple[LLM]]:
        return type(self), (self._given,)

    def _prepare(self, *, cold: bool) -> None:
        self._llm = _prepared(self._given, cold=cold)
        self._in_loop = PerLoop(lambda: _prepared(self._given, cold=cold))

    @property
    def context_tokens(self) -> int | None:
        """The context window that Ollama is asked for; None if unknown."""
        window = getattr(self._llm, "context_window", None) if self._format == "format" else None
        return window if isinstance(window, int) and window > 0 else None

    @cached_property
    def _format(self) -> str | None:
        """The keyword by which the LLM takes a JSON schema, if it does."""
        if _is_a(self._llm, "llama_index.llms.ollama", "Ollama"):
            return "format"
        about = self._llm.metadata
        takes = about.is_function_calling_model or getattr(self._llm, "should_use_structured_outputs", False)
        openai = _is_a(self._llm, "llama_index.llms.openai", "OpenAI")
        return "response_format" if openai and about.is_chat_model and takes else None

    @cached_property
    def _tools(self) -> FunctionCallingLLM | None:
        """The LLM, if it gets a schema as a tool."""
        llm = self._llm if isinstance(self._llm, FunctionCallingLLM) and self._format is None else None
        return llm if llm is not None and llm.metadata.is_function_calling_model else None

    @cached_property
    def _predicts(self) -> bool:
        """Whether the LLM has only a structured prediction of its own."""
        other = self._format is not None or _is_a(self._llm, "llama_index.llms.openai", "OpenAI")
        return not other and self._tools is None and _overrides(self._llm, LLM, "structured_predict")

    @cached_property
    def _chats(self) -> bool:
        return self._format is not None or self._llm.metadata.is_chat_model

    def takes_schema(self, schema: type[BaseModel]) -> bool:
        """Whether the LLM is asked for a schema in a way of its own."""
        return self._format is not None or self._tools is not None or self._predicts

    def drop_temperature(self) -> bool:
        """Use the LLM's own temperature; False if it was in use."""
        before = _settings(self._llm)
        self._prepare(cold=False)
        return _settings(self._llm) != before

    def _keywords(self, schema: type[BaseModel] | None) -> dict[str, Any]:
        if schema is None or self._format is None:
            return {}
        return {self._format: response_format(schema) if self._format != "format" else sent_schema(schema)}

    def complete(self, prompt: str, *, schema: type[BaseModel] | None = None) -> Completion:
        """The model's answer; JSON text if `schema` was honoured."""
        return run_here(self._answer(self._llm, prompt, schema))

    async def _answer(self, llm: LLM, prompt: str, schema: type[BaseModel] | None) -> Completion:
        if schema is not None and self._tools is not None and isinstance(llm, FunctionCallingLLM):
            request = _tool_request(schema, prompt)
            answer = await either(llm.chat_with_tools, llm.achat_with_tools, **request)
            return _completion(answer, _arguments(llm, answer))
        if schema is not None and self._predicts:
            try:
                template, values = _template(prompt, chat=llm.metadata.is_chat_model)
                predict, apredict = llm.structured_predict, llm.astructured_predict
                value = await either(predict, apredict, schema, template, **values)
            except _UNREADABLE as error:
                return _unread(error, schema)
            return Completion(value.model_dump_json())
        if self._chats:
            template, values = _template(prompt, chat=True)
            messages = list(llm._get_messages(template, **values))  # with the LLM's system prompt
            chat = await either(llm.chat, llm.achat, messages, **self._keywords(schema))
            return _completion(chat, llm._parse_output(chat.message.content or ""))
        template, values = _template(prompt, chat=False)
        text = llm._get_prompt(template, **values)  # with the LLM's own additions
        completed = await either(llm.complete, llm.acomplete, text, formatted=True)
        return _completion(completed, llm._parse_output(completed.text))

    def stream(self, prompt: str) -> Iterator[str]:
        """Yield the answer in pieces."""
        llm = self._llm
        template, values = _template(prompt, chat=self._chats)
        if self._chats:
            yield from map(_piece, llm.stream_chat(list(llm._get_messages(template, **values))))
        else:
            text = llm._get_prompt(template, **values)
            yield from map(_piece, llm.stream_complete(text, formatted=True))


class AsyncChatModel(BlockingChatModel):
    """An LLM whose async methods do not block the event loop."""

    async def acomplete(self, prompt: str, *, schema: type[BaseModel] | None = None) -> Completion:
        """Async version of `complete`."""
        return await self._answer(self._in_loop.get(), prompt, schema)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """Async version of `stream`."""
        llm = self._in_loop.get()
        template, values = _template(prompt, chat=self._chats)
        if self._chats:
            async for reply in await llm.astream_chat(list(llm._get_messages(template, **values))):
                yield _piece(reply)
        else:
            text = llm._get_prompt(template, **values)
            async for completed in await llm.astream_complete(text, formatted=True):
                yield _piece(completed)


def _prepared(model: M, *, cold: bool = True) -> M:
    """A copy that does not retry by itself; `cold` sets temperature 0 if none is set.

    Its clients are made at the first use, in the event loop of that use.
    """
    fields = type(model).model_fields
    updates: dict[str, Any] = {}
    if "max_retries" in fields:
        updates["max_retries"] = 0
    if cold and "temperature" in fields and model.temperature is None:  # type: ignore[attr-defined]
        updates["temperature"] = 0.0
    if not updates and not hasattr(model, "_async_client"):
        return model
    copy = model.model_copy(update=updates)
    for name in ("_client", "_aclient"):
        client: Any = getattr(copy, name, None)
        if hasattr(client, "with_options"):
            setattr(copy, name, client.with_options(max_retries=0))
    if getattr(copy, "_async_http_client", copy) is None:
        # OpenAI's own would try to close itself in another loop than its own, which fails and is logged.
        copy._async_http_client = import_module("openai").DefaultAsyncHttpxClient()  # type: ignore[attr-defined]
    return copy


def _settings(llm: LLM) -> dict[str, Any]:
    """The settings on which the answers of an LLM depend."""
    return sampling_settings(llm, getattr(llm, "additional_kwargs", None) or {})


def _is_a(llm: LLM, module: str, name: str) -> bool:
    """Whether an LLM is of a class that may not be installed."""
    return any(base.__name__ == name and base.__module__.startswith(module) for base in type(llm).__mro__)


def _completion(response: ChatResponse | CompletionResponse, text: str) -> Completion:
    """The LLM's text, usage and finish reason."""
    raw = response.raw
    completion = from_openai(raw)
    if completion is not None and completion.finish_reason:
        return Completion.of(text or completion, getattr(raw, "usage", None), completion.finish_reason)
    about = raw if isinstance(raw, Mapping) else {}
    usage = about if "eval_count" in about else response.additional_kwargs
    return Completion.of(text, usage, about.get("done_reason") or about.get("stop_reason"))


def _piece(response: ChatResponse | CompletionResponse) -> str:
    """A piece of a stream; a `Completion` if the service tells why the stream ends."""
    raw, piece = response.raw, _completion(response, response.delta or "")
    tells = from_openai(raw) is not None or (isinstance(raw, Mapping) and "done" in raw)
    return piece if tells or piece.finish else str(piece)


def _blocks(llm: LLM) -> bool:
    """Whether an LLM's async methods are those of `CustomLLM`, which call the sync ones."""
    return isinstance(llm, CustomLLM) and not (
        _overrides(llm, CustomLLM, "achat") or _overrides(llm, CustomLLM, "acomplete")
    )


def _template(prompt: str, *, chat: bool) -> tuple[BasePromptTemplate, dict[str, str]]:
    """A new template of messages or of text, since LlamaIndex sets an output parser on it, and its values."""
    if not chat:
        return PromptTemplate("{text}"), {"text": str(prompt)}
    texts = dict(Messages.of(prompt).by_role)
    messages = [ChatMessage(role=MessageRole(role), content=f"{{{role}}}") for role in texts]
    return ChatPromptTemplate(messages), texts


def _tool_request(schema: type[BaseModel], prompt: str) -> dict[str, Any]:
    """Arguments of a call whose answer is the arguments of one tool."""
    tool = get_function_tool(schema)
    tool.metadata.description = "Give the answer."  # in place of the docstring, which is not sent
    messages = Messages.of(prompt)
    rules = [ChatMessage(role=MessageRole.SYSTEM, content=messages.system)] if messages.system else []
    return {"tools": [tool], "user_msg": messages.user, "chat_history": rules, "tool_required": True}


def _arguments(llm: FunctionCallingLLM, answer: ChatResponse) -> str:
    calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
    return json.dumps(calls[0].tool_kwargs, ensure_ascii=False) if calls else answer.message.content or ""


def _unread(error: Exception, schema: type[BaseModel]) -> Completion:
    """The answer that a structured prediction could not read, for the core to repair.

    Raises `ParseFailed` if the error does not hold the answer; the core asks again.
    """
    faults = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    for fault in faults:
        if not fault["loc"] or (fault["type"] == "missing" and len(fault["loc"]) == 1):
            whole = fault["input"]
            text = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False, default=str)
            return Completion(text)
    reasons = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults] or [str(error)]
    raise ParseFailed(f"it does not fit {schema.__name__}: {'; '.join(reasons[:5])}") from error


def _overrides(instance: object, base: type, name: str) -> bool:
    """Whether a subclass defines the method; LlamaIndex wraps methods, so the class is compared."""
    return _home(type(instance), name) is not _home(base, name)


def _home(kind: type, name: str) -> type:
    return next(each for each in kind.__mro__ if name in vars(each))


class BlockingEmbedder:
    """An embedding model of LlamaIndex as an `Embedder` of the core, which runs it in threads.

    Name and dimension are under the attributes of other frameworks, so that a folder recognises the same
    model.
    """

    def __init__(self, embedding: BaseEmbedding) -> None:
        self._given = embedding
        self._embedding = _prepared(embedding)
        self._in_loop = PerLoop(lambda: _prepared(embedding))
        if embedding.model_name in _UNNAMED:
            self.name = type(embedding).__qualname__
        else:
            self.model_name = embedding.model_name
            self.dimensions = getattr(embedding, "dimensions", None)

    def __reduce__(self) -> tuple[type[BlockingEmbedder], tuple[BaseEmbedding]]:
        return type(self), (self._given,)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of texts."""
        return self._embedding.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Vector of a question, with the model's query instruction."""
        return self._embedding.get_query_embedding(text)


class AsyncEmbedder(BlockingEmbedder):
    """An embedding model with async methods of its own."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Async version of `embed_documents`."""
        vectors: list[list[float]] = []
        embedding = self._in_loop.get()
        size = embedding.embed_batch_size  # of more texts LlamaIndex sends several requests at once
        for start in range(0, len(texts), size):
            vectors += await embedding.aget_text_embedding_batch(texts[start : start + size])
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Async version of `embed_query`."""
        return await self._in_loop.get().aget_query_embedding(text)


def _embeds_async(embedding: BaseEmbedding) -> bool:
    """Whether the async methods neither block the loop nor lose the batches of the sync ones."""
    if _overrides(embedding, BaseEmbedding, "_aget_text_embeddings"):
        return True
    singly = _overrides(embedding, BaseEmbedding, "_aget_text_embedding")
    return singly and not _overrides(embedding, BaseEmbedding, "_get_text_embeddings")
