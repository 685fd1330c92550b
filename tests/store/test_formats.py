"""Folders that earlier versions wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.store import patches
from stratagraph.store.contents import NUMBERS
from stratagraph.store.folder import IndexFolder
from stratagraph.store.manifest import FORMAT
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import documents, state
from stratagraph.testing.opened import snapshot_of
from tests.store.support import traces_of

FOLDERS = Path(__file__).parent
"""`format1.tar.gz`: three short documents, NodeRAG and the LSH tree. `format2.tar.gz`: these and the first
nine of `stratagraph.testing.contract.documents`, all four methods; `format2b` has vectors of units too, and
`format3` nodes and vectors in segments, `format4` fewer arrays. Until then the corpus was in tables. Arrays
of `format5` are patches of those of an earlier generation, in which hashes of a deleted name are."""


def unpacked(name: str, tmp_path: Path) -> Path:
    with tarfile.open(FOLDERS / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpacked("format1", tmp_path)


def test_a_folder_of_format_1_opens_answers_and_grows(folder: Path) -> None:
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.methods == ("noderag", "lshtree")
        assert index.verify() == []
        assert "Aurora" in index.retrieve("Who steers the Aurora?", k=1).hits[0].text
        report = index.insert([sg.Document("storm", "The storm of 1953 broke the pier of Lund.")])
        assert (report.added, report.documents) == (("storm",), 4)
        assert index.verify() == []
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
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


@pytest.mark.parametrize("name", ["format2", "format2b", "format3", "format4", "format5"])
def test_a_folder_of_an_earlier_format_opens_answers_and_grows(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    new = sg.Document("storm", "The storm of 1953 broke the pier of Visby.")
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert index.methods == ("noderag", "lshtree", "archrag", "hirag")
        assert index.verify() == []
        for method in index.methods:
            hits = index.retrieve("Who steers the Aurora?", k=3, view="nodes", method=method).hits
            assert any("Aurora" in hit.text for hit in hits)
        assert index.insert([new]).added == ("storm",)
        assert index.verify() == []
        assert len(list(folder.rglob("nodes/*/*.arrays"))) >= 5
        assert len(list(folder.rglob("corpus/*/*.arrays"))) == 2
        assert not list(folder.rglob("corpus.sqlite"))
    docs = [*(sg.Document(key, text) for key, text in SHORT.items()), *documents(9), new]
    anew = sg.build_index(docs, ["lshtree"], embedder=FakeEmbedder(), progress=False)
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        assert state(index, "lshtree")["lshtree"] == state(anew, "lshtree")["lshtree"]


SHORT = {
    "ferry": "The ferry Aurora is steered by Captain Lund. Captain Lund was born in Visby.",
    "island": "The island of Gotska has a lighthouse. Visby lies south of Gotska.",
    "pier": "The pier of Visby was built by Erik Sand in 1921. The Aurora lands there.",
}


@pytest.mark.parametrize("name", ["format2", "format2b", "format3", "format4", "format5"])
def test_a_folder_of_an_earlier_format_forgets_what_is_deleted(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        index.delete("pier")
        assert index.verify() == []
        assert traces_of(folder, "Erik Sand") == []
        assert index.retrieve("Who built the pier?", k=20).hits


@pytest.mark.parametrize("delete", [False, True])
def test_hashes_of_names_that_format_5_kept_are_gone_with_the_next_update(
    delete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("format5", tmp_path)
    monkeypatch.setattr(patches, "LEAST", 0)  # small arrays are patched too, whatever it takes
    monkeypatch.setattr(patches, "SMALL", -1)
    monkeypatch.setattr(patches, "SHARE", 0)
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        names = {"names.sequence", "names.grams"}
        snapshot = snapshot_of(index)
        held = {name: np.asarray(snapshot.groups["graph", NUMBERS][name]) for name in names}
        kept = {name: np.setdiff1d(held[name], snapshot.part("graph").arrays[name]) for name in names}
        assert all(len(each) > 1 for each in kept.values())
        if delete:
            index.delete(["pier"])
        else:
            index.insert([sg.Document("storm", "The storm of 1953 broke the pier of Visby.")])
        assert index.verify() == []
    content = b"".join(each.read_bytes() for each in folder.rglob("*.[ap][ri]*"))
    assert not [each for name in names for each in kept[name] if each.tobytes() in content]
