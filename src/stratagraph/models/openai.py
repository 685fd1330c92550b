"""OpenAI, and every server that speaks its protocol, through OpenAI's own client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stratagraph._sync import PerLoop, blocking
from stratagraph.errors import MissingExtra, ModelError
from stratagraph.models.identity import normalised_address, sampling_settings
from stratagraph.models.messages import Completion, Messages, from_openai
from stratagraph.models.schema import response_format

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_OPENAI = "https://api.openai.com/v1"


class _Client:
    """OpenAI's client without retries of its own, one for each event loop; made when it is first used."""

    def __init__(self, model: str, base_url: str | None, api_key: str | None) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtra("the client of OpenAI", "openai") from error
        self._model = model
        self._base_url = base_url
        self._key = api_key or os.environ.get("OPENAI_API_KEY")
        # With connections that can be dropped after their loop has ended: the client's own would then try to
        # close themselves in another loop, which fails and is logged.
        self.in_loop: PerLoop[AsyncOpenAI] = PerLoop(
            lambda: openai.AsyncOpenAI(http_client=openai.DefaultAsyncHttpxClient(), **self._keywords())
        )

    def require_key(self) -> None:
        """Raise `ModelError` without a key; an estimate and a batch file need none."""
        if self._key is None and self._base_url is None:
            raise ModelError(f"model {self._model!r} of OpenAI needs a key: set OPENAI_API_KEY")

    def _keywords(self) -> dict[str, Any]:
        self.require_key()
        return {"base_url": self._base_url, "api_key": self._key or "none", "max_retries": 0}


def _name(model: str, base_url: str | None) -> str | None:
    """The name from which `models.named` makes the model; None if the address holds a password."""
    if base_url and "@" in urlsplit(base_url).netloc:
        return None
    return f"openai:{model}" + (f"@{base_url}" if base_url else "")


class OpenAIChatModel:
    """A chat model by its name.

    Parameters
    ----------
    model
        As the server knows it.
    base_url
        Of the server; None: OpenAI's.
    api_key
        None: from OPENAI_API_KEY. Servers of one's own mostly need none.
    temperature
        0 by default, for answers that can be repeated; None: the model's own.
    options
        Further parameters of a request, as `max_tokens` or `seed`.

    Attributes
    ----------
    given_name
        The name that makes this model (see `models.named`); None where that would not say all.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        **options: Any,
    ) -> None:
        self.name = model
        self.address = normalised_address(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI)
        self._client = _Client(model, base_url, api_key)
        self._options = options if temperature is None else {"temperature": temperature, **options}
        plain = not options and temperature == 0.0 and api_key is None
        self.given_name = _name(model, base_url) if plain else None
        self._given = temperature != 0.0
        self.settings = sampling_settings(self._options)  # as requested, also when a server refuses some

    def require_key(self) -> None:
        """Raise `ModelError` where a key is needed and there is none."""
        self._client.require_key()

    def drop_temperature(self) -> bool:
        """Use the model's default temperature unless the caller chose one; True if that changes it."""
        return not self._given and self._options.pop("temperature", None) is not None

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        completion = await self._client.in_loop.get().chat.completions.create(**self.body(prompt, schema))
        found = from_openai(completion)
        if found is None:
            raise ValueError(
                f"'{type(completion).__name__}' object is not a chat completion: {str(completion)[:80]!r}"
            )
        return found

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        completions = self._client.in_loop.get().chat.completions
        async for chunk in await completions.create(**self.body(prompt, None), stream=True):
            yield (chunk.choices[0].delta.content or "") if chunk.choices else ""

    def body(self, prompt: str, schema: type[Any] | None) -> dict[str, Any]:
        """A request as it is sent, or written to a batch file."""
        messages = [{"role": role, "content": text} for role, text in Messages.of(prompt).by_role]
        request = {"model": self.name, "messages": messages, **self._options}
        return request if schema is None else {**request, "response_format": response_format(schema)}


class OpenAIEmbedder:
    """An embedding model by its name. `dimensions` shortens the vectors of models that can do that."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        plain = dimensions is None and api_key is None
        self.given_name = _name(model, base_url) if plain else None
        self._client = _Client(model, base_url, api_key)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        # Many servers do not support base64, the client's default.
        request: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            request["dimensions"] = self.dimensions
        answer = await self._client.in_loop.get().embeddings.create(**request)
        return [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]

    async def aembed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return (await self.aembed_documents([text]))[0]

    embed_documents = blocking(aembed_documents)
    embed_query = blocking(aembed_query)
