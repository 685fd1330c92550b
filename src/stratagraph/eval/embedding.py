"""One embedder for all that an evaluation compares, whose vectors last from run to run."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stratagraph import _sync
from stratagraph.models.budget import Limits
from stratagraph.models.gate import ModelGate
from stratagraph.models.identity import embedder_name
from stratagraph.models.local import default_embedder
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal
from stratagraph.types.protocols import Spans, VectorJournal, Vectors

_TIMED = 20  # questions that are embedded one by one, to see what a question takes
_STAGE = "embed"
VECTORS = "vectors.sqlite"


class SharedEmbedder:
    """Wraps an embedder and remembers its vectors. An index built with it equals one of the wrapped embedder.

    Latencies measured through it do not contain the embedding of remembered questions. `journal` keeps
    vectors of passages and summaries from run to run. `learn` sets `seconds` and `embedded` (what the
    passages took, and how many were not in the journal) and `question_ms`, the median milliseconds to embed
    a question.
    """

    def __init__(
        self, embedder: Any, journal: VectorJournal | None = None, limits: Limits | None = None
    ) -> None:
        self.seconds = 0.0
        self.embedded = 0
        self.question_ms = 0.0
        self.wrapped = default_embedder() if embedder is None else embedder
        self._gate = ModelGate(None, self.wrapped, vectors=journal, limits=limits)
        self._questions: dict[str, Vectors] = {}
        if self._gate.offers_spans:  # asked for by that name, where it is offered

            async def aembed_spans(texts: list[str], spans: list[Spans]) -> tuple[Vectors, Vectors]:
                vectors, parts = await self._gate.embed_spans(_STAGE, texts, spans)
                return vectors, np.concatenate(parts)

            self.aembed_spans = aembed_spans

    @property
    def name(self) -> str:
        """Fingerprint of the wrapped embedder."""
        return embedder_name(self.wrapped, self._gate.dimension)

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        """Unit vectors of passages, shape (len(texts), dimension)."""
        return await self._gate.embed(_STAGE, texts)

    async def aembed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        if text not in self._questions:
            self._questions[text] = await self._gate.embed_query(text)
        return self._questions[text]

    def documents(self, texts: Sequence[str]) -> Vectors:
        """See `aembed_documents`."""
        return _sync.run(self.aembed_documents(list(texts)))

    def question(self, text: str) -> Vectors:
        """The unit vector of a question."""
        vector = self._questions.get(text)
        return _sync.run(self.aembed_query(text)) if vector is None else vector

    def learn(self, passages: Sequence[str], questions: Sequence[str]) -> None:
        """Embed a corpus and its questions.

        Questions come first: a nameless embedder is identified by its dimension, by which the journal finds
        vectors.
        """
        distinct = list(dict.fromkeys(questions))
        spent = []
        for text in distinct[:_TIMED]:
            began = time.perf_counter()
            self.question(text)
            spent.append(1000 * (time.perf_counter() - began))
        self.question_ms = statistics.median(spent) if spent else 0.0

        async def rest() -> None:
            await asyncio.gather(*map(self.aembed_query, distinct[_TIMED:]))

        _sync.run(rest())
        began = time.perf_counter()
        self.documents(passages)
        self.seconds = time.perf_counter() - began
        self.embedded = self._gate.ledger.stages[_STAGE].embedded_texts


@contextmanager
def shared_embedder(
    folder: str | Path | None, embedder: Any = None, limits: Limits | None = None
) -> Iterator[SharedEmbedder]:
    """A shared embedder whose vectors last in a folder, if one is given; the same for all runs with it."""
    if folder is None:
        yield SharedEmbedder(embedder, None, limits)
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    with closing(Journal(Directory.open(Path(folder)), VECTORS)) as vectors:
        yield SharedEmbedder(embedder, vectors, limits)
