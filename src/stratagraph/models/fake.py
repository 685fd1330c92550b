"""Models for tests: deterministic, scripted, slow or broken on demand. Public in `stratagraph.testing`."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stratagraph.system.locks import Lock
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import content_id

Answers = Callable[[str], str] | Mapping[str, str] | Sequence[str] | str
Fault = str | Exception | None

GARBAGE = "%% {]]] <<< 0x00 no answer here"
REFUSAL = "I'm sorry, but I can't help with that request."


class ServiceError(Exception):
    """An HTTP error as model libraries raise them; the service may ask to wait `retry_after` seconds."""

    def __init__(self, status_code: int, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message or f"HTTP {status_code}")
        self.status_code = status_code
        self.retry_after = retry_after


_ERRORS: dict[str, Callable[[], Exception]] = {
    "rate_limit": lambda: ServiceError(429, "rate limit reached"),
    "server_error": lambda: ServiceError(500, "internal error"),
    "auth": lambda: ServiceError(401, "invalid key"),
    "bad_request": lambda: ServiceError(400, "bad request"),
    "timeout": lambda: TimeoutError("timed out"),
    "connection": lambda: ConnectionError("connection lost"),
}
_ANSWERS = {"garbage": GARBAGE, "empty": "", "refusal": REFUSAL}
_STALL = "stall"


class BlockingChatModel:
    """A scripted chat model with `complete` alone, as synchronous libraries have it.

    Parameters
    ----------
    answers
        A function of the prompt; a mapping, of which the first key found in the prompt decides; a list, one
        answer per call, the last one repeated; one string for all; None: one that depends on the prompt.
    latency, stall
        Seconds that a call takes, and a stalled one.
    faults
        What goes wrong with the first calls, one entry per call (None: nothing): an exception, or
        `rate_limit`, `server_error`, `auth`, `bad_request`, `timeout`, `connection`, `garbage`, `empty`,
        `refusal`, `stall`. With `cycle`, the first follows the last.
    name
        Identifies the model in the cache.

    Attributes
    ----------
    prompts, schemas
        What each call was given, in order.
    most_at_once
        The largest number of calls that were under way at the same time.
    """

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        latency: float = 0.0,
        faults: Sequence[Fault] = (),
        cycle: bool = False,
        stall: float = 3600.0,
        name: str = "scripted",
    ) -> None:
        unknown = {each for each in faults if isinstance(each, str)} - {*_ERRORS, *_ANSWERS, _STALL}
        if unknown:
            raise ValueError(f"unknown faults: {', '.join(sorted(unknown))}")
        self.name = name
        self.latency = latency
        self.prompts: list[str] = []
        self.schemas: list[type[Any] | None] = []
        self.most_at_once = 0
        self._answers = answers
        self._faults = list(faults)
        self._cycle = cycle
        self._stall = stall
        self._at_once = 0
        self._lock = Lock()

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.prompts)

    def complete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """The scripted answer."""
        with self._under_way(prompt, schema) as (number, fault):
            time.sleep(self._stall if fault == _STALL else self.latency)
            return self._answer(prompt, number, fault)

    @contextmanager
    def _under_way(self, prompt: str, schema: type[Any] | None) -> Iterator[tuple[int, Fault]]:
        """Note a call; gives its number and what goes wrong with it."""
        with self._lock:
            number = len(self.prompts)
            self.prompts.append(prompt)
            self.schemas.append(schema)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        at = number % len(self._faults) if self._cycle and self._faults else number
        try:
            yield number, self._faults[at] if at < len(self._faults) else None
        finally:
            with self._lock:
                self._at_once -= 1

    def _answer(self, prompt: str, number: int, fault: Fault) -> str:
        if isinstance(fault, Exception):
            raise fault
        if fault in _ERRORS:
            raise _ERRORS[fault]()
        if fault in _ANSWERS:
            return _ANSWERS[fault]
        answers = self._answers
        if answers is None:
            return f"Answer {content_id(prompt)[:12]} to {len(prompt.split())} words."
        if isinstance(answers, str):
            return answers
        if isinstance(answers, Mapping):
            for part, answer in answers.items():
                if part in prompt:
                    return answer
            raise LookupError(f"no scripted answer for the prompt {prompt[:80]!r}")
        if callable(answers):
            return answers(prompt)
        return answers[min(number, len(answers) - 1)]


class ScriptedChatModel(BlockingChatModel):
    """A scripted chat model, asynchronous and streaming too; see `BlockingChatModel` for the script."""

    async def acomplete(self, prompt: str, *, schema: type[Any] | None = None) -> str:
        """The scripted answer."""
        with self._under_way(prompt, schema) as (number, fault):
            await asyncio.sleep(self._stall if fault == _STALL else self.latency)
            return self._answer(prompt, number, fault)

    async def astream(self, prompt: str) -> AsyncIterator[str]:
        """The scripted answer, word by word."""
        for piece in re.findall(r"\S+\s*", await self.acomplete(prompt)):
            yield piece


class FakeEmbedder:
    """Vectors that depend on the words of a text only: texts with common words are near each other.

    Each word has a fixed pseudo-random direction; a text's vector is the sum over its words, of unit length,
    or zero without words. `requests` notes the number of texts of each request, which takes `latency`
    seconds.
    """

    def __init__(self, dimension: int = 64, *, latency: float = 0.0, name: str | None = None) -> None:
        self.dimension = dimension
        self.name = name or f"fake-{dimension}"
        self.latency = latency
        self.requests: list[int] = []
        self._directions: dict[str, Vectors] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text; `requests` notes how many there were."""
        time.sleep(self.latency)
        self.requests.append(len(texts))
        return [self._vector(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question: what `embed_documents` gives for the same text."""
        vector: list[float] = self._vector(text).tolist()
        return vector

    def _vector(self, text: str) -> Vectors:
        total = np.zeros(self.dimension, dtype=np.float32)
        for word in re.findall(r"\w+", text.casefold()):
            if word not in self._directions:
                seed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                generator = np.random.default_rng(int.from_bytes(seed, "little"))
                self._directions[word] = generator.standard_normal(self.dimension, dtype=np.float32)
            total += self._directions[word]
        length = float(np.linalg.norm(total))
        return total / np.float32(length) if length else total


class MemoryCalls:
    """A cache of calls in memory. `entries` maps keys to answers, `sources` to chunk ids."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.sources: dict[str, tuple[str, ...]] = {}

    def get(self, key: str) -> str | None:
        """The stored answer, or None."""
        return self.entries.get(key)

    def put(self, key: str, answer: str, *, task: str, model: str, sources: Sequence[str]) -> None:
        """Store an answer."""
        self.entries[key] = answer
        self.sources[key] = tuple(sources)


class MemoryVectors:
    """A journal of vectors in memory."""

    def __init__(self) -> None:
        self.entries: dict[str, Vectors] = {}

    def get(self, keys: Sequence[str]) -> dict[str, Vectors]:
        """Those that are there."""
        return {key: self.entries[key] for key in keys if key in self.entries}

    def put(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Store one row per key."""
        self.entries.update(zip(keys, vectors.copy(), strict=True))
