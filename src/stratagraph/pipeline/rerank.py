"""Putting what was found into the order of a second, slower model.

A reranker is any object with `rerank(question, texts)` that returns one score per text, larger for better.
That of fastembed is one as it is; a cross-encoder of sentence-transformers becomes one by

    class Reranker:
        def rerank(self, question, texts):
            return model.predict([(question, text) for text in texts])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import RerankerError


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question."""

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""
        ...


def scored(reranker: Reranker, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """A reranker's scores of some texts for a question, shape (len(texts),); without texts it is not asked.

    Raises
    ------
    RerankerError
        If there is not one finite number per text.
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
