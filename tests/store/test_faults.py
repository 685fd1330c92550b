"""Damaged and hostile folders: what is wrong is named, and nothing outside of them is touched."""

from __future__ import annotations

import io
import os
import random
import shutil
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stratagraph.errors import Damaged, NotAnIndex, StoreError
from stratagraph.store import contents as opening
from stratagraph.store import pool
from stratagraph.store.checksums import Check
from stratagraph.store.folder import IndexFolder
from stratagraph.store.layout import made_layout
from stratagraph.store.manifest import FORMAT
from stratagraph.store.verify import verify_folder
from tests.campaigns.faults import DAMAGE, FILES, REPLACED, VIEW, signed, super_journal
from tests.campaigns.trials import Outside
from tests.store.support import METHOD, contents, fill, manifest, publish, rewrite_arrays, rewrite_records

CHUNKS, DOCUMENTS, VECTORS = "corpus/chunks/1-0.arrays", "corpus/documents/1-0.arrays", "vectors/1-0.arrays"
ARRAYS = (
    *(CHUNKS, DOCUMENTS, VECTORS, "chunks.arrays"),
    *(f"nodes/{METHOD}/1-0.arrays", f"parts/{METHOD}.arrays", f"numbers/{METHOD}.arrays"),
)
GENERATION = tuple(f"generations/1/{name}" for name in ("manifest.json", *ARRAYS))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "idx"
    with closing(IndexFolder.create(path)) as folder:
        publish(folder, {"a": ["x", "y"], "b": ["z"]})
        folder.calls.put("k", "v", task="t", model="m", sources=())
    return path


@pytest.fixture
def index(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "idx"))


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside")


def used(index: Path) -> tuple[object, ...]:
    """Open an index, read all of it, write into its cache and publish into it."""
    with closing(IndexFolder.open(index, "full")) as folder:
        seen = contents(folder.snapshot())
        folder.calls.put("new", "answer", task="t", model="m", sources=())
        publish(folder, {"c": ["w"]})
        assert folder.snapshot().document_states().keys() == {"a", "b", "c"}
    return seen


def tried(index: Path) -> tuple[list[str], tuple[object, ...] | None]:
    """What a check and use of an index say is wrong, and what it holds if it can be used."""
    told = []
    try:
        told += verify_folder(index)
        return told, used(index)
    except (StoreError, OSError) as error:
        return [*told, str(error)], None


def named(index: Path, file: str, told: str) -> bool:
    """Whether a message names a file; of `CURRENT` it may name the folder, or the generation it leads to."""
    return (str(index) if file == "CURRENT" else Path(file).name) in told


REMADE, UNREAD = {"lock", "calls.sqlite", "stratagraph-index"}, {"lock", "stratagraph-index"}
"""Files that are made again where they are missing, and files whose bytes are not read."""


@pytest.mark.parametrize("file", ["CURRENT", "stratagraph-index", "lock", "calls.sqlite", *GENERATION])
@pytest.mark.parametrize("fault", FILES)
def test_a_fault_of_a_file_is_named_or_harmless(
    sound: Path, index: Path, outside: Outside, file: str, fault: str
) -> None:
    before = (index / file).read_bytes()
    FILES[fault](index / file, outside, random.Random(f"{file} {fault}"))
    if fault == "removed":
        harmless = file in REMADE
    elif fault in (*DAMAGE, "hard link"):
        harmless = file in UNREAD or (index / file).read_bytes().strip() == before.strip()
    else:
        harmless = False
    told, seen = tried(index)
    if file != "calls.sqlite" or fault not in DAMAGE:  # SQLite does not read every byte
        assert bool(told) != harmless
    assert all(named(index, file, each) for each in told)
    with closing(IndexFolder.open(sound)) as folder:
        assert seen in (None, contents(folder.snapshot()))
    assert outside.touched() == []


WRITTEN = ("lock.json", "lock.json.tmp", "CURRENT.tmp")
OPENED = ("calls.sqlite-wal", "calls.sqlite-journal", "journal.sqlite", "journal.sqlite-wal")
LEFT_ALONE = ("generations/7", "generations/2", "generations/2.partial")


