"""Reading an index without a question: its documents, its chunks, and a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.testing import FakeEmbedder

DOCUMENTS = [
    sg.Document("ferry", "The ferry to Ostra leaves at seven.", {"year": 1901, "tags": ["sea"]}),
    sg.Document("bridge", "The bridge to Ostra fell in the storm.", {"year": 1902}),
    sg.Document("plain", "A tunnel is planned."),
]
CHUNKS = [
    sg.Chunk("First part.", "tale", 0, metadata={"page": 1}, ref="n1"),
    sg.Chunk("Second part.", "tale", 1, metadata={"page": 2}, ref="n2"),
    sg.Chunk("Another tale.", "other", 0, ref="n2"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[sg.Index]:
    with build(DOCUMENTS, tmp_path / "idx") as index:
        yield index


@pytest.fixture
def split() -> Iterator[sg.Index]:
    """An index of a caller's own chunks, two of which share a reference."""
    with build(CHUNKS) as index:
        yield index


def build(documents: object, path: Path | None = None) -> sg.Index:
    return sg.build_index(documents, path=path, embedder=sg.HashingEmbedder(), progress=False)


def test_the_chunks_beside_a_chunk(split: sg.Index) -> None:
    other, first, second = (chunk for group in split.chunks().values() for chunk in group)
    assert split.neighbours([first.id, second.id, other.id, "unknown"]) == {
        first.id: (None, second),
        second.id: (first, None),
        other.id: (None, None),
    }
    assert split.neighbours([]) == {}


def test_documents_are_listed_with_their_metadata(index: sg.Index) -> None:
    assert index.documents() == {document.id: document.metadata for document in DOCUMENTS}
    assert list(index.documents()) == ["bridge", "ferry", "plain"]
    index.insert([sg.Document("ferry", "The ferry is sold.", {"year": 1905})])
    index.delete("plain")
    assert index.documents() == {"bridge": {"year": 1902}, "ferry": {"year": 1905}}


def test_chunks_by_document(index: sg.Index, split: sg.Index) -> None:
    everything = index.chunks()
    assert list(everything) == ["bridge", "ferry", "plain"]
    [ferry] = everything["ferry"]
    assert (ferry.text, ferry.metadata) == (DOCUMENTS[0].text, DOCUMENTS[0].metadata)
    assert DOCUMENTS[0].text[ferry.start : ferry.end] == ferry.text
    assert index.chunks(["ferry", "nobody"]) == {"ferry": [ferry]}
    assert index.chunks("ferry") == {"ferry": [ferry]}
    assert index.chunks(name for name in ["ferry"]) == {"ferry": [ferry]}
    assert index.chunks([]) == index.chunks(["nobody"]) == {}
    tale = split.chunks("tale")["tale"]
    assert [(chunk.text, chunk.ordinal, chunk.ref) for chunk in tale] == [
        ("First part.", 0, "n1"),
        ("Second part.", 1, "n2"),
    ]
    assert [chunk.metadata["page"] for chunk in tale] == [1, 2]


def test_chunks_are_found_by_either_id(split: sg.Index) -> None:
    first, second, other = [chunk for group in split.chunks(["tale", "other"]).values() for chunk in group][
        -2:
    ] + split.chunks("other")["other"]
    assert split.find_chunks("n1") == [first]
    assert split.find_chunks([second.id, "n1", "nothing", ""]) == [first, second]
    assert split.find_chunks(["n2", "n2", second.id]) == [other, second]
    assert split.find_chunks([]) == []
    hit = split.retrieve("second part", k=1).hits[0]
    assert [chunk.text for chunk in split.find_chunks(hit.sources)] == [hit.text]


def test_a_private_index_is_kept_by_its_copy(split: sg.Index, tmp_path: Path) -> None:
    split.copy_to(tmp_path / "kept")
    split.close()
    assert not split.path.exists()
    with sg.open_index(tmp_path / "kept", embedder=sg.HashingEmbedder()) as kept:
        assert kept.insert([sg.Document("new", "A new tale.")]).added == ("new",)
        assert len(kept.find_chunks(["n1", "n2"])) == 3


def test_an_index_is_warmed_without_asking_a_foreign_embedder(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    texts = ["Ada repaired the bridge of Ostra.", "The ferry to Ostra leaves at seven."]
    built = sg.build_index(texts, ["lshtree", "hirag"], tmp_path / "i", embedder=embedder, progress=False)
    with built as index:
        asked = len(embedder.requests)
        index.warm()
        assert len(embedder.requests) == asked
        assert index.retrieve("Who repaired the bridge?", k=1)[0].text == texts[0]
