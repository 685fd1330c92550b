"""A copy is an index of its own, whole at every moment, and holds nothing that was deleted."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stratagraph.errors import ClosedIndex, Damaged, NotAnIndex
from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.folder import IndexFolder
from tests.store.support import contents, files_holding, fill, publish

SECRET = "The key lies under the third stone"


def filled(path: Path, documents: dict[str, list[str]] | None = None) -> IndexFolder:
    folder = IndexFolder.create(path)
    publish(folder, documents or {"a": ["x", "y"], "b": ["z"]})
    answer(folder)
    return folder


def answer(folder: IndexFolder) -> None:
    answer_for(folder, folder.snapshot())


def answer_for(folder: IndexFolder, view: RecordedCorpus) -> None:
    rows = range(view.size)
    for identity, text in zip(view.ids(rows), view.texts(rows), strict=True):
        folder.calls.put(text, f"says {text}", task="t", model="m", sources=[identity])


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_copy_is_an_index_of_its_own(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    (folder.path / "notes.txt").write_text("not of the index")
    folder.copy_to(tmp_path / "deep" / "copy")
    assert names(tmp_path / "deep") == ["copy"]
    assert names(tmp_path / "deep" / "copy") == [
        "CURRENT",
        "calls.sqlite",
        "generations",
        "lock",
        "stratagraph-index",
    ]
    copy = IndexFolder.open(tmp_path / "deep" / "copy")
    assert contents(copy.snapshot()) == contents(folder.snapshot())
    assert copy.snapshot().manifest == folder.snapshot().manifest
    assert copy.verify() == []
    assert copy.calls.get("x") == "says x"
    before = contents(folder.snapshot())
    folder.calls.put("later", "answer", task="t", model="m", sources=[])
    publish(copy, {"c": ["w"]}, removed=["a"])
    assert contents(folder.snapshot()) == before
    assert folder.verify() == []
    assert copy.calls.get("later") is None
    copy.close()
    shutil.rmtree(folder.path)
    assert IndexFolder.open(tmp_path / "deep" / "copy").snapshot().texts([0, 1]) == ["z", "w"]


def test_an_earlier_copy_is_replaced(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    path = tmp_path / "copy"
    path.mkdir()  # an empty folder is as good as none
    folder.copy_to(path)
    reader = IndexFolder.open(path)
    seen, expected = reader.snapshot(), contents(reader.snapshot())
    publish(reader, {"own": ["marginalia"]})
    reader.calls.put("own", "marginalia", task="t", model="m", sources=[])
    (path / "notes.txt").write_text("mine")
    with pytest.raises(KeyError), reader.writer("insert"):
        raise KeyError  # an interrupted operation of the copy's own
    publish(folder, {"b": ["new"]}, removed=["a"])
    folder.copy_to(path)
    assert contents(seen) == expected
    assert reader.snapshot().texts([0]) == ["new"]
    assert reader.interrupted() is None
    assert reader.calls.get("own") is None
    reader.close()
    copy = IndexFolder.open(path)
    assert dict(copy.snapshot().document_states()) == dict(folder.snapshot().document_states())
    assert copy.verify() == []
    assert len(names(path / "generations")) == 1
    assert files_holding(path, "marginalia") == []
    assert (path / "notes.txt").read_text() == "mine"
    assert not {"journal.sqlite", "lock.json"} & set(names(path))
    publish(copy, {"c": ["w"]})
    assert copy.verify() == []


def test_onto_itself_is_nothing_and_into_itself_an_error(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    folder.calls.close()
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    (tmp_path / "link").symlink_to(folder.path, target_is_directory=True)
    folder.copy_to(folder.path)
    folder.copy_to(tmp_path / "link")
    folder.copy_to(tmp_path / "idx" / "generations" / "..")
    with pytest.raises(ValueError, match="inside of the index"):
        folder.copy_to(tmp_path / "link" / "generations" / "7")
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


def test_what_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_text("meow")
    with pytest.raises(NotAnIndex, match=r"cat\.jpg"):
        folder.copy_to(foreign)
    with pytest.raises(NotAnIndex, match="is a file"):
        folder.copy_to(foreign / "cat.jpg")
    assert names(foreign) == ["cat.jpg"]
    half = IndexFolder.create(tmp_path / "half")
    half.calls.put("paid", "answer", task="t", model="m", sources=[])
    with pytest.raises(ConnectionError), half.writer("build"):
        raise ConnectionError
    with pytest.raises(NotAnIndex, match="never finished; nothing was copied"):
        folder.copy_to(half.path)
    assert half.calls.get("paid") == "answer"
    with pytest.raises(NotAnIndex, match="never finished"):
        half.copy_to(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_closed_or_damaged_folder_is_not_copied(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    (folder.path / "generations" / "1" / "vectors/1-0.arrays").unlink()
    with pytest.raises(Damaged, match=r"1-0\.arrays: missing"):
        folder.copy_to(tmp_path / "copy")
    folder.close()
    with pytest.raises(ClosedIndex):
        folder.copy_to(tmp_path / "copy")
    assert names(tmp_path) == ["idx"]


@pytest.mark.parametrize("failing", ["checksums.Digest.write", "calls.SqliteCalls.copy_to"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    folder = filled(tmp_path / "idx")
    folder.copy_to(tmp_path / "copy")
    copy = IndexFolder.open(tmp_path / "copy")
    expected = contents(copy.snapshot())
    publish(folder, {"c": ["w"]})

    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(f"stratagraph.store.{failing}", fail)
        for name in ("copy", "new"):
            with pytest.raises(OSError, match="no space left"):
                folder.copy_to(tmp_path / name)
    assert names(tmp_path) == ["copy", "idx"]
    assert names(copy.path / "generations") == ["1"]
    assert copy.verify() == []
    assert contents(copy.snapshot()) == expected
    folder.copy_to(tmp_path / "copy")
    assert copy.snapshot().size == 4


def test_readers_and_copies_are_consistent_while_others_write(tmp_path: Path) -> None:
    writer = filled(tmp_path / "idx", {"a": ["x 1"]})
    stop = threading.Event()
    problems: list[BaseException] = []

    def write() -> None:
        try:
            while not stop.is_set():
                publish(writer, {"a": [f"x {writer.generation + 1}"]})
                answer(writer)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[str] = set()
    number, deadline = 0, time.monotonic() + 30
    while number < 12 or (len(seen) < 3 and not problems and time.monotonic() < deadline):
        number += 1
        with closing(IndexFolder.open(tmp_path / "idx")) as reader:
            snapshot = reader.snapshot()
            assert snapshot.texts([0]) == [f"x {snapshot.manifest.generation}"]
            np.testing.assert_array_equal(np.isfinite(snapshot.vectors), True)
            path = tmp_path / f"copy {number % 3}"
            reader.copy_to(path)
        with closing(IndexFolder.open(path)) as copy:
            assert copy.verify() == []
            [text] = copy.snapshot().texts([0])
            seen.add(text)
            assert copy.calls.get(text) in (None, f"says {text}")
    stop.set()
    thread.join()
    assert problems == []
    assert len(seen) > 2


def test_calls_that_wait_for_their_purge_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "idx", {"a": ["x"], "secret": [SECRET]})
    folder.copy_to(tmp_path / "replaced")
    folder.calls.close()
    busy = sqlite3.connect(folder.path / "calls.sqlite", isolation_level=None)
    busy.execute("BEGIN")
    busy.execute("SELECT COUNT(*) FROM calls").fetchone()
    monkeypatch.setattr("stratagraph.store.calls.PURGE_PATIENCE", 0.05)
    with pytest.warns(RuntimeWarning, match="could not be purged yet"):
        publish(folder, {}, removed=["secret"])
    for name in ("fresh", "replaced"):
        folder.copy_to(tmp_path / name)
        assert files_holding(tmp_path / name, SECRET) == []
        copy = IndexFolder.open(tmp_path / name)
        assert copy.calls.get("x") == "says x"
        assert copy.verify() == []
    assert (folder.path / "journal.sqlite").exists()  # it is still to be done at home
    busy.close()
    folder.close()


def test_a_first_copy_that_was_killed_is_done_again(tmp_path: Path) -> None:
    """A generation that was never complete says nothing of a lost CURRENT, whatever its number."""
    source = filled(tmp_path / "idx")
    publish(source, {"a": ["two"]})
    assert names(source.path / "generations") == ["2"]
    source.copy_to(tmp_path / "copy")
    (tmp_path / "copy/CURRENT").unlink()
    (tmp_path / "copy/generations/2").rename(tmp_path / "copy/generations/2.partial")
    source.copy_to(tmp_path / "copy")
    copy = IndexFolder.open(tmp_path / "copy")
    assert copy.verify() == []
    assert copy.snapshot().document_states().keys() == source.snapshot().document_states().keys()


def test_a_writer_that_never_publishes_does_not_disturb(tmp_path: Path) -> None:
    folder = filled(tmp_path / "idx")
    with folder.writer("insert") as staging:
        fill(staging, {"c": [SECRET]})
        answer_for(folder, staging)
        folder.copy_to(tmp_path / "copy")
    assert folder.calls.get(SECRET)
    copy = IndexFolder.open(tmp_path / "copy")
    assert names(copy.path / "generations") == ["1"]
    assert copy.interrupted() is None
    assert copy.calls.get("x") == "says x"
    assert files_holding(copy.path, SECRET) == []
