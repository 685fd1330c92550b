"""Passages by the walk, by words, by similarity and by both: what leads, what a filter admits, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.models.local import HashingEmbedder
from stratagraph.search import themes, walk
from stratagraph.search.ranking import reciprocal_ranks
from stratagraph.search.walk import Gate, PassageWalk, Provenance, repeats_damped
from stratagraph.testing.opened import opened, snapshot_of
from stratagraph.types.question import RANKS

DOCUMENTS = [
    sg.Document(
        "shore", "The lighthouse of Corran stands on a cliff. Marta Lind kept its lamp.", {"kind": "place"}
    ),
    sg.Document(
        "keeper", "Marta Lind was born in Ulvik. She kept bees in her later years.", {"kind": "person"}
    ),
    sg.Document("town", "Ulvik lies on a fjord and is known for its orchards.", {"kind": "place"}),
    sg.Document("chat-1", "Li Hua asked Wolfgang about the gym and its opening hours.", {"kind": "chat"}),
    sg.Document("chat-2", "Li Hua told Wolfgang that the water pipe was leaking.", {"kind": "chat"}),
    sg.Document("chat-3", "Li Hua thanked Wolfgang for the guitar lesson.", {"kind": "chat"}),
    sg.Document("chat-4", "Li Hua and Wolfgang spoke of the weather.", {"kind": "chat"}),
]
EMBEDDER = HashingEmbedder(256)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sg.Index]:
    path = tmp_path_factory.mktemp("walk") / "idx"
    with sg.build_index(DOCUMENTS, "lshtree", path=path, embedder=EMBEDDER, progress=False) as built:
        yield built
    _walk_of.cache_clear()


def passage_walk(index: sg.Index) -> PassageWalk:
    return _walk_of(index, index.generation)


@cache
def _walk_of(index: sg.Index, generation: int) -> PassageWalk:
    """The walk behind the view `chunks`, as a reader makes it."""
    parts = opened(index, "lshtree")
    return PassageWalk(parts.corpus, Provenance(parts.graph, parts.corpus.size), parts.passages)


def ranked(index: sg.Index, question: str, k: int = 7, **options: Any) -> list[str]:
    vector = np.asarray(EMBEDDER.embed_query(question), np.float32)
    rows = passage_walk(index).rank(question, vector, k, **options).rows
    return [chunk.document_id for chunk in snapshot_of(index).chunks(rows.tolist())]


def test_a_name_leads_to_the_next_hop(index: sg.Index) -> None:
    found = ranked(index, "Where was the keeper of the lighthouse of Corran born?")
    assert set(found[:2]) == {"shore", "keeper"}


def test_where_names_are_everywhere_words_lead(index: sg.Index) -> None:
    assert ranked(index, "What did Li Hua tell Wolfgang about a leaking pipe?", 1) == ["chat-2"]
    trace = index.retrieve("What did Li Hua tell Wolfgang about a leaking pipe?", 1, view="chunks").trace
    rare = index.retrieve("What is Corran?", 1, view="chunks").trace
    assert trace[0]["gate"]["share"] > rare[0]["gate"]["share"]
    assert trace[0]["bm25"] > 0


def test_the_gate_closes_as_names_become_rare_and_opens_as_questions_become_long() -> None:
    gates = [Gate(names, 8) for names in (0.0, 0.01, 0.1, 1.0, 10.0)]
    assert [gate.share for gate in gates] == sorted((gate.share for gate in gates), reverse=True)
    assert [gate.boost for gate in gates] == sorted((gate.boost for gate in gates), reverse=True)
    assert gates[-1].share > 0
    assert Gate(1.0, 30).share > Gate(1.0, 5).share
    assert Gate(1.0, 0).boost > 0


@pytest.mark.parametrize("rank", RANKS)
def test_every_ranking_keeps_to_the_filter_and_to_k(index: sg.Index, rank: str) -> None:
    kinds = snapshot_of(index).chunks(range(7))
    mask = np.array([chunk.metadata["kind"] == "chat" for chunk in kinds])
    question = "Li Hua, Wolfgang and the lighthouse of Corran"
    found = ranked(index, question, 10, allowed=mask, rank=rank)
    assert len(set(found)) == len(found) == 4
    assert all(name.startswith("chat") for name in found)
    vector = np.asarray(EMBEDDER.embed_query(question), np.float32)
    scores = passage_walk(index).rank(question, vector, 3, rank=rank).scores
    assert len(scores) == 3
    assert np.all(np.diff(scores) <= 0)


def test_rankings_are_what_they_are_called(index: sg.Index) -> None:
    question = "orchards on a fjord"
    assert ranked(index, question, rank="bm25") == ["town"]
    vector = np.asarray(EMBEDDER.embed_query(question), np.float32)
    nearest = np.argsort(-(np.asarray(snapshot_of(index).vectors) @ vector), kind="stable")
    found = passage_walk(index).rank(question, vector, 7, rank="dense")
    assert found.rows[0] == nearest[0]
    assert found.trace[0]["rank"] == "dense"
    assert "gate" not in found.trace[0]
    assert ranked(index, question, rank="hybrid")[0] == "town"
    with pytest.raises(ValueError, match="walk, bm25, dense, hybrid"):
        ranked(index, question, rank="best")


def test_reciprocal_ranks() -> None:
    rows, scores = reciprocal_ranks([np.array([4, 2, 9]), np.array([2, 7])])
    assert rows.tolist() == [2, 4, 7, 9]
    assert scores == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63])
    assert reciprocal_ranks([np.array([1, 3, 2]), np.array([2, 1, 4])])[0].tolist() == [1, 2, 3, 4]
    assert len(reciprocal_ranks([])[0]) == 0


def test_further_passages_of_a_document_give_way_and_keep_their_order() -> None:
    documents = np.array([1, 0, 1, 1, 2])
    scores = np.array([0.4, 0.3, 0.8, 0.4, 0.1], np.float32)
    damped = repeats_damped(documents, np.arange(5), scores)
    assert damped == pytest.approx([0.2, 0.3, 0.8, 0.4 / 3, 0.1])
    book = repeats_damped(np.zeros(500, np.int64), np.arange(500), np.linspace(1, 0.1, 500, dtype=np.float32))
    assert np.all(np.diff(book) < 0)
    assert len(repeats_damped(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))) == 0


@pytest.mark.parametrize("rank", RANKS)
def test_odd_questions_are_answered(index: sg.Index, rank: str) -> None:
    vector = np.asarray(EMBEDDER.embed_query("lamp"), np.float32)
    for question in ("who is it and what was that", "灯台はどこですか", "?!", "\ud800", "Ulvk"):
        found = passage_walk(index).rank(question, vector, 3, rank=rank)
        assert len(found.rows) == 3 or rank == "bm25"
        assert np.all(np.isfinite(found.scores))
        passage_walk(index).rank(question, np.zeros(256, np.float32), 3, rank=rank)


def test_of_a_question_of_a_megabyte_a_bounded_part_is_read(index: sg.Index) -> None:
    question = "Where was Marta Lind born? " + "Corran Ulvik orchards of the fjord. " * 30_000
    assert len(question) > 1 << 20
    vector = np.asarray(EMBEDDER.embed_query("lamp"), np.float32)
    found = passage_walk(index).rank(question, vector, 3)
    cut = passage_walk(index).rank(question[: walk.LONGEST], vector, 3)
    assert found.rows.tolist() == cut.rows.tolist()


def test_what_is_ordered_first_decides_nothing(index: sg.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = ["Where was Marta Lind born?", "What did Li Hua tell Wolfgang?", "orchards", "lamp bees gym"]
    vectors = [np.asarray(EMBEDDER.embed_query(each), np.float32) for each in questions]
    asked = [(*each, k) for each in zip(questions, vectors, strict=True) for k in (1, 2, 7)]
    whole = [passage_walk(index).rank(*each) for each in asked]
    monkeypatch.setattr(walk, "HEAVIEST", 0)
    for expected, found in zip(whole, (passage_walk(index).rank(*each) for each in asked), strict=True):
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.scores == pytest.approx(expected.scores)


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("How did women shape the life of the Hathe Islands?", "How did women shape the life of the"),
        ("How did women shape the life of the islands?", "How did women shape the life of the"),
        (
            "What law did women shape on the Hathe Islands?",
            "What law did women shape on the Hathe Islands?",
        ),
        ("What are the Hathe Islands?", "What are the Hathe Islands?"),  # no other words would be left
        (
            "How did Marta Lind shape the life of the islands?",
            "How did Marta Lind shape the life of the islands?",
        ),
        ("How did bread and honey shape life?", "How did bread and honey shape life?"),
    ],
)
def test_hub_words_are_left_out_of_a_question_about_a_theme(question: str, searched: str) -> None:
    asked: list[str] = []

    class Recording(HashingEmbedder):
        def embed_query(self, text: str) -> Any:
            asked.append(text)
            return super().embed_query(text)

    trades = ("honey", "bread", "salt", "boats", "bells", "wool", "glass", "nets")
    documents = [
        sg.Document(f"d{at}", f"On the Hathe Islands they make {trades[at % 8]} of kind {at}.")
        for at in range(16)
    ]
    documents += [sg.Document("w", "Women kept the schools."), sg.Document("m", "Marta Lind led a choir.")]
    documents += [sg.Document(f"o{at}", f"In town {at} much rain falls.") for at in range(8)]
    with sg.build_index(documents, embedder=Recording(256), progress=False) as index:
        retrieval = index.retrieve(question, k=3)
    assert asked == [searched]
    assert retrieval.query == question


@pytest.mark.parametrize(
    ("question", "one"),
    [
        ("What share of the salt did they owe?", True),
        ("On which ledge did the first woman captain founder?", True),
        ("How long is the cable between the towns?", True),
        ("Did the boilers win?", True),
        ("What is the name of the ferry?", True),
        ("Which disputes divided the islands, and how were they settled?", False),
        ("What role did women play?", False),
        ("What did the islanders learn from who had left?", False),
        ("Describe the trade of the islands.", False),
        ("Tell me about the islands where women ruled.", False),
        ("Can you describe how women shaped the islands?", False),
        ("How strongly did women shape the islands?", False),
        ("Which women shaped the islands?", False),
        ("What happened to the islands when the bridge fell?", False),
        ("What was the history of the islands?", False),
        ("", False),
    ],
)
def test_a_question_asks_for_one_thing_by_its_first_question_word(question: str, one: bool) -> None:
    assert themes.asks_for_one(question) is one
