"""The arguments with which an index folder is built or opened, kept together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_index_stratagraph import _corpus
from llama_index_stratagraph._models import to_chat_model, to_embedder
from stratagraph import (
    Chunk,
    Index,
    abuild_index,
    abuild_shards,
    aopen_index,
    build_index,
    build_shards,
    open_index,
)
from stratagraph.config import as_config
from stratagraph.errors import IndexExists

StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Setup:
    """How to build or open a folder. `llm` and `embed_model` are as the index classes take them."""

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

    def build(self, chunks: Sequence[Chunk]) -> Index:
        """Build a folder; one that holds these very texts by the same settings gets the new node ids."""
        if self.shards is not None:
            return build_shards(chunks, **self._sharded())
        try:
            return build_index(chunks, **self._building())
        except IndexExists:
            with self.open() as core:
                held = _corpus.same_texts(core, chunks)
            if held is None:
                raise
        core = build_index(held, **self._building())
        core.insert(chunks)
        return core

    async def abuild(self, chunks: Sequence[Chunk]) -> Index:
        """The async twin of `build`."""
        if self.shards is not None:
            return await abuild_shards(chunks, **self._sharded())
        try:
            return await abuild_index(chunks, **self._building())
        except IndexExists:
            with await self.aopen() as core:
                held = _corpus.same_texts(core, chunks)
            if held is None:
                raise
        core = await abuild_index(held, **self._building())
        await core.ainsert(chunks)
        return core

    def open(self, path: StrPath | None = None) -> Index:
        """Open a folder: the one given, else `self.path`."""
        return open_index(path or self.path or "", **self._opening(), **self._wished())

    async def aopen(self, path: StrPath | None = None) -> Index:
        """The async twin of `open`."""
        return await aopen_index(path or self.path or "", **self._opening(), **self._wished())

    def _wished(self) -> dict[str, Any]:
        """What only opening takes; a spaCy pipeline that only the folder's settings name is not loaded."""
        return {"spacy": as_config(self.config).extraction.spacy, "partial": self.partial}

    def estimating(self) -> dict[str, Any]:
        """What an estimate takes of it."""
        given = self._building()
        return {name: given[name] for name in ("method", "llm", "embedder", "config", "cache")}

    def _building(self) -> dict[str, Any]:
        return {"method": self.method, "path": self.path, "config": self.config} | self._opening()

    def _sharded(self) -> dict[str, Any]:
        if self.path is None:
            raise ValueError("shards need a folder: give path=...")
        if self.vectors is not None:
            raise ValueError("vectors= is for one index, not for shards")
        building = {name: value for name, value in self._building().items() if name != "vectors"}
        return building | {"by" if isinstance(self.shards, str) else "shards": self.shards}

    def _opening(self) -> dict[str, Any]:
        return {
            "llm": to_chat_model(self.llm),
            "embedder": to_embedder(self.embed_model),
            "budget": self.budget,
            "cache": self.cache,
            "progress": self.progress,
            "vectors": self.vectors,
            "mapper": self.mapper,
        }
