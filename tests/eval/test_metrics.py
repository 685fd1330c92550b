"""Metrics against trec_eval and scipy on random data, and against worked examples."""

from __future__ import annotations

import random
import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.eval import Difference, metrics, paired_difference
from stratagraph.eval.metrics import context_of, ndcg_at, recall_at, reciprocal_rank

DOCUMENTS = [f"d{number}" for number in range(30)]
RANKINGS = st.lists(st.sampled_from(DOCUMENTS), max_size=25)
GOLD = st.sets(st.sampled_from(DOCUMENTS), min_size=1, max_size=6)
WORDS = ["ferry", "bell", "island", "salt", "bridge", "comet", "captain", "oil", "letter", "winter"]
TEXTS = st.lists(st.sampled_from([*WORDS, "the", "yes", "no"]), max_size=12).map(" ".join)
PIECES = st.lists(st.text("ab c", min_size=1), max_size=8)
SCORES = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=2, max_size=40)


def count_words(text: str) -> int:
    return len(text.split())


def test_retrieval_metrics_equal_those_of_trec_eval() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    rng = random.Random(7)
    queries = {
        f"q{n}": (rng.sample(DOCUMENTS, rng.randint(1, 30)), set(rng.sample(DOCUMENTS, rng.randint(1, 6))))
        for n in range(200)
    }
    qrels = [ir_measures.Qrel(key, document, 1) for key, (_, gold) in queries.items() for document in gold]
    run = [
        ir_measures.ScoredDoc(key, document, float(-place))
        for key, (ranking, _) in queries.items()
        for place, document in enumerate(ranking)
    ]
    ours = {"R": recall_at, "nDCG": ndcg_at, "RR": reciprocal_rank}
    for k in (1, 2, 5, 10, 30):
        wanted = [ir_measures.parse_measure(f"{name}@{k}") for name in ours]
        values = list(ir_measures.iter_calc(wanted, qrels, run))
        assert len(values) == len(wanted) * len(queries)
        for value in values:
            metric = ours[str(value.measure).partition("@")[0]]
            assert metric(*queries[value.query_id], k) == pytest.approx(value.value, abs=1e-6)


@given(RANKINGS, GOLD, st.integers(1, 30))
def test_a_repeated_document_gains_nothing_and_takes_its_place(
    ranking: list[str], gold: set[str], k: int
) -> None:
    doubled = [document for document in ranking for _ in range(2)]
    assert ndcg_at(doubled, gold, k) <= ndcg_at(ranking, gold, k) + 1e-12
    assert recall_at(doubled, gold, 2 * k) == recall_at(ranking, gold, k)


@given(st.text(string.ascii_letters + string.punctuation + " ", max_size=60))
def test_normalisation_is_that_of_squad(text: str) -> None:
    # The steps of the official script, in its order.
    lowered = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    assert metrics.normalized(text) == " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("It was written by Ada Lovelace, in 1843.", ["the Ada Lovelace"], True),
        ("A stargazer", ["star"], False),
        ("The U.S. army", ["US"], True),
        ("他出生于北京市。", ["北京"], True),
        ("Il est né à Orléans", ["ORLÉANS"], True),
        ("anything", [""], False),
        ("", ["answer"], False),
        ("one of two", ["three", "two"], True),
    ],
)
def test_an_answer_is_found_as_whole_words(text: str, answers: list[str], found: bool) -> None:
    assert metrics.contains_answer(text, answers) is found


@given(PIECES, st.integers(1, 30))
def test_a_context_keeps_to_its_budget(texts: list[str], budget: int) -> None:
    context = context_of(texts, budget, count_words)
    assert count_words(context) <= budget
    if count_words(" ".join(dict.fromkeys(texts))) <= budget:
        assert all(text.strip() in context for text in texts)


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


def test_the_interval_equals_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(5)
    ours, reference = rng.random(80), rng.random(80) * 0.8
    difference = paired_difference(ours.tolist(), reference.tolist(), resamples=20_000)
    expected = stats.bootstrap(
        (ours - reference,), np.mean, n_resamples=20_000, method="percentile", rng=rng
    ).confidence_interval
    assert difference is not None
    assert (difference.low, difference.high) == pytest.approx((expected.low, expected.high), abs=0.005)


def test_scores_of_few_values_have_the_same_interval() -> None:
    rng = np.random.default_rng(6)
    few = rng.integers(0, 3, 300) / 2
    coarse = paired_difference(few.tolist(), [0.0] * 300)
    fine = paired_difference((few + rng.random(300) * 1e-6).tolist(), [0.0] * 300)
    assert coarse is not None
    assert fine is not None
    assert (coarse.low, coarse.high) == pytest.approx((fine.low, fine.high), abs=0.004)


@given(SCORES, st.randoms(use_true_random=False))
def test_the_difference_is_antisymmetric_and_repeatable(scores: list[float | None], rng: object) -> None:
    other = list(scores)
    rng.shuffle(other)  # type: ignore[attr-defined]
    forward = paired_difference(scores, other, resamples=50)
    backward = paired_difference(other, scores, resamples=50)
    assert forward == paired_difference(scores, other, resamples=50)
    if forward is None or backward is None:
        assert sum(a is not None and b is not None for a, b in zip(scores, other, strict=True)) < 2
        return
    assert forward.mean == pytest.approx(-backward.mean)
    assert forward.low <= forward.high
    assert forward.questions == backward.questions


def test_only_questions_with_both_scores_count() -> None:
    assert paired_difference([1.0, None, 0.0], [None, 1.0, 0.0]) is None
    assert paired_difference([1.0, 1.0, None], [0.0, 0.0, 1.0]) == Difference(1.0, 1.0, 1.0, 2)
