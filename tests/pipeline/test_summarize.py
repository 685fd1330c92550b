from __future__ import annotations

from stratarag.pipeline.summarize import extractive_summary


def words(text: str) -> int:
    return len(text.split())


TEXTS = [
    "The lighthouse keeper repaired the lamp. Ada brought him oil. It rained.",
    "The lamp of the lighthouse burns oil. The keeper of the lighthouse is old. Cats sleep.",
    "The lighthouse keeper repaired the lamp. Bread was baked.",
]


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
