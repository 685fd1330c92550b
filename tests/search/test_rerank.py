"""A second model's order, whatever it returns its scores in, and what it returns by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.errors import RerankerError
from stratagraph.search.rerank import Reranker, SetReranker, chosen, scored
from stratagraph.testing import FakeEmbedder

TEXTS = ["long text about rain", "rain", "sun"]


class Scores:
    def __init__(self, give: Callable[[list[str]], Any]) -> None:
        self.give = give
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, question: str, texts: list[str]) -> Any:
        self.asked.append((question, texts))
        return self.give(texts)


def test_scores_may_come_in_any_form() -> None:
    for form in (list, iter, lambda scores: np.array(scores, np.float16)):
        reranker = Scores(lambda texts, form=form: form([-1.0 * len(text) for text in texts]))
        assert isinstance(reranker, Reranker)
        assert scored(reranker, "wet?", TEXTS).tolist() == [-20, -4, -3]
        assert scored(reranker, "q", []).shape == (0,)  # nothing found asks nobody
        assert reranker.asked == [("wet?", TEXTS)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], "2 scores for 3 texts"),
        ([1.0, float("nan"), 2.0], "nan for text 2 of 3"),
        ([1.0, 2.0, float("inf")], "inf for text 3 of 3"),
        (None, "one number per text"),
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


class Choice:
    def __init__(self, give: Any) -> None:
        self.give = give
        self.asked: list[tuple[str, list[str], int]] = []

    def choose(self, question: str, texts: list[str], k: int) -> Any:
        self.asked.append((question, texts, k))
        return self.give


class AsyncChoice(Choice):
    async def choose(self, question: str, texts: list[str], k: int) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().choose(question, texts, k)


@pytest.mark.parametrize("kind", [Choice, AsyncChoice])
def test_a_set_is_chosen_by_places(kind: type[Choice]) -> None:
    for given, expected in (
        (np.array([2, 0]), [2, 0]),
        ([], []),
        ([7, -1, 1, 1, 3], [1]),
        ([2, 1, 0], [2, 1]),
    ):
        reranker = kind(given)
        assert isinstance(reranker, SetReranker)
        assert asyncio.run(chosen(reranker, "wet?", TEXTS, 2)) == expected
        assert asyncio.run(chosen(reranker, "wet?", [], 2)) == []
        assert reranker.asked == [("wet?", TEXTS, 2)]
    for given in (None, ["first"], [0.5]):
        with pytest.raises(RerankerError, match="choose must return places of texts"):
            asyncio.run(chosen(kind(given), "wet?", TEXTS, 2))


@pytest.mark.parametrize("kind", [Choice, AsyncChoice])
def test_the_chosen_hits_lead_and_the_others_follow(kind: type[Choice]) -> None:
    with sg.build_index(
        [f"The ferry {n} leaves at noon." for n in range(9)], embedder=FakeEmbedder(), progress=False
    ) as index:
        plain = index.retrieve("ferry", 8)
        reranker = kind([4, 99, 2])
        found = index.retrieve("ferry", 2, rerank=reranker)
        more = index.retrieve("ferry", 4, rerank=reranker)
        awaited = asyncio.run(index.aretrieve("ferry", 4, rerank=reranker))
        with pytest.raises(TypeError, match=r"rerank\(question, texts\) or choose\(question, texts, k\)"):
            index.retrieve("ferry", rerank=object())
    assert [hit.id for hit in found] == [plain[4].id, plain[2].id]
    assert [hit.id for hit in more] == [plain[place].id for place in (4, 2, 0, 1)]
    assert [trace["reranked_from"] for trace in more.trace] == [5, 3, 1, 2]
    assert [hit.score for hit in found] == [plain[2].score] * 2  # scores never rise with rank
    assert awaited.hits == more.hits
    assert reranker.asked[0] == ("ferry", [hit.text for hit in plain], 2)
