"""Metrics of wording, against rouge-score and sacrebleu on random texts, and against worked examples."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.eval import metrics

WORDS = ["ferry", "bell", "island", "salt", "bridge", "comet", "captain", "oil", "letter", "winter"]
TEXTS = st.lists(st.sampled_from([*WORDS, "the", "yes", "no"]), max_size=12).map(" ".join)


def random_pairs(count: int) -> list[tuple[str, list[str]]]:
    rng = random.Random(3)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))

    return [(text(), [text() for _ in range(rng.randint(1, 3))]) for _ in range(count)]


def test_rouge_l_equals_that_of_the_reference_scorer() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    for answer, gold in random_pairs(100):
        expected = max(scorer.score(each, answer)["rougeL"].fmeasure for each in gold)
        assert metrics.rouge_l(answer, gold) == pytest.approx(expected)


def test_meteor_follows_its_definition() -> None:
    pytest.importorskip("nltk")
    # All four words match in one chunk: F-mean 1, penalty 0.5 * (1/4)**3.
    assert metrics.meteor("salt bridge comet bell", ["salt bridge comet bell"]) == pytest.approx(1 - 0.5 / 64)
    assert metrics.meteor("salt", ["oil"]) == 0
    assert metrics.meteor("letters", ["letter"]) > 0, "stems match"


@pytest.mark.parametrize(
    ("answer", "gold", "em", "f1"),
    [
        ("The Ferry!", ["ferry"], 1, 1),
        ("the old ferry of Sarn", ["ferry"], 0, 2 / 5),
        ("bell", ["ferry", "bell ringer"], 0, 2 / 3),
        ("", ["ferry"], 0, 0),
        ("北京市", ["北京"], 0, 4 / 5),
    ],
)
def test_exact_match_and_f1(answer: str, gold: list[str], em: float, f1: float) -> None:
    assert metrics.exact_match(answer, gold) == em
    assert metrics.token_f1(answer, gold) == pytest.approx(f1)


def test_yes_and_no_recall_nothing() -> None:
    for answer, gold in (("Yes, it did", ["yes"]), ("ferry", ["no ferry"]), ("no ferry", ["ferry"])):
        assert metrics.token_recall(answer, gold) == 0
    assert metrics.token_recall("a ferry at noon", ["noon ferry"]) == 1


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_every_metric_is_a_share_and_more_gold_never_harms(answer: str, gold: list[str]) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("rouge_score")
    for name, metric in metrics.METRICS.items():
        value = metric(answer, gold)
        assert 0 <= value <= 1 + 1e-9, name
        if name != "bleu1":  # its brevity penalty follows the gold answer that is nearest in length
            assert metric(answer, [*gold, "winter letter"]) >= value - 1e-9, name


@given(TEXTS.filter(lambda text: len(metrics.tokens(text)) > 0))
def test_the_gold_answer_itself_is_right(text: str) -> None:
    assert metrics.accuracy(text, [text]) == 1
    assert metrics.exact_match(text, [text]) == 1
    assert metrics.token_f1(text, [text]) == pytest.approx(1)
