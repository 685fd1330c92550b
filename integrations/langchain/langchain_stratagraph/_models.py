"""LangChain's models as the core's: chat models wrapped, embeddings without their own retries."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, get_args

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.load import dumps
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel

from stratagraph._sync import PerLoop
from stratagraph.errors import RerankerError
from stratagraph.models.identity import sampling_settings, server_address
from stratagraph.models.messages import Completion, Messages, sent_schema

_PLACE = "stratagraph_place"
_callbacks: ContextVar[Callbacks] = ContextVar("stratagraph_callbacks", default=None)
_NAME_ATTRIBUTES = ("model_name", "model", "model_id", "repo_id", "deployment_name")
_FIXED_TEMPERATURE = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9])")  # models that refuse any temperature but theirs
_OLLAMA_CONTEXT = 4096  # of a server that is not told otherwise


_TELLING = ("langchain_openai", "langchain_ollama")
"""Packages whose models tell why each answer ended: a stream that does not is broken off."""


def set_callbacks(callbacks: Callbacks) -> None:
    """Give these callbacks to the model calls of the rest of a block of `use_callbacks`."""
    _callbacks.set(callbacks)


@contextmanager
def use_callbacks(callbacks: Callbacks) -> Iterator[None]:
    """Give these callbacks to every model call in the block, in the core's threads too."""
    token = _callbacks.set(callbacks)
    try:
        yield
    finally:
        _callbacks.reset(token)


def to_chat_model(llm: Any) -> Any:
    """A LangChain model wrapped for the core; other values that the core accepts unchanged.

    Raises `TypeError` for a runnable around no language model.
    """
    if any(isinstance(each, BaseLanguageModel) or hasattr(each, "_default_config") for each in _parts(llm)):
        return LangChainChatModel(llm)
    if llm is None or isinstance(llm, dict | str) or hasattr(llm, "complete") or hasattr(llm, "acomplete"):
        return llm
    raise TypeError(
        "llm must be a language model of LangChain, a runnable around one, or have `complete`, not "
        f"{type(llm).__name__}: {llm!r}"
    )


def _parts(runnable: Any) -> Iterator[Runnable[Any, Any]]:
    """A runnable and those that it is bound around: of bindings, retries, fallbacks, fields and chains."""
    if isinstance(runnable, Runnable):
        yield runnable
        inner = [getattr(runnable, name, None) for name in ("bound", "runnable", "default")]
        for each in [*inner, *getattr(runnable, "steps", ())]:
            yield from _parts(each)


def to_reranker(reranker: Any) -> Any:
    """A cross encoder, document compressor or decision model for the core; other values unchanged."""
    if isinstance(reranker, BaseCrossEncoder):
        return CrossEncoder(reranker)
    if isinstance(reranker, BaseDocumentCompressor):
        return Compressor(reranker)
    decisions = sys.modules.get("langchain_core.decisions")  # there since langchain-core 1.8
    if decisions and any(isinstance(each, decisions.BaseDecisionModel) for each in _parts(reranker)):
        return DecisionReranker(reranker)
    return reranker


class CrossEncoder:
    """A cross encoder of LangChain, which scores texts."""

    def __init__(self, model: BaseCrossEncoder) -> None:
        self._model = model

    def rerank(self, question: str, texts: list[str]) -> Sequence[float]:
        """One score per text."""
        return self._model.score([(question, text) for text in texts])


class Compressor:
    """A document compressor of LangChain, which chooses texts.

    Compressors return copies, and may shorten the text: metadata tells which document each is.
    """

    def __init__(self, compressor: BaseDocumentCompressor) -> None:
        self._compressor = compressor

    def choose(self, question: str, texts: list[str], k: int) -> list[int]:
        """The places of the documents that the compressor returns."""
        documents = self._documents(texts)
        return self._places(self._compressor.compress_documents(documents, question, _callbacks.get()))

    async def achoose(self, question: str, texts: list[str], k: int) -> list[int]:
        """Async version of `choose`."""
        documents = self._documents(texts)
        return self._places(await self._compressor.acompress_documents(documents, question, _callbacks.get()))

    def _documents(self, texts: list[str]) -> list[Document]:
        return [
            Document(page_content=text, id=str(place), metadata={_PLACE: place})
            for place, text in enumerate(texts)
        ]

    def _places(self, documents: Sequence[Document]) -> list[int]:
        try:
            return [document.metadata[_PLACE] for document in documents]
        except (KeyError, TypeError, AttributeError) as error:
            raise RerankerError(
                f"{type(self._compressor).__name__} returned something else than the documents that it was "
                "given, with their metadata"
            ) from error


