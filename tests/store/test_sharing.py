"""Generations share the files of what did not change, and give up all of what did."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import stratagraph as sg
from stratagraph.errors import Damaged
from stratagraph.store import arrays
from stratagraph.store import contents as stored_contents
from stratagraph.store.folder import IndexFolder
from stratagraph.store.pool import FEWEST, PooledVectors
from stratagraph.store.records import NODES
from stratagraph.testing.opened import snapshot_of
from tests.store.support import contents, fill, manifest, publish, traces_of, vector

COUNT = max(2 * FEWEST, NODES.fewest // 2)  # vectors, nodes and texts have segments that are shared
MANY = {f"d{number:04}": [f"text number {number} of many"] for number in range(COUNT)}


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    folder = IndexFolder.create(tmp_path / "idx")
    publish(folder, MANY)
    return folder


def segments(folder: IndexFolder) -> dict[str, int]:
    """The segments of the generation in use, with what tells a file from others."""
    generation = folder.path / "generations" / str(folder.generation)
    found = [*generation.glob("vectors/*.arrays"), *generation.glob("*/*/*.arrays")]
    return {str(path.relative_to(generation)): path.stat().st_ino for path in found}


def test_an_insert_writes_what_is_new(folder: IndexFolder) -> None:
    before = segments(folder)
    publish(folder, {"new": ["a text that was not there"]})
    after = segments(folder)
    assert {name: after[name] for name in before if name in after} == {
        name: before[name] for name in before if name in after
    }
    assert len(before.items() & after.items()) >= len(before) - 1  # the node over all changed
    assert folder.verify() == []
    assert folder.snapshot().vectors[-1].tolist() == vector("a text that was not there").tolist()
    with folder.writer("compact", compact=True) as staging:
        fill(staging, {})
        staging.publish(manifest())
    assert not after.items() & segments(folder).items()
    assert folder.verify() == []


def test_readers_keep_their_generation(folder: IndexFolder) -> None:
    reader = IndexFolder.open(folder.path)
    old = reader.snapshot()
    before = contents(old)
    publish(folder, {}, removed=list(MANY)[: 3 * COUNT // 4])
    publish(folder, {"new": ["x"]})
    assert contents(old) == before
    assert reader.snapshot().size == COUNT // 4 + 1
    assert reader.snapshot() is reader.snapshot()


def shared(folder: IndexFolder, before: dict[str, int]) -> set[str]:
    """The segments of the generation in use that were there before."""
    return {name for name, inode in segments(folder).items() if before.get(name) == inode}


def test_a_reader_opens_what_an_update_wrote_and_no_more(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, before, opened = IndexFolder.open(folder.path), segments(folder), list[str]()
    reader.snapshot()
    publish(folder, {"new": ["a text that was not there"]})
    real = stored_contents.open_arrays
    monkeypatch.setattr(
        stored_contents, "open_arrays", lambda *given: opened.append(given[1]) or real(*given)
    )
    found = contents(reader.snapshot())
    assert opened
    assert shared(folder, before)
    assert not shared(folder, before) & set(opened)
    assert found == contents(IndexFolder.open(folder.path).snapshot())
    assert shared(folder, before) < set(opened)  # of another reader, which had nothing open


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "in place"])
def test_a_shared_file_that_was_altered_is_looked_at_again(folder: IndexFolder, replaced: bool) -> None:
    reader, before = IndexFolder.open(folder.path), segments(folder)
    reader.snapshot()
    publish(folder, {"new": ["a text that was not there"]})
    path = folder.path / "generations" / "2" / min(shared(folder, before))
    content = path.read_bytes()
    if replaced:
        path.unlink()
    path.write_bytes(content[:-1])
    with pytest.raises(Damaged, match=path.name):
        reader.snapshot()


def test_many_small_inserts_do_not_make_many_files(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    for number in range(10):
        publish(folder, {f"d{number}": [f"text {number}"]})
    assert len(segments(folder)) == 4  # one of vectors, nodes, chunks and documents each
    assert folder.verify() == []


def test_a_disk_without_hard_links_gets_copies(folder: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = segments(folder)
    monkeypatch.setattr(os, "link", refuse)
    publish(folder, {"new": ["x"]})
    after = segments(folder)
    assert before.keys() & after.keys()
    assert not before.items() & after.items()
    assert folder.verify() == []


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system does not list open files")
def test_an_open_index_holds_few_files_however_many_are_mapped(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "READ", 0)
    before = len(os.listdir("/dev/fd"))
    opened = IndexFolder.open(folder.path)
    snapshot = opened.snapshot()
    assert len(snapshot.manifest.files) > 5
    assert len(os.listdir("/dev/fd")) <= before + 2
    texts, vectors = snapshot.texts([3]), np.array(snapshot.vectors[3:4])
    for path in folder.path.rglob("*.arrays"):
        path.unlink()
    assert snapshot.texts([3]) == texts  # what is mapped stays
    assert np.array_equal(snapshot.vectors[3:4], vectors)


def test_what_inserts_put_out_of_use_is_shared_until_the_next_deletion() -> None:
    """Every insert replaces summaries; a deletion writes the segments that hold the old ones again."""
    documents = [
        sg.Document(f"d{at:03}", f"Lantern {at} hangs in the harbour of Note {at}.") for at in range(COUNT)
    ]
    secret = sg.Document("secret", "Mara Quill buried the tin box under the third elm.")
    with sg.build_index(documents, "lshtree", embedder=sg.HashingEmbedder(), progress=False) as index:

        def unused() -> int:
            snapshot = snapshot_of(index)
            arrays = (
                each for part in snapshot.manifest.parts for each in snapshot.part(part).arrays.values()
            )
            slots = [each.slots for each in (snapshot.vectors, *arrays) if isinstance(each, PooledVectors)]
            return len(snapshot.pool) - len(np.unique(np.concatenate(slots)))

        assert unused() == 0
        index.insert([secret])
        for at in range(4):
            index.insert([sg.Document(f"late {at}", f"Ada Holm owns the Dunlin since {1900 + at}.")])
        assert unused() > 0
        assert traces_of(index.path, "third elm")
        asked = "Who owns the Dunlin?"
        before, nodes = index.retrieve(asked, method="lshtree").hits, list(index.nodes("lshtree"))
        report = index.compact()
        assert (report.operation, report.usage.calls, unused()) == ("compact", 0, 0)
        assert index.retrieve(asked, method="lshtree").hits == before
        assert list(index.nodes("lshtree")) == nodes
        index.insert([sg.Document("last", "Ada Holm sold the Dunlin in 1911.")])
        assert unused() > 0
        index.delete(["secret"])
        assert unused() == 0
        assert traces_of(index.path, "third elm") == []
        assert index.verify() == []
