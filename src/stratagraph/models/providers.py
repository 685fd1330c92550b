"""Models by name of OpenAI, of servers that speak its protocol, and of Ollama.

Ollama has a protocol of its own here: its OpenAI-compatible one cannot set the length of the context.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stratagraph._sync import PerLoop, blocking
from stratagraph.errors import ModelError, require
from stratagraph.models.identity import normalised_address, sampling_settings
from stratagraph.models.messages import (
    Completion,
    Messages,
    content_text,
    from_openai,
    response_format,
    sent_schema,
)

if TYPE_CHECKING:
    import httpx
    from openai import AsyncOpenAI

_OPENAI_URL = "https://api.openai.com/v1"
_OLLAMA_URL = "http://127.0.0.1:11434"
_OLLAMA_CONTEXT = 8192
"""Tokens; Ollama's own default is shorter than many prompts, which it then cuts without a word."""
_OLLAMA_TIMEOUT = 600.0  # the gate gives up long before; this ends what nobody waits for any more


def _chat_messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in Messages.of(prompt).by_role]


class _OpenAIClient:
    """OpenAI's client without retries of its own, one for each event loop; made when it is first used."""

    def __init__(self, model: str, base_url: str | None, api_key: str | None) -> None:
        require("openai", "openai")
        import openai

        self._model = model
        self._base_url = base_url
        self._key = api_key or os.environ.get("OPENAI_API_KEY")

        def make() -> AsyncOpenAI:
            self.require_key()
            # With connections that can be dropped after their loop has ended: the client's own would then try
            # to close themselves in another loop, which fails and is logged.
            return openai.AsyncOpenAI(
                http_client=openai.DefaultAsyncHttpxClient(),
                base_url=base_url,
                api_key=self._key or "none",
                max_retries=0,
            )

        self.in_loop: PerLoop[AsyncOpenAI] = PerLoop(make)

    def require_key(self) -> None:
        """Raise `ModelError` without a key; an estimate and a batch file need none."""
        if self._key is None and self._base_url is None:
            raise ModelError(f"model {self._model!r} of OpenAI needs a key: set OPENAI_API_KEY")


def _openai_name(model: str, base_url: str | None) -> str | None:
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
        The name that makes this model (see `models.named`); None if other arguments are needed too.
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
        self.address = normalised_address(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL)
        self._client = _OpenAIClient(model, base_url, api_key)
        self._options = options if temperature is None else {"temperature": temperature, **options}
        plain = not options and temperature == 0.0 and api_key is None
        self.given_name = _openai_name(model, base_url) if plain else None
        self._given = temperature != 0.0
        self.settings = sampling_settings(self._options)  # as requested, also when a server refuses some
        self.require_key = self._client.require_key

    def drop_temperature(self) -> bool:
        """Use the model's default temperature unless the caller chose one; True if that changes it."""
        return not self._given and self._options.pop("temperature", None) is not None

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        completion = await self._client.in_loop.get().chat.completions.create(**self.body(prompt, schema))
        answer = from_openai(completion)
        if answer is None:
            raise ValueError(
                f"'{type(completion).__name__}' object is not a chat completion: {str(completion)[:80]!r}"
            )
        return answer

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        completions = self._client.in_loop.get().chat.completions
        stream = await completions.create(**self.body(prompt, None), stream=True)
        end = _watch_end(stream.response)
        reason = ""
        async for chunk in stream:
            piece = from_openai(chunk)
            if piece is not None:
                reason = reason or piece.finish_reason
                yield piece
        if not reason and end[0].rstrip().endswith(b"[DONE]"):
            yield Completion("", finish_reason="stop")

    def body(self, prompt: str, schema: type[Any] | None) -> dict[str, Any]:
        """A request as it is sent, or written to a batch file."""
        request = {"model": self.name, "messages": _chat_messages(prompt), **self._options}
        return request if schema is None else {**request, "response_format": response_format(schema)}


