"""Graphs handed to the frameworks: whole, and read back by the importers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stratagraph as sg

DOCUMENTS = [
    sg.Document("meeting", "Ada Lovelace met Charles Babbage in London.", {"year": 1833}),
    sg.Document("engine", "Charles Babbage built the Analytical Engine. Ada Lovelace wrote of it."),
]
GIVEN = {
    "meeting": sg.Extraction(
        entities=(sg.EntityMention("Ada", "person", "A mathematician."), sg.EntityMention("London")),
        relations=(sg.RelationMention("Ada", "London", "lived in London", 4.0),),
    )
}


@pytest.fixture(scope="module")
def index() -> Iterator[sg.Index]:
    with sg.build_index(DOCUMENTS, embedder=sg.HashingEmbedder(), extraction=GIVEN, progress=False) as index:
        yield index


def test_a_property_graph_has_every_entity_relation_and_source(index: sg.Index) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.graph_stores import SimplePropertyGraphStore

    from llama_index_stratagraph import to_property_graph

    store = to_property_graph(index)
    nodes = {node.id: node for node in store.get()}
    entities, relations = list(index.entities()), list(index.relations())
    assert {node.name for node in nodes.values() if hasattr(node, "name")} == {each.name for each in entities}
    ada = nodes["Ada"]
    assert (ada.label, ada.properties["description"]) == ("person", "A mathematician.")
    edges = list(store.graph.relations.values())
    related = [edge for edge in edges if edge.label == "RELATED_TO"]
    mentions = {(edge.source_id, nodes[edge.target_id].name) for edge in edges if edge.label == "MENTIONS"}
    assert len(related) == len(relations)
    assert {edge.properties["weight"] for edge in related} == {each.weight for each in relations}
    assert mentions == {(source, each.name) for each in entities for source in each.sources}
    (chunk,) = index.chunks("meeting")["meeting"]
    assert nodes[chunk.id].text == DOCUMENTS[0].text
    assert nodes[chunk.id].properties["year"] == 1833
    own = SimplePropertyGraphStore()
    assert to_property_graph(index, own) is own


def test_a_property_graph_is_read_back(index: sg.Index) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index_stratagraph import to_property_graph

    imported = sg.from_property_graph(to_property_graph(index))
    embedder = sg.HashingEmbedder()
    with sg.build_index(
        imported.documents, embedder=embedder, extraction=imported.extractions, progress=False
    ) as again:
        assert {(each.id, each.type) for each in again.entities()} == {
            (each.id, each.type) for each in index.entities()
        }
        ends = {frozenset((each.source, each.target)) for each in index.relations()}
        assert {frozenset((each.source, each.target)) for each in again.relations()} == ends
        assert again.documents().keys() == index.documents().keys()


def test_graph_documents_say_what_each_chunk_says(index: sg.Index) -> None:
    pytest.importorskip("langchain_core")
    from langchain_stratagraph import to_graph_documents

    found = {each.source.metadata["source"]: each for each in to_graph_documents(index)}
    assert found.keys() == {"engine", "meeting"}
    meeting = found["meeting"]
    assert [(node.id, node.type) for node in meeting.nodes] == [("Ada", "person"), ("London", "Node")]
    (related,) = meeting.relationships
    assert (related.source.id, related.target.id, related.type) == ("Ada", "London", "RELATED_TO")
    assert related.properties == {"description": "lived in London", "strength": 4.0}
    assert meeting.source.page_content == DOCUMENTS[0].text
    assert meeting.source.metadata["year"] == 1833


def test_graph_documents_are_read_back(index: sg.Index) -> None:
    pytest.importorskip("langchain_core")
    from langchain_stratagraph import to_graph_documents

    imported = sg.from_graph_documents(list(to_graph_documents(index)))
    before = dict(index.extractions())
    for extraction, known in zip(imported.extractions.values(), before.values(), strict=True):
        assert set(extraction.relations) == set(known.relations)
        names = {each.name for each in known.entities}
        assert names <= {each.name for each in extraction.entities}
