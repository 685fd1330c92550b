"""Texts to unit vectors: each distinct text once, from the journal where it is there, in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np

from stratarag.errors import EmbedderError, ModelError
from stratarag.models.budget import Limits, Sleep
from stratarag.models.deadline import within
from stratarag.models.limiter import Slot, Slots
from stratarag.models.pending import PendingCall, PendingCalls, run_workers
from stratarag.models.retry import translate, with_retries
from stratarag.models.vectors import Label, excerpt, unit_rows
from stratarag.models.wrap import Embedding, embedder_name, is_named
from stratarag.protocols import VectorJournal, Vectors
from stratarag.records import content_id

T = TypeVar("T")
Advance = Callable[[int, int], None]


class Embedder:
    """An embedder behind the gate.

    Attributes
    ----------
    dimension
        Of all its vectors; None until the first is known.
    zero_vectors
        The texts whose vectors are zero, as stage, index and excerpt. They are no failures, but no
        search by similarity can find them.
    """

    def __init__(
        self,
        embedding: Embedding,
        *,
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
        self._embedding = embedding
        self._journal = journal
        self._limits = limits
        self._sleep = sleep
        self._pending = pending

    @property
    def name(self) -> str:
        """The fingerprint; without a name of its own it is complete once the dimension is known."""
        return embedder_name(self._embedding.embedder, self.dimension)

    async def query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (dimension,)."""

        def label(_: int) -> str:
            return "the question"

        def request(slot: Slot) -> Awaitable[Any]:
            return self._embedding.query(text, slot)

        returned = await self._attempt(request, [text], label, None)
        rows, _ = unit_rows([returned], [text], label=label, dimension=self.dimension)
        self.dimension = rows.shape[1]
        vector: Vectors = rows[0]
        return vector

    async def documents(self, stage: str, texts: Sequence[str], advance: Advance) -> Vectors:
        """Unit vectors, shape (len(texts), dimension).

        `advance` is told of progress as (texts that are done, texts that the embedder was given).
        """
        if not texts:
            return np.zeros((0, self.dimension or 0), dtype=np.float32)
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        batch = _Batch(self, stage, list(distinct), _first_places(texts), advance)
        await batch.run()
        advance(len(texts) - len(distinct), 0)
        rows: Vectors = np.stack(batch.rows)
        return rows[[distinct[text] for text in texts]]

    def keys(self, texts: Sequence[str]) -> list[str]:
        """The journal's keys of some texts."""
        return [content_id(self.name, text) for text in texts]

    def remembered(self, texts: Sequence[str]) -> Iterator[tuple[int, Vectors]]:
        """Index and vector of those texts that the journal holds."""
        # The name of a nameless embedder needs the dimension: until that is known nothing is ours.
        nameless = self.dimension is None and not is_named(self._embedding.embedder)
        if self._journal is None or nameless:
            return
        keys = self.keys(texts)
        held = self._journal.get(keys)
        for index, key in enumerate(keys):
            vector = held.get(key)
            if vector is not None and self.dimension in (None, vector.shape[0]):
                self.dimension = vector.shape[0]
                yield index, vector

    async def fetch(self, texts: list[str], label: Label) -> tuple[Vectors, list[int]]:
        """Vectors from the embedder itself, checked and journalled, and which of them are zero."""

        def request(slot: Slot) -> Awaitable[Any]:
            return self._embedding.documents(texts, slot)

        async def run(pending: PendingCall) -> tuple[Vectors, list[int]]:
            returned = await self._attempt(request, texts, label, pending)
            rows, zero = unit_rows(returned, texts, label=label, dimension=self.dimension)
            self.dimension = rows.shape[1]
            if self._journal is not None:
                self._journal.put(self.keys(texts), rows)
            return rows, zero

        result, _ = await self._pending.share(None, run)
        rows, zero = result
        return rows, zero

    async def spread(self, worker: Callable[[], Any], count: int) -> None:
        """Run workers, no more than there are slots."""
        await run_workers(
            worker,
            min(count, self.slots.count),
            pending=self._pending,
            patience=self._limits.timeout,
            grace=self._limits.grace,
        )

    @property
    def batch_size(self) -> int:
        """Texts per request."""
        return self._limits.embed_batch

    async def _attempt(
        self,
        request: Callable[[Slot], Awaitable[Any]],
        texts: Sequence[str],
        label: Label,
        pending: PendingCall | None,
    ) -> Any:
        attempts = 0
        timeout = self._limits.timeout

        async def once() -> Any:
            nonlocal attempts
            attempts += 1
            with nullcontext() if pending is None else pending.request():
                return await within(timeout, request(slot), slot, who="the embedder", pending=pending)

        try:
            async with self.slots.one(timeout) as slot:
                return await with_retries(
                    once,
                    limits=self._limits,
                    sleep=self._sleep,
                    worthwhile=lambda error: pending is None or not pending.halted,
                )
        except EmbedderError:
            raise
        except Exception as error:
            failed = translate(error, who="the embedder", attempts=attempts)
            if isinstance(failed, ModelError):
                raise failed from error
            raise EmbedderError(f"{failed} ({label(0)}: {excerpt(texts[0])})") from error


def _first_places(texts: Sequence[str]) -> list[int]:
    places: dict[str, int] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, place)
    return list(places.values())


class _Batch:
    """Distinct texts on their way to vectors; `rows` fills up in any order."""

    def __init__(
        self, embedder: Embedder, stage: str, texts: list[str], places: list[int], advance: Advance
    ) -> None:
        self.rows: list[Any] = [None] * len(texts)
        self._embedder = embedder
        self._stage = stage
        self._texts = texts
        self._places = places
        self._advance = advance

    async def run(self) -> None:
        self._recall()
        if self._embedder.dimension is None:
            await self._fetch([0])  # tells the dimension, which the check of all others needs
            self._recall()
        missing = [index for index, row in enumerate(self.rows) if row is None]
        size = self._embedder.batch_size
        batches = [missing[start : start + size] for start in range(0, len(missing), size)]
        waiting = iter(batches)

        async def worker() -> None:
            for indices in waiting:
                await self._fetch(indices)

        if batches:
            await self._embedder.spread(worker, len(batches))

    def _recall(self) -> None:
        """Take what the journal holds."""
        missing = [index for index, row in enumerate(self.rows) if row is None]
        found = 0
        for position, vector in self._embedder.remembered([self._texts[index] for index in missing]):
            self._take(missing[position], vector, zero=not vector.any())
            found += 1
        self._advance(found, 0)

    async def _fetch(self, indices: list[int]) -> None:
        texts = [self._texts[index] for index in indices]
        vectors, zero = await self._embedder.fetch(texts, lambda at: f"item {self._places[indices[at]]}")
        for position, (index, vector) in enumerate(zip(indices, vectors, strict=True)):
            self._take(index, vector, zero=position in zero)
        self._advance(len(indices), len(indices))

    def _take(self, index: int, vector: Vectors, *, zero: bool) -> None:
        self.rows[index] = vector
        if zero:
            text = excerpt(self._texts[index])
            self._embedder.zero_vectors.append(f"{self._stage} {self._places[index]}: {text}")
