"""A second model's order, whatever it returns its scores in, and what it returns by mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stratagraph.errors import RerankerError
from stratagraph.pipeline.rerank import Reranker, scored

TEXTS = ["long text about rain", "rain", "sun"]


class Scores:
    def __init__(self, give: Callable[[list[str]], Any]) -> None:
        self.give = give
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, question: str, texts: list[str]) -> Any:
        self.asked.append((question, texts))
        return self.give(texts)


@pytest.mark.parametrize(
    "form",
    [list, tuple, iter, np.array, lambda scores: np.array(scores, np.float16), lambda s: (x for x in s)],
)
def test_scores_may_come_in_any_form(form: Callable[[list[float]], Any]) -> None:
    reranker = Scores(lambda texts: form([-1.0 * len(text) for text in texts]))
    assert isinstance(reranker, Reranker)
    assert scored(reranker, "wet?", TEXTS).tolist() == [-20, -4, -3]
    assert reranker.asked == [("wet?", TEXTS)]


def test_nothing_found_asks_nobody() -> None:
    reranker = Scores(lambda texts: [])
    assert scored(reranker, "q", []).shape == (0,)
    assert reranker.asked == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], "2 scores for 3 texts"),
        ([1.0] * 4, "4 scores for 3 texts"),
        ([1.0, float("nan"), 2.0], "nan for text 2 of 3"),
        ([1.0, 2.0, float("inf")], "inf for text 3 of 3"),
        (["good", "bad", "bad"], "one number per text"),
        (None, "one number per text"),
        (0.5, "one number per text"),
        ([[1.0], [2.0, 3.0], [1.0]], "one number per text"),
    ],
)
def test_what_is_not_a_score_per_text_is_a_named_error(given: Any, message: str) -> None:
    with pytest.raises(RerankerError, match=message):
        scored(Scores(lambda texts: given), "q", TEXTS)


def test_its_own_errors_reach_the_caller() -> None:
    def fail(texts: list[str]) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError, match="no route"):
        scored(Scores(fail), "q", TEXTS)
