"""The real clients, pointed at a server on loopback."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from stratagraph.models.named import as_chat_model
from tests.clients.server import ModelServer


def client(name: str, **settings: Any) -> Any:
    """The model that is `module:class` of a framework, as the core takes it."""
    module, _, kind = name.partition(":")
    return as_chat_model(getattr(import_module(module), kind)(**settings))


def openai_like(server: ModelServer, **settings: Any) -> Any:
    name = "llama_index.llms.openai_like:OpenAILike"
    return client(name, model="m", api_base=server.openai, api_key="k", **settings)


CLIENTS: dict[str, Callable[[ModelServer], Any]] = {
    "ChatOpenAI": lambda server: client(
        "langchain_openai:ChatOpenAI", model="m", base_url=server.openai, api_key="k"
    ),
    "ChatOllama": lambda server: client(
        "langchain_ollama:ChatOllama", model="m", base_url=server.ollama, num_ctx=16_384
    ),
    "LlamaIndex OpenAI": lambda server: client(
        "llama_index.llms.openai:OpenAI", model="gpt-4o-mini", api_base=server.openai, api_key="k"
    ),
    "OpenAILike chat": lambda server: openai_like(server, is_chat_model=True),
    "OpenAILike text": lambda server: openai_like(server, is_chat_model=False),
    "LlamaIndex Ollama": lambda server: client(
        "llama_index.llms.ollama:Ollama", model="m", base_url=server.ollama
    ),
    "openai by name": lambda server: as_chat_model(f"openai:m@{server.openai}"),
    "ollama by name": lambda server: as_chat_model(f"ollama:m@{server.ollama}"),
}
