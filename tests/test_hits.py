"""What every hit says of itself: its user's source, and what it repeats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stratagraph as sg
from stratagraph import demo
from stratagraph.methods import NAMES, get_method
from stratagraph.operations.hits import grouped, silent
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import documents
from stratagraph.types.built import Item
from stratagraph.types.results import NOTHING_FOUND, Hit


def hit(kind: str, text: str) -> Hit:
    return Hit(text, kind, 0, text, 1.0, ("c",), ("d",))


def test_what_is_part_of_another_hit_becomes_part_of_it() -> None:
    hits = [
        hit("unit", "Ada met Bela."),
        hit("attribute", "Ada: a captain"),
        hit("element", "They travelled. Ada met  Bela. It rained."),
        hit("unit", "ada met bela"),
        hit("unit", "Ada met Belarus."),
    ]
    assert grouped(hits) == [[2, 0, 3], [1], [4]]
    hits = [  # passages and relations stay
        hit("chunk", "Ada met Bela. It rained."),
        hit("relation", "Ada met Bela."),
        hit("chunk", "It rained."),
    ]
    assert grouped(hits) == [[0], [1], [2]]


@pytest.fixture(scope="module", params=["noderag", "hirag", "archrag", "lshtree"])
def index(request: Any) -> sg.Index:
    given = [
        sg.Document(each.id, each.text, {**each.metadata, "source": f"{each.metadata['topic']}.txt"})
        for each in documents(40)
    ]
    return sg.build_index(given, request.param, embedder=FakeEmbedder(), progress=False)


def test_where_nothing_else_is_left_repeats_stay() -> None:
    text = "Ada sailed to Bela in the spring of that year. Bela wrote to Carl about the long winter."
    index = sg.build_index([sg.Document("d", text)], "noderag", embedder=FakeEmbedder(), progress=False)
    exact = index.retrieve("Where did Ada sail?", k=50, fill=False)
    whole = index.retrieve("Where did Ada sail?", k=50)
    assert {found.id for found in whole} == {found.id for found in exact}
    few = index.retrieve("Where did Ada sail?", k=2)
    assert len(few) == 2
    scores = [found.score for found in whole]
    assert scores == sorted(scores, reverse=True)


def test_a_hit_names_the_source_that_all_its_documents_have(index: sg.Index) -> None:
    named = index.documents()
    told = 0
    for found in index.retrieve("the ferry captain and the apple blossom", k=40, fill=False):
        sources = {named[document]["source"] for document in found.documents}
        if found.kind == "relation":
            assert len(found.metadata["ends"]) == 2
        assert found.metadata.get("source") == (sources.pop() if len(sources) == 1 else None)
        told += "source" in found.metadata
    assert told


def test_repeats_are_merged_with_their_sources_and_replaced(index: sg.Index) -> None:
    question = "the ferry captain and the apple blossom"
    whole = index.retrieve(question, k=12)
    assert len(whole) == 12
    assert all(len(group) == 1 for group in grouped(whole.hits))
    assert len({found.id for found in whole}) == 12
    chunks = {chunk.id for each in index.chunks().values() for chunk in each}
    for found, told in zip(whole.hits, whole.trace, strict=True):
        assert set(found.sources) <= chunks
        assert found.id not in told.get("repeats", [])


@pytest.mark.parametrize("method", NAMES)
def test_min_score_compares_the_cosine_in_every_view(method: str, tmp_path: Path) -> None:
    embedder = sg.HashingEmbedder()
    given: Any = {"method": method, "embedder": embedder, "progress": False}
    opened = [sg.build_index(documents(30), **given)]
    opened.append(sg.build_shards(documents(30), tmp_path / "idx", 2, **given))
    question = "Who keeps the lamp of the harbour?"
    vector = np.asarray(embedder.embed_query(question), np.float32)
    for index in opened:
        for view in (None, "chunks"):
            found = index.retrieve(question, 8, view=view)
            texts = np.asarray(embedder.embed_documents([hit.text for hit in found]), np.float32)
            cosines = texts @ vector
            least = float(np.median(cosines)) + 0.002  # vectors are stored as float16
            near = index.retrieve(question, 8, view=view, min_score=least)
            expected = [hit for hit, cosine in zip(found, cosines, strict=True) if cosine >= least]
            assert list(near) == expected
            assert all(trace["cosine"] >= least for trace in near.trace)
        assert index.answer(question, min_score=1).text.endswith(NOTHING_FOUND)
        assert len(index.retrieve(question, 8, min_score=1)) == 0
        with pytest.raises(ValueError, match="from -1 to 1, not 2"):
            index.retrieve(question, min_score=2)
        with pytest.raises(TypeError, match="from -1 to 1, not 'high'"):
            index.retrieve(question, min_score="high")  # type: ignore[arg-type]
        index.close()


@pytest.fixture(scope="module")
def demo_index() -> Iterator[sg.Index]:
    with sg.build_index(demo.documents(), NAMES, embedder="hashing", progress=False) as index:
        yield index


@pytest.mark.parametrize("method", NAMES)
def test_a_node_among_passages_says_what_none_of_them_says(demo_index: sg.Index, method: str) -> None:
    for question in [each.question for each in demo.questions()]:
        found = demo_index.retrieve(question, 6, method=method)
        passages = [found_hit.text for found_hit in found if found_hit.kind == "chunk"]
        own = [found_hit for found_hit in found if found_hit.kind != "chunk"]
        share = get_method(method).passages
        assert found[math.floor(share / (1 - share))].kind != "chunk", question
        for each in own:
            name = str(each.metadata.get("name", ""))
            assert each.text.removeprefix(name).strip(" :"), "a bare name"
            assert not any(each.text in passage for passage in passages), question


def test_a_hit_of_the_bridge_says_which_step_of_which_path_it_is(demo_index: sg.Index) -> None:
    found = demo_index.retrieve(demo.questions()[0].question, 20, method="hirag", mode="bridge")
    steps = [each.metadata for each in found if each.kind == "relation" and "step" in each.metadata]
    assert steps
    for told in steps:
        step = told["step"]
        assert {*told["ends"]} == {*told["path"][step - 1 : step + 1]}


def test_a_hit_does_not_repeat_its_own_name_before_its_sentences() -> None:
    said = sg.Extraction(
        units=(sg.SemanticUnit("[Crake Light, Ada:] The tower hums in the wind.", ("Crake Light", "Ada")),),
        entities=(sg.EntityMention("Crake Light"), sg.EntityMention("Ada")),
    )
    document = sg.Document("log", "The tower hums in the wind. Nobody hears it on the island at night.")
    with sg.build_index(
        [document], "archrag", embedder=FakeEmbedder(), extraction={"log": said}, progress=False
    ) as index:
        texts = [hit.text for hit in index.retrieve("What hums?", 10, fill=False) if hit.kind == "entity"]
    assert texts
    assert not any(text.startswith("Crake Light: [Crake Light") for text in texts)
    assert any(
        text.startswith(("Crake Light: [Ada:] The tower", "Ada: [Crake Light:] The tower")) for text in texts
    )


def test_what_an_entity_says_and_bare_dates_take_no_place() -> None:
    def item(kind: str, text: str, **extra: Any) -> Item:
        return Item(text, kind, 0, text, np.zeros(1, np.int64), extra)

    items = [
        item("entity", "Council: The council governs the islands and meets in Sarn.", name="Council"),
        item("relation", "Council - Sarn: The council meets in Sarn.", source="Council", target="Sarn"),
        item("relation", "Council - Sarn: It burned the town hall.", source="Council", target="Sarn"),
        item("relation", "Sarn - Ada: The council meets in Sarn.", source="Sarn", target="Ada"),
        item("entity", "1893-06: The harvest failed.", name="1893-06"),
        item("entity", "1890: A count was held.", name="1890"),
        item("entity", "1890 Show: A show was held.", name="1890 Show"),
    ]
    assert silent(items) == {1, 4, 5}
    assert 1 not in silent([items[1], items[0]])  # the relation came before the entity
