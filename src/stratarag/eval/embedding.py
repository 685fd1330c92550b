"""One embedder for all rankers of a run: each text is embedded once, whoever asks for it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stratarag import _sync
from stratarag.models.gateway import ModelGate
from stratarag.models.limits import Limits
from stratarag.models.local import default_embedder
from stratarag.models.wrap import embedder_name
from stratarag.protocols import Vectors
from stratarag.records import content_id

_TIMED = 20  # questions that are embedded one by one, to see what a question takes


class SharedEmbedder:
    """Wraps an embedder with a memory, and a folder for it to last from run to run.

    It is an embedder itself and has the wrapped one's name, so that an index may be built with it. What it
    remembers costs a search nothing: latencies measured through it are those of the search alone.

    Parameters
    ----------
    embedder
        As `build_index` takes it; None means the local default.
    folder
        Where vectors of passages and questions are kept, if anywhere.
    limits
        How the service is treated.

    Attributes
    ----------
    seconds
        What embedding the passages took; None where they came from the folder.
    question_ms
        Median milliseconds that one question takes; None where none was embedded.
    """

    def __init__(self, embedder: Any, folder: Path | None = None, limits: Limits | None = None) -> None:
        self.seconds: float | None = None
        self.question_ms: float | None = None
        self._embedder = default_embedder() if embedder is None else embedder
        self._gate = ModelGate(None, self._embedder, limits=limits)
        self._folder = folder
        self._documents: dict[str, Vectors] = {}
        self._questions: dict[str, Vectors] = {}

    @property
    def name(self) -> str:
        """The wrapped embedder's fingerprint."""
        return embedder_name(self._embedder, self._gate.dimension)

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        """Unit vectors of passages, shape (len(texts), dimension)."""
        new = list(dict.fromkeys(text for text in texts if text not in self._documents))
        if new:
            vectors = await self._gate.embed("embed", new)
            self._documents.update(zip(new, vectors, strict=True))
        return np.stack([self._documents[text] for text in texts])

    async def aembed_query(self, text: str) -> Vectors:
        """The unit vector of a question."""
        if text not in self._questions:
            self._questions[text] = await self._gate.embed_query(text)
        return self._questions[text]

    def documents(self, texts: Sequence[str]) -> Vectors:
        """As `aembed_documents`."""
        return _sync.run(self.aembed_documents(list(texts)))

    def question(self, text: str) -> Vectors:
        """The unit vector of a question, without a detour where it is known."""
        known = self._questions.get(text)
        return _sync.run(self.aembed_query(text)) if known is None else known

    def learn(self, passages: Sequence[str], questions: Sequence[str]) -> None:
        """Embed a corpus and its questions, or read their vectors from the folder."""
        self._gate_dimension(questions)
        began = time.perf_counter()
        if not self._read("passages", passages, self._documents):
            self.documents(passages)
            self.seconds = time.perf_counter() - began
            self._write("passages", passages, self._documents)
        if not self._read("questions", questions, self._questions):
            for text in questions:
                self.question(text)
            self._write("questions", questions, self._questions)

    def _gate_dimension(self, questions: Sequence[str]) -> None:
        """Embed a few questions for their time, and for the dimension, which names a nameless embedder."""
        spent = []
        for text in list(dict.fromkeys(questions))[:_TIMED]:
            began = time.perf_counter()
            self.question(text)
            spent.append(1000 * (time.perf_counter() - began))
        self.question_ms = statistics.median(spent) if spent else None

    def _file(self, kind: str, texts: Sequence[str]) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{kind}-{content_id(self.name, *texts)}.npy"

    def _read(self, kind: str, texts: Sequence[str], into: dict[str, Vectors]) -> bool:
        path = self._file(kind, texts)
        if path is None or not path.is_file():
            return False
        vectors = np.load(path, allow_pickle=False)
        if vectors.shape != (len(texts), self._gate.dimension):
            raise ValueError(f"{str(path)!r} does not hold one vector per text; remove it")
        into.update(zip(texts, vectors, strict=True))
        return True

    def _write(self, kind: str, texts: Sequence[str], known: dict[str, Vectors]) -> None:
        path = self._file(kind, texts)
        if path is not None and len(texts):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part")
            with unfinished.open("wb") as file:
                np.save(file, np.stack([known[text] for text in texts]))
            unfinished.replace(path)
