"""A folder that someone else made: nothing beside it is touched, nothing hangs, everything is named."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from stratagraph.errors import Damaged, NotAnIndex, StoreError
from stratagraph.store.folder import IndexFolder
from stratagraph.store.lock import WriterLock
from tests.campaigns.hostile import VIEW
from tests.store.support import contents, publish


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = IndexFolder.create(tmp_path / "idx")
    publish(folder, {"a": ["x", "y"]})
    folder.calls.put("k", "v", task="t", model="m", sources=())
    folder.close()
    return tmp_path / "idx"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    for name in ("manifest.json", "scratch.arrays", "vectors.arrays"):
        (made / name).write_text(f"precious {name}")
    return made


def untouched(outside: Path) -> bool:
    names = ["manifest.json", "scratch.arrays", "vectors.arrays"]
    return sorted(each.name for each in outside.iterdir()) == names and all(
        (outside / name).read_text() == f"precious {name}" for name in names
    )


@pytest.mark.parametrize("name", ["generations/7", "generations/2.partial", "generations/2"])
def test_a_link_among_the_generations_is_left_alone(index: Path, outside: Path, name: str) -> None:
    (index / name).symlink_to(outside, target_is_directory=True)
    (index / "journal.sqlite").touch()  # something unfinished makes even an opening clean up
    folder = IndexFolder.open(index)
    publish(folder, {"b": ["z"]})
    assert folder.verify() == []
    assert untouched(outside)
    assert (index / name).is_symlink()


@pytest.mark.parametrize("name", ["generations", "generations/1", "generations/1/parts"])
def test_a_link_in_the_place_of_a_directory_is_damage(index: Path, tmp_path: Path, name: str) -> None:
    (index / name).rename(tmp_path / "elsewhere")
    (index / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(Damaged, match=f"{name}: a link, where a directory"):
        IndexFolder.open(index)


@pytest.mark.parametrize("name", ["lock.json", "CURRENT.tmp", "lock.json.tmp"])
def test_a_link_where_a_file_is_written_is_replaced(index: Path, outside: Path, name: str) -> None:
    (index / name).symlink_to(outside / "manifest.json")
    publish(IndexFolder.open(index), {"b": ["z"]})
    assert untouched(outside)


@pytest.mark.parametrize("name", ["calls.sqlite", "calls.sqlite-wal", "journal.sqlite", "lock"])
@pytest.mark.parametrize("target", ["made", "scratch.arrays"])
def test_a_link_where_a_file_is_opened_is_damage(index: Path, outside: Path, name: str, target: str) -> None:
    (index / name).unlink(missing_ok=True)
    (index / name).symlink_to(outside / target)
    with pytest.raises(Damaged, match=f"{name}: a link, where a file"):
        write(index)
    assert untouched(outside)


def write(index: Path) -> None:
    folder = IndexFolder.open(index)
    folder.calls.put("new", "answer", task="t", model="m", sources=())
    publish(folder, {"b": ["z"]})


@pytest.mark.parametrize("name", ["calls.sqlite", "journal.sqlite"])
def test_a_hard_link_is_not_written_to(index: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE precious (x)")
    before = other.read_bytes()
    (index / name).unlink(missing_ok=True)
    os.link(other, index / name)
    with pytest.raises(Damaged, match="hard link"):
        write(index)
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    "name",
    [
        "CURRENT",
        "generations/1/manifest.json",
        "generations/1/corpus/chunks/1-0.arrays",
        "generations/1/vectors/1-0.arrays",
    ],
)
@pytest.mark.parametrize("kind", ["a named pipe", "a directory"])
def test_what_is_no_file_is_named_and_never_waited_for(index: Path, name: str, kind: str) -> None:
    (index / name).unlink()
    if kind == "a directory":
        (index / name).mkdir()
    else:
        os.mkfifo(index / name)
    expected = "CURRENT" if name == "CURRENT" else f"{Path(name).name}: {kind}, where a file"
    with pytest.raises(StoreError, match=expected):
        IndexFolder.open(index)


def test_a_journal_cannot_have_sqlite_remove_another_file(index: Path, outside: Path) -> None:
    """SQLite removes a "super-journal" that a rollback journal names, when it has rolled back."""
    name = str(outside / "manifest.json").encode()
    end = len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    (index / "calls.sqlite-journal").write_bytes(bytes(512) + bytes(4) + name + end)
    with pytest.raises(Damaged, match="names another file"):
        write(index)
    assert untouched(outside)


@pytest.mark.parametrize(
    ("file", "table"),
    [("calls.sqlite", "calls"), ("journal.sqlite", "purges"), ("journal.sqlite", "operation")],
)
def test_a_view_that_never_ends_is_not_asked(index: Path, file: str, table: str) -> None:
    with closing(sqlite3.connect(index / file, isolation_level=None)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(VIEW.format(name=table))
    with pytest.raises(Damaged, match=f"not as stratagraph makes them .*view {table}"):
        write(index)


def test_a_folder_that_is_gone_or_replaced_is_not_written(index: Path, tmp_path: Path) -> None:
    folder = IndexFolder.open(index)
    seen = contents(folder.snapshot())
    index.rename(tmp_path / "moved")
    for _ in range(2):
        with pytest.raises(NotAnIndex, match="removed, moved or replaced"):
            publish(folder, {"b": ["z"]})
        with pytest.raises(NotAnIndex, match="removed, moved or replaced"):
            IndexFolder.open(tmp_path / "moved") and folder.calls.put(
                "k2", "v", task="t", model="m", sources=()
            )
        assert not index.exists() or list(index.iterdir()) == []
        index.mkdir(exist_ok=True)
    assert contents(IndexFolder.open(tmp_path / "moved").snapshot()) == seen


def test_a_relative_path_is_fixed_when_the_index_is_opened(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(index.parent)
    folder = IndexFolder.open(Path("idx"))
    monkeypatch.chdir(tmp_path.parent)
    assert folder.path == index
    assert publish(folder, {"b": ["z"]}) == 2
    assert not (tmp_path.parent / "idx").exists()


def test_a_generation_must_be_the_one_that_it_says(index: Path) -> None:
    (index / "generations" / "1").rename(index / "generations" / "2")
    (index / "CURRENT").write_text("2\n")
    with pytest.raises(Damaged, match="describes generation 1, but stands in 2"):
        IndexFolder.open(index)


def test_how_much_is_checked_is_a_choice(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path / "idx")
    publish(folder, {"a": [random.randbytes(3000).hex() for _ in range(1500)]})
    folder.close()
    texts = tmp_path / "idx" / "generations" / "1" / "corpus" / "chunks" / "1-0.arrays"
    assert texts.stat().st_size > 3 << 20
    with texts.open("r+b") as file:
        file.seek(50_000)  # in a text, within the first block, which every sample has
        file.write(b"\xff" * 8)
    IndexFolder.open(tmp_path / "idx", "sizes").close()
    for check in ("sampled", "full"):
        with pytest.raises(Damaged, match=r"1-0\.arrays: altered"):
            IndexFolder.open(tmp_path / "idx", check)
    with pytest.raises(ValueError, match="sizes, sampled, full"):
        IndexFolder.open(tmp_path / "idx", "some")


def test_few_descriptors_are_held(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path / "idx")
    publish(folder, {"a": [f"text {number}" for number in range(3000)]})
    folder.calls.put("k", "v", task="t", model="m", sources=())
    folder.close()
    gc.collect()  # what other tests have left open
    before = len(os.listdir("/proc/self/fd"))
    again = IndexFolder.open(tmp_path / "idx")
    answer = again.calls.get("k")
    held = len(os.listdir("/proc/self/fd")) - before
    again.close()
    after = len(os.listdir("/proc/self/fd"))
    assert (answer, held <= 16, after) == ("v", True, before)


def test_a_file_system_without_locks_is_said(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StoreError, match="has no locks"), IndexFolder.open(index).writer("insert"):
        pass


def test_a_forked_child_neither_keeps_nor_gives_back_the_lock(index: Path) -> None:
    folder = IndexFolder.open(index)
    with WriterLock(folder._layout.root, "parent"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert folder.interrupted() is None  # since it is locked
    publish(folder, {"b": ["z"]})


ATEXIT = """
import atexit, sys
import stratagraph as sg
from stratagraph.testing import FakeEmbedder
index = sg.build_index(["A note."], embedder=FakeEmbedder(), progress=False)
def ask():
    try: index.retrieve("note")
    except sg.errors.StratagraphError as error: print(error)
atexit.register(ask)
"""


def test_asking_when_the_interpreter_exits_is_an_error_of_ours() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ATEXIT], capture_output=True, text=True, timeout=60, check=True
    )
    assert "the interpreter is exiting" in ended.stdout
    assert ended.stderr == ""
