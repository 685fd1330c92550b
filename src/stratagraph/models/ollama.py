"""Ollama through its own protocol: its OpenAI-compatible one has no way to set the length of the context."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from stratagraph._sync import PerLoop, blocking
from stratagraph.errors import MissingExtra
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
    """A client for each event loop."""

    def __init__(self, base_url: str | None) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("the client for Ollama", "openai") from error
        self.address = (base_url or DEFAULT_URL).rstrip("/")
        self.in_loop: PerLoop[httpx.AsyncClient] = PerLoop(
            lambda: httpx.AsyncClient(base_url=self.address, timeout=_TIMEOUT)
        )

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self.in_loop.get().post(path, json=body)
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

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> Completion:
        """The model's answer; JSON text where there is a `schema`."""
        body = await self._client.post("/api/chat", self._request(prompt, schema))
        return Completion.of(body["message"].get("content") or "", body, body.get("done_reason"))

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The answer in pieces."""
        body = self._request(prompt, None, stream=True)
        async with self._client.in_loop.get().stream("POST", "/api/chat", json=body) as response:
            if response.status_code >= 300:
                await response.aread()
                raise OllamaError(response)
            async for line in response.aiter_lines():
                if line.strip():
                    yield json.loads(line).get("message", {}).get("content") or ""

    def _request(self, prompt: str, schema: type[Any] | None, *, stream: bool = False) -> dict[str, Any]:
        messages = [{"role": role, "content": text} for role, text in Messages.of(prompt).by_role]
        request = {"model": self.name, "messages": messages, "options": self._options, "stream": stream}
        return request if schema is None else {**request, "format": sent_schema(schema)}


class OllamaEmbedder:
    """An embedding model of an Ollama server by its name."""

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        self.model = model
        self.given_name = f"ollama:{model}" + (f"@{base_url}" if base_url else "")
        self._client = _Client(base_url)

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
