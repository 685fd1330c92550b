"""The real clients, pointed at a server on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratagraph.models.named import as_chat_model
from tests.clients.server import ModelServer


def chat_openai(server: ModelServer) -> Any:
    from langchain_openai import ChatOpenAI

    from langchain_stratagraph._models import to_chat_model

    return to_chat_model(ChatOpenAI(model="m", base_url=server.openai, api_key="k"))


def chat_ollama(server: ModelServer) -> Any:
    from langchain_ollama import ChatOllama

    from langchain_stratagraph._models import to_chat_model

    return to_chat_model(ChatOllama(model="m", base_url=server.ollama, num_ctx=16_384))


def llama_openai(server: ModelServer) -> Any:
    from llama_index.llms.openai import OpenAI

    from llama_index_stratagraph._models import to_chat_model

    return to_chat_model(OpenAI(model="gpt-4o-mini", api_base=server.openai, api_key="k"))


def openai_like(server: ModelServer, *, chat: bool) -> Any:
    from llama_index.llms.openai_like import OpenAILike

    from llama_index_stratagraph._models import to_chat_model

    return to_chat_model(OpenAILike(model="m", api_base=server.openai, api_key="k", is_chat_model=chat))


def llama_ollama(server: ModelServer) -> Any:
    from llama_index.llms.ollama import Ollama

    from llama_index_stratagraph._models import to_chat_model

    return to_chat_model(Ollama(model="m", base_url=server.ollama))


def openai_by_name(server: ModelServer) -> Any:
    return as_chat_model(f"openai:m@{server.openai}")


def ollama_by_name(server: ModelServer) -> Any:
    return as_chat_model(f"ollama:m@{server.ollama}")


CLIENTS: dict[str, Callable[[ModelServer], Any]] = {
    "ChatOpenAI": chat_openai,
    "ChatOllama": chat_ollama,
    "LlamaIndex OpenAI": llama_openai,
    "OpenAILike chat": lambda server: openai_like(server, chat=True),
    "OpenAILike text": lambda server: openai_like(server, chat=False),
    "LlamaIndex Ollama": llama_ollama,
    "openai by name": openai_by_name,
    "ollama by name": ollama_by_name,
}
