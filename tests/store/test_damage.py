"""Damaged, foreign and future files are named; a full disk is an error and not a wreck."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import Damaged
from stratagraph.store import contents as opening
from stratagraph.store import manifest as manifests
from stratagraph.store import pool
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import Check, fingerprint
from stratagraph.store.files import Directory
from stratagraph.store.folder import IndexFolder
from stratagraph.store.manifest import check_inside
from tests.store.support import METHOD, contents, publish, rewrite_arrays, rewrite_records


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = IndexFolder.create(tmp_path / "idx")
    publish(folder, {"a": ["x", "y"], "b": ["z"]})
    folder.close()
    return tmp_path / "idx"


FILES = [
    "corpus/chunks/1-0.arrays",
    "corpus/documents/1-0.arrays",
    "vectors/1-0.arrays",
    "nodes/lshtree/1-0.arrays",
    "chunks.arrays",
    f"parts/{METHOD}.arrays",
    f"numbers/{METHOD}.arrays",
]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_shortened_file_is_named_on_opening(index: Path, name: str) -> None:
    path = index / "generations" / "1" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(Damaged, match=path.name):
        IndexFolder.open(index)
    path.unlink()
    with pytest.raises(Damaged, match=path.name):
        IndexFolder.open(index)
    path.write_bytes(content)
    IndexFolder.open(index)


@pytest.mark.parametrize("name", FILES)
def test_an_altered_file_is_named_by_verify(index: Path, name: str) -> None:
    folder = IndexFolder.open(index)
    assert folder.verify() == []
    path = index / "generations" / "1" / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    (problem,) = folder.verify()
    assert problem.startswith(f"{name}: altered")
    path.write_bytes(content[:100])
    assert path.name in folder.verify()[0]
    path.unlink()
    assert path.name in folder.verify()[0]


def altered(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)


def opens(index: Path, check: Check) -> bool:
    try:
        IndexFolder.open(index, check=check).close()
    except Damaged:
        return False
    return True


def test_of_many_segments_opening_looks_into_some_and_a_full_check_into_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FEWEST", 1)
    monkeypatch.setattr(opening, "LOOKED_INTO", 3)
    index = tmp_path / "idx"
    with closing(IndexFolder.create(index)) as folder:
        publish(folder, {"a": [f"{number:02}" for number in range(12)]})
    segments = sorted((index / "generations" / "1" / "vectors").iterdir())
    assert len(segments) >= 12
    altered(segments[5])
    random.seed(1)
    assert {opens(index, "sampled") for _ in range(60)} == {True, False}
    assert not opens(index, "full")
    segments[5].write_bytes(segments[5].read_bytes()[:-1])
    assert not any(opens(index, "sizes") for _ in range(5))


def rewrite(index: Path, change: dict[str, object], *, sign: bool = True) -> None:
    """Alter the manifest, with a right checksum if `sign`."""
    path = index / "generations" / "1" / "manifest.json"
    content = json.loads(path.read_text())
    content.pop("checksum")
    checksum = manifests._checksum({**content, **change} if sign else content)
    path.write_text(json.dumps({**content, **change, "checksum": checksum}))


def test_manifest_of_another_kind(index: Path) -> None:
    rewrite(index, {"embedder": "another"}, sign=False)
    with pytest.raises(Damaged, match="checksum"):
        IndexFolder.open(index)
    for text in ("", "[]", '{"stratagraph": 3}'):
        (index / "generations" / "1" / "manifest.json").write_text(text)
        with pytest.raises(Damaged, match=r"manifest\.json"):
            IndexFolder.open(index)
    (index / "generations" / "1" / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Damaged, match=r"manifest\.json"):
        IndexFolder.open(index)


@pytest.mark.parametrize(
    "name",
    [
        "../../secret",
        "/etc/passwd",
        "a/../../b",
        "C:\\x",
        "C:/x",
        "..",
        "",
        "a\\b",
        "//host/x",
        "a\0b",
        "\ud800",
    ],
)
def test_a_manifest_cannot_lead_out_of_the_folder(index: Path, name: str) -> None:
    with pytest.raises(ValueError, match="leaves the index folder"):
        check_inside(name)
    rewrite(index, {"files": {name: {"bytes": 1, "sha256": ""}}})
    with pytest.raises(Damaged, match="leaves the index folder"):
        IndexFolder.open(index)


def test_a_link_cannot_lead_out_of_the_folder(index: Path, tmp_path: Path) -> None:
    path = index / "generations" / "1" / "vectors/1-0.arrays"
    outside = tmp_path / "outside.npy"
    shutil.move(path, outside)
    path.symlink_to(outside)
    with pytest.raises(Damaged, match="a link"):
        IndexFolder.open(index)


def test_a_pickle_in_an_array_file_is_not_run(index: Path) -> None:
    generation = index / "generations" / "1"
    content = json.loads((generation / "manifest.json").read_text())
    written = io.BytesIO()
    np.save(written, np.array([print], dtype=object), allow_pickle=True)
    (generation / "vectors.arrays").write_bytes(written.getvalue())
    with Directory.open(generation) as directory, opening.opened(directory, "vectors.arrays") as descriptor:
        entry = fingerprint(descriptor).fields()
    rewrite(index, {"files": {**content["files"], "vectors.arrays": entry}})
    with pytest.raises(Damaged, match=r"vectors\.arrays: not a"):
        IndexFolder.open(index)


def test_damaged_current(index: Path) -> None:
    for text in (b"", b"x", b"-1", b"0", b"1.partial", b"\xff"):
        (index / "CURRENT").write_bytes(text)
        with pytest.raises(Damaged, match="CURRENT"):
            IndexFolder.open(index)
    (index / "CURRENT").write_bytes(b"7")
    with pytest.raises(Damaged, match=r"generations/7: missing"):
        IndexFolder.open(index)
    (index / "CURRENT").write_bytes(b"1\n")
    folder = IndexFolder.open(index)
    publish(folder, {"c": ["w"]})
    (index / "CURRENT").unlink()
    with pytest.raises(Damaged, match="generation 2 exists"):
        IndexFolder.create(index)


SMALL = 2_000_000


def build_until_full(path: Path) -> None:
    folder = IndexFolder.create(path)
    texts = [f"{number} " + "x" * 1000 for number in range(4000)]
    publish(folder, {"b": texts})


def put_until_full(calls: SqliteCalls) -> None:
    for number in range(4000):
        calls.put(str(number), "x" * 1000, task="t", model="m", sources=())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_leaves_the_previous_generation(small_disk: Path) -> None:
    folder = IndexFolder.create(small_disk / "idx")
    publish(folder, {"a": ["x"]})
    seen = contents(folder.snapshot())
    with pytest.raises(OSError, match="scratch") as raised:
        build_until_full(small_disk / "idx")
    assert raised.value.errno == errno.ENOSPC
    with folder.writer("insert") as staging:
        staging.assemble(removed=())
        with pytest.raises(OSError, match=r"No space left.*scratch\.arrays"):
            staging.create_vectors(10_000_000, copy_known=False)
        with pytest.raises(OSError, match=r"No space left.*parts.m\.arrays"):
            staging.put_part("m", [], {"big": np.zeros(1_000_000)})
    with pytest.raises(OSError, match=r"calls\.sqlite") as raised:
        put_until_full(folder.calls)
    assert raised.value.errno == errno.ENOSPC
    assert folder.interrupted() is not None
    again = IndexFolder.open(small_disk / "idx")
    assert contents(again.snapshot()) == seen
    assert again.verify() == []
    assert again.calls.get("0") == "x" * 1000
    again.close()
    folder.close()


def test_a_limit_on_file_size_is_an_error_too(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))

    code = (
        "import sys; from pathlib import Path; from tests.store.test_damage import build_until_full\n"
        "try: build_until_full(Path(sys.argv[1]))\n"
        "except OSError as error: print(error)"
    )
    root = Path(__file__).resolve().parents[2]
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "idx")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "scratch" in child.stdout
    folder = IndexFolder.create(tmp_path / "idx")
    assert publish(folder, {"a": ["x"]}) == 1
    assert folder.verify() == []


def test_a_cache_that_cannot_be_written_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "calls.sqlite"
    calls = SqliteCalls(path)
    calls.put("k", "v", task="t", model="m", sources=())
    calls.close()

    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "read-only", str(path))

    monkeypatch.setattr("stratagraph.store.calls.connect_shared", refuse)
    frozen = SqliteCalls(path)
    with pytest.warns(UserWarning, match="not cached"):
        assert frozen.get("k") == "v"
    frozen.put("new", "v", task="t", model="m", sources=())
    assert frozen.get("new") is None


def resign(index: Path, name: str) -> None:
    """Make the checksums of a file right again, as whoever wants to harm would."""
    path = index / "generations" / "1" / "manifest.json"
    content = json.loads(path.read_text())
    with (index / "generations" / "1" / name).open("rb") as file:
        found = fingerprint(file.fileno())
    entry = {"bytes": found.bytes, "sha256": found.sha256, "blocks": found.blocks}
    rewrite(index, {"files": {**content["files"], name: entry}})


@pytest.mark.parametrize(
    ("kind", "record", "expected"),
    [
        ("chunks", b'[5,0,0,0,"",{}]', "wrong types"),
        ("chunks", b'["x",0,0,0,"",[1]]', "metadata that is no object"),
        ("chunks", b'["x",0,0,0,""]', "wrong types"),
        ("chunks", b'["x",0,0,0,"",{}],[]', "cannot be read"),
        ("chunks", b'["\xff",0,0,0,"",{}]', "cannot be read"),
        ("chunks", b"[" * 100_000, "cannot be read"),
        ("documents", b'["a","d",{]', "cannot be read"),
        ("documents", b'["a","d",[1]]', "metadata that is no object"),
        ("documents", b'{"d":1,"",{}]', "cannot be read"),
    ],
)
def test_records_that_nobody_wrote_are_named_when_they_are_read(
    index: Path, kind: str, record: bytes, expected: str
) -> None:
    name = f"corpus/{kind}/1-0.arrays"
    rewrite_records(index / "generations" / "1" / name, lambda raw: [record, *raw[1:]])
    resign(index, name)
    folder = IndexFolder.open(index)
    with pytest.raises(Damaged, match=expected):
        folder.snapshot().chunks([0, 1])
    assert any(f"corpus/{kind}" in problem for problem in folder.verify())


@pytest.mark.parametrize(
    ("name", "array", "value", "expected"),
    [
        ("corpus/documents/1-0.arrays", "lengths", [0, 1], "lengths that cannot be"),
        ("corpus/chunks/1-0.arrays", "ids", [1], "as many lengths as records"),
        ("corpus/chunks/1-0.arrays", "bounds", [0, 1 << 40], "blocks that are not there"),
        ("chunks.arrays", "texts.slots", [0, 1, 3], "which of 3 records its 3 chunks are"),
        ("chunks.arrays", "documents.slots", [0], "which of 2 records its 2 documents are"),
    ],
)
def test_arrays_of_texts_that_lead_nowhere_are_damage(
    index: Path, name: str, array: str, value: list[int], expected: str
) -> None:
    path = index / "generations" / "1" / name
    rewrite_arrays(path, lambda arrays: {array: np.array(value, arrays[array].dtype)})
    resign(index, name)
    with pytest.raises(Damaged, match=expected):
        IndexFolder.open(index)


def test_a_text_that_is_longer_than_it_says_is_not_unpacked(index: Path) -> None:
    name = "corpus/chunks/1-0.arrays"
    bomb = np.frombuffer(zlib.compress(bytes(100_000_000)), np.uint8)
    path = index / "generations" / "1" / name
    rewrite_arrays(path, lambda arrays: {"blocks": bomb, "bounds": np.array([0, len(bomb)])})
    resign(index, name)
    snapshot = IndexFolder.open(index).snapshot()
    tracemalloc.start()
    with pytest.raises(Damaged, match="bytes or more, where"):
        snapshot.texts([0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_row_that_does_not_exist_is_damage_as_well_as_a_wrong_index(index: Path) -> None:
    snapshot = IndexFolder.open(index).snapshot()
    for error in (IndexError, Damaged):
        with pytest.raises(error, match="chunk 3 does not exist; there are 3"):
            snapshot.texts([3])


@pytest.mark.parametrize("part", [True, False])
def test_arrays_that_point_nowhere_are_damage(index: Path, part: bool) -> None:
    """Their checksums are right, so that their numbers must be looked at."""
    name = f"numbers/{METHOD}.arrays" if part else "chunks.arrays"
    path = index / "generations" / "1" / name
    content = bytearray(path.read_bytes())
    content[-4 if not part else -8 :] = b"\x7f" * (4 if not part else 8)
    path.write_bytes(content)
    resign(index, name)
    with pytest.raises(Damaged, match=path.name):
        IndexFolder.open(index)


@pytest.mark.parametrize(
    "head",
    [
        '[["vectors","<f4",[3,4],64]]',
        '[["vectors","<f4",[3,5],0]]',
        '[["vectors","<f4",[-3,-4],0]]',
        '[["vectors","<f4",[3,4],0],["vectors","<f4",[3,4],0]]',
        '[["vectors","|O8",[3,4],0]]',
        '[["vectors","<f4",[1e9,1e300],0]]',
        '[["vectors","<f4",[99999999999,99999999999],0]]',
        '[["../x","<f4",[3,4],0]]',
        '[[[["vectors"]]]]',
        "{}",
        "null",
    ],
)
def test_a_head_that_lies_is_damage(index: Path, head: str) -> None:
    path = index / "generations" / "1" / "vectors/1-0.arrays"
    content = path.read_bytes()
    text = head.encode()
    padded = content[:8] + len(text).to_bytes(8, "little") + text
    path.write_bytes(padded + b" " * (-len(padded) % 64) + content[-48:])
    resign(index, "vectors/1-0.arrays")
    with pytest.raises(Damaged, match=r"vectors/1-0\.arrays"):
        IndexFolder.open(index)
