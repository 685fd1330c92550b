"""Nothing of a deleted document is left in any byte: no text, no key, no answer that quotes it."""

from __future__ import annotations

import random
import sqlite3
import threading
import warnings
from functools import partial
from pathlib import Path

import pytest

import stratagraph as sg
from stratagraph.methods import NAMES
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents
from tests.campaigns.updates import numbers_in
from tests.store.support import keys_in, publish, traces_of

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


# Keys of what was deleted

CONFIG = {"noderag": {"sources": 10_000}, "hirag": {"cluster_size": 6}}
LONE = sg.Document("lone", "Xanthippe met Quentin.")
GONE = (["doc-003", "doc-010", "doc-024", "doc-041"], [LONE.id])
"""What is deleted: of one small document, too little changes for centrality to be measured again."""


def test_a_deletion_leaves_no_key_of_what_it_removes(tmp_path: Path) -> None:
    path = tmp_path / "idx"
    with sg.build_index(
        [*documents(60), LONE],
        list(NAMES),
        path,
        llm=CountingModel(),
        embedder=FakeEmbedder(),
        progress=False,
        config=CONFIG,
    ) as index:
        for gone in GONE:
            before = numbers_in(index)
            index.delete(gone)
            wanted = before - numbers_in(index)
            assert len(wanted) > 50
            assert keys_in(path, wanted) == set()


# Answers that end after a deletion

PAINT = "zanzibar"


class Held:
    """A model that quotes its prompt once it is let go."""

    name = "held"

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def complete(self, prompt: str) -> str:
        """What the prompt says of the paint."""
        self.asked.set()
        self.go.wait(20)
        return f"The paint is {PAINT if PAINT in prompt else 'unknown'} [1]."


@pytest.mark.parametrize(
    ("deleted", "same_object", "shards"),
    [("quoted", True, None), ("quoted", False, None), ("quoted", False, 2), ("other", True, None)],
)
def test_an_answer_to_what_was_deleted_is_not_kept(
    tmp_path: Path, same_object: bool, deleted: str, shards: int | None
) -> None:
    path = tmp_path / "idx"
    documents = [
        sg.Document("quoted", f"The paint of the pier is {PAINT}."),
        sg.Document("other", "Olaf Strand repaired the ferry Aurora in Lund."),
        sg.Document("third", "Maria Lind steers the ferry Aurora to Ven."),
    ]
    build = sg.build_index if shards is None else partial(sg.build_shards, shards=shards)
    build(documents, method="lshtree", path=path, embedder=FakeEmbedder(), progress=False).close()
    model = Held()
    with (
        sg.open_index(path, llm=model, embedder=FakeEmbedder()) as reader,
        sg.open_index(path, embedder=FakeEmbedder()) as writer,
    ):
        answers: list[str] = []
        question = "What is the paint of the pier?"
        asking = threading.Thread(
            target=lambda: answers.append(reader.answer(question, k=1, view="chunks").text)
        )
        asking.start()
        assert model.asked.wait(20)
        (reader if same_object else writer).delete([deleted])
        model.go.set()
        asking.join(20)
        assert PAINT in answers[0]
    held = b"".join(each.read_bytes() for each in path.rglob("calls.sqlite*"))
    assert (PAINT.encode() in held) == (deleted == "other")
