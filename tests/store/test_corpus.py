"""Chunks and documents in segments: what updates make of them, and finding them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from stratagraph.store import corpus, records, staging
from stratagraph.store.folder import IndexFolder
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.records import Chunk
from tests.store.support import DIMENSION, manifest

Texts = dict[str, list[str]]


def publish(folder: IndexFolder, came: Texts, removed: tuple[str, ...] = (), compact: bool = False) -> None:
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
            made.add(name, f"digest of {texts}", year, pieces)
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
        snapshot.documents(),
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
        publish(grown, came, gone, compact=step == 7)
        held = {name: texts for name, texts in (held | came).items() if name not in gone}
    fresh = IndexFolder.create(tmp_path / "fresh")
    publish(fresh, held)
    assert everything(grown.snapshot()) == everything(fresh.snapshot())
    assert grown.verify() == []


@pytest.mark.usefixtures("small_segments")
def test_documents_are_found_by_their_ids(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    names = sorted(f"d{number * number}" for number in range(61))
    publish(folder, {name: ["x"] for name in names})
    snapshot = folder.snapshot()
    digests = snapshot.digests()
    for number, name in enumerate(names):
        assert snapshot.document_number(name) == number
        assert digests[name] == snapshot.documents()[name]
        assert snapshot.document_number(f"{name}-") is None
        assert f"{name}-" not in digests
    for absent in ("", "a", "z", "\ud800"):
        assert snapshot.document_number(absent) is None
    assert list(digests) == names
    assert list(snapshot.document_metadata([names[7], "nobody", names[3], names[7]])) == [names[7], names[3]]
    assert snapshot.row_of(["", "x", "F" * 32, "0" * 32, "0" * 31 + " "]) == {}


@pytest.mark.usefixtures("small_segments")
def test_an_update_writes_the_segments_that_it_touches(tmp_path: Path) -> None:
    folder = IndexFolder.create(tmp_path)
    publish(folder, {f"d{number:03}": [f"text {number}"] for number in range(200)})

    def segments() -> dict[str, int]:
        found = (tmp_path / "generations" / str(folder.generation)).glob("corpus/*/*.arrays")
        return {f"{path.parent.name}/{path.name}": path.stat().st_ino for path in found}

    before = segments()
    publish(folder, {"d100b": ["new"]})
    assert before.items() <= segments().items()
    publish(folder, {}, ("d050",))
    assert len(before.items() & segments().items()) == len(before) - 2  # one of chunks, one of documents
    publish(folder, {}, compact=True)
    assert not before.items() & segments().items()
