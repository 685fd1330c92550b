"""What comes where nobody says what: passages with some of the method's own nodes among them."""

from __future__ import annotations

from typing import Any

import pytest

import stratagraph as sg
from stratagraph.methods import get_method
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import documents

QUESTION = "the ferry captain and the apple blossom"


@pytest.fixture(scope="module", params=["noderag", "hirag", "archrag", "lshtree"])
def index(request: Any) -> sg.Index:
    return sg.build_index(documents(60), request.param, embedder=FakeEmbedder(), progress=False)


def test_passages_and_nodes_take_turns(index: sg.Index) -> None:
    found = index.retrieve(QUESTION, k=40)
    assert len(found) == 40
    assert found.view == "mixed"
    assert len({hit.id for hit in found}) == 40
    own = [told for told in found.trace if told["view"] == "nodes"]
    share = 40 * get_method(index.methods[0]).node_share
    merged = [each for told in found.trace for each in told.get("repeats", ())]
    assert len(own) + len(merged) >= 1
    assert len(own) <= share + 2  # fewer where nodes repeat passages
    for hit, told in zip(found.hits, found.trace, strict=True):
        assert told["view"] == ("chunks" if hit.kind == "chunk" else "nodes")
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    passages = [hit.id for hit in found if hit.kind == "chunk"]
    walked = [hit.id for hit in index.retrieve(QUESTION, k=40, view="chunks")]
    assert passages == walked[: len(passages)]


def test_options_speak_of_the_methods_own_ranking(index: sg.Index) -> None:
    option = {
        "noderag": {"steps": 3},
        "hirag": {"mode": "local"},
        "archrag": {"relations": False},
        "lshtree": {"mode": "per_level"},
    }[index.methods[0]]
    ids = [hit.id for hit in index.retrieve(QUESTION, k=9, fill=False, **option)]
    assert [hit.id for hit in index.retrieve(QUESTION, k=9, **option)] == ids
    bare = index.retrieve(QUESTION, k=9, fill=False)
    assert bare.view == "nodes"
    assert index.retrieve(QUESTION, k=9, view="chunks").view == "chunks"


def test_a_filter_holds_in_both_parts(index: sg.Index) -> None:
    allowed = {each.id for each in documents(60) if each.metadata["topic"] == "orchard"}
    for hit in index.retrieve(QUESTION, k=15, where={"topic": "orchard"}):
        assert set(hit.documents) <= allowed