def _watch_end(response: httpx.Response) -> list[bytes]:
    """The last bytes that are read of a response, for `[DONE]`, of which OpenAI's client does not tell."""
    end, read = [b""], response.aiter_bytes

    async def watched(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        async for piece in read(chunk_size):
            end[0] = (end[0] + piece)[-20:]
            yield piece

    response.aiter_bytes = watched  # type: ignore[method-assign]
    return end


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
        self.given_name = _openai_name(model, base_url) if plain else None
        self._client = _OpenAIClient(model, base_url, api_key)

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


class OllamaError(Exception):
    """An error that Ollama answered with; `status_code` and `response` as HTTP clients have them.

    An error in the `line` of a stream is one of the server, whose status was sent before.
    """

    def __init__(self, response: httpx.Response, line: dict[str, Any] | None = None) -> None:
        try:
            text = (response.json() if line is None else line).get("error", "")
        except (ValueError, AttributeError):
            text = response.text[:200]
        super().__init__(str(text) or f"HTTP {response.status_code}")
        self.status_code = response.status_code if line is None else 500
        self.response = response


def _ollama_answer(body: dict[str, Any]) -> Completion:
    """The answer in a body, or in a line of a stream."""
    return Completion.of(content_text(body["message"].get("content")), body, body.get("done_reason"))


class _OllamaClient:
    """A client for each event loop."""

    def __init__(self, base_url: str | None) -> None:
        require("openai", "httpx")
        import httpx

        self.address = (base_url or _OLLAMA_URL).rstrip("/")
        self.in_loop: PerLoop[httpx.AsyncClient] = PerLoop(
            lambda: httpx.AsyncClient(base_url=self.address, timeout=_OLLAMA_TIMEOUT)
        )

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.in_loop.get().post(path, json=body)
        if response.status_code >= 300:
            raise OllamaError(response)
        answer: dict[str, Any] = response.json()
        return answer


class OllamaChatModel:
    """A chat model of an Ollama server by its name.

    Parameters
    ----------
    model
        As `ollama list` shows it.
    base_url
        Of the server; None: this machine's.
    temperature
        0 by default, for answers that can be repeated; None: the model's own.
    num_ctx
        Tokens of context that the model runs with. Prompts that may not fit are warned of.
    options
        Further options of Ollama, as `num_predict` or `seed`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        temperature: float | None = 0.0,
        num_ctx: int = _OLLAMA_CONTEXT,
        **options: Any,
    ) -> None:
        self.name = model
        self.context_tokens = num_ctx
        self._client = _OllamaClient(base_url)
        self.address = self._client.address
        cold = {} if temperature is None else {"temperature": temperature}
        self._options = {**cold, "num_ctx": num_ctx, **options}
        self.settings = sampling_settings(self._options)

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        body = await self._client.post("/api/chat", self._request(prompt, schema))
        return _ollama_answer(body)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        body = self._request(prompt, None, stream=True)
        async with self._client.in_loop.get().stream("POST", "/api/chat", json=body) as response:
            if response.status_code >= 300:
                await response.aread()
                raise OllamaError(response)
            async for line in response.aiter_lines():
                if line.strip():
                    answer = json.loads(line)
                    if "error" in answer:
                        raise OllamaError(response, answer)
                    yield _ollama_answer(answer)

    def _request(self, prompt: str, schema: type[Any] | None, *, stream: bool = False) -> dict[str, Any]:
        format_ = {} if schema is None else {"format": sent_schema(schema)}
        return {
            "model": self.name,
            "messages": _chat_messages(prompt),
            "options": self._options,
            "stream": stream,
            **format_,
        }


class OllamaEmbedder:
    """An embedding model of an Ollama server by its name."""

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        self.model = model
        self.given_name = f"ollama:{model}" + (f"@{base_url}" if base_url else "")
        self._client = _OllamaClient(base_url)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        body = await self._client.post("/api/embed", {"model": self.model, "input": texts})
        vectors: list[list[float]] = body["embeddings"]
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return (await self.aembed_documents([text]))[0]

    embed_documents = blocking(aembed_documents)
    embed_query = blocking(aembed_query)