class DecisionReranker:
    """A decision model of LangChain, which chooses texts by one yes/no question about each."""

    def __init__(self, model: Runnable[Any, Any]) -> None:
        self._model = model

    def choose(self, question: str, texts: list[str], k: int) -> list[int]:
        """The places of the texts for which the answer is yes, the most probable first; perhaps none."""
        return self._places(self._model.invoke(_decisions(question, texts), _config()), texts)

    async def achoose(self, question: str, texts: list[str], k: int) -> list[int]:
        """Async version of `choose`."""
        return self._places(await self._model.ainvoke(_decisions(question, texts), _config()), texts)

    def _places(self, response: Any, texts: list[str]) -> list[int]:
        answers = response.nouls
        missing = [number for number in map(str, range(1, len(texts) + 1)) if number not in answers]
        if missing:
            raise RerankerError(
                f"{type(self._model).__name__} answered {len(texts) - len(missing)} of {len(texts)} "
                f"questions; passage {missing[0]} has no answer"
            )
        likely = [answers[str(place + 1)].noul for place in range(len(texts))]
        return sorted((at for at in range(len(texts)) if likely[at] > 0.5), key=lambda at: -likely[at])


def _decisions(question: str, texts: list[str]) -> dict[str, Any]:
    """A request to a decision model: the passages by number, and one question about each."""
    ask = import_module("langchain_core.decisions").Noul
    numbers = [str(number) for number in range(1, len(texts) + 1)]
    return {
        "state": {"question": question, "passages": dict(zip(numbers, texts, strict=True))},
        "questions": {
            number: ask(
                instructions=f"Does passage {number} state something that an answer to the question needs?"
            )
            for number in numbers
        },
    }


def to_embedder(embedding: Any) -> Any:
    """Embeddings of a service wrapped for the core; others unchanged."""
    serves = any(hasattr(embedding, name) for name in ("async_client", "_async_client"))
    return ServiceEmbedder(embedding) if isinstance(embedding, Embeddings) and serves else embedding


class ServiceEmbedder:
    """Embeddings of a service that do not retry by themselves.

    Async clients belong to one event loop, so each loop gets a copy.
    """

    def __init__(self, embedding: Any) -> None:
        self._given = embedding
        self._blocking = _prepared(embedding)
        self._in_loop: PerLoop[Any] = PerLoop(lambda: _prepared(embedding, fresh=True))

    def __reduce__(self) -> tuple[type[ServiceEmbedder], tuple[Any]]:
        return type(self), (self._given,)

    def __getattr__(self, name: str) -> Any:
        """Names and dimensions, by which an index identifies its embedder."""
        return getattr(self.__dict__["_given"], name)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of texts."""
        vectors: list[list[float]] = self._blocking.embed_documents(texts)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Vector of a question."""
        vector: list[float] = self._blocking.embed_query(text)
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Async version of `embed_documents`."""
        vectors: list[list[float]] = await self._in_loop.get().aembed_documents(texts)
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Async version of `embed_query`."""
        vector: list[float] = await self._in_loop.get().aembed_query(text)
        return vector


class _Prepared:
    """A copy of a model, and its structured outputs by schema."""

    def __init__(self, model: Any, *, cold: bool, fresh: bool = False) -> None:
        self.model = _prepared(model, cold=cold, fresh=fresh)
        self._structured: dict[type[Any], Runnable[Any, Any] | None] = {}

    def structured(self, schema: type[Any] | None) -> Runnable[Any, Any] | None:
        """The structured output for a schema; None if there is none."""
        if schema is None:
            return None
        if schema not in self._structured:
            try:  # as a dictionary; for a class, clients validate the answer themselves
                make = self.model.with_structured_output
                keywords = {"strict": True} if "strict" in inspect.signature(make).parameters else {}
                self._structured[schema] = make(sent_schema(schema), include_raw=True, **keywords)
            except (NotImplementedError, AttributeError, TypeError, ValueError, ImportError):
                self._structured[schema] = None
        return self._structured[schema]


