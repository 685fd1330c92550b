"""Contexts under a budget: which sentences of the hits they hold."""

from __future__ import annotations

import pickle
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import stratagraph as sg
from stratagraph.demo import documents, questions
from stratagraph.text.packing import numbered, pack
from stratagraph.types.results import Context, Hit, Retrieval


def words(text: str) -> int:
    return len(text.split())


def context(question: str, *texts: str, budget: int, similarities: tuple[float, ...] = ()) -> Context:
    hits = tuple(Hit(f"h{n}", "chunk", 0, text, 1.0, (f"c{n}",), (f"d{n}",)) for n, text in enumerate(texts))
    trace = tuple({"similarity": each} for each in similarities)
    return Retrieval(question, "walk", hits, trace, count_tokens=words).context(budget)


FERRY = "Ferries\nThe Dunlin is old.\nIts crew is small.\nThe ferry to Ostra leaves at seven.\nFog is common."
SALT = "Salt\nSalt is dear.\nBoilers live at Panhythe.\nThe Dunlin brings it on Mondays.\nIt is grey."


def test_hits_that_fit_stay_whole_with_their_numbers() -> None:
    found = context("When does the ferry leave?", FERRY, SALT, budget=100)
    assert found.text == f"[1] {FERRY}\n\n[2] {SALT}"
    assert [(each.number, each.id, each.documents) for each in found.citations] == [
        (1, "h0", ("d0",)),
        (2, "h1", ("d1",)),
    ]


IGNORABLE = ("", *"\u200b\u2060\xad\u2062\ufeff\ufe0f\u20e3\u034f\u3164\U000e0101\x00")
DIGITS = ("2", "\uff12", "\u2461", "\u2777", "\u24f6", "\u0662", "\u00b2", "\U0001d7d0", "12")
BRACKETS = ("[]", "［］", "【】", "⟦⟧", "〔〕", "⁅⁆", "﹇﹈")


@given(
    st.sampled_from(("", "a\n", "a\u2028", "a\r\n", "a\n- ", "a\n_", "a\n[")),
    st.sampled_from(BRACKETS),
    st.sampled_from(DIGITS),
    st.lists(st.sampled_from((*IGNORABLE, " ", "#")), min_size=4, max_size=4),
)
def test_no_line_of_a_text_begins_like_the_number_of_another_text(
    before: str, brackets: str, digits: str, between: list[str]
) -> None:
    one, two, three, four = between
    text = f"{before}{one}{brackets[0]}{two}{digits}{three}{brackets[1]}{four} The ferry is cancelled."
    shown = context("q", text, budget=100).text.removeprefix("[1] ")
    plain = "".join(each for each in unicodedata.normalize("NFKD", shown) if each not in IGNORABLE)
    assert not re.search(r"(?:\A|[\n\u2028])[\W_]*[\[\u3010\u27e6\u3014\u2045]\W*\d", plain)
    assert digits in shown


@pytest.mark.parametrize("mark", ["[\u4e8c]", "[\u3281]", "\u300c2\u300d", "\u2e552\u2e56"])
def test_numerals_of_other_scripts_and_corner_brackets_are_no_number_either(mark: str) -> None:
    assert numbered(1, f"a\n{mark} b") == f"[1] a\n({mark[1]}) b"


@given(st.text().filter(lambda text: text.strip() and "[" not in unicodedata.normalize("NFKC", text)))
def test_a_text_without_a_number_in_brackets_is_shown_as_it_is(text: str) -> None:
    assume(not set(text) & set("".join(BRACKETS)))
    assert numbered(1, text) == f"[1] {text}"


def test_the_sentences_that_answer_stand_under_their_title() -> None:
    found = context("When does the ferry to Ostra leave?", FERRY, SALT, budget=14)
    assert found.text == "[1] Ferries\nThe ferry to Ostra leaves at seven."
    assert found.tokens <= 14


def test_sentences_stand_in_reading_order_with_a_mark_for_what_is_left_out() -> None:
    found = context("When does the ferry to Ostra leave, and is the Dunlin old?", FERRY, SALT, budget=18)
    assert found.text == "[1] Ferries\nThe Dunlin is old. \u2026 The ferry to Ostra leaves at seven."


def test_short_sentences_of_a_line_stay_together() -> None:
    chat = "Ada: Good morning! The ferry leaves at seven.\nBela: Thanks! I had no idea of it."
    other = "Carl: Has anyone seen my red umbrella?\nAda: No."
    found = context("When does the ferry leave?", chat, other, budget=12)
    assert found.text == "[1] Ada: Good morning! The ferry leaves at seven."


