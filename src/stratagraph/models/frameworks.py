"""Models and vector stores of LangChain and LlamaIndex, through the packages that adapt them.

No framework is imported here: the classes of an object tell where it comes from. An adapter's module
`_models` has `to_chat_model` and `to_embedder`; its module `_vectors` has `to_table`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stratagraph.errors import MissingExtra

_MAKERS = {
    "llm": ("langchain.chat_models", "init_chat_model"),
    "embedder": ("langchain.embeddings", "init_embeddings"),
}
_ADAPTERS = {
    "langchain_core": ("langchain_stratagraph", "langchain"),
    "llama_index": ("llama_index_stratagraph", "llama-index"),
}


def adapter_of(value: object, what: str = "_models") -> Any | None:
    """The adapter's module (`_models` or `_vectors`) for a framework's object; None for other objects.

    Raises `MissingExtra` if the adapter cannot be imported.
    """
    roots = {base.__module__.split(".")[0] for base in type(value).__mro__}
    for root, (package, extra) in _ADAPTERS.items():
        if root in roots:
            try:
                return import_module(f"{package}.{what}")
            except ImportError as error:
                raise MissingExtra(f"what {type(value).__name__} needs ({error.name})", extra) from error
    return None


def langchain_model(what: str, name: str, base_url: str | None) -> Any:
    """A model or embedder of LangChain by its name there, as `anthropic:claude-sonnet-4-5`.

    Raises `MissingExtra` without the package `langchain`, and LangChain's own errors for unknown providers.
    """
    module, maker = _MAKERS[what]
    try:
        make = getattr(import_module(module), maker)
    except ImportError as error:
        raise MissingExtra("langchain") from error
    try:
        made = make(name, **({} if base_url is None else {"base_url": base_url}))
    except ValueError as error:
        raise ValueError(f"{what}='langchain:{name}': {error}") from error
    adapter = adapter_of(made)
    if adapter is None:
        raise TypeError(
            f"{what}='langchain:{name}' is a {type(made).__name__}, which is no model of LangChain"
        )
    return adapter.to_chat_model(made) if what == "llm" else adapter.to_embedder(made)
