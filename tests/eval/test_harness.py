"""Whole evaluations: of the demo corpus, of rankers that fail, with a model that answers and judges."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from stratagraph import HashingEmbedder
from stratagraph.eval import AnswerConfig, Dataset, Evaluation, Passage, Question, Ranker, evaluate
from stratagraph.eval.names import PLAIN
from stratagraph.methods import WAYS
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.types.records import Document

DOCUMENTS = (
    Document("ferry", "The ferry sails at seven from Sarn."),
    Document("honey", "Honey of Orrin won the prize."),
    Document("bell", "The bell of Sarn rings at noon."),
)
QUESTIONS = (
    Question("q1", "When does the ferry sail?", ("seven",), ("ferry",), "time"),
    Question("q2", "What won the prize?", ("honey",), ("honey",), "thing"),
    Question("q3", "Does the bell ring at noon?", ("yes",), ("bell",), "time"),
    Question("q4", "What is not told?", (), ()),
)
SMALL = Dataset("small", DOCUMENTS, QUESTIONS)
QUICK = {"resamples": 200, "k": (1, 2), "budgets": (20,)}


class Fixed(Ranker):
    """A ranker of someone's own: always the same order."""

    def __init__(self, name: str, *order: str, fails_at: str = "") -> None:
        self.name = name
        self.description = "always the same"
        self._order = order
        self._fails_at = fails_at
        self.asked: list[tuple[str, int]] = []

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        self.asked.append((question, k))
        if self._fails_at and self._fails_at in question:
            raise RuntimeError("lost the map")
        texts = {document.id: document.text for document in DOCUMENTS}
        return [Passage(texts[each], (each,)) for each in self._order[:k]]


@pytest.fixture(scope="module")
def demo() -> Evaluation:
    config = {"tokenizer": "estimate-1"}
    return evaluate("demo", embedder=HashingEmbedder(), config=config, budgets=(1000,), resamples=100)


def test_data_by_which_nothing_could_be_scored_are_refused() -> None:
    data = Dataset("bare", DOCUMENTS, (Question("q", "When?"), Question("r", "What?")))
    with pytest.raises(
        ValueError, match=r"none of the 2 questions of 'bare' has an answer or gold documents"
    ):
        evaluate(data, [Fixed("mine", "ferry")], reference="", embedder=FakeEmbedder())


def test_the_demo_corpus_with_all_methods(demo: Evaluation) -> None:
    assert [row.name for row in demo.rows] == [*WAYS, "dense", "bm25", "hybrid"]
    for row in demo.rows:
        assert not row.error, row
        assert demo.mean(row.name, "recall@10") > 0.5  # type: ignore[operator]
        assert len(row.latency_ms) == len(demo.questions) == 29
        assert (row.indexing is None) == (row.name in PLAIN), "plain rankings need nothing of their own"
    assert demo.types == ("multi-hop", "one-hop", "theme")
    assert set(demo.row("bm25").differences) >= {"recall@5", "answer@1000", "tokens@5"}
    assert not demo.row("dense").differences
    stages = demo.row(WAYS[0]).indexing.stages  # type: ignore[union-attr]
    assert sum(usage.seconds for usage in stages.values()) > 0
    assert demo.row(WAYS[0]).indexing.bytes > 10_000  # type: ignore[union-attr,operator]


def test_the_tables_name_what_they_show(demo: Evaluation) -> None:
    text = str(demo)
    for part in (
        "demo: 29 questions, 51 documents",
        "R@5",
        "nDCG@10",
        "p95 ms",
        "difference to dense",
        "theme (5)",
    ):
        assert part in text
    assert re.search(r"^dense +\.\d{3} ", text, re.MULTILINE)


def test_json_and_csv_hold_everything(demo: Evaluation, tmp_path: Path) -> None:
    demo.save_json(tmp_path / "out.json")
    read = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert read == json.loads(json.dumps(demo.to_dict()))
    assert read["rows"][0]["means"]["recall@5"] == demo.mean(WAYS[0], "recall@5")
    assert len(read["rows"][0]["scores"]["recall@5"]) == len(read["questions"])
    demo.save_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(demo.rows) * 4
    dense = next(line for line in lines if (line["name"], line["type"]) == ("dense", "all"))
    assert float(dense["recall@5"]) == pytest.approx(demo.mean("dense", "recall@5"), rel=1e-5)


def test_rankers_of_ones_own_and_their_scores() -> None:
    perfect = Fixed("fixed", "ferry", "honey", "bell")
    found = evaluate(SMALL, [perfect], embedder=FakeEmbedder(), **QUICK)
    assert [row.name for row in found.rows] == ["fixed", "dense"], "the reference is measured too"
    scores = found.row("fixed").scores
    assert scores["recall@1"] == (1, 0, 0, None)
    assert scores["recall@2"] == (1, 1, 0, None)
    assert scores["mrr@2"] == (1, 0.5, 0, None)
    assert scores["answer@20"] == (1, 1, None, None), "neither yes and no, nor what has no answer"
    assert found.mean("fixed", "recall@2") == pytest.approx(2 / 3)
    assert found.mean("fixed", "recall@2", "time") == 0.5
    assert set(found.notes.values()) == {("q4",)}
    assert "q4" in str(found)


