"""What the rules find in a passage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import cases
from tests.ingest.graph.reference import names_of

from stratagraph.ingest.extraction.by_rules import extract, question_entities
from stratagraph.types.records import Extraction


def names(text: str, **options: str) -> list[str]:
    return [entity.name for entity in extract(text, **options).entities]


def corpus_names(*texts: str) -> set[str]:
    """The entities of a corpus of such chunks."""
    return names_of([extract(text) for text in texts])


def chosen_terms(counts: dict[str, int], chunks: int) -> set[str]:
    """The terms that become entities, where each is in the first of so many chunks."""
    return names_of(
        [
            Extraction(terms=tuple(term for term, count in counts.items() if chunk < count))
            for chunk in range(chunks)
        ]
    )


@pytest.mark.parametrize(("sentence", "expected"), cases(__file__, "capitalised spans"))
def test_capitalised_spans(sentence: str, expected: list[str]) -> None:
    assert names(sentence) == expected


@pytest.mark.parametrize("sentence", cases(__file__, "a capital that only begins a sentence names nothing"))
def test_a_capital_that_only_begins_a_sentence_names_nothing(sentence: str) -> None:
    assert names(sentence) == []


def test_dates_are_told_by_units_and_are_no_entities() -> None:
    text = (
        "On 24 October 1931 and December 24, 2007, in the 1940s, from 1962 to 1987, in January 1960, since "
        "2010-05-17, in 44 BC and the 19th century it cost $5 million, 25 square kilometres, 1,000 mm, 25 °C "
        "and 70%."
    )
    dates = (
        *("24 October 1931", "December 24, 2007", "1940s", "1962", "1987", "January 1960", "2010-05-17"),
        *("44 BC", "19th century"),
    )
    assert question_entities(text) == dates


# ---- titles


@pytest.mark.parametrize(
    ("text", "title", "begins"), cases(__file__, "a title is a name with and without its qualifier")
)
def test_a_title_is_a_name_with_and_without_its_qualifier(text: str, title: str, begins: list[str]) -> None:
    assert names(text, title=title)[: max(1, len(begins))] == begins


# ---- whole passages


@pytest.mark.parametrize(("text", "units", "entities", "relations"), cases(__file__, "passages"))
def test_a_passage_says_what_the_golden_file_has(
    text: str, units: list[list[str]], entities: list[list[str]], relations: list[list[str]]
) -> None:
    found = extract(text)
    assert [[unit.text, *unit.entities] for unit in found.units] == units
    assert [
        [each.name, each.description, *(["doubtful"] if each.doubtful else [])] for each in found.entities
    ] == entities
    assert [[each.source, each.target, each.description] for each in found.relations] == relations


def test_names_that_stand_apart_are_less_strongly_related() -> None:
    found = extract("Ann Lee met Bob Ray in Oslo.")
    strength = {(relation.source, relation.target): relation.strength for relation in found.relations}
    assert 0 < strength["Ann Lee", "Oslo"] < strength["Ann Lee", "Bob Ray"] <= 1


def test_a_list_of_thirty_names_gives_few_relations() -> None:
    listed = ", ".join(f"Town{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(30))
    found = extract(f"We went to {listed}.")
    assert len(found.entities) == 30
    assert len(found.relations) <= 40
    assert len({(r.source, r.target) for r in found.relations}) == len(found.relations)


def test_descriptions_of_a_very_long_sentence_are_bounded_and_around_the_names() -> None:
    filler = "and so on " * 200
    found = extract(f"We saw Alpha Town {filler}until Beta Town came near Gamma Town {filler}")
    assert all(len(relation.description) <= 900 for relation in found.relations)
    beta = next(r for r in found.relations if (r.source, r.target) == ("Beta Town", "Gamma Town"))
    assert "Beta Town came near Gamma Town" in beta.description
    assert all(len(entity.description) <= 400 for entity in found.entities)


# ---- writing without capitals


@pytest.mark.parametrize(("text", "expected"), cases(__file__, "other writing"))
def test_other_writing(text: str, expected: set[str]) -> None:
    assert set(expected) <= set(names(text))
    assert "1898年" not in names(text)  # a date is told by the unit


# ---- questions and terms


@pytest.mark.parametrize(("question", "expected"), cases(__file__, "names in a question"))
def test_names_in_a_question(question: str, expected: tuple[str, ...]) -> None:
    assert question_entities(question) == tuple(expected)


def test_terms_are_phrases_that_stand_where_things_are_named() -> None:
    found = extract("Hash codes of the random hyperplane tree are many, and a relief boat stopped there.")
    assert set(found.terms) == {
        "random hyperplane",
        "random hyperplane tree",
        "hyperplane tree",
        "relief boat",
    }


def test_what_is_done_is_no_term() -> None:
    found = extract(
        "She stayed aboard until the evening.\n"
        "The film earned the studio much money. They rebuilt the old mill and ceased publication."
    )
    terms = chosen_terms(dict.fromkeys(found.terms, 2), chunks=100)
    assert not {"stayed aboard", "film earned", "ceased publication"} & terms


def test_a_term_joins_chunks_and_tells_them_apart() -> None:
    counts = {"rare pair": 1, "hash codes": 2, "tea room": 10, "salt pan": 11, "codes of": 1}
    assert chosen_terms(counts, chunks=1000) == {"hash codes", "tea room"}
    assert chosen_terms({"hash codes": 3}, chunks=3) == {"hash codes"}
    assert chosen_terms({}, chunks=0) == set()
    counts = {"random hyperplane": 4, "hyperplane tree": 5, "random hyperplane tree": 4}  # always in one
    assert chosen_terms(counts, chunks=1000) == {"hyperplane tree", "random hyperplane tree"}
    counts = dict.fromkeys(["four minutes", "sent back", "years old", "less time", "grey scald"], 2)
    assert chosen_terms(counts, chunks=1000) == {"grey scald"}  # numbers, times and deeds name nothing


# ---- what the corpus decides


def test_a_capital_at_the_start_of_a_sentence_is_no_name_until_the_corpus_has_it_elsewhere() -> None:
    recipe = "Knead the dough. Boil the pears of Perrow. Vell is far."
    assert corpus_names(recipe) == {"Perrow"}
    assert corpus_names(recipe, "She came from Vell to Perrow.") == {"Perrow", "Vell"}


def test_a_word_that_is_mostly_in_lower_case_is_no_name() -> None:
    capital, lower = "The price of the Carriage fell.", "They saw a carriage wheel."
    assert "Carriage" in corpus_names(capital)
    assert "Carriage" not in corpus_names(capital, lower, f"Once more. {lower}")


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("Long Span", True),
        ("Long Span (bridge)", True),
        ("Judgment in the Dunmore Case", False),
        ("The Long Span Is Down", False),
        ("A Full Shed at Perrow", False),
    ],
)
def test_a_title_is_a_name_if_it_does_not_say_something(title: str, named: bool) -> None:
    text = f"{title}\nThere were many people who had come to see what was left."
    assert (title in corpus_names(text)) is named
    assert title in corpus_names(f"{text} It is known as {title} today.")


@pytest.mark.parametrize(("texts", "expected"), cases(__file__, "persons of a corpus"))
def test_persons_of_a_corpus(texts: list[str], expected: set[str]) -> None:
    assert corpus_names(*texts) == set(expected)


# ---- any text

_SCRAPS = st.sampled_from(
    [
        *("Ann ", "Lee", "the ", "of ", "and ", "(", ")", '"', "“", "’s ", "'", ".", ". ", ", ", "\n", "IMF"),
        *("1990 ", "May ", "$5 ", "北京", "の", "ة", "ก", "e\u0301", "\u00a0", "-", "A", "&", "/", "12th "),
        *("\ud800", "🙂", "He ", "Title: "),
    ]
)


@given(st.text(max_size=200) | st.lists(_SCRAPS, max_size=60).map("".join))
@settings(max_examples=300, deadline=None)
def test_whatever_the_text_what_is_found_is_consistent(text: str) -> None:
    found = extract(text)
    assert found == extract(text)
    known = [entity.name for entity in found.entities]
    assert len(set(known)) == len(known)
    assert all(0 < len(name) <= 130 and name == name.strip() for name in known)
    for relation in found.relations:
        assert {relation.source, relation.target} <= set(known)
        assert relation.source != relation.target
        assert 0 < relation.strength <= 1
    for unit in found.units:
        assert unit.text.strip()
        assert set(unit.entities) <= set(known)
    assert all(isinstance(name, str) for name in question_entities(text))


@pytest.mark.parametrize(
    "pattern", ["A", "A ", "A. ", "Paris and ", '"', '"A ', "(AB) ", "1,", "A'", "北京", "Paris\n", "word "]
)
def test_ten_thousand_repetitions_are_no_entity_and_no_ordeal(pattern: str) -> None:
    found = extract(pattern * 10_000)
    assert all(len(entity.name) <= 120 for entity in found.entities)
    assert len(found.entities) < 10


@pytest.mark.parametrize(("text", "expected"), cases(__file__, "code is told from prose"))
def test_code_is_told_from_prose(text: str, expected: set[str]) -> None:
    assert set(names(text)) == set(expected)
