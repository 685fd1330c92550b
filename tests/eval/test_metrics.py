"""Retrieval metrics, against trec_eval (through ir-measures) on random rankings."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratagraph.eval.metrics import (
    contains_answer,
    context_of,
    fitting,
    is_yes_no,
    ndcg_at,
    normalized,
    recall_at,
    reciprocal_rank,
)

DOCUMENTS = [f"d{number}" for number in range(30)]
RANKINGS = st.lists(st.sampled_from(DOCUMENTS), max_size=25)
GOLD = st.sets(st.sampled_from(DOCUMENTS), min_size=1, max_size=6)
CUTOFFS = st.integers(1, 30)


def count_words(text: str) -> int:
    return len(text.split())


def random_queries(count: int) -> dict[str, tuple[list[str], set[str]]]:
    rng = random.Random(7)
    return {
        f"q{number}": (
            rng.sample(DOCUMENTS, rng.randint(1, len(DOCUMENTS))),
            set(rng.sample(DOCUMENTS, rng.randint(1, 6))),
        )
        for number in range(count)
    }


def test_metrics_equal_those_of_trec_eval() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    queries = random_queries(200)
    qrels = [ir_measures.Qrel(key, document, 1) for key, (_, gold) in queries.items() for document in gold]
    run = [
        ir_measures.ScoredDoc(key, document, float(-place))
        for key, (ranking, _) in queries.items()
        for place, document in enumerate(ranking)
    ]
    ours = {
        "R": lambda ranking, gold, k: recall_at(ranking, gold, k),
        "nDCG": lambda ranking, gold, k: ndcg_at(ranking, gold, k),
        "RR": lambda ranking, gold, k: reciprocal_rank(ranking, gold, k),
    }
    for k in (1, 2, 5, 10, 30):
        wanted = [ir_measures.parse_measure(f"{name}@{k}") for name in ours]
        values = list(ir_measures.iter_calc(wanted, qrels, run))
        assert len(values) == len(wanted) * len(queries)
        for value in values:
            name = str(value.measure).partition("@")[0]
            assert ours[name](*queries[value.query_id], k) == pytest.approx(value.value, abs=1e-6)


@given(RANKINGS, GOLD, CUTOFFS)
def test_a_repeated_document_gains_nothing_and_takes_its_place(
    ranking: list[str], gold: set[str], k: int
) -> None:
    doubled = [document for document in ranking for _ in range(2)]
    assert ndcg_at(doubled, gold, k) <= ndcg_at(ranking, gold, k) + 1e-12
    assert recall_at(doubled, gold, 2 * k) == recall_at(ranking, gold, k)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be at least 1"):
        recall_at(["d0"], {"d0"}, 0)
    with pytest.raises(ValueError, match="without gold"):
        ndcg_at(["d0"], set(), 5)


@given(st.text(string.ascii_letters + string.punctuation + " ", max_size=60))
def test_normalisation_is_that_of_squad(text: str) -> None:
    import re

    # The steps of the official script, in its order.
    lowered = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    assert normalized(text) == " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


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
    assert contains_answer(text, answers) is found


def test_yes_and_no_are_told_from_other_answers() -> None:
    assert is_yes_no(["Yes."])
    assert not is_yes_no(["Noon", "no one"])


@given(st.lists(st.text("ab c", min_size=1), max_size=8), st.integers(1, 30))
def test_a_context_keeps_to_its_budget(texts: list[str], budget: int) -> None:
    context = context_of(texts, budget, count_words)
    assert count_words(context) <= budget
    if count_words(" ".join(dict.fromkeys(texts))) <= budget:
        assert all(text.strip() in context for text in texts)


@given(st.lists(st.text("ab c", min_size=1), max_size=8), st.integers(1, 30))
def test_what_fits_is_what_the_context_holds_in_full(texts: list[str], budget: int) -> None:
    held = fitting(texts, budget, count_words)
    assert sum(count_words(text) for text in dict.fromkeys(texts[:held])) <= budget
    if held < len(texts):
        assert sum(count_words(text) for text in dict.fromkeys(texts[: held + 1])) > budget
