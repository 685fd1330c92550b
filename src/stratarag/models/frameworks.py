"""Models of LangChain and LlamaIndex, by way of the packages that adapt them.

No framework is imported here: an object's classes tell where it comes from, and only then is the adapter
looked up. An adapter's module has `to_chat_model(object)` and `to_embedder(object)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stratarag.errors import MissingExtra

_ADAPTERS = {
    "langchain_core": ("langchain_stratarag._models", "langchain"),
    "llama_index": ("llama_index_stratarag._models", "llama-index"),
}


def adapter_of(value: object) -> Any | None:
    """The module that adapts an object of a framework; None if it is of none.

    Raises
    ------
    MissingExtra
        If the framework's adapter cannot be imported.
    """
    roots = {base.__module__.split(".")[0] for base in type(value).__mro__}
    for root, (module, extra) in _ADAPTERS.items():
        if root in roots:
            try:
                return import_module(module)
            except ImportError as error:
                raise MissingExtra(f"what {type(value).__name__} needs ({error.name})", extra) from error
    return None