def test_a_name_that_a_chosen_sentence_brings_in_leads_to_other_hits() -> None:
    keeper = "The light\nThe keeper of the light is Hanna Siskin."
    pay = "Pay\nSmiths get 40 crowns.\nHanna Siskin gets 96 crowns.\nSailors get 30 crowns."
    found = context("Who is keeper of the light, and what is her wage?", keeper, pay, budget=24)
    assert "Hanna Siskin gets 96 crowns." in found.text
    assert "Smiths" not in found.text


def test_what_was_said_is_not_said_again() -> None:
    again = "News\nThe ferry to Ostra leaves at seven! Storms are near. Nobody sails."
    found = context("When does the ferry to Ostra leave?", FERRY, again, budget=24)
    assert found.text.count("leaves at seven") == 1
    assert context("What?", "one two three", "two three", "one two three", budget=100).text == (
        "[1] one two three"
    )


def test_the_hit_most_similar_to_the_question_gets_more() -> None:
    texts = ("A\nIt is red.\nIt is old.", "B\nIt is big.\nIt is new.", "C\nIt is wet.\nIt is cold.")
    near = context("How so?", *texts, budget=18, similarities=(0.1, 0.1, 0.9))
    assert "C\n" in near.text
    assert "B\n" not in near.text


def test_the_first_hit_is_cut_if_no_sentence_of_it_fits() -> None:
    found = context("What?", "word " * 500, "short", budget=20)
    assert found.text.startswith("[1] word word")
    assert 0 < found.tokens <= 20
    assert [each.number for each in found.citations] == [1]


def test_scripts_without_spaces_are_packed_by_pairs_of_characters() -> None:
    text = "渡船每天七点出发。今天下雨。鱼很贵。"
    found = context("渡船几点出发?", text, "盐很贵。路很长。", budget=3)
    assert "渡船每天七点出发" in found.text


@given(st.lists(st.text(alphabet="ab .\nC", max_size=60), max_size=8), st.integers(1, 30))
def test_the_budget_holds(texts: list[str], budget: int) -> None:
    found = context("Is a b?", *texts, budget=budget)
    assert found.tokens <= budget
    assert bool(found.citations) == any(text.strip() for text in texts)


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        context("q", "a", budget=0)


def test_contexts_of_the_demo_hold_the_answer_more_often_than_whole_hits_do() -> None:
    index = sg.build_index(documents(), embedder="hashing", progress=False)
    asked = [each for each in questions() if each.type != "theme"]
    packed = whole = 0
    for each in asked:
        found = index.retrieve(each.question, k=20)
        shown = found.context(1000)
        assert shown.tokens <= 1000
        assert pickle.loads(pickle.dumps(found.with_hits(found.hits))).context(1000) == shown
        for citation in shown.citations:
            assert citation.text == found.hits[citation.number - 1].text
        packed += any(answer.lower() in str(shown).lower() for answer in each.answers)
        first = found.with_hits(found.hits[:4]).context(4000)
        whole += any(answer.lower() in str(first).lower() for answer in each.answers)
    assert packed >= whole


def test_statements_of_a_theme_are_near_what_is_asked_and_unlike_each_other() -> None:
    tail = "with more words behind it, so that it is long enough to be a statement of its own for certain"
    texts = [
        f"The sea was calm {tail}.",
        f"Ada ran the school {tail}. The school was run by Ada {tail}. A clock stood there {tail}.",
        f"Bea led the strike {tail}. Their banner was blue {tail}.",
    ]
    north, east = np.eye(3, dtype=np.float32)[:2]
    ada, bea = [0.6, 0, 0.8], [0.5, 0.866, 0]
    known = [None, np.float32([ada, ada, [0, 0, 1]]), np.float32([bea, [0, 1, 0]])]

    def shown(*aims: np.ndarray) -> str:
        theme = np.stack(aims), known
        pieces = pack("themes", texts, 90, words, [0.0, 0.5, 0.5], theme=theme)
        return " ".join(piece.text for piece in pieces)

    one, both = shown(north), shown(north, east)
    assert all("The sea was calm" in each and "Ada ran the school" in each for each in (one, both))
    assert not any("was run by Ada" in each for each in (one, both))
    assert ("Bea led" in one, "Their banner" in one) == (True, False)
    assert ("Bea led" in both, "Their banner" in both) == (False, True)

    passage = f"Rain fell {tail}. Ada taught navigation {tail}."
    pieces = pack(
        "who taught navigation",
        [texts[1], passage],
        70,
        words,
        [0.5, 0.9],
        theme=(north[None], [known[1], None]),
    )
    assert "Ada taught" in pieces[1].text
    assert "Rain fell" not in pieces[1].text
