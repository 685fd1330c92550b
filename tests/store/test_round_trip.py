"""What is put in comes out: in this generation, and after any updates as a build would have it."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import MethodMissing
from stratagraph.store import corpus, records, staging
from stratagraph.store.folder import IndexFolder
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.built import Holds
from stratagraph.types.records import Chunk, DocumentState, Node
from tests.store.support import DIMENSION, METHOD, chunks, manifest, publish


def test_lookups_by_rows_ids_and_refs(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    publish(folder, {"d": [f"text {number}" for number in range(1200)]})
    snapshot = folder.snapshot()
    rows = [1199, 3, 3, 700, 0]
    assert snapshot.texts(rows) == [f"text {row}" for row in rows]
    assert snapshot.texts(np.array(rows)) == snapshot.texts(rows)
    ids = snapshot.ids(range(0, 1200, 2))
    assert list(snapshot.row_of([*ids, "unknown"]).values()) == list(range(0, 1200, 2))
    assert snapshot.refs(["d/5", "d/nothing", ""]) == {"d/5": [5]}
    stored = snapshot.part(METHOD)
    assert [node.id for node in stored.nodes([1200, 4])] == ["root", f"n-{snapshot.ids([4])[0]}"]
    assert stored.nodes([1200])[0].sources == tuple(range(1200))
    assert stored.rows(["root", "nobody"]) == {"root": 1200}
    assert snapshot.texts([]) == snapshot.chunks([]) == stored.nodes([]) == []
    for call in (snapshot.texts, snapshot.ids, snapshot.chunks):
        with pytest.raises(IndexError, match="1200"):
            call([0, 1200])
        with pytest.raises(IndexError, match="-1"):
            call([-1])
    with pytest.raises(MethodMissing, match=METHOD):
        snapshot.part("hirag")


def test_chunk_metadata_is_the_documents_under_its_own(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    shared = {"author": "Ada", "year": 1843}
    with folder.writer("build") as staging:
        staging.add(
            "d",
            DocumentState("digest"),
            shared,
            [
                Chunk("plain", "d", 0, 0, 5, shared),
                Chunk("own", "d", 1, 6, 9, {**shared, "year": 1844, "page": [1, None]}, ref="r"),
                Chunk("bare", "d", 2),
            ],
        )
        staging.assemble(removed=())
        staging.create_vectors(DIMENSION)
        staging.publish(manifest(parts={}, methods=()))
    snapshot = folder.snapshot()
    merged = {"author": "Ada", "year": 1844, "page": [1, None]}
    assert snapshot.chunk_metadata() == [shared, merged, shared]
    assert [chunk.metadata for chunk in snapshot.chunks([2, 1])] == [shared, merged]
    assert snapshot.chunks([1])[0] == Chunk("own", "d", 1, 6, 9, merged, snapshot.ids([1])[0], "r")


def test_arrays_of_every_kind(tmp_path: Path) -> None:
    arrays = {
        "codes": np.arange(6, dtype=np.uint64).reshape(3, 2),
        "empty": np.zeros((0, 5), np.float32),
        "flags": np.array([True, False]),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "names": np.array(["é", "longer"]),
        "half": np.ones(3, np.float16),
        "scalar": np.array(7),
    }
    folder = IndexFolder.create(tmp_path)
    with folder.writer("build") as staging:
        staging.assemble(removed=())
        staging.create_vectors(DIMENSION)
        staging.put_part("m", [], Holds.CONTENT.of(arrays))
        with pytest.raises(ValueError, match="Python objects"):
            staging.put_part("other", [], Holds.CONTENT.of({"bad": np.array([{}, None], dtype=object)}))
        with pytest.raises(ValueError, match="letters"):
            staging.put_part("third", [], Holds.CONTENT.of({"../escape": np.zeros(1)}))
    with folder.writer("build") as staging:
        staging.assemble(removed=())
        staging.create_vectors(DIMENSION)
        staging.put_part("m", [], Holds.CONTENT.of(arrays))
        staging.publish(manifest(parts={"m": {}}, methods=("m",)))
    stored = folder.snapshot().part("m").arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(stored[name], array)
        assert stored[name].dtype == array.dtype
        assert not stored[name].flags.writeable


def test_what_a_part_may_not_put(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    with folder.writer("build") as staging:
        staging.add("d", DocumentState(""), {}, chunks("d", ["x", "y"]))
        staging.assemble(removed=())
        for sources in ([2], [-1], [1, 0], [0, 0]):
            nodes = [Node("ok", "k", 0, "t", (0, 1)), Node("bad", "k", 0, "t", sources)]
            with pytest.raises(ValueError, match="'bad'"):
                staging.put_part("m", nodes, {})
        twice = [Node("same", "k", 0, "t", (0,)), Node("same", "k", 0, "t", (1,))]
        with pytest.raises(ValueError, match="same id"):
            staging.put_part("m", twice, {})
        with pytest.raises(ValueError, match="reserved"):
            staging.put_part("m", [], Holds.ROWS.of({"sources.indptr": np.zeros(1, np.int64)}))
        with pytest.raises(TypeError, match="'keys' holds is not declared"):
            staging.put_part("m", [], {"keys": np.zeros(1, np.int64)})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="'keys' is declared to hold rows, and is of type uint64"):
            staging.put_part("m", [], Holds.ROWS.of({"keys": np.zeros(1, np.uint64)}))


def test_bad_documents_are_named_and_leave_nothing(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    with folder.writer("build") as staging:
        staging.add("good", DocumentState(""), {}, chunks("good", ["x"]))
        bad = [Chunk("kept?", "bad", 0), Chunk("t", "bad", 1, metadata={"when": object()})]
        with pytest.raises(ValueError, match=r"'bad', chunk 1.*'when'"):
            staging.add("bad", DocumentState(""), {}, bad)
        with pytest.raises(ValueError, match=r"'worse'.*'x'"):
            staging.add("worse", DocumentState(""), {"x": float("nan")}, [])
        with pytest.raises(ValueError, match="3 is not a string"):
            staging.add("worse", DocumentState(""), {3: 1}, [])
        with pytest.raises(ValueError, match="'good' was already added"):
            staging.add("good", DocumentState(""), {}, [])
        with pytest.raises(ValueError, match="chunk of 'b'"):
            staging.add("a", DocumentState(""), {}, chunks("b", ["x"]))
        with pytest.raises(ValueError, match="not valid Unicode"):
            staging.add("s", DocumentState(""), {}, chunks("s", ["\ud800"]))
        staging.assemble(removed=())
        assert staging.texts(range(staging.size)) == ["x"]
    with folder.writer("delete") as staging, pytest.raises(KeyError, match="unknown"):
        staging.assemble(removed=["unknown"])


def test_a_long_document_is_streamed(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    count, size = 20_000, 1000
    with folder.writer("build") as staging:
        tracemalloc.start()
        pieces = (Chunk(f"{number} {'x' * size}", "d", number) for number in range(count))
        staging.add("d", DocumentState(""), {}, pieces)
        staging.assemble(removed=())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert staging.size == count
    assert peak < count * size / 5


def test_metadata_with_half_a_character_is_stored_as_valid_text(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    with folder.writer("build") as staging:
        staging.add("d", DocumentState(""), {"cut\ud83d": ["\ud800", "🙂 whole"]}, chunks("d", ["x"]))
        staging.assemble(removed=())
        staging.create_vectors(DIMENSION)
        staging.publish(manifest(parts={}, methods=()))
    (found,) = folder.snapshot().chunk_metadata()
    assert found == {"cut\ufffd": ["\ufffd", "🙂 whole"]}


Texts = dict[str, list[str]]


def update(folder: IndexFolder, came: Texts, removed: tuple[str, ...] = (), compact: bool = False) -> None:
    """Documents alone, with a year and, of every third chunk, metadata and a ref of its own."""
    with folder.writer("insert", compact=compact) as made:
        for name, texts in came.items():
            year = {"year": len(name)}
            pieces = [
                Chunk(
                    text,
                    name,
                    at,
                    at,
                    at + len(text),
                    {**year, "page": at} if at % 3 else year,
                    ref=f"r{at % 5}",
                )
                for at, text in enumerate(texts)
            ]
            made.add(name, DocumentState(f"digest of {texts}", f"{name}.txt"), year, pieces)
        made.assemble(removed=removed)
        now, before = made.known_rows()
        if made.base is not None:
            assert made.ids(now) == made.base.ids(before)
        made.create_vectors(DIMENSION)
        made.publish(manifest(parts={}, methods=()))


def everything(snapshot: Snapshot) -> tuple[object, ...]:
    rows = range(snapshot.size)
    refs = [f"r{number}" for number in range(5)]
    return (
        snapshot.chunks(rows),
        snapshot.chunk_documents().tolist(),
        dict(snapshot.document_states()),
        snapshot.document_metadata(),
        snapshot.chunk_metadata(),
        snapshot.refs(refs),
        snapshot.row_of(snapshot.ids(rows)),
    )


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CHUNKS", "DOCUMENTS"):
        small = replace(getattr(records, kind), fewest=16)
        monkeypatch.setattr(staging, kind, small)
    monkeypatch.setattr(corpus, "_MANY", 1 / 4)


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("seed", range(4))
def test_any_updates_end_in_what_a_build_makes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    grown, held = IndexFolder.create(tmp_path / "grown"), {}
    for step in range(12):
        names = [f"{chance.choice('aäz€')}{chance.randrange(200)}" for _ in range(chance.choice((1, 5, 60)))]
        came = {
            name: [f"text {chance.randrange(20)} of {name}" for _ in range(chance.randrange(4))]
            for name in names
        }
        gone = tuple(set(chance.sample(sorted(held), min(len(held), chance.choice((0, 1, 9))))) - came.keys())
        update(grown, came, gone, compact=step == 7)
        held = {name: texts for name, texts in (held | came).items() if name not in gone}
    fresh = IndexFolder.create(tmp_path / "fresh")
    update(fresh, held)
    assert everything(grown.snapshot()) == everything(fresh.snapshot())
    assert grown.verify() == []
