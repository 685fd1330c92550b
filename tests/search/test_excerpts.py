"""What is shown of nodes that no model wrote: statements that bear on the question, each once."""

from __future__ import annotations

from typing import Any

import pytest

import stratagraph as sg
from stratagraph.demo import documents
from stratagraph.search.excerpts import joined
from stratagraph.testing import contract

QUESTIONS = ("Who kept the toll gate of the Long Span?", "What was the lens of Windle Hill made of?")
SHOWN = ("entity", "community", "summary_entity")


@pytest.fixture(scope="module")
def index() -> Any:
    with sg.build_index(documents()[:24], ["archrag", "hirag"], embedder="hashing", progress=False) as found:
        yield found


def _told(index: sg.Index) -> set[str]:
    return {unit.text for unit in index.units()}


@pytest.mark.parametrize(("method", "question"), [("archrag", QUESTIONS[0]), ("hirag", QUESTIONS[1])])
def test_a_statement_is_shown_once_and_its_passages_are_the_sources(
    index: sg.Index, method: str, question: str
) -> None:
    texts = {chunk.id: " ".join(chunk.text.split()) for each in index.chunks().values() for chunk in each}
    found = index.retrieve(question, k=16, method=method)
    shown = []
    for hit in found:
        if hit.kind not in SHOWN:
            continue
        own = [unit for unit in _told(index) if unit in hit.text]
        maximal = [unit for unit in own if not any(unit != other and unit in other for other in own)]
        assert maximal
        assert all(any(" ".join(unit.split()) in texts[each] for each in hit.sources) for unit in maximal)
        assert all(any(" ".join(unit.split()) in texts[each] for unit in own) for each in hit.sources)
        shown += maximal
    assert shown
    assert len(shown) == len(set(shown))


def test_beside_passages_nodes_show_what_these_do_not_say(index: sg.Index) -> None:
    nodes = 0
    for question in QUESTIONS:
        passages = ""
        for hit in index.retrieve(question, k=20, method="archrag"):
            if hit.kind == "chunk":
                passages += " ".join(hit.text.split())
            elif hit.kind in SHOWN:
                nodes += 1
                assert not [unit for unit in _told(index) if unit in hit.text and unit in passages]
    assert nodes


def test_statements_end_before_the_next_begins() -> None:
    assert joined(["Ada rows.", "two for the bell;", "born in Sarn", "the end"]) == (
        "Ada rows. two for the bell;\nborn in Sarn\nthe end"
    )
    assert joined(["born in Sarn"]) == "born in Sarn"


def test_all_of_a_text_can_be_had(index: sg.Index) -> None:
    texts = {node.id: node.text for node in index.nodes("archrag")}
    found = index.retrieve(QUESTIONS[0], k=20, method="archrag", fill=False, whole=True)
    reports = [hit for hit in found if hit.kind == "community"]
    assert reports
    assert all(hit.text == texts[hit.id] for hit in reports)
    focused = index.retrieve(QUESTIONS[0], k=20, method="archrag", fill=False)
    assert any(hit.text != texts[hit.id] for hit in focused if hit.kind == "community")
    with pytest.raises(TypeError, match="whole must be True or False"):
        index.retrieve(QUESTIONS[0], method="hirag", whole="yes")


def test_what_a_model_wrote_is_shown_as_it_is() -> None:
    given, model = contract.documents(40), contract.CountingModel()
    with sg.build_index(given, "archrag", llm=model, embedder="hashing", progress=False) as written:
        texts = {node.id: node.text for node in written.nodes()}
        found = written.retrieve("the ferry captain and the apple blossom", k=20, fill=False)
        reports = [hit for hit in found if hit.id in texts]
        assert reports
        assert all(hit.text == texts[hit.id] for hit in reports)
