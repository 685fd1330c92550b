"""Files of arrays in pieces: a delete writes anew those in which it erases something, shares others."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import stratagraph as sg
from stratagraph.errors import Damaged
from stratagraph.operations.inspection import verify_folder
from stratagraph.store import part_arrays, patches, pieces
from stratagraph.store.checksums import FileEntry
from stratagraph.store.files import Directory
from stratagraph.store.pieces import Pieces, write_pieces
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import assert_sound
from stratagraph.testing.opened import snapshot_of
from tests.campaigns.hostile import signed
from tests.store.support import everything_in
from tests.store.test_patched_folders import METHODS, arrays, generation

STEP = mmap.ALLOCATIONGRANULARITY
SYLLABLES = ["ba", "ko", "li", "mu", "ne", "ra", "si", "tu", "vo", "ze"]


def named(number: int) -> str:
    """A name for each number."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03}").capitalize()


def documents(start: int, stop: int) -> list[sg.Document]:
    return [
        sg.Document(
            f"note-{each:03}",
            f"Captain {named(each)} wrote to Skipper {named(each * 7 % 200)} of {named(300 + each)} Harbour.",
        )
        for each in range(start, stop)
    ]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are in pieces, and patched."""
    monkeypatch.setattr(pieces, "LEAST", STEP)
    monkeypatch.setattr(part_arrays, "LEAST", 0)
    monkeypatch.setattr(part_arrays, "_ANEW", 1)
    monkeypatch.setattr(patches, "LEAST", 0)
    monkeypatch.setattr(patches, "SHARE", 1)
    monkeypatch.setattr(patches, "SMALL", -1)


@pytest.fixture(params=["mapped", "read"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "read":
        monkeypatch.setattr(pieces, "_maps", lambda: False)
    elif not pieces._maps():
        pytest.skip("the kernels are not compiled")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("pieces") / "idx"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "LEAST", STEP)
        patched.setattr(part_arrays, "LEAST", 0)
        secret = sg.Document(
            "secret", "Zebulon Quistorpe met Captain Bakoba on board of the Halvarine in 1951."
        )
        sg.build_index(
            [*documents(0, 120), secret], METHODS, path, embedder=FakeEmbedder(), progress=False
        ).close()
        yield path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "idx"))


def pieces_of(folder: Path, part: str = "*") -> dict[str, int]:
    """The files of pieces, and what tells one file from another."""
    found = generation(folder).glob(f"parts/{part}/*.piece")
    return {str(path.relative_to(generation(folder))): os.stat(path).st_ino for path in found}


def written(path: Path, content: dict[str, NDArray[Any]]) -> tuple[dict[str, FileEntry], Pieces]:
    with Directory.open(path) as directory:
        files = write_pieces(directory, 3, content)
        found = Pieces({file: entry.bytes for file, entry in files.items()})
        for file in reversed(files):
            assert not found.complete
            descriptor = directory.descriptor(file)
            found.put(file, descriptor)
            os.close(descriptor)
    assert found.complete
    return files, found


@pytest.mark.parametrize("rows", [0, 1, STEP // 8, 3 * STEP])
def test_arrays_in_pieces_are_those_that_were_written(tmp_path: Path, rows: int, memory: None) -> None:
    random = np.random.default_rng(rows)
    content = {
        "keys": random.integers(0, 1 << 63, rows).astype(np.uint64),
        "codes": random.integers(0, 256, (rows, 3)).astype(np.uint8),
        "scale": np.array(2.5),
    }
    files, found = written(tmp_path, content)
    assert {entry.bytes for entry in list(files.values())[:-1]} <= {STEP}
    read = found.arrays(tmp_path)
    assert list(read) == list(content)
    for name, array in content.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()
        assert not read[name].flags.writeable
    if rows > 1:
        assert read["keys"].ctypes.data % 64 == 0


def test_there_are_not_more_pieces_than_a_limit_whatever_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "MOST", 4)
    files, _ = written(tmp_path, {"codes": np.ones(9 * STEP, np.uint8)})
    assert [entry.bytes // STEP for entry in files.values()] == [4, 4, 1]


def test_only_pieces_that_hold_something_in_a_range_are_written_anew(tmp_path: Path, memory: None) -> None:
    codes = np.ones(5 * STEP, np.uint8)
    codes[3 * STEP : 4 * STEP] = 0
    _, found = written(tmp_path, {"codes": codes})
    whole = found.bytes().copy()
    ranges = [
        (STEP + 5, STEP + 9),
        (2 * STEP - 3, 2 * STEP + 3),
        (3 * STEP + 200, 3 * STEP + 900),
        (STEP, STEP),
    ]
    erased = found.erased(ranges)
    assert sorted(erased) == [1, 2]
    for begin, end in ranges:
        whole[begin:end] = 0
    for place, content in erased.items():
        assert np.array_equal(content, whole[place * STEP : (place + 1) * STEP])


def test_a_piece_in_which_nothing_is_left_is_an_empty_file(tmp_path: Path, memory: None) -> None:
    files, found = written(tmp_path, {"codes": np.ones(4 * STEP - 500, np.uint8)})
    assert len(files) == 4
    erased = found.erased([(STEP, 4 * STEP)])
    assert [len(erased[place]) for place in (1, 2)] == [0, 0]
    assert len(erased[3]) == files["3-3.piece"].bytes
    sizes = {file: 0 if file in ("1-3.piece", "2-3.piece") else entry.bytes for file, entry in files.items()}
    again = Pieces(sizes)
    with Directory.open(tmp_path) as directory:
        for file in files:
            descriptor = directory.descriptor(file)
            again.put(file, descriptor)
            os.close(descriptor)
    assert not again.bytes()[STEP : 3 * STEP].any()
    assert np.array_equal(again.bytes()[:STEP], found.bytes()[:STEP])
    assert np.array_equal(again.bytes()[3 * STEP :], found.bytes()[3 * STEP :])


@pytest.mark.parametrize(
    "sizes",
    [
        {"0-1.piece": STEP, "2-1.piece": STEP},
        {"1-1.piece": STEP},
        {"0-1.piece": STEP, "0-2.piece": STEP},
        {"0-1.piece": STEP, "1-1.piece": STEP + 1},
        {"0-1.piece": STEP, "1-1.piece": STEP - 1, "2-1.piece": STEP},
        {"0-1.piece": 100, "1-1.piece": 100},
        {"0-1.piece": STEP, "1-1.piece": 0},
        {"0-1.piece": 0, "1-1.piece": STEP},
        {"0-1.piece": 0},
        {"0-1.piece": STEP, "one.piece": STEP},
        {"0-1.piece": STEP, "01-1.piece": STEP},
        {"0-1.piece": 1 << 50, "1-1.piece": 1 << 50},
    ],
)
def test_what_cannot_be_the_pieces_of_a_file_is_told_before_anything_is_mapped(sizes: dict[str, int]) -> None:
    found = Pieces(sizes)
    assert found.wrong is not None
    found.put(next(iter(sizes)), -1)
    assert not found.complete


def test_a_delete_writes_some_pieces_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    before = pieces_of(folder)
    assert len(before) > 15
    with (
        sg.open_index(folder, embedder=FakeEmbedder()) as reader,
        sg.open_index(folder, embedder=FakeEmbedder()) as index,
    ):
        held = snapshot_of(reader).part("graph").arrays
        earlier = {name: array.tobytes() for name, array in held.items()}
        keys = hashes(reader)
        index.delete(["secret"])
        gone = keys - hashes(index)
        assert index.verify() == []
        for method in METHODS:
            assert_sound(index, method)
        assert earlier == {name: array.tobytes() for name, array in held.items()}
    after = pieces_of(folder)
    shared = set(before.values()) & set(after.values())
    assert len(after) > len(shared) > 0
    content = everything_in(folder)
    assert len(gone) > 9
    assert [key for key in gone if key in content] == []
    assert b"Quistorpe" not in content


def hashes(index: sg.Index) -> set[bytes]:
    """What stands for names, words and texts in arrays: large numbers without a sign."""
    snapshot = snapshot_of(index)
    return {
        each.tobytes()
        for part in snapshot.manifest.parts
        for array in snapshot.part(part).arrays.values()
        if array.dtype in (np.uint32, np.uint64)
        for each in np.unique(np.asarray(array))
        if each >= 1 << 24
    }


def test_arrays_are_those_of_an_index_without_pieces(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update(path: Path) -> None:
        with sg.open_index(path, embedder=FakeEmbedder()) as index:
            index.delete(["secret", "note-007"])
            index.insert([*documents(121, 123), sg.Document("note-001", "Captain Kozeba stayed at home.")])
            index.delete(["note-121"])

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    update(folder)
    assert len({name.rpartition("-")[2] for name in pieces_of(folder)}) > 1
    monkeypatch.setattr(patches, "LEAST", 1 << 60)
    update(copy)
    assert len({name.rpartition("-")[2] for name in pieces_of(copy)}) == 1
    assert arrays(folder) == arrays(copy)
    assert verify_folder(folder) == []


def test_a_folder_with_pieces_is_copied_and_regrouped(folder: Path, tmp_path: Path) -> None:
    with sg.open_index(folder, embedder=FakeEmbedder()) as index:
        index.delete(["secret"])
        index.copy_to(tmp_path / "copy")
    assert arrays(folder) == arrays(tmp_path / "copy")
    with sg.open_index(tmp_path / "copy", embedder=FakeEmbedder(), check="full") as copy:
        copy.regroup()
        assert copy.verify() == []
    assert {name.rpartition("-")[2] for name in pieces_of(tmp_path / "copy")} == {"3.piece"}


def test_a_piece_that_is_missing_or_altered_is_named(folder: Path) -> None:
    name = "parts/graph/0-1.piece"
    path = generation(folder) / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"!")
    assert [each.partition(":")[0] for each in verify_folder(folder)] == [name]
    with pytest.raises(Damaged, match=name):
        sg.open_index(folder, embedder=FakeEmbedder(), check="full")
    path.unlink()
    assert [each.partition(":")[0] for each in verify_folder(folder)] == [name]
    with pytest.raises(Damaged, match=name):
        sg.open_index(folder, embedder=FakeEmbedder())


def test_pieces_that_are_no_file_of_arrays_are_refused_whatever_their_checksums(folder: Path) -> None:
    (generation(folder) / "parts" / "graph" / "1-1.piece").unlink()
    signed(folder, lambda content: None)
    with pytest.raises(Damaged, match="parts/graph: not every piece is there"):
        sg.open_index(folder, embedder=FakeEmbedder())
    assert [each.partition(":")[0] for each in verify_folder(folder)] == ["parts/graph"]


def test_pieces_that_do_not_describe_arrays_are_refused(folder: Path) -> None:
    first = generation(folder) / "parts" / "graph" / "0-1.piece"
    first.write_bytes(bytes(STEP))
    signed(folder, lambda content: None)
    with pytest.raises(Damaged, match="parts/graph: not a file of arrays"):
        sg.open_index(folder, embedder=FakeEmbedder())
    assert [each.partition(":")[0] for each in verify_folder(folder)] == ["parts/graph"]


def test_a_part_is_in_pieces_or_in_one_file(folder: Path) -> None:
    files, numbers = generation(folder), "numbers/graph.arrays"
    (files / "parts" / "graph.arrays").write_bytes((files / numbers).read_bytes())
    signed(folder, lambda content: content["files"].update({"parts/graph.arrays": content["files"][numbers]}))
    with pytest.raises(Damaged, match=r"parts/graph: there is parts/graph.arrays beside"):
        sg.open_index(folder, embedder=FakeEmbedder())
