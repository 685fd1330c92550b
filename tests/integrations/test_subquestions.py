"""A question of several steps, split by a model: one call, a search for each step, one ranking."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

import stratagraph as sg
from langchain_stratagraph import TreeRetriever
from llama_index_stratagraph import LSHTreeIndex
from stratagraph.errors import BudgetExceeded, ModelError
from stratagraph.search.decompose import MOST, STEP_CONSTANT
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import documents

QUESTION = "Which harbour has both the oldest crane and the newest pier?"
STEPS = ["Where is the oldest crane?", "Where is the newest pier?"]
BURIED = sg.Document("buried", "The newest pier is at Elmworth.")


class CountingEmbedder(FakeEmbedder):
    """Counts the questions that it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = 0

    async def aembed_query(self, text: str) -> list[float]:
        self.questions += 1
        return super().embed_query(text)

    def embed_query(self, text: str) -> list[float]:
        self.questions += 1
        return super().embed_query(text)


NUMBERS = itertools.count()


def model_of(answers: Any, **options: Any) -> ScriptedChatModel:
    """A model whose answers no folder has yet, since its name is new."""
    return ScriptedChatModel(answers, name=f"scripted-{next(NUMBERS)}", **options)


def splitting(answer: Any = STEPS) -> ScriptedChatModel:
    return model_of(json.dumps({"questions": answer}))


@pytest.fixture(scope="module")
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture(scope="module", params=["lshtree", "archrag", "noderag", "hirag"])
def index(request: Any, embedder: CountingEmbedder) -> Iterator[sg.Index]:
    texts = [*documents(40), BURIED]
    with sg.build_index(texts, request.param, embedder=embedder, progress=False) as built:
        yield built


def opened(index: sg.Index, embedder: CountingEmbedder, model: Any, **options: Any) -> sg.Index:
    return sg.open_index(index.path, llm=model, embedder=embedder, **options)


@pytest.mark.parametrize("way", [{}, {"fill": False}, {"method": "walk"}], ids=str)
def test_each_step_is_searched_for_and_the_rankings_are_fused(
    index: sg.Index, embedder: CountingEmbedder, way: dict[str, Any]
) -> None:
    with opened(index, embedder, splitting()) as asked:
        before = embedder.questions
        found = asked.retrieve(QUESTION, k=6, **way, decompose="questions")
        assert embedder.questions - before == 3
        alone = [asked.retrieve(text, k=6, **way) for text in (QUESTION, *STEPS)]
        later = asyncio.run(asked.aretrieve(QUESTION, k=6, **way, decompose="questions"))
    assert [hit.id for hit in found] == [hit.id for hit in later]
    assert len(found.hits) == 6
    assert len({hit.id for hit in found}) == 6
    assert (found.query, found.usage.calls) == (QUESTION, 1)
    for hit, trace in zip(found, found.trace, strict=True):
        expected = {
            each.query: place for each in alone for place, other in enumerate(each, 1) if other.id == hit.id
        }
        assert trace["questions"] == expected
        assert hit.score == pytest.approx(sum(1 / (STEP_CONSTANT + place) for place in expected.values()))
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_what_only_a_step_asks_for_is_found(index: sg.Index, embedder: CountingEmbedder) -> None:
    with opened(index, embedder, splitting(["newest pier Elmworth"])) as asked:
        found = asked.retrieve("Who paints boats?", k=3, method="walk", decompose="questions")
    assert "buried" in [hit.documents[0] for hit in found]


def test_a_question_of_one_step_is_searched_for_as_it_is(index: sg.Index, embedder: CountingEmbedder) -> None:
    for answer in ([], [QUESTION], ["", "?", None]):
        with opened(index, embedder, splitting(answer)) as asked:
            found = asked.retrieve(QUESTION, decompose="questions")
            assert found.hits == asked.retrieve(QUESTION).hits


def test_no_more_steps_than_stated(index: sg.Index, embedder: CountingEmbedder) -> None:
    before = embedder.questions
    with opened(index, embedder, splitting([f"Where is pier {n}?" for n in range(20)])) as asked:
        found = asked.retrieve(QUESTION, method="walk", decompose="questions")
    assert (found.usage.calls, embedder.questions - before) == (1, 1 + MOST)


def test_off_by_default_and_refused_without_a_model(index: sg.Index, embedder: CountingEmbedder) -> None:
    model = splitting()
    with opened(index, embedder, model) as asked:
        asked.retrieve(QUESTION)
        assert model.calls == 0
    with pytest.raises(ValueError, match="this index has none: open it with llm="):
        index.retrieve(QUESTION, decompose="questions")
    for wrong in ("steps", 2, None):
        with pytest.raises(ValueError, match='decompose must be False, True, "names" or "questions"'):
            index.retrieve(QUESTION, decompose=wrong)


