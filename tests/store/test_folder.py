"""Whose folder it is, who writes in it, and who reads meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.errors import Locked, NotAnIndex
from stratagraph.store import database
from stratagraph.store.folder import IndexFolder
from stratagraph.store.layout import MARKER, made_layout
from stratagraph.types.records import DocumentState
from tests.store.support import contents, publish


def test_foreign_paths_are_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_text("meow")
    with pytest.raises(NotAnIndex, match=r"cat\.jpg"):
        IndexFolder.create(foreign)
    with pytest.raises(NotAnIndex, match=r"cat\.jpg"):
        IndexFolder.open(foreign)
    assert [path.name for path in foreign.iterdir()] == ["cat.jpg"]
    with pytest.raises(NotAnIndex, match="is a file"):
        IndexFolder.create(foreign / "cat.jpg")
    with pytest.raises(NotAnIndex, match="is a file"):
        IndexFolder.open(foreign / "cat.jpg")
    with pytest.raises(NotAnIndex, match="does not exist"):
        IndexFolder.open(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_half_built_folder_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "with space and ü#?"
    folder = IndexFolder.create(path)
    staging = folder.writer("build")
    staging.__enter__().add("a", DocumentState(""), {}, [])
    assert staging.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is False
    assert list((path / "generations").iterdir()) == []
    for leftover in ("1", "1.partial"):
        (path / "generations" / leftover).mkdir(parents=True)
        (path / "generations" / leftover / "scratch.arrays").write_text("cut sh")
    with pytest.raises(NotAnIndex, match="never finished"):
        IndexFolder.open(path)
    again = IndexFolder.create(path)
    assert publish(again, {"a": ["x"]}) == 1
    assert again.verify() == []
    assert [entry.name for entry in (path / "generations").iterdir()] == ["1"]


def test_who_claims_a_folder_at_the_same_time_finds_it_claimed(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def claimed(path: Path) -> list[str]:
        together.wait()
        return made_layout(path).root.names()

    with ThreadPoolExecutor(8) as pool:
        for turn in range(25):
            path = tmp_path / str(turn)
            for names in pool.map(claimed, [path] * 8):
                assert MARKER in names
            assert [entry.name for entry in path.iterdir()] == [MARKER]


def test_opening_and_reading_create_no_file(tmp_path: Path) -> None:
    publish(IndexFolder.create(tmp_path), {"a": ["x"]})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    folder = IndexFolder.open(tmp_path)
    contents(folder.snapshot())
    assert folder.calls.get("k") is None
    assert folder.interrupted() is None
    assert folder.verify() == []
    folder.close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_failed_first_build_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "idx"
    folder = IndexFolder.create(path)
    with pytest.raises(ValueError, match="no documents"), folder.writer("build"):
        raise ValueError("no documents")
    folder.abandon()
    assert not path.exists()
    folder = IndexFolder.create(path)
    folder.calls.put("paid", "answer", task="t", model="m", sources=())
    folder.abandon()
    assert IndexFolder.create(path).calls.get("paid") == "answer"


def test_a_second_writer_of_this_process_is_locked_out(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    other = IndexFolder.create(tmp_path)
    with folder.writer("build"):
        for second in (folder, other):
            with pytest.raises(Locked, match=r"this process \(build, since"), second.writer("insert"):
                pass
        assert other.interrupted() is None
    assert publish(other, {"a": ["x"]}) == 1


HOLD = """
import sys, time
from pathlib import Path
from stratagraph.store.folder import IndexFolder
with IndexFolder.create(Path(sys.argv[1])).writer("delete"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_writer_of_another_process_is_named_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        folder = IndexFolder.create(tmp_path)
        with pytest.raises(Locked, match=rf"process {holder.pid} on .*delete"), folder.writer("insert"):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert publish(folder, {"a": ["x"]}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_waits_for_what_other_threads_do_in_sqlite(tmp_path: Path) -> None:
    inside, order = threading.Event(), []

    def work() -> None:
        with database.inside_sqlite(), database.inside_sqlite():
            inside.set()
            time.sleep(0.2)
            order.append("left")

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        with database.inside_sqlite():
            os._exit(0 if order == ["left"] else 1)
    order.append("forked")
    thread.join()
    with database.inside_sqlite():
        assert os.waitpid(child, 0)[1] == 0
    assert order == ["left", "forked"]


def test_what_was_wrongly_asked_for_was_not_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with sg.build_index(["Ada repaired the bridge."], path=path, embedder="hashing", progress=False) as index:
        with pytest.raises(KeyError, match="nope"):
            index.delete(["nope"])
        with pytest.raises(ValueError, match="blank"):
            index.insert(["  "])
        assert index.stats()["interrupted"] is None


def test_a_relative_path_is_fixed_when_the_index_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(IndexFolder.create(tmp_path / "idx"), {"a": ["x"]})
    monkeypatch.chdir(tmp_path)
    folder = IndexFolder.open(Path("idx"))
    monkeypatch.chdir(tmp_path.parent)
    assert folder.path == tmp_path / "idx"
    assert publish(folder, {"b": ["z"]}) == 2
    assert not (tmp_path.parent / "idx").exists()


def test_a_forked_child_neither_keeps_nor_gives_back_the_lock(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    with folder.writer("parent"):
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


def test_a_temporary_index_does_not_outlast_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "import stratagraph as sg\n"
        "index = sg.build_index(['The secret of Skerry.'], embedder=sg.HashingEmbedder(), progress=False)\n"
        "print(index.path, flush=True); os.abort()"
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with sg.build_index(["Kept."], embedder=sg.HashingEmbedder(), progress=False) as living:
        command = [sys.executable, "-c", script, str(tmp_path)]
        killed = subprocess.run(command, capture_output=True, text=True, check=False)
        left = Path(killed.stdout.strip())
        assert left.is_relative_to(tmp_path)
        assert left.is_dir()
        sg.build_index(["Next."], embedder=sg.HashingEmbedder(), progress=False).close()
        assert not left.exists()
        assert living.retrieve("Kept").hits
    assert not list(tmp_path.iterdir())
