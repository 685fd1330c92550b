"""BM25 over stored arrays: the formula against an independent implementation, languages, masks, bad input."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratagraph.ingest import lexical
from stratagraph.ingest.lexical import K1, B, LexicalIndex, best

CATS = ["The cat sat on the mat.", "Cats chase mice.", "A dog barked at the cats and the cat.", "Rain fell."]
MEGABYTE = 1 << 20


def index(passages: list[str]) -> LexicalIndex:
    return LexicalIndex(LexicalIndex.build(passages))


def found(question: str, passages: list[str], **options: Any) -> list[int]:
    rows: list[int] = best(*index(passages).scores(question, **options), 10).rows.tolist()
    return rows


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6))
def test_scores_are_those_of_bm25s(size: int, seed: int) -> None:
    bm25s = pytest.importorskip("bm25s")
    rng = np.random.default_rng(seed)
    vocabulary = [f"x{number}" for number in range(30)]  # words that no rule stems
    texts = [rng.choice(vocabulary, rng.integers(1, 20)).tolist() for _ in range(size)]
    question = [
        word for word in rng.permutation(vocabulary)[:6].tolist() if any(word in text for text in texts)
    ]
    rows, scores = index([" ".join(text) for text in texts]).scores(" ".join(question))
    if not question:
        assert not len(rows)
        return
    other = bm25s.BM25(method="lucene", k1=K1, b=B)
    other.index(texts, show_progress=False)
    expected = other.get_scores(question)
    assert np.array_equal(rows, np.flatnonzero(expected))
    np.testing.assert_allclose(scores, expected[rows], rtol=1e-4)


def test_words_are_stemmed_folded_and_counted() -> None:
    assert sorted(found("cat", CATS)) == sorted(found("cats", CATS)) == [0, 1, 2]
    assert found("raining", ["It rained all day.", "Sun shone for the day."]) == [0]


@pytest.mark.parametrize(
    ("language", "passages", "question"),
    [
        ("german", ["Die Gärten und der Zaun", "Das ist nicht der Baum"], "Zäune Garten Gärtens"),
        ("french", ["Une maison dans les bois", "Les chats dorment pour vivre"], "maisons"),
        ("russian", ["Он читал книги и не спал", "На улице был дождь"], "книга"),
        ("spanish", ["Los gatos corren por el parque", "La casa fue de los padres"], "corriendo"),
    ],
)
def test_the_language_of_the_corpus_decides_the_stems(
    language: str, passages: list[str], question: str
) -> None:
    made = index(passages)
    assert made.language == language
    assert best(*made.scores(question), 5).rows.tolist() == [0]


def test_writing_without_spaces_is_found_by_two_characters() -> None:
    passages = ["東京大学は日本の大学です。", "京都は古い都市です。", "ไปโรงเรียนทุกวัน"]
    assert found("東京大学", passages)[0] == 0
    assert found("京都", passages)[0] == 1
    assert found("โรงเรียน", passages) == [2]


def test_a_mask_admits_and_changes_no_score() -> None:
    made = index(CATS)
    scores = made.scores("cat").scores
    mask = np.array([False, True, True, True])
    admitted, same = made.scores("cat", mask)
    assert admitted.tolist() == [1, 2]
    assert np.array_equal(same, scores[1:])


def test_an_empty_corpus_and_blank_passages() -> None:
    assert found("cat", []) == []
    assert found("cat", ["", " ", "!"]) == []
    assert found("cat", ["", "cat"]) == [1]


def test_a_question_of_a_megabyte_reads_a_bounded_number_of_postings(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [f"common w{number} w{number // 2}" for number in range(500)]
    question = " ".join(["common", *(f"w{number}" for number in range(500))])
    monkeypatch.setattr(lexical, "MOST_POSTINGS", 100)
    rows, _ = index(passages).scores(question * (MEGABYTE // len(question)))
    assert 0 < len(rows) <= 100
    assert len(index(passages).scores("common")[0]) == 0
    assert best(*index(passages).scores("common w250"), 5).rows.tolist() == [250]


def set_to(name: str, value: int) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name][:] = value

    return change


@pytest.mark.parametrize(
    "change", [set_to("rows", -1), set_to("rows", 99), set_to("starts", -5), set_to("starts", 2**62)]
)
def test_damage_is_a_named_error(change: Callable[[dict[str, Any]], None]) -> None:
    arrays = LexicalIndex.build(CATS)
    change(arrays)
    with pytest.raises(ValueError, match="damaged"):
        LexicalIndex(arrays).scores("cat")


def test_threads_stem_alike() -> None:
    made = index(CATS)
    questions = [f"cats barking chased running{number} matting" for number in range(400)]
    alone = [made.scores(question).rows.tolist() for question in questions]
    lexical._stemmed.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda question: made.scores(question).rows.tolist(), questions))
    assert together == alone


def test_words_brought_up_to_date_are_those_read_anew() -> None:
    chance = random.Random(3)
    said = [
        *("the", "cat", "cats", "sat", "on", "a", "mat", "running", "runs", "ran"),
        *("of", "house", "houses", "blue", "and", "was"),
    ]
    before = [" ".join(chance.choices(said, k=chance.randrange(30))) for _ in range(60)]
    rows_before = np.array(sorted(chance.sample(range(60), 40)))
    rows_before[::3] = -1  # every third is replaced
    coming = [" ".join(chance.choices([*said, "unheard"], k=9)) for row in rows_before if row < 0]
    fresh = iter(coming)
    gone = [text for row, text in enumerate(before) if row not in rows_before]
    updated = LexicalIndex.updated(LexicalIndex.build(before), rows_before, gone, coming)
    built = LexicalIndex.build([next(fresh) if row < 0 else before[row] for row in rows_before])
    assert updated is not None
    assert updated.keys() == built.keys()
    for name, array in built.items():
        assert updated[name].dtype == array.dtype, name
        assert updated[name].tolist() == array.tolist(), name


def test_words_are_read_anew_in_another_language() -> None:
    before = LexicalIndex.build(["the cat and the dog", "the house of the cat"])
    german = ["der Hund und die Katze und das Haus der Katze ist nicht der Hund und der die das"]
    assert LexicalIndex.updated(before, np.array([0, 1, -1]), [], german) is None
