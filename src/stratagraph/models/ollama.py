"""Ollama through its own protocol: its OpenAI-compatible one has no way to set the length of the context."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from stratagraph.errors import MissingExtra
from stratagraph.models.clients import PerLoop, PerProcess
from stratagraph.models.identity import sampling_settings
from stratagraph.models.messages import Completion, Messages
from stratagraph.models.schema import sent_schema

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:11434"
DEFAULT_CONTEXT = 8192
"""Tokens; Ollama's own default is shorter than many prompts, which it then cuts without a word."""
_TIMEOUT = 600.0  # the gate gives up long before; this ends what nobody waits for any more


class OllamaError(Exception):
    """An error that Ollama answered with; `status_code` and `response` as HTTP clients have them."""

    def __init__(self, response: httpx.Response) -> None:
        try:
            text = response.json().get("error", "")
        except (ValueError, AttributeError):
            text = response.text[:200]
        super().__init__(str(text) or f"HTTP {response.status_code}")
        self.status_code = response.status_code
        self.response = response


class _Client:
    def __init__(self, base_url: str | None) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("the client for Ollama", "openai") from error
        self.address = (base_url or DEFAULT_URL).rstrip("/")
        self._keywords: dict[str, Any] = {"base_url": self.address, "timeout": _TIMEOUT}
        self.in_loop: PerLoop[httpx.AsyncClient] = PerLoop(lambda: httpx.AsyncClient(**self._keywords))
        self.blocking: PerProcess[httpx.Client] = PerProcess(lambda: httpx.Client(**self._keywords))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _checked(self.blocking.get().post(path, json=body))

    async def apost(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _checked(await self.in_loop.get().post(path, json=body))


def _checked(response: httpx.Response) -> dict[str, Any]:
    if response.status_code >= 300:
        raise OllamaError(response)
    found: dict[str, Any] = response.json()
    return found


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
        num_ctx: int = DEFAULT_CONTEXT,
        **options: Any,
    ) -> None:
        self.name = model
        self.context_tokens = num_ctx
        self._client = _Client(base_url)
        self.address = self._client.address
        cold = {} if temperature is None else {"temperature": temperature}
        self._options = {**cold, "num_ctx": num_ctx, **options}
        self.settings = sampling_settings(self._options)

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        return _answer(self._client.post("/api/chat", self._request(prompt, schema)))

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The async twin of `complete`."""
        return _answer(await self._client.apost("/api/chat", self._request(prompt, schema)))

    def stream(self, prompt: str) -> Iterator[str]:
        """The answer in pieces."""
        body = self._request(prompt, None, stream=True)
        with self._client.blocking.get().stream("POST", "/api/chat", json=body) as response:
            if response.status_code >= 300:
                response.read()
                raise OllamaError(response)
            for line in response.iter_lines():
                yield _piece(line)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The async twin of `stream`."""
        body = self._request(prompt, None, stream=True)
        async with self._client.in_loop.get().stream("POST", "/api/chat", json=body) as response:
            if response.status_code >= 300:
                await response.aread()
                raise OllamaError(response)
            async for line in response.aiter_lines():
                yield _piece(line)

    def _request(self, prompt: str, schema: type[Any] | None, *, stream: bool = False) -> dict[str, Any]:
        messages = [{"role": role, "content": text} for role, text in Messages.of(prompt).by_role]
        request = {"model": self.name, "messages": messages, "options": self._options, "stream": stream}
        return request if schema is None else {**request, "format": sent_schema(schema)}


def _answer(body: dict[str, Any]) -> Completion:
    return Completion.of(body["message"].get("content") or "", body, body.get("done_reason"))


def _piece(line: str) -> str:
    return (json.loads(line).get("message", {}).get("content") or "") if line.strip() else ""


class OllamaEmbedder:
    """An embedding model of an Ollama server by its name."""

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        self.model = model
        self.given_name = f"ollama:{model}" + (f"@{base_url}" if base_url else "")
        self._client = _Client(base_url)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        return _vectors(self._client.post("/api/embed", {"model": self.model, "input": texts}))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """The async twin of `embed_documents`."""
        return _vectors(await self._client.apost("/api/embed", {"model": self.model, "input": texts}))

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> list[float]:
        """The async twin of `embed_query`."""
        return (await self.aembed_documents([text]))[0]


def _vectors(body: dict[str, Any]) -> list[list[float]]:
    vectors: list[list[float]] = body["embeddings"]
    return vectors
