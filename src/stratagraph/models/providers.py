"""Models by name of OpenAI, of servers that speak its protocol, and of Ollama.

Ollama has a protocol of its own here: its OpenAI-compatible one cannot set the length of the context.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
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


class _OpenAI:
    """OpenAI's client without retries of its own, one for each event loop; made when it is first used.

    `given_name` makes the same model again (see `models.named`); None if other arguments are needed too, or
    the address holds a password.
    """

    def __init__(self, model: str, base_url: str | None, api_key: str | None, *, plain: bool) -> None:
        require("openai", "openai")
        import openai

        named = plain and api_key is None and "@" not in urlsplit(base_url or "").netloc
        self.given_name = f"openai:{model}" + (f"@{base_url}" if base_url else "") if named else None
        key = api_key or os.environ.get("OPENAI_API_KEY")
        self._without_key = model if key is None and base_url is None else None

        def make() -> AsyncOpenAI:
            self.require_key()
            # With connections that can be dropped after their loop has ended: the client's own would then try
            # to close themselves in another loop, which fails and is logged.
            return openai.AsyncOpenAI(
                http_client=openai.DefaultAsyncHttpxClient(),
                base_url=base_url,
                api_key=key or "none",
                max_retries=0,
            )

        self._openai: PerLoop[AsyncOpenAI] = PerLoop(make)

    def require_key(self) -> None:
        """Raise `ModelError` without a key; an estimate and a batch file need none."""
        if self._without_key is not None:
            raise ModelError(f"model {self._without_key!r} of OpenAI needs a key: set OPENAI_API_KEY")


class _Embedder(ABC):
    """The methods of an embedder that follow from `aembed_documents`."""

    @abstractmethod
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""

    async def aembed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return (await self.aembed_documents([text]))[0]

    embed_documents = blocking(aembed_documents)
    embed_query = blocking(aembed_query)


class OpenAIChatModel(_OpenAI):
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
        super().__init__(model, base_url, api_key, plain=not options and temperature == 0.0)
        self.name = model
        self.address = normalised_address(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL)
        self._options = options if temperature is None else {"temperature": temperature, **options}
        self._given = temperature != 0.0
        self.settings = sampling_settings(self._options)  # as requested, also when a server refuses some

    def drop_temperature(self) -> bool:
        """Use the model's default temperature unless the caller chose one; True if that changes it."""
        return not self._given and self._options.pop("temperature", None) is not None

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        completion = await self._openai.get().chat.completions.create(**self.body(prompt, schema))
        answer = from_openai(completion)
        if answer is None:
            raise ValueError(
                f"'{type(completion).__name__}' object is not a chat completion: {str(completion)[:80]!r}"
            )
        return answer

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        completions = self._openai.get().chat.completions
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


class OpenAIEmbedder(_OpenAI, _Embedder):
    """An embedding model by its name. `dimensions` shortens the vectors of models that can do that."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        super().__init__(model, base_url, api_key, plain=dimensions is None)
        self.model = model
        self.dimensions = dimensions

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        # Many servers do not support base64, the client's default.
        request: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            request["dimensions"] = self.dimensions
        answer = await self._openai.get().embeddings.create(**request)
        return [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]


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


class _Ollama:
    """A client of an Ollama server for each event loop."""

    def __init__(self, base_url: str | None) -> None:
        require("openai", "httpx")
        import httpx

        self.address = (base_url or _OLLAMA_URL).rstrip("/")
        self._http: PerLoop[httpx.AsyncClient] = PerLoop(
            lambda: httpx.AsyncClient(base_url=self.address, timeout=_OLLAMA_TIMEOUT)
        )

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._http.get().post(path, json=body)
        if response.status_code >= 300:
            raise OllamaError(response)
        answer: dict[str, Any] = response.json()
        return answer


class OllamaChatModel(_Ollama):
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
        super().__init__(base_url)
        self.name = model
        self.context_tokens = num_ctx
        cold = {} if temperature is None else {"temperature": temperature}
        self._options = {**cold, "num_ctx": num_ctx, **options}
        self.settings = sampling_settings(self._options)

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        return _ollama_answer(await self._post("/api/chat", self._request(prompt, schema)))

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        body = self._request(prompt, None, stream=True)
        async with self._http.get().stream("POST", "/api/chat", json=body) as response:
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
        request = {"model": self.name, "messages": _chat_messages(prompt), "options": self._options}
        return {**request, "stream": stream, **({} if schema is None else {"format": sent_schema(schema)})}


class OllamaEmbedder(_Ollama, _Embedder):
    """An embedding model of an Ollama server by its name."""

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        super().__init__(base_url)
        self.model = model
        self.given_name = f"ollama:{model}" + (f"@{base_url}" if base_url else "")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        body = await self._post("/api/embed", {"model": self.model, "input": texts})
        vectors: list[list[float]] = body["embeddings"]
        return vectors
