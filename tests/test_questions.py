"""Questions of any language and length, and the names in them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder, ScriptedChatModel
from stratagraph.testing.contract import documents
from stratagraph.types.question import LONGEST
from stratagraph.types.results import Retrieval

RARE = sg.Document("rare", "The quokka was last seen on Bald Island.")
MEGABYTE = "Where does the ferry leave, and who told the harbour master? " * 18_000
QUESTIONS = {
    "grammar": "what was it that they did and who were you",
    "one rare word": "quokka",
    "another script": "灯台はどこにありますか",
    "several scripts": "Где стоит маяк, αλλά 灯台 ferry?",
    "no words": "?! ... --",
    "surrogates and zeros": "ferry \ud800 \0 pier",
    "a megabyte": MEGABYTE,
    "a megabyte of one word": "ferry" * 210_000,
}
WAYS: tuple[dict[str, Any], ...] = ({}, {"fill": False}, {"method": "walk"})


@pytest.fixture(scope="module", params=["lshtree", "archrag", "noderag", "hirag"])
def index(request: Any) -> Iterator[sg.Index]:
    texts = [*documents(40), RARE]
    with sg.build_index(texts, request.param, embedder=FakeEmbedder(), progress=False) as built:
        yield built


def check(found: Retrieval, k: int) -> None:
    assert len(found.hits) == k
    assert len({hit.id for hit in found}) == k
    assert all(math.isfinite(hit.score) for hit in found)
    assert all(hit.text and hit.sources for hit in found)


@pytest.mark.parametrize("kind", sorted(QUESTIONS))
def test_every_question_is_searched_for_and_answered(index: sg.Index, kind: str) -> None:
    question = QUESTIONS[kind]
    for way in WAYS:
        silent = index.methods == ("noderag",) and "fill" in way and kind == "no words"
        count = 0 if silent else 5  # nothing in it is an entry point of NodeRAG
        check(index.retrieve(question, 5, **way), count)
        if kind != "a megabyte":
            check(asyncio.run(index.aretrieve(question, 5, **way)), count)
    assert index.answer(question, 4).text.strip()
    assert "".join(index.stream(question, 4)).strip()


def test_one_rare_word_finds_its_passage(index: sg.Index) -> None:
    for rank in ("walk", "bm25", "dense", "hybrid"):
        assert index.retrieve("quokka", 1, method="walk", rank=rank).hits[0].documents == ("rare",)
    assert index.retrieve("quokka", 3).hits[0].documents == ("rare",)
    assert len(index.retrieve("quokka", 9, method="walk", rank="bm25").hits) == 1


def test_what_a_script_does_not_share_no_word_finds(index: sg.Index) -> None:
    assert len(index.retrieve("灯台はどこ", 5, method="walk", rank="bm25").hits) == 0
    check(index.retrieve("灯台はどこ", 5, method="walk", rank="hybrid"), 5)


def test_of_a_megabyte_names_and_words_of_the_beginning_count(index: sg.Index) -> None:
    found = index.retrieve("Where is the quokka? " + MEGABYTE, 5, method="walk", rank="bm25")
    other = index.retrieve("Where is the quokka? " + MEGABYTE[:30_000], 5, method="walk", rank="bm25")
    assert [hit.id for hit in found] == [hit.id for hit in other]
    assert "rare" in [hit.documents[0] for hit in found]


def test_of_a_megabyte_the_beginning_is_embedded_once(index: sg.Index) -> None:
    asked: list[int] = []

    class Counting(FakeEmbedder):
        def embed_query(self, text: str) -> list[float]:
            asked.append(len(text))
            return super().embed_query(text)

    with sg.open_index(index.path, embedder=Counting()) as opened:
        for way in WAYS:
            opened.retrieve(MEGABYTE, 5, **way)
        opened.answer(MEGABYTE)
    assert asked == [LONGEST]


def test_a_model_may_be_asked_about_them_all(index: sg.Index) -> None:
    for kind in ("grammar", "another script", "no words", "a megabyte"):
        model = ScriptedChatModel('{"entities": []}', name=kind)
        with sg.open_index(index.path, llm=model, embedder=FakeEmbedder()) as opened:
            check(opened.retrieve(QUESTIONS[kind], 5, decompose=True), 5)


def test_opposite_relations_keep_their_direction() -> None:
    index = sg.build_index(
        ["Steve founded Apple. Apple fired Steve."], "noderag", embedder=FakeEmbedder(), progress=False
    )
    (relation,) = index.relations()
    assert "Steve - Apple: Steve founded Apple." in relation.text
    assert "Apple - Steve: Apple fired Steve." in relation.text
