"""Canonical names, whole words, and the index of names: exact, partial and misspelt lookup, and updates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import cases

from stratagraph.errors import Damaged
from stratagraph.ingest.names.index import NameIndex, canonical, words


@pytest.mark.parametrize(("one", "other"), cases(__file__, "two spellings of one name"))
def test_two_spellings_of_one_name(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(("one", "other"), cases(__file__, "two names stay two"))
def test_two_names_stay_two(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("The The", "the"),
        ("The Who", "who"),
        *((each, "") for each in ("", " ", "---", "“”", "…", "\u200b", "🙂")),
    ],
)
def test_an_article_alone_is_a_name_and_marks_are_none(name: str, plain: str) -> None:
    assert canonical(name) == plain


_LETTERS = "aAtTheEn .,-'’&_+#1ʻéßΟ北京ひ\u0301\u05d0\u0640\u0e01\u0e34"


@given(st.text(max_size=60) | st.text(_LETTERS, max_size=40))
@settings(max_examples=100, deadline=None)
def test_canonical_is_idempotent_and_its_words_are_words_of_the_name(name: str) -> None:
    once = canonical(name)
    assert canonical(once) == once
    assert "  " not in once
    assert once == once.strip()
    spoken, whole = words(once), words(name)
    assert whole[len(whole) - len(spoken) :] == spoken


# ---- the index

_SYLLABLES = ["star", "the", "new", "york", "of", "city", "a", "gazer", "o'bri", "北京", "大学", "us", "x-1"]


def _contains(longer: list[str], shorter: list[str]) -> bool:
    size = len(shorter)
    return bool(size) and any(longer[at : at + size] == shorter for at in range(len(longer) - size + 1))


@st.composite
def _phrases(draw: st.DrawFn, most: int) -> str:
    parts = draw(st.lists(st.sampled_from(_SYLLABLES), max_size=most))
    text = "".join(part + draw(st.sampled_from([" ", " ", "  ", ", ", "-"])) for part in parts)
    return text.title() if draw(st.booleans()) else text


@given(st.lists(_phrases(most=4), max_size=12), _phrases(most=10))
@settings(max_examples=100, deadline=None)
def test_lookup_is_what_comparing_with_every_name_gives(names: list[str], question: str) -> None:
    index = NameIndex(NameIndex.build(names))
    spoken = words(question)
    expected = [row for row, name in enumerate(names) if _contains(spoken, words(canonical(name)))]
    found = index.find(question).rows.tolist()
    assert set(found) <= set(expected)
    grammar = {"the", "of", "a", "us"}
    assert {row for row in expected if not grammar.issuperset(words(canonical(names[row])))} <= set(found)


@given(st.lists(_phrases(most=5), max_size=12), _phrases(most=4))
@settings(max_examples=100, deadline=None)
def test_match_is_what_comparing_with_every_name_gives(names: list[str], entity: str) -> None:
    found = NameIndex(NameIndex.build(names)).match(entity).tolist()
    wanted = words(canonical(entity))
    expected = [row for row, name in enumerate(names) if _contains(words(canonical(name)), wanted)]
    assert sorted(found) == expected
    sizes = [len(words(canonical(names[row]))) for row in found]
    assert sizes == sorted(sizes)


def test_a_word_of_grammar_is_a_name_only_where_it_is_written_as_one() -> None:
    index = NameIndex(NameIndex.build(["The Who", "It", "US", "Who Is It"]))
    assert index.find("Who is it?").rows.tolist() == []
    assert index.find("When did the Who split?").rows.tolist() == [0]
    assert index.find("Did Stephen King write It?").rows.tolist() == [1]
    assert index.find("Tell us about it").rows.tolist() == []
    assert index.find("What is the capital of the U.S.?").rows.tolist() == [2]


def test_found_occurrences_have_their_places() -> None:
    found = NameIndex(NameIndex.build(["New York", "York"])).find("from York to New York")
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == [
        (0, 3, 2),
        (1, 1, 1),
        (1, 4, 1),
    ]


def test_match_stops_at_its_limit_with_the_most_specific() -> None:
    towns = [f"University of Town Number {number}" for number in range(10_000)]
    names = [*towns, "The University", "University Press"]
    index = NameIndex(NameIndex.build(names))
    assert index.match("University", limit=3).tolist() == [10_000, 10_001, 0]
    assert index.match("University of Town", limit=2).tolist() == [0, 1]
    assert index.match("Town Number 9999").tolist() == [9_999]
    assert index.match("of University").tolist() == []
    assert index.match("!").tolist() == []


def test_fuzzy_proposes_the_name_that_was_meant() -> None:
    names = ["Ebenezer Scrooge", "Jacob Marley", "Bob Cratchit", "Ebenezer", "Scourge", "北京大学"]
    index = NameIndex(NameIndex.build(names))
    rows, scores = index.fuzzy("Ebeneezer Scroge")
    assert rows[0] == 0
    assert scores.tolist() == sorted(scores, reverse=True)
    assert 0 < scores[-1] <= scores[0] < 1
    assert index.fuzzy("Bob Cratchit", limit=1)[0].tolist() == [2]
    assert index.fuzzy("Bob Cratchit", limit=1)[1].tolist() == [1.0]
    assert index.fuzzy("zzz")[0].tolist() == []
    assert index.fuzzy("")[0].tolist() == []


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("distinct_lengths", 0, -(2**31), r"'distinct_lengths' holds \[-2147483648, 3\], not every length"),
        ("distinct_lengths", 0, 1, r"'distinct_lengths' holds \[1, 3\]"),
        ("lengths", 0, 9, "'lengths' holds 9 at place 0, not 2"),
        ("starts", 1, -1, "'starts' does not ascend"),
        ("starts", -1, 2**40, "'starts' divides 0 to 1099511627776"),
        ("name_keys", 0, 2**64 - 1, "'name_keys' does not ascend"),
        ("name_rows", 1, -1, "'name_rows' holds -1 at place 1, outside 0 to 2"),
        ("keys", 0, 2**64 - 1, "'keys' does not ascend"),
        ("key_starts", 2, 2**62, "'key_starts' does not ascend"),
        ("key_rows", 0, 3, "'key_rows' holds 3 at place 0, outside 0 to 2"),
        ("vocabulary", 0, 2**64 - 1, "'vocabulary' does not ascend"),
        ("grams", 0, 2**32 - 1, "'grams' does not ascend"),
        ("gram_starts", 0, 1, "'gram_starts' divides 1 to"),
        ("gram_words", 0, 2**31 - 1, "'gram_words' holds 2147483647 at place 0"),
    ],
)
def test_an_altered_array_is_named(name: str, place: int, value: int, message: str) -> None:
    arrays = NameIndex.build(["Ada Lovelace", "Charles Babbage", "Royal Astronomical Society"])
    arrays[name][place] = value
    with pytest.raises(Damaged, match=f"part 'names' of the index is damaged: array {message}"):
        NameIndex(arrays)


# ---- updates: byte for byte the index that is built of all names

WORDS = [
    *("ada", "marsh", "may", "the", "of", "straße", "höfe", "王国大学", "北京"),
    *("u", "s", "bb", "c++", "mill"),
]


def random_name(chance: random.Random) -> str:
    if chance.random() < 0.05:
        return chance.choice(["", "!!"])  # no names, but rows
    return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 5)))


@pytest.mark.parametrize("seed", range(12))
def test_names_that_come_and_go_leave_the_index_of_a_build(seed: int) -> None:
    chance = random.Random(seed)
    old = [random_name(chance) for _ in range(chance.choice([0, 1, 5, 60]))]
    share = chance.choice([0.5, 0.95, 1.0])
    kept = [row for row in range(len(old)) if chance.random() < share]
    if seed % 3 == 0:
        chance.shuffle(kept)  # titles of communities change their order
    size = len(kept) + chance.choice([0, 1, 5, 30])
    rows = sorted(chance.sample(range(size), len(kept)))
    now = np.full(len(old), -1, np.int64)
    now[kept] = rows
    names = {row: old[place] for place, row in zip(kept, rows, strict=True)}
    fresh = {row: random_name(chance) for row in range(size) if row not in names}
    found = NameIndex.updated(NameIndex.build(old), now, size, fresh)
    wanted = NameIndex.build([(names | fresh)[row] for row in range(size)])
    assert list(found) == list(wanted)
    for key, array in wanted.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array, key)
