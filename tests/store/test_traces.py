"""Nothing of a deleted document is left in any byte of the folder."""

from __future__ import annotations

import random
import sqlite3
import warnings
from pathlib import Path

import pytest

from stratagraph.store.calls import SqliteCalls
from stratagraph.store.folder import IndexFolder
from tests.store.support import publish, traces_of

SECRET = "The key lies under the third stone"


def put_calls(folder: IndexFolder) -> None:
    snapshot = folder.snapshot()
    for row, (identity, text) in enumerate(
        zip(snapshot.ids(range(snapshot.size)), snapshot.texts(range(snapshot.size)), strict=True)
    ):
        folder.calls.put(f"call-{row}", f"says: {text}", task="t", model="m", sources=[identity])
    everything = snapshot.ids(range(snapshot.size))
    folder.calls.put("all", f"root: {SECRET}", task="t", model="m", sources=everything)


@pytest.mark.parametrize("update", [False, True])
def test_deleted_and_replaced_texts_are_gone(tmp_path: Path, update: bool) -> None:
    folder = IndexFolder.create(tmp_path)
    documents = {f"d{number}": [f"harmless {number} {part}" for part in range(5)] for number in range(20)}
    publish(folder, {**documents, "secret": [SECRET, f"{SECRET}, again", "a line that stays"]})
    put_calls(folder)
    assert traces_of(tmp_path, SECRET)
    if update:
        publish(folder, {"secret": ["a line that stays"]})
    else:
        publish(folder, {}, removed=["secret"])
    assert traces_of(tmp_path, SECRET) == []
    assert folder.calls.get("call-0") == "says: harmless 0 0"
    assert folder.calls.get("all") is None
    assert bool(traces_of(tmp_path, "a line that stays")) is update
    assert not (tmp_path / "journal.sqlite").exists()
    folder.close()
    assert traces_of(tmp_path, SECRET) == []


def test_purging_leaves_no_stale_copies_in_pages(tmp_path: Path) -> None:
    calls = SqliteCalls(tmp_path / "calls.sqlite")
    random_source = random.Random(4)
    alive: set[int] = set()
    number = 0
    for _ in range(8):
        for _ in range(150):
            number += 1
            answer = f"<answer{number:05}>" * random_source.choice([1, 3, 10, 40, 300])
            key = str(random_source.random())
            calls.put(key, answer, task="t", model="m", sources=[str(number)])
            alive.add(number)
        gone = random_source.sample(sorted(alive), 120)
        assert calls.purge(str(one) for one in gone) == 120
        alive.difference_update(gone)
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    left = {one for one in range(1, number + 1) if f"<answer{one:05}>".encode() in data}
    assert left == alive
    calls.close()


def test_a_purge_that_must_wait_is_done_by_the_next_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = IndexFolder.create(tmp_path)
    publish(folder, {"a": ["x"], "secret": [SECRET]})
    put_calls(folder)
    folder.calls.close()
    reader = sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM calls").fetchone()
    monkeypatch.setattr("stratagraph.store.calls.PURGE_PATIENCE", 0.05)
    with pytest.warns(RuntimeWarning, match="could not be purged yet"):
        publish(folder, {}, removed=["secret"])
    assert folder.generation == 2
    reader.execute("COMMIT")
    reader.close()
    assert (tmp_path / "journal.sqlite").exists()
    assert folder.interrupted() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = IndexFolder.open(tmp_path)
    assert traces_of(tmp_path, SECRET) == []
    assert not (tmp_path / "journal.sqlite").exists()
    again.close()
    folder.close()
