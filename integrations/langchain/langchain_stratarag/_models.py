"""LangChain's language models as the core's chat model. Its `Embeddings` fit the core as they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel

_callbacks: ContextVar[Callbacks] = ContextVar("stratarag_callbacks", default=None)
_NAME_ATTRIBUTES = ("model_name", "model", "model_id", "repo_id", "deployment_name")


@contextmanager
def use_callbacks(callbacks: Callbacks) -> Iterator[None]:
    """Hand these callbacks to every model call made inside; they travel into the core's own threads."""
    token = _callbacks.set(callbacks)
    try:
        yield
    finally:
        _callbacks.reset(token)


def to_chat_model(llm: Any) -> Any:
    """What the core takes as a chat model: a LangChain model wrapped, None and the core's own as they are."""
    if isinstance(llm, Runnable):
        return LangChainChatModel(llm)
    if llm is None or hasattr(llm, "complete") or hasattr(llm, "acomplete"):
        return llm
    raise TypeError(f"llm must be a LangChain model or have `complete`, not {type(llm).__name__}: {llm!r}")


class LangChainChatModel:
    """A LangChain model, or any runnable from text to a message or text, behind `stratarag.protocols`.

    With a `schema`, the model's own structured output is used. A model that has none, says so with an
    error when asked, or refuses the request for it, is asked for text from then on.
    """

    def __init__(self, model: Runnable[Any, Any]) -> None:
        self._model = model
        self._structured: dict[type[Any], Runnable[Any, Any] | None] = {}
        self.name = model_name(model)

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """The model's answer; JSON text where `schema` was honoured."""
        structured = self._structured_model(schema)
        if schema is not None and structured is not None:
            try:
                return _json_text(structured.invoke(prompt, _config()))
            except Exception as error:
                if not _refused(error):
                    raise
        text = _text(self._model.invoke(prompt, _config()))
        self._remember_refusal(schema)
        return text

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """The async twin of `complete`."""
        structured = self._structured_model(schema)
        if schema is not None and structured is not None:
            try:
                return _json_text(await structured.ainvoke(prompt, _config()))
            except Exception as error:
                if not _refused(error):
                    raise
        text = _text(await self._model.ainvoke(prompt, _config()))
        self._remember_refusal(schema)
        return text

    def stream(self, prompt: str) -> Iterator[str]:
        """The answer in pieces."""
        for piece in self._model.stream(prompt, _config()):
            yield _text(piece)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The async twin of `stream`."""
        async for piece in self._model.astream(prompt, _config()):
            yield _text(piece)

    def _structured_model(self, schema: type[Any] | None) -> Runnable[Any, Any] | None:
        if schema is None:
            return None
        if schema not in self._structured:
            try:
                self._structured[schema] = self._model.with_structured_output(  # type: ignore[attr-defined]
                    schema, include_raw=True
                )
            except (NotImplementedError, AttributeError, TypeError, ValueError, ImportError):
                self._structured[schema] = None
        return self._structured[schema]

    def _remember_refusal(self, schema: type[Any] | None) -> None:
        """The model answered without the schema: it was the schema that it refused, and not the text."""
        if schema is not None:
            self._structured[schema] = None


def _refused(error: Exception) -> bool:
    """Whether a request was rejected as such, as servers do for models without tools."""
    if isinstance(error, NotImplementedError):
        return True
    holders = (error, getattr(error, "response", None))
    return any(getattr(holder, "status_code", None) in (400, 404, 422) for holder in holders)


def _config() -> RunnableConfig | None:
    callbacks = _callbacks.get()
    return None if callbacks is None else {"callbacks": callbacks}


def _text(answer: Any) -> str:
    return str(answer.text) if isinstance(answer, BaseMessage) else str(answer)


def _json_text(result: Any) -> str:
    """The answer as JSON text; what could not be parsed is handed on raw, for the core to repair."""
    if not (isinstance(result, dict) and "raw" in result and "parsed" in result):
        return _dump(result)
    if result["parsed"] is not None:
        return _dump(result["parsed"])
    raw = result["raw"]
    calls = [*getattr(raw, "tool_calls", ()), *getattr(raw, "invalid_tool_calls", ())]
    return _dump(calls[0]["args"]) if calls else _text(raw)


def _dump(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def model_name(model: Any) -> str:
    """The model's name as its provider writes it, else its class; the same for all bindings of it."""
    while isinstance(inner := getattr(model, "bound", None), Runnable):
        model = inner
    found = (getattr(model, attribute, None) for attribute in _NAME_ATTRIBUTES)
    return next((name for name in found if isinstance(name, str) and name), type(model).__name__)
