"""Texts to unit vectors: each distinct text once, from the journal where it is there, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stratagraph._sync import in_background
from stratagraph.errors import EmbedderError, MapperError, ModelError
from stratagraph.mapping import check_sendable
from stratagraph.models.budget import Limits, Sleep
from stratagraph.models.concurrency import (
    PendingCall,
    PendingCalls,
    Slot,
    Slots,
    Threads,
    run_workers,
    within,
)
from stratagraph.models.identity import embedder_name, is_named
from stratagraph.models.local import LOCAL, HashingEmbedder
from stratagraph.models.retry import nobody_there, translate, with_retries
from stratagraph.models.tracing import request_attributes, span
from stratagraph.types.protocols import Mapper, VectorJournal, Vectors
from stratagraph.types.records import content_id

EXCERPT = 60
Label = Callable[[int], str]


def excerpt(text: str) -> str:
    """The beginning of a text, for messages."""
    line = " ".join(text.split())
    return repr(line if len(line) <= EXCERPT else line[:EXCERPT] + "...")


def unit_rows(
    returned: Sequence[Any], texts: Sequence[str], *, label: Label, dimension: int | None
) -> tuple[Vectors, list[int]]:
    """What an embedder returned for texts, checked and scaled to unit length.

    Returns float32 rows, shape (len(texts), dimension), and the numbers of zero rows, which stay zero.
    `label` names the text at an index in messages. Raises `EmbedderError` naming the first item whose vector
    is missing, not a vector, not finite or of another `dimension`.
    """
    if not hasattr(returned, "__len__") or len(returned) != len(texts):
        count = len(returned) if hasattr(returned, "__len__") else type(returned).__name__
        raise EmbedderError(
            f"the embedder returned {count} vectors for {len(texts)} texts "
            f"({label(0)} to {label(len(texts) - 1)}, the first: {excerpt(texts[0])})"
        )
    vectors: list[Vectors] = []
    for index, vector in enumerate(returned):
        row, fault = _row(vector, dimension)
        if row is None:
            raise EmbedderError(f"the embedder returned {fault} for {label(index)}: {excerpt(texts[index])}")
        dimension = row.size
        vectors.append(row)
    rows = np.stack(vectors)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    zero = largest[:, 0] == 0
    # Scaled by the largest entry first: the squares of very large or small entries would not fit.
    scaled = rows / np.where(largest == 0, 1, largest)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = (scaled / np.where(length == 0, 1, length)).astype(np.float32, copy=False)
    return unit, np.flatnonzero(zero).tolist()


def _row(vector: Any, dimension: int | None) -> tuple[Vectors | None, str]:
    """A vector as an array, or None and what is wrong with it."""
    try:
        with np.errstate(over="ignore"):
            row = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        return None, f"{type(vector).__name__} that is not a vector of numbers"
    if row.ndim != 1 or row.size == 0:
        return None, f"an array of shape {row.shape}"
    if not np.isfinite(row).all():
        return None, "a vector with NaN or infinite entries"
    if dimension is not None and row.size != dimension:
        return None, f"{row.size} dimensions, where earlier vectors have {dimension},"
    return row, ""


T = TypeVar("T")
Advance = Callable[[int, Sequence[str]], None]


class Passage(NamedTuple):
    """A text to embed, and parts of it to embed in the same pass."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def parts(self) -> list[str]:
        """The texts of the parts."""
        return [self.text[start:end] for start, end in self.spans]


def offers_spans(embedder: object) -> bool:
    """Whether an embedder also embeds parts of texts (`protocols.SpanEmbedder`)."""
    return any(callable(getattr(embedder, name, None)) for name in ("embed_spans", "aembed_spans"))


def goes_along(embedder: object, mapper: Mapper) -> bool:
    """Whether workers embed: with local embedders, or with any if the mapper says so."""
    if not mapper.apart:
        return False
    return isinstance(embedder, LOCAL) if mapper.embed is None else mapper.embed


def _called(embedder: Any, request: tuple[str, Sequence[Any]]) -> Any:
    """Done in a worker: a method of the embedder by name, with its arguments."""
    method, given = request
    return getattr(embedder, method)(*given)