@pytest.mark.parametrize("file", [*WRITTEN, *OPENED, *LEFT_ALONE, "generations", "generations/1/parts"])
@pytest.mark.parametrize("fault", REPLACED)
def test_what_stands_where_files_and_folders_will_be_is_replaced_or_named(
    index: Path, outside: Outside, file: str, fault: str
) -> None:
    FILES[fault](index / file, outside, random.Random(3))
    if file.startswith("generations/") and not (index / "journal.sqlite").exists():
        (index / "journal.sqlite").touch()  # something unfinished makes even an opening clean up
    told, _ = tried(index)
    assert all(named(index, file, each) for each in told)
    if file in LEFT_ALONE and "link" in fault:
        assert os.path.lexists(index / file)
    assert outside.touched() == []


@pytest.mark.parametrize("name", ["generations", "generations/1", "generations/1/parts", GENERATION[3]])
def test_a_link_to_what_belongs_there_is_damage_too(index: Path, tmp_path: Path, name: str) -> None:
    (index / name).rename(tmp_path / "elsewhere")
    (index / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match=f"{Path(name).name}: a link, where a (file|directory)"):
        IndexFolder.open(index)
    assert any("a link, where" in problem for problem in verify_folder(index))


def test_a_hard_link_to_a_database_is_not_written_to(index: Path, tmp_path: Path) -> None:
    for name in ("calls.sqlite", "journal.sqlite"):
        other = tmp_path / name
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("CREATE TABLE precious (x)")
        before = other.read_bytes()
        (index / name).unlink(missing_ok=True)
        os.link(other, index / name)
        with pytest.raises(Damaged, match="hard link"):
            used(index)
        assert other.read_bytes() == before
        (index / name).unlink()


def test_a_journal_cannot_have_sqlite_remove_another_file(index: Path, outside: Outside) -> None:
    super_journal(index / "calls.sqlite-journal", outside.path / "manifest.json")
    with pytest.raises(Damaged, match="names another file"):
        used(index)
    assert outside.touched() == []


