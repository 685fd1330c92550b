"""An embedder in the workers of a mapper: each of them loads it once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from stratagraph.mapping import check_sendable
from stratagraph.models.hashing import HashingEmbedder
from stratagraph.models.local import MiniLMEmbedder, OnnxEmbedder
from stratagraph.models.wrap import offers_spans
from stratagraph.types.protocols import Mapper, Spans

LOCAL = HashingEmbedder | MiniLMEmbedder | OnnxEmbedder
"""Embedders that come along, and cost nothing but time."""


class MappedEmbedder:
    """Embeds texts, and parts of them where the embedder can, in workers; questions here."""

    def __init__(self, embedder: Any, mapper: Mapper) -> None:
        if not callable(getattr(embedder, "embed_documents", None)):
            raise TypeError(
                f"embedder of type {type(embedder).__qualname__} has no embed_documents(texts), which "
                "workers call; keep it here with mapper(..., embed=False)"
            )
        self._mapper = mapper
        self._documents = partial(_documents, embedder)
        check_sendable(mapper, self._documents)
        for name in ("embed_query", "aembed_query"):
            if hasattr(embedder, name):
                setattr(self, name, getattr(embedder, name))
        if offers_spans(embedder):
            self._spans = partial(_spans, embedder)
            self.aembed_spans = self._embed_spans

    async def aembed_documents(self, texts: list[str]) -> Any:
        """Whatever the embedder gives for these texts."""
        return await asyncio.wrap_future(self._mapper.submit(self._documents, texts, model=True))

    async def _embed_spans(self, texts: list[str], spans: list[Spans]) -> Any:
        return await asyncio.wrap_future(self._mapper.submit(self._spans, (texts, spans), model=True))


def mapped(embedder: Any, mapper: Mapper) -> Any:
    """An embedder for an operation: in the workers if the mapper takes it there and it is worth sending."""
    if not goes_along(embedder, mapper) or (mapper.embed is None and isinstance(embedder, HashingEmbedder)):
        return embedder
    return MappedEmbedder(embedder, mapper)


def goes_along(embedder: object, mapper: Mapper) -> bool:
    """Whether workers embed: with local embedders, or with any if the mapper says so."""
    if not mapper.apart:
        return False
    return isinstance(embedder, LOCAL) if mapper.embed is None else mapper.embed


def _documents(embedder: Any, texts: Sequence[str]) -> Any:
    return embedder.embed_documents(texts)


def _spans(embedder: Any, batch: tuple[Sequence[str], Sequence[Spans]]) -> Any:
    return embedder.embed_spans(*batch)
