from __future__ import annotations

import pytest
from tests.cases import cases

import stratagraph as sg
from stratagraph.ingest.headings import is_byline
from stratagraph.ingest.summarize import even_limit, extractive_summary, fitted, told_once


def words(text: str) -> int:
    return len(text.split())


TEXTS = [
    "The lighthouse keeper repaired the lamp. Ada brought him oil. It rained.",
    "The lamp of the lighthouse burns oil. The keeper of the lighthouse is old. Cats sleep.",
    "The lighthouse keeper repaired the lamp. Bread was baked.",
]


@pytest.mark.parametrize(("texts", "expected"), cases(__file__, "told once"))
def test_a_statement_is_told_with_the_first_that_it_speaks_of(texts: list[str], expected: list[str]) -> None:
    assert told_once(texts) == expected


def test_short_sentences_with_an_added_name_stay_together() -> None:
    log = "[Crake Light:] 2 March. Wind west. No boat."
    assert extractive_summary([log, "The light of Crake burns oil."], 40, words).splitlines()[0] == log
    assert extractive_summary(["Wind west. No boat came."], 40, words) == "Wind west.\nNo boat came."


def test_sentences_are_taken_word_for_word_and_in_order() -> None:
    summary = extractive_summary(TEXTS, 20, words)
    whole = " ".join(TEXTS)
    places = [whole.index(sentence) for sentence in summary.splitlines()]
    assert places == sorted(places)
    assert words(summary) <= 20


def test_the_common_subject_wins_over_asides() -> None:
    summary = extractive_summary(TEXTS, 14, words)
    assert "lighthouse" in summary
    assert "Bread" not in summary


def test_repeats_come_once() -> None:
    assert extractive_summary(TEXTS, 500, words).count("repaired the lamp") == 1
    assert extractive_summary(["Same words here."] * 5, 500, words) == "Same words here."


def test_one_endless_sentence_is_cut() -> None:
    assert 0 < words(extractive_summary(["word " * 900], 30, words)) <= 30


def test_no_text_no_summary() -> None:
    assert extractive_summary([], 30, words) == ""
    assert extractive_summary(["   "], 30, words) == ""


def test_a_text_that_is_a_byline_tells_nothing() -> None:
    byline = "The Hathe Courant, 6 May 1889."
    assert extractive_summary([byline, TEXTS[0]], 20, words).splitlines()[0] == TEXTS[0].split(". ")[0] + "."
    assert extractive_summary([byline], 20, words) == byline


def test_no_byline_is_remembered_after_a_delete_or_a_replacement() -> None:
    documents = [sg.Document(f"d{n}", f"Ada Marsh met Otto Lind {n}. {text}") for n, text in enumerate(TEXTS)]
    with sg.build_index(documents, "lshtree", embedder=sg.HashingEmbedder(64), progress=False) as index:
        assert is_byline.cache_info().currsize
        index.delete(["d0"])
        assert not is_byline.cache_info().currsize
        index.insert([sg.Document("d9", TEXTS[0])])
        assert is_byline.cache_info().currsize
        index.insert([sg.Document("d9", TEXTS[1])])
        assert not is_byline.cache_info().currsize


def test_texts_share_their_room_and_end_with_a_sentence() -> None:
    texts = ["It is so and so. " * 20, "A short one.", "It is so and so. " * 20]
    cut = fitted(texts, 43, words)
    assert [words(text) for text in cut] == [20, 3, 20]
    assert all(text.endswith(".") for text in cut)
    assert fitted(texts, 1000, words) == texts
    assert fitted([], 10, words) == []


def test_a_text_without_room_for_a_sentence_is_left_out_unless_it_is_the_only_one() -> None:
    assert fitted(["endless " * 50, "A short one."], 20, words) == ["A short one."]
    assert fitted(["endless " * 50], 20, words) == [" ".join(["endless"] * 20)]


@pytest.mark.parametrize(
    ("costs", "total", "limit"), [([5, 1, 9], 100, 9), ([5, 1, 9], 9, 4), ([], 7, 0), ([4], -1, 0)]
)
def test_costs_share_a_total(costs: list[int], total: int, limit: int) -> None:
    assert even_limit(costs, total) == limit
