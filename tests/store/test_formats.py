"""Folders that earlier versions wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import stratarag as sr
from stratarag.store.folder import IndexFolder
from stratarag.store.manifest import FORMAT
from stratarag.testing import FakeEmbedder

ARCHIVE = Path(__file__).with_name("format1.tar.gz")
"""Three short documents, NodeRAG and the LSH tree, as the first format had them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "format1"


def test_a_folder_of_format_1_opens_answers_and_grows(folder: Path) -> None:
    with sr.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.methods == ("noderag", "lshtree")
        assert index.verify() == []
        assert "Aurora" in index.retrieve("Who steers the Aurora?", k=1).hits[0].text
        report = index.insert([sr.Document("storm", "The storm of 1953 broke the pier of Lund.")])
        assert (report.added, report.documents) == (("storm",), 4)
        assert index.verify() == []
    with sr.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.methods == ("noderag", "lshtree")
        found = index.retrieve("When was the storm?", k=4, view="chunks").hits
        assert {name for hit in found for name in hit.documents} == {"ferry", "island", "pier", "storm"}


def test_a_folder_of_format_1_is_copied_as_it_is(folder: Path, tmp_path: Path) -> None:
    IndexFolder.open(folder).copy_to(tmp_path / "copy")
    copy = IndexFolder.open(tmp_path / "copy")
    assert copy.verify() == []
    assert copy.snapshot().manifest == IndexFolder.open(folder).snapshot().manifest
    assert copy.snapshot().manifest.format == FORMAT
    assert copy.snapshot().manifest.methods == ("noderag", "lshtree")
