"""Arguments of the index classes: how a folder is built or opened, and which keywords exist."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import RetrieverQueryEngine

from llama_index_stratagraph._models import to_chat_model, to_embedder
from stratagraph import Chunk, Estimate, Index, Prices, aopen_index, estimate
from stratagraph._sync import blocking
from stratagraph.api import abuild_any
from stratagraph.config import as_config
from stratagraph.errors import NotAnIndex

StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Setup:
    """How to build or open an index folder; fields as in `StrataIndex`."""

    method: str
    llm: Any = None
    embed_model: Any = None
    path: StrPath | None = None
    config: Any = None
    budget: Any = None
    cache: StrPath | None = None
    progress: bool = False
    shards: int | str | None = None
    vectors: Any = None
    mapper: Any = None
    partial: bool = False
    prune: bool = False
    rebuild: bool = False
    date_key: str | None = None

    async def abuild(self, chunks: Sequence[Chunk]) -> Index:
        """Build a folder, or bring the one that is there to these chunks."""
        return await abuild_any(
            chunks,
            method=self.method,
            path=self.path,
            config=self.config,
            shards=self.shards,
            rebuild=self.rebuild,
            date_key=self.date_key,
            prune=await asyncio.to_thread(self._pruning, chunks),
            **self._models(),
        )

    build = blocking(abuild)

    def _pruning(self, chunks: Sequence[Chunk]) -> bool | Callable[[str], bool]:
        """Which documents to remove: those not given, or those given again under another random id."""
        if (
            self.prune
            or self.rebuild
            or self.path is None
            or self.shards is not None
            or not any(_is_random(c.document_id) for c in chunks)
        ):
            return self.prune
        try:
            with self.open() as core:
                present = core.chunks()
        except NotAnIndex:
            return False
        arriving: dict[str, list[str]] = {}
        for chunk in chunks:
            arriving.setdefault(chunk.document_id, []).append(chunk.text)
        new_texts = set(map(tuple, arriving.values()))
        again = {
            name
            for name, group in present.items()
            if _is_random(name) and tuple(chunk.text for chunk in group) in new_texts
        }
        return again.__contains__

    async def aopen(self, path: StrPath | None = None) -> Index:
        """Open `path`, or `self.path`. A spaCy pipeline that only the folder names is not loaded."""
        spacy = as_config(self.config).extraction.spacy
        place = path or self.path or ""
        return await aopen_index(place, **self._models(), spacy=spacy, partial=self.partial)

    open = blocking(aopen)

    def estimate(self, chunks: Sequence[Chunk], prices: Prices | None) -> Estimate:
        """What `build` would cost."""
        arguments = self._models()
        models = {name: arguments[name] for name in ("llm", "embedder", "cache")}
        return estimate(chunks, self.method, config=self.config, prices=prices, **models)

    def _models(self) -> dict[str, Any]:
        return {
            "llm": to_chat_model(self.llm),
            "embedder": to_embedder(self.embed_model),
            "budget": self.budget,
            "cache": self.cache,
            "progress": self.progress,
            "vectors": self.vectors,
            "mapper": self.mapper,
        }


def _is_random(name: str) -> bool:
    """Whether LlamaIndex chose the id of a document, which it does anew each time the document is read."""
    try:
        return UUID(name).version == 4
    except ValueError:
        return False


def check_constructor(kind: type, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a constructor does not take, before a model is called."""
    parameters = list(inspect.signature(kind).parameters)
    if unknown := sorted(set(arguments) - set(parameters)):
        raise TypeError(f"{kind.__name__} has no argument {unknown[0]!r}; it has {', '.join(parameters)}")


def chosen(what: str, arguments: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The arguments that are `known`. Others that no engine takes are an error, and so is `llm`.

    `as_chat_engine(**kwargs)` hands the same keywords but `llm` to the chat engine, the query engine and the
    retriever, and each takes those it knows.
    """
    others = {name: value for name, value in arguments.items() if name not in known}
    if unknown := sorted(set(others) - _engine_arguments()):
        raise TypeError(f"{what} has no argument {unknown[0]!r}; it has {', '.join(known)}")
    return {name: value for name, value in arguments.items() if name in known}


@lru_cache(maxsize=1)
def _engine_arguments() -> frozenset[str]:
    makers = (
        RetrieverQueryEngine.from_args,
        CondensePlusContextChatEngine.from_defaults,
        CondenseQuestionChatEngine.from_defaults,
        ContextChatEngine.from_defaults,
        SimpleChatEngine.from_defaults,
    )
    return frozenset(name for maker in makers for name in inspect.signature(maker).parameters) - {"llm"}