class TwoMessages(PromptValue):
    """A prompt as messages for chat models, and as one text for others."""

    system: str
    user: str

    def to_string(self) -> str:
        """The prompt as one text."""
        return str(Messages(self.system, self.user))

    def to_messages(self) -> list[BaseMessage]:
        """The prompt as one or two messages."""
        kinds = {"system": SystemMessage, "user": HumanMessage}
        return [kinds[role](content=text) for role, text in Messages(self.system, self.user).by_role]


class LangChainChatModel:
    """A LangChain model, or a runnable from text to a message or text, as `protocols.ChatModel`.

    With a `schema` it asks the model's structured output for JSON schema and returns the raw text. The model
    is a copy that does not retry by itself, at temperature 0 if none was set. Async clients belong to one
    event loop, so each loop gets a copy.
    """

    def __init__(self, model: Runnable[Any, Any]) -> None:
        inner, _ = _unbound(model)
        self._given = model
        try:  # whether the runnable begins with a model, not with a step that expects text
            inputs = get_args(model.InputType)
        except TypeError:  # a runnable that does not say what it takes
            inputs = ()
        self._takes_messages = any(
            isinstance(each, type) and issubclass(each, PromptValue) for each in inputs
        )
        self.name = model_name(model)
        self.address = server_address(inner)
        self._tells = any(kind.__module__.startswith(_TELLING) for kind in type(inner).__mro__)
        self.context_tokens = (inner.num_ctx or _OLLAMA_CONTEXT) if hasattr(inner, "num_ctx") else None
        self._prepare(cold=True)
        self.settings = _settings(self._blocking.model)

    def __reduce__(self) -> tuple[type[LangChainChatModel], tuple[Runnable[Any, Any]]]:
        return type(self), (self._given,)

    def _prepare(self, *, cold: bool) -> None:
        self._blocking = _Prepared(self._given, cold=cold)
        self._in_loop = PerLoop(lambda: _Prepared(self._given, cold=cold, fresh=True))

    def takes_schema(self, schema: type[Any]) -> bool:
        """Whether the model has structured output."""
        return self._blocking.structured(schema) is not None

    def drop_temperature(self) -> bool:
        """Use the model's own temperature; False if it was in use."""
        before = _settings(self._blocking.model)
        self._prepare(cold=False)
        return _settings(self._blocking.model) != before

    def _input(self, prompt: str) -> PromptValue | str:
        messages = Messages.of(prompt)
        if not self._takes_messages:
            return str(prompt)
        return TwoMessages(system=messages.system, user=messages.user)

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text if `schema` was honoured."""
        model = self._blocking.structured(schema) or self._blocking.model
        return _completion(model.invoke(self._input(prompt), _config()))

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """Async version of `complete`."""
        own = self._in_loop.get()
        model = own.structured(schema) or own.model
        return _completion(await model.ainvoke(self._input(prompt), _config()))

    def stream(self, prompt: str) -> Iterator[str]:
        """Yield the answer in pieces."""
        for piece in self._blocking.model.stream(self._input(prompt), _config()):
            yield self._piece(piece)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """Async version of `stream`."""
        async for piece in self._in_loop.get().model.astream(self._input(prompt), _config()):
            yield self._piece(piece)

    def _piece(self, piece: Any) -> str:
        """A piece of a stream; a `Completion` if the model tells why the stream ends."""
        answer = _completion(piece)
        return answer if self._tells or answer.finish else str(answer)


def _prepared(model: Any, *, cold: bool = False, fresh: bool = False) -> Any:
    """A copy that does not retry by itself.

    `cold` sets temperature 0 if none is set; `fresh` makes async connections of its own.
    """
    inner = getattr(model, "bound", None)
    if isinstance(inner, Runnable):
        prepared = _prepared(inner, cold=cold, fresh=fresh)
        return model if prepared is inner else model.model_copy(update={"bound": prepared})
    if not isinstance(model, BaseLanguageModel | Embeddings) or not isinstance(model, BaseModel):
        return model
    updates = _without_retries(model, fresh=fresh)
    if cold and "temperature" in type(model).model_fields and "temperature" not in model.model_fields_set:
        unset = model.temperature is None  # type: ignore[attr-defined]
        if unset and not _FIXED_TEMPERATURE.search(model_name(model)):
            updates["temperature"] = 0.0
    renewed = fresh and hasattr(model, "_set_clients")  # as Ollama's: makes clients from the fields
    copy = model.model_copy(update=updates) if updates or renewed else model
    if renewed:
        copy._set_clients()  # type: ignore[attr-defined]
    return copy


def _without_retries(model: Any, *, fresh: bool) -> dict[str, Any]:
    """The fields of a model that hold OpenAI clients, with clients that do not retry."""
    updates: dict[str, Any] = {}
    for root, resource in (("root_client", "client"), ("root_async_client", "async_client")):
        resource_client: Any = getattr(model, resource, None)
        client: Any = getattr(model, root, None) or getattr(resource_client, "_client", None)
        if not hasattr(client, "with_options"):
            continue
        options: dict[str, Any] = {"max_retries": 0}
        if fresh and resource == "async_client" and getattr(model, "http_async_client", None) is None:
            options["http_client"] = import_module("openai").DefaultAsyncHttpxClient()
        own = client.with_options(**options)
        if hasattr(model, root):
            updates |= {root: own, resource: own.chat.completions}
        elif hasattr(own, "embeddings"):
            updates[resource] = own.embeddings
    return updates


def _config() -> RunnableConfig | None:
    callbacks = _callbacks.get()
    return None if callbacks is None else {"callbacks": callbacks}


def _text(answer: Any) -> str:
    return str(answer.text) if isinstance(answer, BaseMessage) else str(answer)


def _completion(result: Any) -> Completion:
    """The model's text, usage and finish reason."""
    if isinstance(result, dict) and "raw" in result:
        result = result["raw"]
    if not isinstance(result, BaseMessage):
        return Completion(_dump(result))
    calls = [*getattr(result, "tool_calls", ()), *getattr(result, "invalid_tool_calls", ())]
    text = _dump(calls[0]["args"]) if calls else _text(result)
    about = result.response_metadata
    usage = getattr(result, "usage_metadata", None) or about.get("token_usage")
    reason = next((about[key] for key in ("finish_reason", "done_reason", "stop_reason") if key in about), "")
    if not text and (refusal := result.additional_kwargs.get("refusal")):
        text, reason = refusal, "refusal"
    return Completion.of(text, usage, reason)


