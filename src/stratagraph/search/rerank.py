"""Reorders hits by a second, slower model.

A reranker is any object with `rerank(question, texts)` that returns one score per text, larger for better.
That of fastembed is one as it is; a cross-encoder of sentence-transformers becomes one by

    class Reranker:
        def rerank(self, question, texts):
            return model.predict([(question, text) for text in texts])

One that chooses a set has `choose(question, texts, k)` instead, sync or async, which returns places of texts.
Rerankers of LangChain and LlamaIndex are converted to one of the two by their adapters (`as_reranker`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol, SupportsIndex, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratagraph._sync import in_background
from stratagraph.errors import RerankerError
from stratagraph.models.named import adapter_of
from stratagraph.models.rerankers import EXAMPLES


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question."""

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""


@runtime_checkable
class SetReranker(Protocol):
    """Chooses texts that answer a question together. `achoose` is preferred in the caller's event loop."""

    def choose(
        self, question: str, texts: list[str], k: int
    ) -> Iterable[SupportsIndex] | Awaitable[Iterable[SupportsIndex]]:
        """The places of at most `k` texts, from 0, the best first."""


def as_reranker(value: Any) -> Reranker | SetReranker:
    """A caller's reranker, or one of a framework, converted by the framework's adapter.

    Raises `TypeError` for other objects, and `MissingExtra` if the adapter cannot be imported.
    """
    adapter = adapter_of(value)
    reranker = value if adapter is None else adapter.to_reranker(value)
    if isinstance(reranker, Reranker | SetReranker) and not isinstance(reranker, type):
        return reranker
    raise TypeError(
        "rerank must have rerank(question, texts) or choose(question, texts, k), be a reranker of LangChain "
        f"or LlamaIndex, or a name such as {EXAMPLES}, and is {value!r}"
    )


async def chosen(reranker: SetReranker, question: str, texts: Sequence[str], k: int) -> list[int]:
    """The places that a reranker chooses, each once; those that no text has are left out.

    A `choose` that is not async runs in a thread. Without texts none is asked. What it raises goes through.

    Raises
    ------
    RerankerError
        If it returns something else than whole numbers.
    """
    if not texts:
        return []
    achoose = getattr(reranker, "achoose", None)
    if achoose is not None and not in_background():
        answer = await achoose(question, list(texts), k)
    elif inspect.iscoroutinefunction(reranker.choose):
        answer = await reranker.choose(question, list(texts), k)
    else:
        answer = await asyncio.to_thread(reranker.choose, question, list(texts), k)
    try:
        places = [place.__index__() for place in answer]
    except (TypeError, AttributeError) as error:
        raise RerankerError(
            f"{type(reranker).__name__}.choose must return places of texts, such as [2, 0]: {error}"
        ) from error
    return list(dict.fromkeys(place for place in places if 0 <= place < len(texts)))[:k]


def scored(reranker: Reranker, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """A reranker's scores of some texts for a question, shape (len(texts),); without texts it is not asked.

    What `rerank` raises goes through, but for `TypeError` and `ValueError`.

    Raises
    ------
    RerankerError
        If there is not one finite number per text, or `rerank` raises `TypeError` or `ValueError`.
    """
    if not texts:
        return np.zeros(0)
    name = type(reranker).__name__
    try:
        numbers = np.array([float(score) for score in reranker.rerank(question, list(texts))], np.float64)
    except (TypeError, ValueError) as error:
        raise RerankerError(f"{name}.rerank must return one number per text: {error}") from error
    if len(numbers) != len(texts):
        raise RerankerError(f"{name}.rerank returned {len(numbers)} scores for {len(texts)} texts")
    finite = np.isfinite(numbers)
    if not finite.all():
        place = int(np.argmin(finite))
        raise RerankerError(f"{name}.rerank returned {numbers[place]} for text {place + 1} of {len(texts)}")
    return numbers
