"""Turns a caller's `llm` and `embedder` (names, framework models, own objects) into what the gate calls.

openai:gpt-4o-mini                            OpenAI, with the key in OPENAI_API_KEY
openai:NAME@http://127.0.0.1:8000/v1          any server that speaks OpenAI's protocol
ollama:llama3.1                               Ollama on this machine
ollama:llama3.1@http://192.168.0.7:11434      Ollama elsewhere
langchain:anthropic:claude-sonnet-4-5         what LangChain's `init_chat_model` and `init_embeddings` take
minilm, hashing                               embedders that run here (see `models.local`)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from stratagraph.errors import require
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.models.local import MiniLMEmbedder
from stratagraph.models.task import StageModels

_MAKERS = {
    "llm": ("langchain.chat_models", "init_chat_model"),
    "embedder": ("langchain.embeddings", "init_embeddings"),
}
_ADAPTERS = {"langchain_core": "langchain_stratagraph", "llama_index": "llama_index_stratagraph"}


def adapter_of(value: object, what: str = "_models") -> Any | None:
    """The adapter's module (`_models` or `_vectors`) for a framework's object; None for other objects."""
    roots = {base.__module__.split(".")[0] for base in type(value).__mro__}
    for root, package in _ADAPTERS.items():
        if root in roots:
            return import_module(f"{package}.{what}")
    return None


PROVIDERS = ("openai", "ollama", "langchain")
_VERSION = re.compile(r"\d{6,8}|default|latest")  # as in the names of some models: `...@20250514`
_LOCAL = {"minilm": MiniLMEmbedder, "all-MiniLM-L6-v2": MiniLMEmbedder, "hashing": HashingEmbedder}
_EXAMPLES = "'openai:gpt-4o-mini', 'openai:NAME@http://127.0.0.1:8000/v1' and 'ollama:llama3.1'"
_EMBEDDERS = "'openai:text-embedding-3-small', 'ollama:nomic-embed-text', 'minilm' and 'hashing'"


def as_chat_model(value: Any) -> Any:
    """What `ModelGate` takes as `llm`, from any `llm=` of a caller.

    That is None; a name as above; a model of LangChain or LlamaIndex; an object with `complete` or
    `acomplete`; or a mapping of these by `extract`, `summarize`, `answer` and `default`. Raises `ValueError`
    for an unknown provider or stage, `TypeError` for an object that is no model, `MissingExtra` without the
    package.
    """
    if value is None or isinstance(value, StageModels):
        return value
    if isinstance(value, str):
        return _named("llm", value, _EXAMPLES)
    if isinstance(value, Mapping):
        return StageModels({stage: as_chat_model(model) for stage, model in value.items()})
    adapter = adapter_of(_checked("llm", value))
    model = value if adapter is None else adapter.to_chat_model(value)
    if hasattr(model, "complete") or hasattr(model, "acomplete"):
        return model
    raise TypeError(
        f"llm must have complete(prompt) or acomplete(prompt), be a model of LangChain or LlamaIndex, or a "
        f"name such as {_EXAMPLES}; it is {value!r}"
    )


def as_embedder(value: Any) -> Any:
    """What `ModelGate` takes as `embedder`: a name, a framework's object or one with `embed_documents`.

    Raises as `as_chat_model` does.
    """
    if value is None:
        return None
    if isinstance(value, str) and value in _LOCAL:
        return _LOCAL[value]()
    if isinstance(value, str):
        return _named("embedder", value, _EMBEDDERS)
    adapter = adapter_of(_checked("embedder", value))
    if adapter is not None:
        return adapter.to_embedder(value)
    if hasattr(value, "embed_documents") or hasattr(value, "aembed_documents"):
        return value
    raise TypeError(
        f"embedder must have embed_documents(texts) and embed_query(text), be embeddings of LangChain or "
        f"LlamaIndex, or a name such as {_EMBEDDERS} (MiniLMEmbedder() is the local one, "
        f"OnnxEmbedder(folder) runs yours); it is {value!r}"
    )


def _checked(what: str, value: Any) -> Any:
    if isinstance(value, type):
        raise TypeError(f"{what} must be an object, not the class {value.__name__}: give {value.__name__}()")
    return value


def _named(what: str, given: str, examples: str) -> Any:
    provider, _, rest = given.partition(":")
    name, _, address = rest.partition("@")
    if provider not in PROVIDERS or not name:
        hint = f"; did you mean 'openai:{given}'?" if given and ":" not in given else ""
        raise ValueError(
            f"{what}={given!r} does not begin with a known provider ({', '.join(PROVIDERS)}), as "
            f"{examples} do{hint}"
        )
    if provider == "langchain" and _VERSION.fullmatch(address):
        name, address = rest, ""
    if address and not address.startswith(("http://", "https://")):
        raise ValueError(
            f"{what}={given!r} names a server at {address!r}, which does not begin with http:// or https://: "
            f"write it as {provider}:{name}@http://{address.partition('://')[2] or address}"
        )
    base_url = address or None
    if provider == "langchain":
        require(None, "langchain")
        module, maker = _MAKERS[what]
        make = getattr(import_module(module), maker)
        try:
            model = make(name, **({} if base_url is None else {"base_url": base_url}))
        except ValueError as error:
            raise ValueError(f"{what}='langchain:{name}': {error}") from error
        if (adapter := adapter_of(model)) is None:
            raise TypeError(
                f"{what}='langchain:{name}' is a {type(model).__name__}, which is no model of LangChain"
            )
        return adapter.to_chat_model(model) if what == "llm" else adapter.to_embedder(model)
    from stratagraph.models import providers

    makers = {
        ("ollama", "llm"): providers.OllamaChatModel,
        ("ollama", "embedder"): providers.OllamaEmbedder,
        ("openai", "llm"): providers.OpenAIChatModel,
        ("openai", "embedder"): providers.OpenAIEmbedder,
    }
    return makers[provider, what](name, base_url=base_url)
