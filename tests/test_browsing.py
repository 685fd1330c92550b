"""Listing what an index holds, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stratagraph as sg
from stratagraph.methods import NAMES

DOCUMENTS = [
    sg.Document(
        f"log-{n:02}.txt",
        f"Mara Quill steered ferry {n} from Ostra to Bremen. Tomas Weir met ferry {n} at the quay of Bremen. "
        f"The Harbour Office counted {n} crates.",
        {"title": f"Log of day {n}", "day": n},
    )
    for n in range(30)
]


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(DOCUMENTS, list(NAMES), embedder=sg.HashingEmbedder(), progress=False) as index:
        yield index


@pytest.mark.parametrize("method", NAMES)
def test_pages_hold_every_node_once_from_the_top_down(index: sg.Index, method: str) -> None:
    everything = {node.id: node for node in index.nodes(method)}
    seen: list[sg.Listed] = []
    while len(seen) < (page := index.browse(method, offset=len(seen), limit=7)).total:
        seen += page.items
    assert sorted(each.id for each in seen) == sorted(everything)
    assert [each.level for each in seen] == sorted((each.level for each in seen), reverse=True)
    for each in seen:
        node = everything[each.id]
        assert (each.kind, each.text, each.sources) == (node.kind, node.text, len(node.sources))
        assert each.members == len(node.members)
        assert set(each.passages) <= set(node.sources)
        assert set(each.documents) <= set(node.documents)


@pytest.mark.parametrize("method", NAMES)
def test_levels_count_what_pages_list(index: sg.Index, method: str) -> None:
    levels = index.levels(method)
    assert sum(each.count for each in levels) == index.browse(method, limit=1).total
    assert [each.level for each in levels] == sorted((each.level for each in levels), reverse=True)
    for each in levels:
        assert index.browse(method, level=each.level, kind=each.kind, limit=1).total == each.count
    assert index.browse(method, kind="nothing").total == 0


@pytest.mark.parametrize("method", NAMES)
def test_members_of_a_node_are_nodes_entities_or_passages(index: sg.Index, method: str) -> None:
    for node in index.nodes(method):
        members = index.browse(method, within=node.id, limit=500)
        assert [each.id for each in members.items] == list(node.members)
        assert members.total == len(node.members)


def test_documents_and_their_passages(index: sg.Index) -> None:
    documents = index.browse("documents", offset=10, limit=5)
    assert [each.id for each in documents.items] == [f"log-{n}.txt" for n in range(10, 15)]
    assert documents.total == 30
    first = documents.items[0]
    assert (first.title, first.metadata["day"], first.members) == ("Log of day 10", 10, 1)
    (passage,) = index.browse("passages", within="log-10.txt").items
    assert passage.documents == ("log-10.txt",)
    assert passage.text == index.find_chunks(passage.id)[0].text


def test_a_page_lies_around_a_passage() -> None:
    text = " ".join(f"Sentence {n} speaks of crate {n}." for n in range(400))
    config = sg.Config(chunking=sg.ChunkConfig(size=40, overlap=10))
    embedder = sg.HashingEmbedder()
    documents = [sg.Document("a", "One."), sg.Document("b", text), sg.Document("c", "Two.")]
    with sg.build_index(documents, embedder=embedder, config=config, progress=False) as index:
        ids = [chunk.id for chunk in index.chunks("b")["b"]]
        assert len(ids) > 40
        page = index.browse("passages", within="b", around=ids[20], limit=5)
        assert ([each.id for each in page.items], page.offset) == (ids[18:23], 18)
        first = index.browse("passages", within="b", around=ids[0], limit=5)
        assert ([each.id for each in first.items], first.offset) == (ids[:5], 0)
        with pytest.raises(KeyError, match="no passage"):
            index.browse("passages", within="a", around=ids[0])


def test_entities_come_by_how_many_passages_name_them(index: sg.Index) -> None:
    entities = index.browse("entities").items
    counts = [each.sources for each in entities]
    assert counts == sorted(counts, reverse=True)
    assert {"Mara Quill", "Tomas Weir"} <= {each.title for each in entities}


def test_words_are_found_whatever_their_case(index: sg.Index) -> None:
    assert index.browse("passages", text="FERRY 12 ").total == 1
    assert index.browse("passages", text="tomas bremen").total == 30
    assert index.browse("passages", text="tomas vienna").total == 0
    assert [each.id for each in index.browse("documents", text="log of day 17").items] == ["log-17.txt"]
    assert {each.title for each in index.browse("entities", text="mara").items} == {"Mara Quill"}
    top = index.browse("lshtree", limit=1).items[0]
    inside = index.browse("lshtree", within=top.id, text="ferry")
    assert 0 < inside.total <= top.members


def test_what_is_not_there_is_an_error(index: sg.Index) -> None:
    with pytest.raises(KeyError, match="no document 'nowhere'"):
        index.browse("passages", within="nowhere")
    with pytest.raises(KeyError, match="archrag has no node 'nowhere'"):
        index.browse("archrag", within="nowhere")
    for wrong in ({"offset": -1}, {"limit": 0}, {"limit": 501}):
        with pytest.raises(ValueError, match="limit between 1 and 500"):
            index.browse(**wrong)
    with pytest.raises(ValueError, match="nothing"):
        index.browse("nothing")


def test_pages_follow_updates() -> None:
    with sg.build_index(DOCUMENTS[:3], embedder=sg.HashingEmbedder(), progress=False) as index:
        assert index.browse("documents").total == 3
        index.insert(DOCUMENTS[3:5])
        assert index.browse("documents").total == 5
        index.delete("log-00.txt")
        assert [each.id for each in index.browse("documents", limit=1).items] == ["log-01.txt"]


async def test_a_model_s_stream_tells_its_usage(index: sg.Index) -> None:
    from stratagraph.testing import ScriptedChatModel

    model = ScriptedChatModel(['{"kind": "facts", "needed": [1]}', "Mara Quill [1]."])
    stream = index.astream("Who steered ferry 7?", llm=model)
    assert stream.answer is None
    text = "".join([piece async for piece in stream])
    assert text == "Mara Quill [1]."
    answer = stream.answer
    assert answer is not None
    assert [each.number for each in answer.citations] == [1]
    assert answer.usage.calls == 2
    assert not answer.extractive
