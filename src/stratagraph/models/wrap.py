"""A caller's chat model, synchronous or not, as one asynchronous shape.

In the caller's event loop the gate prefers the asynchronous method. Under the synchronous API it prefers the
blocking one, in a thread of its pool: an asynchronous client belongs to the loop that first used it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

from stratagraph import _sync
from stratagraph.errors import CallFailed, ModelError
from stratagraph.models.cleaning import Cleaner, template_thinks
from stratagraph.models.concurrency import Services, Slot
from stratagraph.models.identity import identity_of_model, model_name, server_address
from stratagraph.models.messages import Completion, Messages, content_text
from stratagraph.models.retry import refuses_system, refuses_temperature
from stratagraph.system.locks import Lock

_END = object()
_COLD, _SYSTEM = "temperature 0", "system messages"
_REFUSALS = {_COLD: refuses_temperature, _SYSTEM: refuses_system}
_PROVIDERS = """
    api.openai.com api.anthropic.com api.mistral.ai api.deepseek.com api.groq.com api.x.ai api.cohere.com
    generativelanguage.googleapis.com
"""
"""Servers at which a model costs what the table of prices says."""


class Chat:
    """A chat model; TypeError if it has neither `complete` nor `acomplete`."""

    def __init__(self, model: object, services: Services) -> None:
        self.name = model_name(model)
        self.identity = identity_of_model(model)
        self.address = server_address(model)
        self.context_tokens = getattr(model, "context_tokens", None)
        self._lock = Lock()
        self._threads = services.threads
        self._refused = services.refused
        self._thinks = services.thinks
        self._model = model
        self._async = getattr(model, "acomplete", None)
        self._sync = getattr(model, "complete", None)
        chosen = self._async or self._sync
        if chosen is None:
            raise TypeError(
                f"llm of type {type(model).__qualname__} has neither complete(prompt) nor acomplete(prompt)"
            )
        try:
            parameters = inspect.signature(chosen).parameters.values()
        except (TypeError, ValueError):
            parameters = ()  # type: ignore[assignment]
        self._with_schema = any(p.name == "schema" or p.kind is p.VAR_KEYWORD for p in parameters)
        if _COLD in self.without:  # as another gate learnt from the same server
            self._drop_temperature()

    @property
    def priced_as(self) -> str:
        """The model's name for the table of prices, marked if another server runs it."""
        own = self.address and urlsplit(self.address).hostname not in _PROVIDERS.split()
        return f"{self.name} (own server)" if own else self.name

    def accepted(self, schema: type[Any] | None) -> type[Any] | None:
        """The schema, unless the model takes none or has refused it."""
        if schema is None or not self._with_schema or schema.__qualname__ in self.without:
            return None
        takes = getattr(self._model, "takes_schema", None)
        return schema if takes is None or takes(schema) else None

    @property
    def without(self) -> frozenset[str]:
        """The names of the schemas and features that the model's server refused."""
        return frozenset(
            refused
            for name, address, refused in self._refused.copy()
            if (name, address) == (self.name, self.address)
        )

    def feature_refused(self, error: Exception, without: frozenset[str]) -> str | None:
        """The feature that a request was refused for, if requests are now sent without it; else None.

        `without` holds what that request was sent without: other requests may have been refused since.
        """
        for feature, refuses in _REFUSALS.items():
            if feature not in without and refuses(error) and self.do_without(feature):
                return feature
        return None

    def do_without(self, refused: str) -> bool:
        """Send requests without a schema or feature; False for a temperature that the user chose."""
        with self._lock:
            if refused == _COLD and _COLD not in self.without and not self._drop_temperature():
                return False
            self._refused.add((self.name, self.address, refused))
            return True

    def _drop_temperature(self) -> bool:
        drop = getattr(self._model, "drop_temperature", None)
        return drop is not None and drop()

    def _sent(self, prompt: str) -> Messages:
        """A prompt as this model takes it."""
        messages = Messages.of(prompt)
        return messages.joined() if _SYSTEM in self.without else messages

    def body(self, prompt: str, schema: type[Any] | None) -> dict[str, Any]:
        """The body of a request in OpenAI's protocol; TypeError for a model that speaks another."""
        make = getattr(self._model, "body", None)
        if make is None:
            raise TypeError(
                f"batch files hold requests in OpenAI's protocol, and llm is {type(self._model).__name__} "
                f"({self.name!r}): give a name, as 'openai:gpt-4o-mini' or 'openai:NAME@http://127.0.0.1:8000/v1'"
            )
        body: dict[str, Any] = make(self._sent(prompt), schema)
        return body

    async def complete(self, prompt: str, schema: type[Any] | None, slot: Slot) -> Completion:
        """The model's answer. `schema` is passed on only to models that take one."""
        keywords = {"schema": schema} if self._with_schema else {}
        prompt = self._sent(prompt)
        if self._sync is not None and (self._async is None or _sync.in_background()):
            answer = await self._threads.run(slot, self._sync, prompt, **keywords)
        else:
            try:
                answer = await self._async(prompt, **keywords)  # type: ignore[misc]  # one of the two is there
            except SystemExit as error:
                raise ModelError(f"the model raised SystemExit: {error}") from error
        answer = answer if isinstance(answer, Completion) else Completion(_text(answer, self.name))
        cleaner = Cleaner()
        cleaner.feed(answer)
        cleaner.close()
        if cleaner.unannounced or schema is None:  # with a schema, servers may let a model think nothing
            self.learn(cleaner)
        return answer

    @property
    def thinks(self) -> bool:
        """Whether only the end of a thought is marked in the model's answers.

        So it was before, or is known of the model's template.
        """
        return self._thinks.get((self.name, self.address), template_thinks(self.name))

    def learn(self, cleaner: Cleaner) -> None:
        """Remember whether an answer began with a thought that no mark announced."""
        if cleaner.unannounced:
            self._thinks[self.name, self.address] = True
        else:
            self._thinks.setdefault((self.name, self.address), False)

    async def stream(self, prompt: str, slot: Slot) -> AsyncGenerator[str, None]:
        """The answer in pieces; in one piece where the model cannot stream."""
        prompt = self._sent(prompt)
        astream, stream = (getattr(self._model, name, None) for name in ("astream", "stream"))
        if stream is not None and (astream is None or _sync.in_background()):
            pieces = iter(await self._threads.run(slot, stream, prompt))
            while (piece := await self._threads.run(slot, next, pieces, _END)) is not _END:
                yield _text(piece, self.name)
        elif astream is not None:
            source = astream(prompt)
            async for piece in await source if inspect.isawaitable(source) else source:
                yield _text(piece, self.name)
        else:
            answer = await self.complete(prompt, None, slot)
            yield answer if answer.finish else str(answer)


def _text(answer: object, name: str) -> str:
    """A string, or the text of a framework's response object."""
    for value in (answer, getattr(answer, "text", None), getattr(answer, "content", None)):
        if isinstance(value, Completion):
            return value
        if isinstance(value, str | list):  # a lone surrogate cannot be stored
            return content_text(value).encode("utf-8", "replace").decode("utf-8")
    hint = ""
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "; an asynchronous model has `async def acomplete`, not `complete`"
    raise CallFailed(f"model {name!r} returned {type(answer).__qualname__} where a string is expected{hint}")
