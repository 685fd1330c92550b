"""What an update takes over is neither written nor embedded again, whatever the method."""

from __future__ import annotations

from pathlib import Path

import pytest

import stratarag as sr
from stratarag.methods import NAMES
from stratarag.testing import FakeEmbedder
from stratarag.testing.contract import CountingModel, documents


class RecordingEmbedder(FakeEmbedder):
    """Remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.given += texts
        return super().embed_documents(texts)


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("with_model", [True, False], ids=["model", "no model"])
def test_an_insert_embeds_only_new_texts(method: str, with_model: bool, tmp_path: Path) -> None:
    llm = CountingModel() if with_model else None
    path = tmp_path / "index"
    sr.build_index(
        documents(60), method=method, path=path, llm=llm, embedder=FakeEmbedder(), progress=False
    ).close()
    embedder = RecordingEmbedder()
    with sr.open_index(path, llm=llm, embedder=embedder) as index:
        before = {hit.text for hit in index.retrieve("ferry rope tide", k=10_000, view="nodes").hits}
        index.insert(documents(3, start=60))
    assert embedder.given
    assert not before & set(embedder.given)