class Embedder:
    """An embedder behind the gate; texts are embedded in the workers of a mapper where that is worth it.

    `dimension` is None until the first vector. `zero_vectors` lists texts with zero vectors as stage, index
    and excerpt: no failures, but no search by similarity finds them.
    """

    def __init__(
        self,
        embedder: Any,
        *,
        threads: Threads,
        mapper: Mapper,
        slots: Slots,
        journal: VectorJournal | None,
        limits: Limits,
        sleep: Sleep,
        pending: PendingCalls,
        dimension: int | None,
    ) -> None:
        self.dimension = dimension
        self.zero_vectors: list[str] = []
        self.slots = slots
        self._embedder = embedder
        self._threads = threads
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

    @property
    def name(self) -> str:
        """The fingerprint; that of a nameless embedder needs the dimension."""
        return embedder_name(self._embedder, self.dimension)

    async def query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (dimension,)."""

        def label(_: int) -> str:
            return "the question"

        return self._vector(await self._attempt("embed_query", (text,), [text], label, None), text)

    @property
    def here(self) -> bool:
        """Whether the embedder runs in this process and waits for nobody."""
        return isinstance(self._embedder, LOCAL)

    def query_here(self, text: str) -> Vectors:
        """As `query`, at once."""
        said = {**request_attributes("embeddings", self.name), "stratagraph.texts": 1}
        with span(f"embeddings {self.name}", said, client=True):
            return self._vector(self._embedder.embed_query(text), text)

    def _vector(self, returned: Any, text: str) -> Vectors:
        rows, _ = unit_rows([returned], [text], label=lambda _: "the question", dimension=self.dimension)
        self.dimension = rows.shape[1]
        vector: Vectors = rows[0]
        return vector

    async def passages(self, stage: str, passages: Sequence[Passage], advance: Advance) -> list[Vectors]:
        """For each passage an array of unit vectors: its own, then those of its parts.

        `advance` is called with the number of finished passages and the texts that were embedded.
        """
        distinct = list(dict.fromkeys(passages))
        places = {passage: place for place, passage in reversed(list(enumerate(passages)))}
        found: dict[Passage, Vectors] = {}

        def take(passage: Passage, vectors: Vectors, *, zero: bool) -> None:
            found[passage] = vectors
            if zero:
                self.zero_vectors.append(f"{stage} {places[passage]}: {excerpt(passage.text)}")

        def recall() -> list[Passage]:
            """Take vectors from the journal; returns the remaining passages."""
            before = len(found)
            wanted = [each for each in distinct if each not in found]
            for index, vectors in self.remembered(wanted):
                take(wanted[index], vectors, zero=not vectors[0].any())
            advance(len(found) - before, ())
            return [each for each in wanted if each not in found]

        async def fetch(batch: list[Passage]) -> None:
            fetched, zero = await self.fetch(batch, lambda at: f"item {places[batch[at]]}")
            for index, (passage, vectors) in enumerate(zip(batch, fetched, strict=True)):
                take(passage, vectors, zero=index in zero)
            advance(len(batch), [passage.text for passage in batch])

        left = recall()
        if left and self.dimension is None:
            await fetch(left[:1])  # tells the dimension, which the check of all others needs
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
        return [found[passage] for passage in passages]

    @property
    def offers_spans(self) -> bool:
        """Whether parts of passages can be embedded (`protocols.SpanEmbedder`)."""
        return offers_spans(self._embedder)

    @property
    def words_only(self) -> bool:
        """See `protocols.Embedder`."""
        return bool(getattr(self._embedder, "words_only", False))

    def keys(self, passage: Passage) -> list[str]:
        """The journal's keys of a passage and its parts."""
        text = passage.text
        return [
            content_id(self.name, text),
            *(content_id(self.name, text, f"{start}-{end}") for start, end in passage.spans),
        ]

    def remembered(self, passages: Sequence[Passage]) -> Iterator[tuple[int, Vectors]]:
        """Index and vectors of those passages that the journal holds with all their parts."""
        # Without the dimension, the name of a nameless embedder is unknown, and so are its keys.
        nameless = self.dimension is None and not is_named(self._embedder)
        if self._journal is None or nameless:
            return
        keys = [self.keys(passage) for passage in passages]
        held = self._journal.get([key for own in keys for key in own])
        for index, own in enumerate(keys):
            vectors = [held[key] for key in own if key in held]
            if len(vectors) < len(own) or {self.dimension or len(vectors[0])} != set(map(len, vectors)):
                continue
            self.dimension = len(vectors[0])
            yield index, np.stack(vectors)

    async def fetch(self, passages: list[Passage], label: Label) -> tuple[list[Vectors], list[int]]:
        """Vectors from the embedder, checked and journalled, and the numbers of zero ones."""
        texts = [passage.text for passage in passages]
        spans = [passage.spans for passage in passages]
        wanted = any(spans)
        method, given = ("embed_spans", (texts, spans)) if wanted else ("embed_documents", (texts,))

        async def run(pending: PendingCall) -> tuple[list[Vectors], list[int]]:
            returned = await self._attempt(method, given, texts, label, pending)
            if wanted and (not isinstance(returned, Sequence) or len(returned) != 2):
                raise EmbedderError(
                    f"embed_spans must return vectors of texts and of their parts ({label(0)})"
                )
            vectors, parts = returned if wanted else (returned, ())
            rows, zero = unit_rows(vectors, texts, label=label, dimension=self.dimension)
            self.dimension = rows.shape[1]
            found = self._with_parts(passages, rows, parts)
            if self._journal is not None:
                keys = [key for passage in passages for key in self.keys(passage)]
                self._journal.put(keys, np.concatenate(found))
            return found, zero

        result, _ = await self._pending.share(None, run)
        found, zero = result
        return found, zero

    def _with_parts(self, passages: Sequence[Passage], rows: Vectors, parts: Sequence[Any]) -> list[Vectors]:
        """For each passage its vector and those of its parts."""
        texts = [part for passage in passages for part in passage.parts]
        if not texts:
            return [row[None] for row in rows]
        inner, _ = unit_rows(parts, texts, label=lambda at: f"part {at}", dimension=self.dimension)
        ends = np.cumsum([len(passage.spans) for passage in passages])
        own = np.split(inner, ends[:-1])
        return [np.concatenate([row[None], each]) for row, each in zip(rows, own, strict=True)]

    async def _call(self, method: str, given: Sequence[Any], slot: Slot) -> Any:
        """What a method of the embedder returns: in a worker, here, or in a thread."""
        if self._in_worker is not None and method != "embed_query":
            return await asyncio.wrap_future(
                self._mapper.submit(self._in_worker, (method, given), model=True)
            )
        native, blocking = (getattr(self._embedder, name, None) for name in (f"a{method}", method))
        if blocking is not None and (native is None or in_background()):
            return await self._threads.run(slot, blocking, *given)
        if native is not None:
            return await native(*given)
        if method == "embed_query":
            return (await self._call("embed_documents", ([*given],), slot))[0]
        raise TypeError(
            f"embedder of type {type(self._embedder).__qualname__} has neither embed_documents(texts) nor "
            "aembed_documents(texts)"
        )

    async def _attempt(
        self,
        method: str,
        given: Sequence[Any],
        texts: Sequence[str],
        label: Label,
        pending: PendingCall | None,
    ) -> Any:
        attempts = 0
        timeout = self._limits.timeout

        async def once() -> Any:
            nonlocal attempts
            attempts += 1
            said = {**request_attributes("embeddings", self.name), "stratagraph.texts": len(texts)}
            sending = nullcontext() if pending is None else pending.request()
            with span(f"embeddings {self.name}", said, client=True), sending:
                found = await within(
                    timeout, self._call(method, given, slot), slot, who="the embedder", pending=pending
                )
            self._reached = True
            return found

        def again(error: Exception) -> bool:
            wanted = pending is None or not pending.halted
            return wanted and (self._reached or not nobody_there(error))

        try:
            async with self.slots.one(timeout) as slot:
                return await with_retries(
                    once,
                    limits=self._limits,
                    sleep=self._sleep,
                    worthwhile=again,
                )
        except (EmbedderError, MapperError):
            raise
        except Exception as error:
            who = f"the embedder {self.name!r}" if nobody_there(error) else "the embedder"
            failed = translate(error, who=who, attempts=attempts, reached=self._reached)
            if isinstance(failed, ModelError):
                raise failed from error
            raise EmbedderError(f"{failed} ({label(0)}: {excerpt(texts[0])})") from error
