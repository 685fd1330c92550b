"""Folders that were damaged, and folders that someone made to harm: what can be wrong with one, as tables.

`FILES` are faults of one file, whatever it holds: what damages its bytes, and what stands in its place.
`FORGERIES` are contents that nobody would write, under checksums that are right. A campaign puts one of them
into a fresh copy of an index, uses the copy as a user would, and looks whether anything outside was touched.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import stratagraph as sg
from stratagraph.store import manifest as manifests
from stratagraph.store.checksums import fingerprint
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Outside, answers, build, fresh, record, tried, turns, use
from tests.store.support import rewrite_records

FileFault = Callable[[Path, Outside, random.Random], None]
NAMES = (
    "CURRENT", "CURRENT.tmp", "lock", "lock.json", "lock.json.tmp", "stratagraph-index", "calls.sqlite",
    "calls.sqlite-wal", "calls.sqlite-shm", "calls.sqlite-journal", "journal.sqlite", "journal.sqlite-wal",
    "journal.sqlite-journal", "generations", "generations/7", "generations/3.partial", "generations/2",
    "generations/2/manifest.json", "generations/2/manifest.json.tmp", "generations/2/corpus",
    "generations/2/corpus/chunks", "generations/2/corpus/documents/2-0.arrays",
    "generations/2/vectors/2-0.arrays", "generations/2/nodes", "generations/2/parts", "generations/2/numbers",
    "generations/2/parts/graph.arrays", "generations/2/patches/numbers/graph.arrays", "generations/1",
    "generations/2/arrays", "generations/3",
)  # fmt: skip
VIEW = (
    "CREATE VIEW {name} AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
    " SELECT i AS row, i AS id, i AS number, i AS digest, i AS metadata, i AS text, i AS key, i AS answer,"
    " i AS name, i AS chunk, i AS generation, i AS started FROM n"
)
VALUES: tuple[Any, ...] = (
    -1, 0, 1, 10**9, 10**30, 1.5, float("nan"), None, True, "", "x" * 100_000, [], {}, [1], {"a": 1},
    "../../outside/precious.txt", "/etc/passwd", "\ud800", "noderag\0", [[[]]] * 3,
)  # fmt: skip


def _rewritten(change: Callable[[bytearray, int, random.Random], Any]) -> FileFault:
    """A file with other bytes; `change` is told a random place in them."""

    def fault(path: Path, outside: Outside, chance: random.Random) -> None:
        content = bytearray(path.read_bytes())
        change(content, chance.randrange(len(content)) if content else 0, chance)
        path.write_bytes(content)

    return fault


def _flip(content: bytearray, place: int, chance: random.Random) -> None:
    if content:
        content[place] ^= 1 << chance.randrange(8)


def _run(content: bytearray, place: int, chance: random.Random) -> None:
    for at in range(place, min(len(content), place + chance.choice((4, 64, 4096)))):
        content[at] = chance.choice((0, 255))


def _exchange(content: bytearray, place: int, chance: random.Random) -> None:
    if len(content) >= 1024:
        one, other = (slice(at * 512, at * 512 + 512) for at in chance.sample(range(len(content) // 512), 2))
        content[one], content[other] = content[other], content[one]


DAMAGE: dict[str, FileFault] = {
    "bit": _rewritten(_flip),
    "byte run": _rewritten(_run),
    "truncated": _rewritten(lambda content, place, chance: content.__delitem__(slice(place, None))),
    "extended": _rewritten(
        lambda content, place, chance: content.extend(bytes(chance.choice((1, 64, 4096))))
    ),
    "emptied": _rewritten(lambda content, place, chance: content.clear()),
    "removed": lambda path, outside, chance: path.unlink(),
    "blocks exchanged": _rewritten(_exchange),
}


def _replaced(make: Callable[[Path, Outside, random.Random], Any]) -> FileFault:
    """Something else in the place of a file or folder, or where one will be written."""

    def fault(path: Path, outside: Outside, chance: random.Random) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path, outside, chance)

    return fault


def _bind(path: Path, outside: Outside, chance: random.Random) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


def _device(path: Path, outside: Outside, chance: random.Random) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, chance.choice((3, 5))))  # null, zero
    except OSError:
        path.symlink_to("/dev/zero")


LINKED = ("precious.txt", "corpus.sqlite", "manifest.json")
REPLACED: dict[str, FileFault] = {
    "file link": _replaced(
        lambda path, outside, chance: path.symlink_to(outside.path / chance.choice(LINKED))
    ),
    "folder link": _replaced(
        lambda path, outside, chance: path.symlink_to(outside.path / chance.choice(".7"))
    ),
    "dangling": _replaced(lambda path, outside, chance: path.symlink_to(outside.path / "made")),
    "hard link": _replaced(lambda path, outside, chance: os.link(outside.path / "precious.txt", path)),
    "named pipe": _replaced(lambda path, outside, chance: os.mkfifo(path)),
    "socket": _replaced(_bind),
    "folder": _replaced(lambda path, outside, chance: (path / "inside").mkdir(parents=True)),
    "device": _replaced(_device),
}
FILES: dict[str, FileFault] = DAMAGE | REPLACED


def signed(copy: Path, change: Callable[[dict[str, Any]], Any] = lambda content: None) -> None:
    """Alter the manifest, with checksums that are right: those of all files that are there, and its own."""
    path = copy / "generations" / (copy / "CURRENT").read_text().strip() / "manifest.json"
    content = json.loads(path.read_text())
    content.pop("checksum")
    for name in list(content["files"]):
        if not (path.parent / name).exists():
            del content["files"][name]
            continue
        descriptor = os.open(path.parent / name, os.O_RDONLY)
        found = fingerprint(descriptor)
        os.close(descriptor)
        content["files"][name] = {"bytes": found.bytes, "sha256": found.sha256, "blocks": found.blocks}
    change(content)
    path.write_text(json.dumps({**content, "checksum": manifests._checksum(content)}))


def altered(content: Any, chance: random.Random) -> str:
    """Give something in JSON another value or another name, or take it away; what was done."""
    if not content:
        return "nothing"
    place, path = content, []
    while True:
        key = chance.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
        path.append(str(key))
        if not (isinstance(place[key], dict | list) and place[key]) or chance.random() < 0.4:
            break
        place = place[key]
    action = chance.choice(("value", "value", "remove", "rename"))
    if action == "value":
        place[key] = chance.choice(VALUES)
    elif action == "remove":
        del place[key]
    elif isinstance(place, dict):
        place[str(chance.choice(VALUES))] = place.pop(key)
    return f"{action} {'.'.join(path)}"


def linked(copy: Path, outside: Outside, chance: random.Random) -> str:
    name, kind = chance.choice(NAMES), chance.choice(list(REPLACED))
    if not (copy / name).parent.is_dir():
        return "nothing"
    REPLACED[kind](copy / name, outside, chance)
    if chance.random() < 0.3 and not os.path.lexists(copy / "journal.sqlite") and (copy / "lock").is_file():
        (copy / "journal.sqlite").touch()  # what is unfinished makes an opening clean up
    return f"{kind} at {name}"


def forged(copy: Path, outside: Outside, chance: random.Random) -> str:
    """A manifest whose checksum is right and whose content is not."""
    told: list[str] = []
    count = chance.choice((1, 1, 2))
    signed(copy, lambda content: told.extend(altered(content, chance) for _ in range(count)))
    return "; ".join(told)


def deep(copy: Path, outside: Outside, chance: random.Random) -> str:
    """JSON that is nested beyond reason, where JSON is read."""
    file = chance.choice(("generations/2/manifest.json", "lock.json", "CURRENT"))
    (copy / file).write_text(chance.choice(("[", '{"a":')) * chance.choice((500, 5000, 500_000)))
    return f"deep {file}"


TABLES = {
    "calls.sqlite": ("calls", "call_sources", "unswept"),
    "journal.sqlite": ("operation", "vectors", "purges"),
}


def spoiled_sqlite(copy: Path, outside: Outside, chance: random.Random) -> str:
    """An SQLite file with another schema, other types, or other pages, and right checksums."""
    file = chance.choice(list(TABLES))
    path, table = copy / file, chance.choice(TABLES[file])
    kind = chance.choice(("view", "trigger", "types", "bytes", "rows", "foreign", "super-journal", "text"))
    if kind in ("bytes", "text") and path.exists():
        content = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 3, 40))):
            content[chance.randrange(100, len(content))] = chance.randrange(256)
        path.write_bytes(content)
    elif kind == "super-journal":
        super_journal(copy / f"{file}-journal", outside.path / "precious.txt")
    else:
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, isolation_level=None)) as connection:
            spoil(connection, table, kind)
    return f"{kind} of {table} in {file}"


def super_journal(journal: Path, target: Path) -> None:
    """A rollback journal that names another file, which SQLite removes when it has rolled back."""
    name = str(target).encode()
    end = len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + bytes.fromhex("d9d505f920a163d7")
    journal.write_bytes(bytes(512) + bytes(4) + name + end)


def spoil(connection: sqlite3.Connection, table: str, kind: str) -> None:
    """Change a table, or put a view that never ends in its place."""
    connection.execute("PRAGMA journal_mode=DELETE")
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind == "view" or not known:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(VIEW.format(name=table))
    elif kind == "trigger":
        connection.execute(f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END")
    elif kind == "foreign":
        connection.execute("CREATE TABLE other (x, y GENERATED ALWAYS AS (length(hex(zeroblob(x)))) VIRTUAL)")
    elif kind == "rows":
        connection.execute(f"DELETE FROM {table} WHERE rowid % 2" if table != "vectors" else "SELECT 1")
    else:
        for row in connection.execute(f"PRAGMA table_info({table})").fetchall():
            with suppress(sqlite3.Error):
                connection.execute(f"UPDATE {table} SET {row[1]} = x'00ff' WHERE rowid % 2")


def odd_values(copy: Path, outside: Outside, chance: random.Random) -> str:
    """JSON of other types than were written, in the records of a generation, with right checksums."""
    generation = copy / "generations" / "2"
    files = sorted([*generation.glob("nodes/*/*.arrays"), *generation.glob("corpus/*/*.arrays")])
    path, told = chance.choice(files), []

    def changed(records: list[bytes]) -> list[bytes]:
        for row in chance.sample(range(len(records)), min(len(records), chance.choice((1, 1, 5, 1000)))):
            content = json.loads(records[row])
            told.append(altered(content, chance))
            records[row] = json.dumps(content).encode()
        return records

    rewrite_records(path, changed)
    signed(copy)
    return f"{path.parent.name}: {'; '.join(told)[:150]}"


FORGERIES: dict[str, Callable[[Path, Outside, random.Random], str]] = {
    "links and types": linked,
    "manifests": forged,
    "nesting": deep,
    "SQLite": spoiled_sqlite,
    "odd values": odd_values,
}


def damage(work: Path, trials: int, seed: int = 1) -> None:
    """Damage one file of a fresh copy, use the copy, and compare what it answers with the original."""
    base, copy, outside = work / "base", work / "copy", Outside(work / "outside")
    build(base)
    files = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file())

    def original() -> str:
        with sg.open_index(base, embedder=FakeEmbedder()) as index:
            return answers(index)

    right = tried(original).value
    assert right is not None
    chance = random.Random(seed)
    for number, kind, row in turns("damage", list(DAMAGE), trials):
        file, check = chance.choice(files), "sampled" if chance.random() < 0.2 else "full"
        fresh(base, copy)
        DAMAGE[kind](copy / file, outside, chance)
        record(
            row,
            tried(lambda check=check: use(copy, check)),
            f"{file}, {check}, trial {number}",
            lambda value: value["answers"] != right and f"verify() said {value['verify']}",
        )


def hostile(work: Path, trials: int, seed: int = 2) -> None:
    """Spoil a fresh copy, use it, and look whether anything outside of it was touched."""
    base, copy, outside = work / "base", work / "place" / "copy", Outside(work / "outside")
    build(base)
    chance = random.Random(seed)
    for number, kind, row in turns("hostile", list(FORGERIES), trials):
        fresh(base, copy)
        what = FORGERIES[kind](copy, outside, chance)
        record(row, tried(lambda: use(copy, "full")), f"{what}, trial {number}")
        if names := outside.touched():
            row.note("foreign", f"{what}: {names}")
