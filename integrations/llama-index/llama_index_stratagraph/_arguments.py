"""Which keyword arguments LlamaIndex passes around, so that a misspelt one is refused and not swallowed.

`as_chat_engine(**kwargs)` hands the same keywords to the chat engine, the query engine and the retriever,
and each takes what it knows. Here a keyword that none of them knows is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import RetrieverQueryEngine


def check_constructor(kind: type, arguments: Mapping[str, Any]) -> None:
    """Refuse what a constructor does not take, before anything is paid for."""
    known = list(inspect.signature(kind).parameters)
    refuse_others(f"{kind.__name__}", arguments, known)


def chosen(what: str, arguments: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Those arguments that are `known`; of the others, those that no engine takes are an error."""
    others = {name: value for name, value in arguments.items() if name not in known}
    if unknown := sorted(set(others) - _engine_arguments()):
        raise TypeError(f"{what} has no argument {unknown[0]!r}; it has {', '.join(known)}")
    return {name: value for name, value in arguments.items() if name in known}


def refuse_others(what: str, arguments: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise a `TypeError` that names the first unknown argument and lists the known ones."""
    if unknown := sorted(set(arguments) - set(known)):
        raise TypeError(f"{what} has no argument {unknown[0]!r}; it has {', '.join(known)}")


@lru_cache(maxsize=1)
def _engine_arguments() -> frozenset[str]:
    makers = (
        RetrieverQueryEngine.from_args,
        CondensePlusContextChatEngine.from_defaults,
        CondenseQuestionChatEngine.from_defaults,
        ContextChatEngine.from_defaults,
        SimpleChatEngine.from_defaults,
    )
    return frozenset(name for maker in makers for name in inspect.signature(maker).parameters)