def test_a_model_that_fails_leaves_the_question(index: sg.Index, embedder: CountingEmbedder) -> None:
    with opened(index, embedder, model_of("no JSON at all")) as asked:
        with pytest.warns(RuntimeWarning, match="could not split the question"):
            found = asked.retrieve(QUESTION, decompose="questions")
        assert found.hits == asked.retrieve(QUESTION).hits
    with opened(index, embedder, model_of(None, faults=["auth"])) as asked, pytest.raises(ModelError):
        asked.retrieve(QUESTION, decompose="questions")
    with (
        opened(index, embedder, splitting(), budget=sg.Budget(tokens=1)) as asked,
        pytest.raises(BudgetExceeded),
    ):
        asked.retrieve(QUESTION, decompose="questions")


class Reversed:
    """Prefers the last text."""

    def rerank(self, question: str, texts: list[str]) -> list[float]:
        assert question == QUESTION
        return [float(place) for place in range(len(texts))]


def test_a_reranker_sees_what_all_steps_found(index: sg.Index, embedder: CountingEmbedder) -> None:
    with opened(index, embedder, splitting()) as asked:
        options: dict[str, Any] = {"method": "walk", "decompose": "questions"}
        found = asked.retrieve(QUESTION, k=4, rerank=Reversed(), **options)
        candidates = asked.retrieve(QUESTION, k=16, **options)
    assert [hit.id for hit in found] == [hit.id for hit in candidates.hits[::-1][:4]]


def test_langchain_and_llama_index_hand_it_on(embedder: CountingEmbedder) -> None:
    with sg.build_index([*documents(40), BURIED], "lshtree", embedder=embedder, progress=False) as built:
        model = splitting()
        with opened(built, embedder, model) as core:
            expected = [hit.id for hit in core.retrieve(QUESTION, 5, decompose="questions")]
            retriever = TreeRetriever(index=core, k=5)
            documents_found = retriever.invoke(QUESTION, decompose="questions")
            nodes = (
                LSHTreeIndex(core=core, llm=False)
                .as_retriever(similarity_top_k=5, decompose="questions")
                .retrieve(QUESTION)
            )
    assert [each.metadata["stratagraph"]["id"] for each in documents_found] == expected
    assert [each.node.metadata["stratagraph"]["id"] for each in nodes] == expected
    assert set(nodes[0].node.metadata["stratagraph"]["trace"]["questions"]) <= {QUESTION, *STEPS}
    assert model.calls == 1  # the answer is cached


def test_an_answer_is_made_of_what_was_found(embedder: CountingEmbedder) -> None:
    def answers(prompt: str) -> str:
        return (
            json.dumps({"questions": STEPS})
            if "<question>" in prompt and "split" in prompt
            else "Elmworth [1]."
        )

    with sg.build_index([*documents(40), BURIED], embedder=embedder, progress=False) as built:
        model = model_of(answers)
        with opened(built, embedder, model) as asked:
            answer = asked.answer(QUESTION, decompose="questions", guided=False)
            assert (model.calls, answer.usage.calls) == (2, 2)
            assert {name for each in answer.retrieval.trace for name in each["questions"]} <= {
                QUESTION,
                *STEPS,
            }
            with pytest.raises(TypeError, match="'decompose' says how to search"):
                asked.answer(answer.retrieval, decompose="questions")


def test_the_estimate_of_a_question_calls_nothing_and_is_near_what_it_costs(
    embedder: CountingEmbedder,
) -> None:
    def answers(prompt: str) -> str:
        return json.dumps({"questions": STEPS}) if "You split a question" in prompt else "Elmworth [1]."

    with sg.build_index([*documents(40), BURIED], embedder=embedder, progress=False) as built:
        model = model_of(answers)
        with opened(built, embedder, model) as asked:
            before = embedder.questions
            plain = asked.estimate_question(QUESTION, guided=False)
            split = asked.estimate_question(QUESTION, decompose="questions", rerank=Reversed(), guided=False)
            alone = asyncio.run(asked.aestimate_question(QUESTION, answer=False, decompose="questions"))
            assert (model.calls, embedder.questions) == (0, before)
            assert (plain.calls, split.calls, alone.calls) == (1, 2, 1)
            assert 150 < alone.input_tokens < split.input_tokens - 300
            spent = asked.answer(QUESTION, decompose="questions", guided=False).usage
            assert (spent.calls, embedder.questions - before) == (2, 3)
            assert split.input_tokens == pytest.approx(spent.input_tokens, rel=0.3)
            assert (
                asked.estimate_question(QUESTION, answer=False, decompose="questions").usage.cached_calls == 1
            )
        assert built.estimate_question(QUESTION).calls == 0
