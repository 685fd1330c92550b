"""Putting what was found into the order of a second, slower model.

A reranker is any object with `rerank(question, texts)` that returns one score per text, larger for better.
That of fastembed is one as it is; a cross-encoder of sentence-transformers becomes one by

    class Reranker:
        def rerank(self, question, texts):
            return model.predict([(question, text) for text in texts])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stratarag.errors import RerankerError
from stratarag.pipeline.ranking import Ranking


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question."""

    def rerank(self, question: str, texts: list[str]) -> Iterable[float]:
        """One score per text, in their order; larger is better."""
        ...


def rerank(reranker: Reranker, question: str, found: Ranking, texts: Sequence[str]) -> Ranking:
    """A ranking in the order of a reranker's scores; of equals, what stood earlier stays earlier.

    Parameters
    ----------
    reranker
        See `Reranker`.
    question
        What the texts are scored for.
    found
        The ranking.
    texts
        Of its results, in order.

    Returns
    -------
    The same results with the reranker's scores. The trace tells the place that each had before, from 1.

    Raises
    ------
    RerankerError
        If there is not one finite number per text.
    """
    if not len(found):
        return found
    return reordered(found, reranker.rerank(question, list(texts)), type(reranker).__name__)


def scored(reranker: Reranker, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """A reranker's scores of some texts, shape (len(texts),), checked; errors as `rerank`."""
    if not texts:
        return np.zeros(0)
    return _checked(reranker.rerank(question, list(texts)), len(texts), type(reranker).__name__)


def reordered(found: Ranking, scores: Any, name: str) -> Ranking:
    """As `rerank`, with the scores that a reranker called `name` gave."""
    checked = _checked(scores, len(found), name)
    order = np.argsort(-checked, kind="stable")
    trace = [{**found.trace[place], "reranked_from": place + 1} for place in order.tolist()]
    return Ranking(found.rows[order], checked[order].astype(np.float32), found.origin[order], trace)


def _checked(scores: Any, count: int, name: str) -> NDArray[np.float64]:
    try:
        numbers = np.array([float(score) for score in scores], np.float64)
    except (TypeError, ValueError) as error:
        raise RerankerError(f"{name}.rerank must return one number per text: {error}") from error
    if len(numbers) != count:
        raise RerankerError(f"{name}.rerank returned {len(numbers)} scores for {count} texts")
    finite = np.isfinite(numbers)
    if not finite.all():
        place = int(np.argmin(finite))
        raise RerankerError(f"{name}.rerank returned {numbers[place]} for text {place + 1} of {count}")
    return numbers