def test_a_summary_in_the_context_is_none_of_its_documents() -> None:
    class Summary(Fixed):
        def rank(self, question: str, k: int) -> Sequence[Passage]:
            return [Passage("All of it.", ("ferry", "honey", "bell"))]

    found = evaluate(SMALL, [Summary("summary")], embedder=FakeEmbedder(), **QUICK)
    assert found.mean("summary", "recall@20t") == 0


def test_a_ranker_that_fails_has_a_row_that_says_so_and_the_others_stand() -> None:
    broken = Fixed("broken", "ferry", fails_at="prize")
    found = evaluate(SMALL, [broken, Fixed("sound", "bell")], embedder=FakeEmbedder(), **QUICK)
    assert found.row("broken").error == "RuntimeError: lost the map (at question 'q2', 2 of 4)"
    assert not found.row("broken").scores, "half the questions are no result"
    assert not found.row("sound").error
    assert found.mean("sound", "recall@1") == pytest.approx(1 / 3)
    assert found.mean("broken", "recall@1") is None
    assert "failed: broken: RuntimeError: lost the map" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_latency_is_of_the_largest_k_and_without_the_first_call() -> None:
    ranker = Fixed("fixed", "ferry", "honey", "bell")
    found = evaluate(SMALL, [ranker], embedder=FakeEmbedder(), k=(1,), budgets=(1000,), resamples=50)
    assert ranker.asked[:3] == [(QUESTIONS[0].question, k) for k in (1, 1, 20)], "the last for the context"
    assert len(found.row("fixed").latency_ms) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["magic"]}, "no method or ranking 'magic'; choose from"),
        ({"methods": ["dense", "dense"]}, "named twice"),
        ({"k": (0, 5)}, "k must be whole numbers from 1"),
        ({"k": ()}, "at least one value"),
        ({"budgets": (-5,)}, "budgets must be whole numbers"),
        ({"view": "trees"}, "view must be one of"),
        ({"reference": "magic"}, "reference 'magic' is not among"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(SMALL, **{"methods": ["dense"], **arguments}, embedder=FakeEmbedder())  # type: ignore[arg-type]


def answering(prompt: str) -> str:
    """Answers with what stands in the context; judges by the same word."""
    if "reference-answers" in prompt:
        gold, answer = (
            re.search(rf"<{tag}>\n(.*?)\n</{tag}>", prompt, re.DOTALL)[1]  # type: ignore[index]
            for tag in ("reference-answers", "answer")
        )
        return json.dumps({"correct": gold.removeprefix("- ") in answer})
    question = prompt.rpartition("<question>")[2]
    if "bell" in question:
        return "garbage" * 100 if "no such passage" in prompt else "Yes, it rings."
    return next((word for word in ("seven", "honey") if word in prompt.lower()), "unknown")


def test_answers_are_scored_and_judged() -> None:
    model = ScriptedChatModel(answering)
    rankers = [Fixed("right", "ferry", "honey", "bell"), Fixed("wrong", "bell")]
    settings = {**QUICK, "reference": "wrong", "embedder": FakeEmbedder()}
    found = evaluate(SMALL, rankers, llm=model, answers=AnswerConfig(max_tokens=8), **settings)
    right, wrong = found.row("right"), found.row("wrong")
    assert not right.error
    assert right.answers == ("seven", "seven", "Yes, it rings.", "seven")
    assert wrong.answers == ("unknown", "unknown", "Yes, it rings.", "unknown")
    assert right.scores["accuracy"] == (1, 0, 1, None)
    assert right.scores["em"] == (1, 0, 0, None)
    assert right.scores["judged"] == (1, 0, 0, None)
    assert right.usage.calls + right.usage.cached_calls == 4
    assert right.judging.calls + right.judging.cached_calls == 3
    assert "accuracy" in right.differences
    assert "judged" in str(found)


def test_a_judge_that_talks_nonsense_leaves_the_metrics_of_wording() -> None:
    config = AnswerConfig(judge_llm=ScriptedChatModel("Hard to say."))
    found = evaluate(
        SMALL,
        [Fixed("fixed", "ferry")],
        llm=ScriptedChatModel("seven"),
        answers=config,
        embedder=FakeEmbedder(),
        **QUICK,
    )
    row = found.row("fixed")
    assert not row.error
    assert row.scores["em"] == (1, 0, 0, None)
    assert row.scores["judged"] == (None,) * 4
    assert [failure.stage for failure in row.failures] == ["judge fixed"] * 3
    assert "failed: judge fixed: 3 of 4 questions" in str(found)
