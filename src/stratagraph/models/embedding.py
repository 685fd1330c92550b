"""Texts to unit vectors: each distinct text once, from the journal where it is there, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stratagraph._sync import in_background
from stratagraph.errors import EmbedderError, MapperError, ModelError
from stratagraph.mapping import check_sendable
from stratagraph.models.budget import Limits, Sleep
from stratagraph.models.concurrency import PendingCall, PendingCalls, Services, Slot, run_workers, within
from stratagraph.models.identity import embedder_name, is_named
from stratagraph.models.local import LOCAL, HashingEmbedder
from stratagraph.models.retry import describe, may_concern_a_text, nobody_there, translate, with_retries
from stratagraph.models.tracing import request_attributes, span
from stratagraph.types.protocols import Mapper, VectorJournal, Vectors
from stratagraph.types.records import content_id

_EXCERPT = 60
Label = Callable[[int], str]
"""Names the text at an index in messages."""
Advance = Callable[[int, Sequence[str]], None]
"""Called with the number of finished passages, and the texts that were embedded."""
Refuse = Callable[["TextWithParts", str], None]
"""Called with a passage that has no usable vector, and the reason."""


class TextWithParts(NamedTuple):
    """A text to embed, and parts of it to embed in the same pass."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()


Embedded = tuple[list[Vectors], dict[int, str]]
"""The vectors of each passage and its parts, and why those at some places are zero: no usable ones came."""


def excerpt(text: str) -> str:
    """The beginning of a text, for messages."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _EXCERPT else line[:_EXCERPT] + "...")


def offers_spans(embedder: object) -> bool:
    """Whether an embedder also embeds parts of texts (`protocols.SpanEmbedder`)."""
    return any(callable(getattr(embedder, name, None)) for name in ("embed_spans", "aembed_spans"))


def goes_along(embedder: object, mapper: Mapper) -> bool:
    """Whether the mapper's workers embed: by default local embedders only, else as the mapper says."""
    if not mapper.apart:
        return False
    return isinstance(embedder, LOCAL) if mapper.embed is None else mapper.embed


def _called(embedder: Any, request: tuple[str, Sequence[Any]]) -> Any:
    """Done in a worker: a method of the embedder by name, with its arguments."""
    method, arguments = request
    return getattr(embedder, method)(*arguments)


