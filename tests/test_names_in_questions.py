"""Names in questions lead to the passages that speak of them, whatever they look like."""

from __future__ import annotations

import asyncio

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder

OTHERS = [
    f"{first} {last} of {town} sold boats."
    for first in ("Ada", "Bela", "Cora")
    for last in ("Stone", "Reed", "Marsh")
    for town in ("Perth", "Oslo", "Quito")
]


def found(question: str, *texts: str) -> list[str]:
    """The passages that a question leads to, before those that nothing leads to."""
    index = sg.build_index([*texts, *OTHERS], "lshtree", embedder=FakeEmbedder(), progress=False)
    hits = index.retrieve(question, k=5, view="chunks").hits
    assert asyncio.run(index.aretrieve(question, k=5, view="chunks")).hits == hits
    return [hit.text for hit in hits if hit.score > 0.01]


def test_a_surname_leads_to_all_who_bear_it() -> None:
    kennedys = [
        "John Kennedy was a senator.",
        "Robert Kennedy was a lawyer.",
        "Edward Kennedy was a sailor.",
        "Rose Kennedy was born in Boston.",
    ]
    assert set(found("What is Kennedy known for?", *kennedys)) == set(kennedys)


def test_a_surname_alone_is_the_only_person_who_bears_it() -> None:
    told = ["Geoffrey Hinton worked on networks.", "Geoffrey Hinton lived in Toronto."]
    assert set(found("What did Hinton invent?", *told)) == set(told)


@pytest.mark.parametrize(
    ("question", "named", "other"),
    [
        ("Who are The Who?", "The Who are a rock band from London.", "Who knows what they played."),
        ("When did the US enter the war?", "In 1917 the US joined the Allies.", "They told us about it."),
        ("Who wrote It?", "Stephen King wrote It in 1986. It was long.", "It rained."),
    ],
)
def test_a_name_may_be_a_word_of_grammar(question: str, named: str, other: str) -> None:
    assert found(question, named, other)[0] == named


def test_opposite_relations_keep_their_direction() -> None:
    index = sg.build_index(
        ["Steve founded Apple. Apple fired Steve."], "noderag", embedder=FakeEmbedder(), progress=False
    )
    (relation,) = index.relations()
    assert "Steve - Apple: Steve founded Apple." in relation.text
    assert "Apple - Steve: Apple fired Steve." in relation.text
