"""An index whose arrays follow from those of earlier generations reads as if all had been written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import stratagraph as sg
from stratagraph.errors import Damaged
from stratagraph.operations.inspection import verify_folder
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.opened import snapshot_of
from stratagraph.types.built import Holds
from stratagraph.types.records import DocumentState
from tests.campaigns.faults import signed
from tests.store.support import DIMENSION, chunks, manifest, patching, rewrite_arrays

METHODS = ["lshtree", "archrag", "noderag", "hirag"]
NAMES = ["Ada Moreno", "Basil Hart", "Cora Lindqvist", "Dunmore Abbey", "Eskil Bay", "Farrow Mill"]


def documents(start: int, stop: int) -> list[sg.Document]:
    return [
        sg.Document(
            f"note-{each:03}",
            f"{NAMES[each % 6]} wrote to {NAMES[(each * 5 + 1) % 6]} about ship number {each}. "
            f"The ship left {NAMES[(each * 7 + 2) % 6]} in {1800 + each}.",
        )
        for each in range(start, stop)
    ]


def updated(path: Path) -> None:
    with sg.build_index(documents(0, 40), METHODS, path, embedder=FakeEmbedder(), progress=False) as index:
        index.insert(documents(60, 61))
        index.delete(["note-007"])
        index.insert([*documents(41, 43), sg.Document("note-001", "Basil Hart stayed at home.")])
        index.insert(documents(50, 51))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patched") / "idx"
    with patching(True):
        updated(path)
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "idx"))


def generation(path: Path) -> Path:
    return path / "generations" / (path / "CURRENT").read_text().strip()


def files(path: Path, pattern: str) -> set[str]:
    return {str(each.relative_to(generation(path))) for each in generation(path).glob(pattern)}


def test_an_insert_keeps_the_files_that_it_patches(folder: Path) -> None:
    before = {name: os.stat(generation(folder) / name).st_ino for name in files(folder, "[pn]*s/*.arrays")}
    with patching(True), sg.open_index(folder, embedder=FakeEmbedder()) as index:
        index.insert(documents(70, 71))
    after = {name: os.stat(generation(folder) / name).st_ino for name in files(folder, "[pn]*s/*.arrays")}
    assert len(before) == 2 * len(METHODS) + 4
    assert after == before
    assert verify_folder(folder) == []


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.float32])
def test_a_deletion_erases_content_by_its_declaration(tmp_path: Path, dtype: Any) -> None:
    folder = IndexFolder.create(tmp_path)
    values = np.arange(7001, 7001 + 2000).astype(dtype)

    def publish(documents: list[str], removed: list[str], rows: NDArray[np.int64]) -> None:
        with patching(True), folder.writer("insert") as staging:
            for name in documents:
                staging.add(name, DocumentState(name), {}, chunks(name, [name]))
            staging.assemble(removed=removed)
            staging.create_vectors(DIMENSION)
            measures = Holds.MEASURES.of({"weights": values[rows]})
            staging.put_part("m", [], measures | Holds.CONTENT.of({"vectors.of.words": values[rows]}))
            staging.publish(manifest(parts={"m": {}}, methods=("m",)))

    publish(["a", "b"], [], np.arange(2000))
    publish([], ["a"], np.arange(1, 2000))
    assert files(tmp_path, "patches/*/m.arrays") == {"patches/numbers/m.arrays"}
    left = [
        each for each in generation(tmp_path).rglob("m.arrays") if values[:1].tobytes() in each.read_bytes()
    ]
    assert [each.parent.name for each in left] == ["numbers"]


def test_no_hash_of_a_word_of_a_deleted_name_is_left_in_any_byte(tmp_path: Path) -> None:
    secret = sg.Document("secret", "Zebulon Quistorpe met Ada Moreno on board of the Halvarine in 1951.")
    path = tmp_path / "idx"
    with (
        patching(True),
        sg.build_index(
            [secret, *documents(0, 40)], METHODS, path, embedder=FakeEmbedder(), progress=False
        ) as index,
    ):
        index.insert(documents(60, 61))
        before = hashes(index)
        index.delete(["secret"])
        left = hashes(index)
    gone = np.setdiff1d(before, left)
    assert len(gone) > 5
    content = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())
    assert files(path, "patches/numbers/*") != set()
    assert [hex(each) for each in gone.tolist() if each.to_bytes(4, "little") in content] == []


def hashes(index: sg.Index) -> Any:
    """The hashes of words in arrays: numbers of 32 bits, which are large."""
    snapshot = snapshot_of(index)
    found = [
        np.asarray(array).reshape(-1)
        for part in snapshot.manifest.parts
        for array in snapshot.part(part).arrays.values()
        if array.dtype == np.uint32
    ]
    return np.setdiff1d(np.concatenate(found), np.arange(1 << 16))


def test_a_patch_that_cannot_be_applied_is_refused_whatever_its_checksum(folder: Path) -> None:
    name = "patches/numbers/noderag.arrays"

    def beyond(arrays: Any) -> Any:
        spans = next(key for key in arrays if key.endswith(".spans"))
        return {spans: arrays[spans] + 10**6}

    rewrite_arrays(generation(folder) / name, beyond)
    signed(folder, lambda content: None)
    with pytest.raises(Damaged, match="cannot be applied"):
        sg.open_index(folder, embedder=FakeEmbedder())
    assert [each.partition(":")[0] for each in verify_folder(folder)] == [name]


def test_a_patch_of_nothing_is_refused(folder: Path) -> None:
    name = "numbers/hirag.arrays"
    (generation(folder) / name).unlink()
    signed(folder, lambda content: None)
    with pytest.raises(Damaged, match="there is no numbers/hirag"):
        sg.open_index(folder, embedder=FakeEmbedder())