@pytest.mark.parametrize(
    ("file", "table"),
    [("calls.sqlite", "calls"), ("journal.sqlite", "purges"), ("journal.sqlite", "operation")],
)
def test_a_view_that_never_ends_is_not_asked(index: Path, file: str, table: str) -> None:
    with closing(sqlite3.connect(index / file, isolation_level=None)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(VIEW.format(name=table))
    with pytest.raises(Damaged, match=f"not as stratagraph makes them .*view {table}"):
        used(index)


# Contents that nobody would write, under checksums that are right


def with_record(kind: str, record: bytes) -> Callable[[Path], None]:
    return lambda index: rewrite_records(
        index / f"generations/1/corpus/{kind}/1-0.arrays", lambda raw: [record, *raw[1:]]
    )


def with_array(file: str, array: str, values: list[int]) -> Callable[[Path], None]:
    return lambda index: rewrite_arrays(
        index / "generations/1" / file, lambda arrays: {array: np.array(values, arrays[array].dtype)}
    )


def with_head(head: str) -> Callable[[Path], None]:
    def change(index: Path) -> None:
        path, text = index / "generations/1" / VECTORS, head.encode()
        content = path.read_bytes()
        padded = content[:8] + len(text).to_bytes(8, "little") + text
        path.write_bytes(padded + b" " * (-len(padded) % 64) + content[-48:])

    return change


def with_end(file: str, end: bytes) -> Callable[[Path], None]:
    def change(index: Path) -> None:
        path = index / "generations/1" / file
        path.write_bytes(path.read_bytes()[: -len(end)] + end)

    return change


def with_pickle(index: Path) -> None:
    written = io.BytesIO()
    np.save(written, np.array([print], dtype=object), allow_pickle=True)
    (index / "generations/1" / VECTORS).write_bytes(written.getvalue())


CONTENTS: list[tuple[Callable[[Path], None], str]] = [
    (with_record("chunks", b'[5,0,0,0,"","",{}]'), "corpus/chunks.*wrong types"),
    (with_record("chunks", b'["x",0,0,0,"","",[1]]'), "metadata that is no object"),
    (with_record("chunks", b'["x",0,0,0,"",""]'), "wrong types"),
    (with_record("chunks", b'["x",0,0,0,"","",{}],[]'), "cannot be read"),
    (with_record("chunks", b'["\xff",0,0,0,"","",{}]'), "cannot be read"),
    (with_record("chunks", b"[" * 100_000), "cannot be read"),
    (with_record("documents", b'["a","d","","",{]'), "corpus/documents.*cannot be read"),
    (with_record("documents", b'["a","d","","",[1]]'), "metadata that is no object"),
    (with_record("documents", b'{"d":1,"",{}]'), "cannot be read"),
    (with_array(DOCUMENTS, "lengths", [0, 1]), "lengths that cannot be"),
    (with_array(CHUNKS, "ids", [1]), "as many lengths as records"),
    (with_array(CHUNKS, "bounds", [0, 1 << 40]), "blocks that are not there"),
    (with_array("chunks.arrays", "texts.slots", [0, 1, 3]), "which of 3 records its 3 chunks are"),
    (with_array("chunks.arrays", "documents.slots", [0]), "which of 2 records its 2 documents are"),
    (with_end("chunks.arrays", b"\x7f" * 4), r"chunks\.arrays"),
    (with_end(f"numbers/{METHOD}.arrays", b"\x7f" * 8), METHOD),
    (with_pickle, r"vectors/1-0\.arrays: not a"),
    *(
        (with_head(head), r"vectors/1-0\.arrays")
        for head in (
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
        )
    ),
]


@pytest.mark.parametrize(("change", "expected"), CONTENTS)
def test_contents_that_nobody_wrote_are_named(
    index: Path, change: Callable[[Path], None], expected: str
) -> None:
    change(index)
    signed(index)
    assert verify_folder(index)
    with pytest.raises(Damaged, match=expected):
        IndexFolder.open(index).snapshot().chunks([0, 1])


def test_a_text_that_is_longer_than_it_says_is_not_unpacked(index: Path) -> None:
    bomb = np.frombuffer(zlib.compress(bytes(100_000_000)), np.uint8)
    rewrite_arrays(
        index / "generations/1" / CHUNKS, lambda arrays: {"blocks": bomb, "bounds": np.array([0, len(bomb)])}
    )
    signed(index)
    snapshot = IndexFolder.open(index).snapshot()
    tracemalloc.start()
    with pytest.raises(Damaged, match="bytes or more, where"):
        snapshot.texts([0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


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

    signed(index, lambda content: content["files"].update({name: {"bytes": 1, "sha256": ""}}))
    with pytest.raises(Damaged, match="leaves the index folder"):
        IndexFolder.open(index)


def test_a_manifest_of_another_kind_is_named(index: Path) -> None:
    path = index / "generations/1/manifest.json"
    for text in (
        b"",
        b"[]",
        b'{"stratagraph": %d}' % FORMAT,
        b"\xff\xfe\x00",
        path.read_bytes().replace(b"test", b"tost"),
    ):
        path.write_bytes(text)
        with pytest.raises(Damaged, match=r"manifest\.json"):
            IndexFolder.open(index)


def test_a_pointer_to_no_generation_is_named(index: Path) -> None:
    for text in (b"", b"x", b"-1", b"0", b"1.partial", b"\xff"):
        (index / "CURRENT").write_bytes(text)
        with pytest.raises(Damaged, match="CURRENT"):
            IndexFolder.open(index)
    (index / "CURRENT").write_bytes(b"7")
    with pytest.raises(Damaged, match=r"generations/7: missing"):
        IndexFolder.open(index)
    (index / "generations/1").rename(index / "generations/2")
    (index / "CURRENT").write_text("2\n")
    with pytest.raises(Damaged, match="describes generation 1, but stands in 2"):
        IndexFolder.open(index)
    (index / "CURRENT").unlink()
    with pytest.raises(Damaged, match="generation 2 exists"):
        IndexFolder.create(index)


def test_a_row_that_does_not_exist_is_damage_as_well_as_a_wrong_index(index: Path) -> None:
    snapshot = IndexFolder.open(index).snapshot()
    for error in (IndexError, Damaged):
        with pytest.raises(error, match="chunk 3 does not exist; there are 3"):
            snapshot.texts([3])


# How much is looked into, and what a full check names


def test_how_much_is_checked_is_a_choice(tmp_path: Path) -> None:
    with closing(IndexFolder.create(tmp_path / "idx")) as folder:
        publish(folder, {"a": [random.randbytes(3000).hex() for _ in range(1500)]})
    texts = tmp_path / "idx/generations/1" / CHUNKS
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


def test_of_many_segments_opening_looks_into_some_and_a_full_check_into_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FEWEST", 1)
    monkeypatch.setattr(opening, "LOOKED_INTO", 3)
    index = tmp_path / "idx"
    with closing(IndexFolder.create(index)) as folder:
        publish(folder, {"a": [f"{number:02}" for number in range(12)]})

    def opens(check: Check) -> bool:
        try:
            IndexFolder.open(index, check=check).close()
        except Damaged:
            return False
        return True

    segments = sorted((index / "generations/1/vectors").iterdir())
    assert len(segments) >= 12
    segments[5].write_bytes(segments[5].read_bytes()[:-1] + b"\xff")
    random.seed(1)
    assert {opens("sampled") for _ in range(60)} == {True, False}
    assert not opens("full")
    segments[5].write_bytes(segments[5].read_bytes()[:-1])
    assert not any(opens("sizes") for _ in range(5))


def names(problems: list[str]) -> list[str]:
    return sorted(problem.partition(":")[0] for problem in problems)


def test_a_full_check_names_every_problem(index: Path, tmp_path: Path) -> None:
    assert verify_folder(index) == []
    generation, part = index / "generations/1", f"parts/{METHOD}.arrays"
    for missing in (VECTORS, part):
        (generation / missing).unlink()
    FILES["bit"](generation / CHUNKS, Outside(tmp_path / "outside"), random.Random(1))
    (generation / "chunks.arrays").write_bytes(b"")
    (index / "calls.sqlite").write_bytes(b"no database" * 100)
    problems = verify_folder(index)
    assert sum(problem.endswith(": missing") for problem in problems) == 2
    assert names([each for each in problems if "calls.sqlite" not in each]) == sorted(
        ["chunks.arrays", CHUNKS, part, VECTORS]
    )
    (generation / "manifest.json").unlink()
    lost, cache_damaged = verify_folder(index)
    assert lost.endswith("manifest.json: missing")
    assert "calls.sqlite" in cache_damaged
    (index / "CURRENT").write_text("x")
    assert any("CURRENT" in problem for problem in verify_folder(index))
    made_layout(tmp_path / "begun")
    for path in (tmp_path / "begun", tmp_path / "nowhere"):
        with pytest.raises(NotAnIndex):
            verify_folder(path)


def test_a_damaged_file_does_not_hide_the_wrong_meaning_of_another(tmp_path: Path) -> None:
    folder, part = IndexFolder.create(tmp_path), f"parts/{METHOD}.arrays"
    with folder.writer("build") as staging:
        fill(staging, {"a": ["x", "y"]})
        staging.vectors[1, 2] = np.nan
        staging.publish(manifest())
    (tmp_path / "generations/1" / part).unlink()
    assert folder.verify() == [f"{part}: missing", f"{VECTORS}: holds values that no unit vector has"]


def test_a_folder_that_is_gone_or_replaced_is_not_written(index: Path, tmp_path: Path) -> None:
    folder = IndexFolder.open(index)
    seen = contents(folder.snapshot())
    index.rename(tmp_path / "moved")
    changes: list[Callable[[], Any]] = [
        lambda: publish(folder, {"b": ["z"]}),
        lambda: folder.calls.put("k2", "v", task="t", model="m", sources=()),
    ]
    for _ in range(2):
        for change in changes:
            with pytest.raises(NotAnIndex, match="removed, moved or replaced"):
                change()
        assert not index.exists() or list(index.iterdir()) == []
        index.mkdir(exist_ok=True)
    assert contents(IndexFolder.open(tmp_path / "moved").snapshot()) == seen
