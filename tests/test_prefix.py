"""What a passage is found by besides its text: embedded, indexed by words, never shown, erased with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stratagraph as sg
from stratagraph.importing import read_extraction
from stratagraph.testing import FakeEmbedder
from tests.store.support import traces_of

SANK = "The ship sank off the cape in a storm."
WRECKS = [
    sg.Chunk(SANK, "dunlin", prefix="title: Dunlin"),
    sg.Chunk("She was broken up in a yard.", "heron", prefix="title: Heron"),
    sg.Chunk("A cook wrote letters home.", "letters"),
]


class Recording(FakeEmbedder):
    def __init__(self, dimension: int = 32) -> None:
        super().__init__(dimension)
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> Any:
        self.texts += texts
        return super().embed_documents(texts)


def build(path: Path | None = None, embedder: Any = "hashing", chunks: Any = WRECKS) -> sg.Index:
    return sg.build_index(chunks, None, path, embedder=embedder, progress=False)


def test_words_and_vectors_find_a_passage_by_its_prefix_and_show_its_text() -> None:
    embedder = Recording()
    with build(embedder=embedder) as index:
        assert f"title: Dunlin\n\n{SANK}" in embedder.texts
        found = index.retrieve("Dunlin Zoltan", k=3)
        assert found.unknown == ("zoltan",)
        assert not [each for each in index.entities() if "Dunlin" in each.name]
        [citation] = index.answer("What became of the Dunlin?", k=1).citations
        assert "title" not in citation.text
    with build() as index:
        for rank in ("dense", "bm25", "walk"):
            [hit] = index.retrieve("What became of the Dunlin?", k=1, rank=rank)
            assert (hit.text, hit.documents) == (SANK, ("dunlin",))


def test_vectors_of_statements_are_those_of_the_text() -> None:
    class OfSpans(Recording):
        def embed_spans(self, texts: list[str], spans: Any) -> tuple[Any, Any]:
            parts = [text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own]
            stated.extend(parts)
            return self.embed_documents(texts), super().embed_documents(parts)

    stated: list[str] = []
    chunk = sg.Chunk(SANK, "dunlin", prefix=f"summary: {SANK}")
    with sg.build_index([chunk], "noderag", embedder=(embedder := OfSpans()), progress=False):
        assert embedder.texts[0].endswith(f"\n\n{SANK}")
        assert SANK in stated


@pytest.mark.parametrize(("prefix", "whole"), [("a", f"a\n\n{SANK}"), ("a\n", f"a\n{SANK}"), ("", SANK)])
def test_a_prefix_stands_on_lines_of_its_own(prefix: str, whole: str) -> None:
    assert sg.Chunk(SANK, "d", prefix=prefix).searched_text == whole


def test_a_changed_prefix_is_a_changed_chunk(tmp_path: Path) -> None:
    embedder = Recording()
    with build(tmp_path / "idx", embedder) as index:
        [before] = index.chunks(["dunlin"])["dunlin"]
        embedder.texts.clear()
        assert index.insert(WRECKS).unchanged == ("dunlin", "heron", "letters")
        report = index.insert([sg.Chunk(SANK, "dunlin", prefix="title: Lapwing")])
        assert report.updated == ("dunlin",)
        assert f"title: Lapwing\n\n{SANK}" in embedder.texts
        [after] = index.chunks(["dunlin"])["dunlin"]
        assert after.prefix == "title: Lapwing"
        assert after.id != before.id
        assert index.retrieve("Dunlin", k=1).unknown == ("dunlin",)
        assert not [hit for hit in index.retrieve("Dunlin", k=3, rank="bm25")]


def test_an_update_is_a_build_of_the_result(tmp_path: Path) -> None:
    with build(tmp_path / "idx", chunks=WRECKS[1:]) as grown, build() as built:
        grown.insert(WRECKS[:1])
        question = "What became of the Dunlin and the Heron?"
        for rank in ("walk", "bm25", "dense"):
            assert [hit.score for hit in grown.retrieve(question, rank=rank)] == pytest.approx(
                [hit.score for hit in built.retrieve(question, rank=rank)], abs=1e-3
            )


def test_other_vectors_keep_it(tmp_path: Path) -> None:
    with build(tmp_path / "idx") as index:
        new = Recording()
        index.reembed(new)
        assert f"title: Dunlin\n\n{SANK}" in new.texts
        [hit] = index.retrieve("Dunlin", k=1, rank="bm25")
        assert hit.text == SANK


@pytest.mark.parametrize("replaced", [False, True])
def test_a_change_erases_it(tmp_path: Path, replaced: bool) -> None:
    with build(tmp_path / "idx", Recording()) as index:
        assert traces_of(tmp_path / "idx", "title: Dunlin")
        if replaced:
            index.insert([sg.Chunk(SANK, "dunlin", prefix="title: Lapwing")])
        else:
            index.delete(["dunlin"])
        assert not traces_of(tmp_path / "idx", "title: Dunlin")
        assert index.retrieve("Dunlin", k=1).unknown == ("dunlin",)


def test_an_export_brings_it_back(tmp_path: Path) -> None:
    with build() as index:
        index.export(tmp_path / "all.jsonl", "jsonl")
        known = index.chunks()
    with build(chunks=read_extraction(tmp_path / "all.jsonl").documents) as again:
        assert again.chunks() == known


def test_shards_keep_it(tmp_path: Path) -> None:
    with sg.build_shards(WRECKS, tmp_path / "idx", shards=2, embedder="hashing", progress=False) as shards:
        assert shards.chunks()["dunlin"][0].prefix == "title: Dunlin"
        [hit] = shards.retrieve("Dunlin", k=1, rank="bm25")
        assert hit.text == SANK