def _dump(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _unbound(model: Any) -> tuple[Any, dict[str, Any]]:
    """The model without its bindings, and the arguments these pass on."""
    bound: dict[str, Any] = {}
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        bound = {**getattr(model, "kwargs", {}), **bound}
        model = inner
    return model, bound


def _settings(model: Any) -> dict[str, Any]:
    """The settings on which the answers of a model depend; of a chain or of fallbacks, those of all steps."""
    inner, bound = _unbound(model)
    settings = sampling_settings(inner, getattr(inner, "_default_config", {}), bound)
    steps = getattr(inner, "steps", None) or [
        *filter(None, [getattr(inner, "runnable", None)]),
        *getattr(inner, "fallbacks", ()),
    ]
    return {**settings, "steps": [_step(each) for each in steps]} if steps else settings


def _step(step: Any) -> Any:
    """What one step of a chain is: a model with its server and settings, or how LangChain writes it down."""
    inner, _ = _unbound(step)
    if isinstance(inner, BaseLanguageModel) or hasattr(inner, "steps"):
        return {"model": model_name(step), "server": server_address(inner), **_settings(step)}
    return re.sub(r" at 0x[0-9a-f]+", "", dumps(step))


def model_name(model: Any) -> str:
    """The model's name, else its class; the same for all bindings of it."""
    inner, _ = _unbound(model)
    names = (getattr(inner, attribute, None) for attribute in _NAME_ATTRIBUTES)
    return next((name for name in names if isinstance(name, str) and name), type(inner).__name__)