class GateEmbedder:
    """An embedder behind the gate; texts are embedded in the workers of a mapper where that is worth it.

    `dimension` is None until the first vector. `zero_vectors` lists texts with zero vectors, as stage, index
    and excerpt: no failures, but no search by similarity finds them. `offers_spans`: parts of passages can
    be embedded (`protocols.SpanEmbedder`). `here`: the embedder runs in this process and waits for nobody.
    """

    def __init__(
        self,
        embedder: Any,
        *,
        services: Services,
        mapper: Mapper,
        journal: VectorJournal | None,
        limits: Limits,
        sleep: Sleep,
        pending: PendingCalls,
        dimension: int | None,
    ) -> None:
        self.dimension = dimension
        self.zero_vectors: list[str] = []
        self.offers_spans = offers_spans(embedder)
        self.here = isinstance(embedder, LOCAL)
        self.slots = services.embed_slots
        self._embedder = embedder
        self._services = services
        self._mapper = mapper
        self._in_worker: Callable[[tuple[str, Sequence[Any]]], Any] | None = None
        if goes_along(embedder, mapper) and (mapper.embed or not isinstance(embedder, HashingEmbedder)):
            if not callable(getattr(embedder, "embed_documents", None)):
                raise TypeError(
                    f"embedder of type {type(embedder).__qualname__} has no embed_documents(texts), which "
                    "workers call; keep it here with mapper(..., embed=False)"
                )
            self._in_worker = partial(_called, embedder)
            check_sendable(mapper, self._in_worker)
        self._journal = journal
        self._limits = limits
        self._sleep = sleep
        self._pending = pending
        self._reached = False
        self._usable = False  # whether any text has got a vector

    @property
    def name(self) -> str:
        """The fingerprint; that of a nameless embedder needs the dimension."""
        return embedder_name(self._embedder, self.dimension)

    async def query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (dimension,)."""
        returned = await self._attempt("embed_query", (text,), [text], lambda _: "the question", None)
        return np.asarray(self._checked([returned], [text], lambda _: "the question")[0])

    def query_here(self, text: str) -> Vectors:
        """As `query`, at once."""
        attributes = {**request_attributes("embeddings", self.name), "stratagraph.texts": 1}
        with span(f"embeddings {self.name}", attributes, client=True):
            returned = self._embedder.embed_query(text)
            return np.asarray(self._checked([returned], [text], lambda _: "the question")[0])

    def _checked(
        self,
        returned: Any,
        texts: Sequence[str],
        label: Label,
        unusable: dict[int, str] | None = None,
    ) -> Vectors:
        """What the embedder returned, scaled to unit length: float32, shape (len(texts), dimension).

        The first rows set `dimension`; zero vectors stay zero. Raises `EmbedderError` naming the first item
        whose vector is missing, not a vector, not finite or of another dimension. With `unusable`, a vector
        that is not finite becomes zero, and is added there by its index, with the reason.
        """
        if not hasattr(returned, "__len__") or len(returned) != len(texts):
            count = len(returned) if hasattr(returned, "__len__") else type(returned).__name__
            raise EmbedderError(
                f"the embedder returned {count} vectors for {len(texts)} texts "
                f"({label(0)} to {label(len(texts) - 1)}, the first: {excerpt(texts[0])})"
            )
        dimension, vectors = self.dimension, list[Vectors]()
        for index, vector in enumerate(returned):
            fault = ""
            try:
                with np.errstate(over="ignore"):
                    row = np.asarray(vector, dtype=np.float32)
                if row.ndim != 1 or row.size == 0:
                    fault = f"an array of shape {row.shape}"
                elif dimension is not None and row.size != dimension:
                    fault = f"{row.size} dimensions, where earlier vectors have {dimension},"
                elif not np.isfinite(row).all():
                    fault = "a vector with NaN or infinite entries"
                    if unusable is not None:
                        unusable[index] = f"the embedder returned {fault}"
                        fault, row = "", np.zeros_like(row)
            except (TypeError, ValueError):
                fault = f"{type(vector).__name__} that is not a vector of numbers"
            if fault:
                raise EmbedderError(
                    f"the embedder returned {fault} for {label(index)}: {excerpt(texts[index])}"
                )
            dimension = row.size
            vectors.append(row)
        self.dimension = dimension
        self._usable = self._usable or len(unusable or ()) < len(vectors)
        rows = np.stack(vectors)
        # Scaled by the largest entry first: the squares of very large or small entries would not fit.
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        scaled = rows / np.where(largest == 0, 1, largest)
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        return (scaled / np.where(length == 0, 1, length)).astype(np.float32, copy=False)

    async def passages(
        self, stage: str, passages: Sequence[TextWithParts], advance: Advance, refuse: Refuse
    ) -> list[Vectors]:
        """For each passage an array of unit vectors: its own, then those of its parts.

        A passage that the embedder refuses, or whose vector is not finite, has zero vectors.
        """
        distinct = list(dict.fromkeys(passages))
        places = {passage: place for place, passage in reversed(list(enumerate(passages)))}
        vectors: dict[TextWithParts, Vectors] = {}

        def take(passage: TextWithParts, rows: Vectors) -> None:
            vectors[passage] = rows
            if not rows[0].any():
                self.zero_vectors.append(f"{stage} {places[passage]}: {excerpt(passage.text)}")

        def recall() -> list[TextWithParts]:
            """Take vectors from the journal; returns the remaining passages."""
            before = len(vectors)
            for passage, rows in self._journalled([each for each in distinct if each not in vectors]):
                take(passage, rows)
            advance(len(vectors) - before, ())
            return [each for each in distinct if each not in vectors]

        async def fetch(batch: list[TextWithParts]) -> None:
            (fetched, unusable), _ = await self._pending.share(
                None, lambda pending: self._embedded(batch, lambda at: f"item {places[batch[at]]}", pending)
            )
            for passage, rows in zip(batch, fetched, strict=True):
                take(passage, rows)
            for at, reason in unusable.items():
                refuse(batch[at], reason)
            advance(len(batch), [passage.text for passage in batch])

        left = recall()
        if left and self.dimension is None:
            await fetch(left[:1])  # sets the dimension, against which all others are checked
            left = recall()
        size = self._limits.embed_batch
        waiting = iter([left[start : start + size] for start in range(0, len(left), size)])

        async def worker() -> None:
            for batch in waiting:
                await fetch(batch)

        await run_workers(
            worker,
            min(-(-len(left) // size), self.slots.count),
            pending=self._pending,
            patience=self._limits.timeout,
            grace=self._limits.grace,
        )
        advance(len(passages) - len(distinct), ())
        return [vectors[passage] for passage in passages]

    def _keys(self, passage: TextWithParts) -> list[str]:
        """The journal's keys of a passage and its parts."""
        text = passage.text
        parts = [content_id(self.name, text, f"{start}-{end}") for start, end in passage.spans]
        return [content_id(self.name, text), *parts]

    def _journalled(self, passages: Sequence[TextWithParts]) -> list[tuple[TextWithParts, Vectors]]:
        """Those passages that the journal holds with all their parts, and their vectors."""
        # Without the dimension, the name of a nameless embedder is unknown, and so are its keys.
        if self._journal is None or (self.dimension is None and not is_named(self._embedder)):
            return []
        keys = [self._keys(passage) for passage in passages]
        stored = self._journal.get([key for own in keys for key in own])
        complete: list[tuple[TextWithParts, Vectors]] = []
        for passage, own in zip(passages, keys, strict=True):
            rows = [stored[key] for key in own if key in stored]
            if len(rows) == len(own) and {self.dimension or len(rows[0])} == set(map(len, rows)):
                self.dimension = len(rows[0])
                complete.append((passage, np.stack(rows)))
        return complete

    async def _embedded(self, passages: list[TextWithParts], label: Label, pending: PendingCall) -> Embedded:
        """As `_fetched`; a batch that is refused is halved until the passage at fault is known.

        No text is at fault while none has got a vector: then a word is embedded first, and if that fails too,
        the error is raised.
        """
        try:
            vectors, unusable = await self._fetched(passages, label, pending)
        except (EmbedderError, ModelError) as error:
            if pending.halted or not may_concern_a_text(error) or not await self._works(pending):
                raise
            half = len(passages) // 2
            if half:
                vectors, unusable = await self._embedded(passages[:half], label, pending)
                others, more = await self._embedded(passages[half:], lambda at: label(half + at), pending)
                return vectors + others, unusable | {half + at: reason for at, reason in more.items()}
            assert self.dimension is not None
            vectors = [np.zeros((1 + len(passages[0].spans), self.dimension), np.float32)]
            unusable = {0: f"the embedder refused the text: {describe(error.__cause__ or error)}"}
        if unusable and not await self._works(pending):
            at, reason = next(iter(unusable.items()))
            raise EmbedderError(f"{reason} for {label(at)}: {excerpt(passages[at].text)}")
        return vectors, unusable

    async def _works(self, pending: PendingCall) -> bool:
        """Whether any text has got a vector; a word is embedded if there was none yet."""
        if not self._usable:
            with suppress(EmbedderError, ModelError):
                await self._fetched([TextWithParts("word")], lambda _: "a word", pending)
        return self._usable

    async def _fetched(self, passages: list[TextWithParts], label: Label, pending: PendingCall) -> Embedded:
        """Vectors of passages and their parts from the embedder, checked, and journalled if usable."""
        texts = [passage.text for passage in passages]
        parts = [passage.text[start:end] for passage in passages for start, end in passage.spans]
        unusable: dict[int, str] = {}
        if parts:
            arguments = (texts, [passage.spans for passage in passages])
            returned = await self._attempt("embed_spans", arguments, texts, label, pending)
            if not isinstance(returned, Sequence) or len(returned) != 2:
                raise EmbedderError(
                    f"embed_spans must return vectors of texts and of their parts ({label(0)})"
                )
            rows = self._checked(returned[0], texts, label, unusable)
            unusable_parts: dict[int, str] = {}
            inner = self._checked(returned[1], parts, lambda at: f"part {at}", unusable_parts)
            counts = [len(passage.spans) for passage in passages]
            owners = np.repeat(np.arange(len(passages)), counts).tolist()
            unusable |= {owners[part]: reason for part, reason in unusable_parts.items()}
            own = np.split(inner, np.cumsum(counts)[:-1])
            vectors = [np.concatenate([row[None], each]) for row, each in zip(rows, own, strict=True)]
        else:
            returned = await self._attempt("embed_documents", (texts,), texts, label, pending)
            vectors = [row[None] for row in self._checked(returned, texts, label, unusable)]
        for at in unusable:
            vectors[at] = np.zeros_like(vectors[at])
        usable = [at for at in range(len(passages)) if at not in unusable]
        if self._journal is not None and usable:
            keys = [key for at in usable for key in self._keys(passages[at])]
            self._journal.put(keys, np.concatenate([vectors[at] for at in usable]))
        return vectors, unusable

    async def _call(self, method: str, arguments: Sequence[Any], slot: Slot) -> Any:
        """What a method of the embedder returns: in a worker, here, or in a thread."""
        if self._in_worker is not None and method != "embed_query":
            return await asyncio.wrap_future(
                self._mapper.submit(self._in_worker, (method, arguments), model=True)
            )
        native, blocking = (getattr(self._embedder, name, None) for name in (f"a{method}", method))
        if blocking is not None and (native is None or in_background()):
            return await self._services.in_thread(slot, blocking, *arguments)
        if native is not None:
            return await native(*arguments)
        if method == "embed_query":
            return (await self._call("embed_documents", ([*arguments],), slot))[0]
        raise TypeError(
            f"embedder of type {type(self._embedder).__qualname__} has neither embed_documents(texts) nor "
            "aembed_documents(texts)"
        )

    async def _attempt(
        self,
        method: str,
        arguments: Sequence[Any],
        texts: Sequence[str],
        label: Label,
        pending: PendingCall | None,
    ) -> Any:
        attempts = 0
        timeout = self._limits.timeout

        async def once() -> Any:
            nonlocal attempts
            attempts += 1
            attributes = {**request_attributes("embeddings", self.name), "stratagraph.texts": len(texts)}
            sending = nullcontext() if pending is None else pending.request()
            with span(f"embeddings {self.name}", attributes, client=True), sending:
                returned = await within(
                    timeout, self._call(method, arguments, slot), slot, who="the embedder", pending=pending
                )
            self._reached = True
            return returned

        def again(error: Exception) -> bool:
            wanted = pending is None or not pending.halted
            return wanted and (self._reached or not nobody_there(error))

        try:
            async with self.slots.one(timeout) as slot:
                return await with_retries(once, limits=self._limits, sleep=self._sleep, worthwhile=again)
        except (EmbedderError, MapperError):
            raise
        except Exception as error:
            who = f"the embedder {self.name!r}" if nobody_there(error) else "the embedder"
            failed = translate(error, who=who, attempts=attempts, reached=self._reached)
            if isinstance(failed, ModelError):
                raise failed from error
            which = label(0) if len(texts) == 1 else f"{label(0)} to {label(len(texts) - 1)}, the first"
            raise EmbedderError(f"{failed} ({which}: {excerpt(texts[0])})") from error
