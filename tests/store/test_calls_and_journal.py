"""The two files that outlive a killed process: answers of models, and the journal."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import Damaged, FormatMismatch, StoreError
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.files import Directory
from stratagraph.store.folder import IndexFolder
from stratagraph.store.journal import Journal
from tests.store.support import fill, manifest, publish


def test_calls_are_found_again_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "calls.sqlite"
    calls = SqliteCalls(path)
    assert calls.get("k") is None
    assert not path.parent.exists()
    calls.put("k", "first", task="t", model="m", sources=["a"])
    calls.put("k", "second", task="t", model="m", sources=["b"])
    calls.close()
    assert SqliteCalls(path).get("k") == "second"
    assert calls.purge(["a"]) == 1
    assert calls.get("k") is None
    assert calls.check() == []


ALTERED = ["UPDATE calls SET answer = 'answer to j' WHERE key = 'k'"]
SWAPPED = [  # the answer to another question, with the checksum of that one
    "UPDATE calls SET answer = 'answer to other' WHERE key = 'k'",
    "UPDATE checksums SET checksum = (SELECT checksum FROM checksums WHERE number = 2)",
]


@pytest.mark.parametrize("statements", [ALTERED, SWAPPED], ids=["altered", "another's"])
def test_an_answer_that_is_not_as_it_was_stored_is_asked_for_again(
    tmp_path: Path, statements: list[str]
) -> None:
    path = tmp_path / "calls.sqlite"
    calls = SqliteCalls(path)
    for key in ("k", "other"):
        calls.put(key, f"answer to {key}", task="t", model="m", sources=["a"])
    calls.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for each in statements:
            connection.execute(each)
    with pytest.warns(RuntimeWarning, match=r"calls\.sqlite"):
        assert calls.get("k") is None
    assert calls.get("k") is None  # and says so once
    assert calls.get("other") == "answer to other"
    (problem,) = calls.check()
    assert problem.startswith("calls.sqlite: answer 1 (of t)")
    calls.put("k", "answer anew", task="t", model="m", sources=[])
    assert calls.get("k") == "answer anew"
    assert calls.check() == []


@pytest.mark.parametrize("number", [0, 2])
def test_a_cache_of_another_format_is_refused(tmp_path: Path, number: int) -> None:
    calls = SqliteCalls(tmp_path / "calls.sqlite")
    calls.put("k", "answer", task="t", model="m", sources=[])
    calls.close()
    with closing(sqlite3.connect(calls.path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(FormatMismatch, match=r"calls\.sqlite: .*unreleased version.*remove the file"):
        calls.get("k")


def test_what_is_forgotten_lets_go_of_its_files_at_once(tmp_path: Path) -> None:
    gc.disable()  # a cycle would be found some time later, and hold locks until then
    try:
        folder = IndexFolder.create(tmp_path)
        publish(folder, {"a": ["x"]})
        folder.calls.put("k", "answer", task="t", model="m", sources=[])
        folder.journal.put(["v"], np.zeros((1, 2), dtype=np.float32))
        assert len(list(tmp_path.glob("*.sqlite-wal"))) == 2
        del folder
        assert list(tmp_path.glob("*.sqlite-wal")) == []
    finally:
        gc.enable()


def test_threads_and_processes_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    code = (
        "import sys; from stratagraph.store.calls import SqliteCalls; calls = SqliteCalls(sys.argv[1])\n"
        "for n in range(100): calls.put(f'{sys.argv[2]}-{n}', 'a', task='t', model='m', sources=['c'])"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(3)]
    calls = SqliteCalls(path)

    def work(name: int) -> None:
        for number in range(100):
            calls.put(f"thread{name}-{number}", "a", task="t", model="m", sources=["c"])
            assert calls.get(f"thread{name}-{number}") == "a"

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert calls.purge(["c"]) == 700


def test_a_foreign_file_is_not_taken_for_a_cache(tmp_path: Path) -> None:
    foreign = tmp_path / "mine.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match=r"mine\.sqlite"):
        SqliteCalls(foreign).put("k", "v", task="t", model="m", sources=())
    assert foreign.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as a header " * 10)
    with pytest.raises(Damaged, match=r"notes\.txt"):
        SqliteCalls(text).get("k")


def test_a_forked_child_uses_a_connection_of_its_own(tmp_path: Path) -> None:
    calls = SqliteCalls(tmp_path / "calls.sqlite")
    calls.put("parent", "v", task="t", model="m", sources=())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            calls.put("child", calls.get("parent") or "", task="t", model="m", sources=())
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert calls.get("child") == "v"


def test_vectors_of_a_killed_operation_are_found_again(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    publish(folder, {"a": ["x"]})
    code = (
        "import os, signal, sys, numpy as np; from pathlib import Path\n"
        "from stratagraph.store.folder import IndexFolder\n"
        "folder = IndexFolder.open(Path(sys.argv[1]))\n"
        "with folder.writer('insert'):\n"
        "    folder.journal.put(['k1', 'k2'], np.eye(2, 3, dtype=np.float32))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "insert" in (folder.interrupted() or "")
    with folder.writer("insert") as staging:
        found = folder.journal.get(["k1", "k2", "k3"])
        assert {key: vector.tolist() for key, vector in found.items()} == {"k1": [1, 0, 0], "k2": [0, 1, 0]}
        fill(staging, {"b": ["y"]})
        staging.publish(manifest())
    assert folder.interrupted() is None
    assert not (tmp_path / "journal.sqlite").exists()


def test_the_journal_stays_after_an_error_and_goes_after_success(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)

    def stop() -> None:
        with folder.writer("build"):
            folder.journal.put(["k"], np.ones((1, 2), np.float32))
            raise RuntimeError("budget")

    with pytest.raises(RuntimeError, match="budget"):
        stop()
    assert "build" in (folder.interrupted() or "")
    with folder.writer("estimate"):
        pass
    assert "build" in (folder.interrupted() or "")
    assert list(folder.journal.get(["k"])) == ["k"]
    publish(folder, {"a": ["x"]})
    assert folder.interrupted() is None
    with folder.writer("nothing to do"):
        assert folder.journal.exists()
    assert not folder.journal.exists()


def test_a_log_without_its_file_is_not_replayed(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite-wal").write_bytes(b"left over" * 1000)
    journal = Journal(Directory.open(tmp_path))
    journal.put(["a"], np.ones((1, 2), np.float32))
    assert list(journal.get(["a"])) == ["a"]
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def with_crc(vector: bytes) -> bytes:
    return vector + zlib.crc32(vector).to_bytes(4, "little")


@pytest.mark.parametrize(
    "stored",
    ["text", b"", with_crc(b"12345"), with_crc(b"\0\0\xc0\x7f"), b"\0\0\0\0wrong"],
)
def test_a_vector_that_cannot_be_one_is_made_again(tmp_path: Path, stored: bytes | str) -> None:
    with Directory.open(tmp_path) as directory:
        journal = Journal(directory)
        journal.put(["k", "other"], np.ones((2, 1), dtype=np.float32))
        journal.close()
        with closing(sqlite3.connect(journal.path)) as connection, connection:
            connection.execute("UPDATE vectors SET vector = ? WHERE key = 'k'", (stored,))
        assert list(journal.get(["k", "other"])) == ["other"]
        journal.close()
