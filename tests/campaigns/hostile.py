"""Folders that someone made to harm: links, pipes, names, manifests and SQLite files."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from stratagraph.store import manifest as manifests
from stratagraph.store.checksums import fingerprint
from tests.campaigns.trials import Outside, build, record, tried, turns, use
from tests.store.support import rewrite_records

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


def _gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def linked(copy: Path, outside: Outside, chance: random.Random) -> str:
    """Something else in the place of a file, or where one will be written."""
    name = chance.choice(NAMES)
    place = copy / name
    if not place.parent.is_dir():
        return "nothing"
    kind = chance.choice(
        ("file link", "folder link", "dangling", "hard link", "fifo", "socket", "folder", "device")
    )
    if place.is_dir() and kind == "hard link":
        kind = "folder link"
    _gone(place)
    if kind == "file link":
        place.symlink_to(outside.path / chance.choice(("precious.txt", "corpus.sqlite", "manifest.json")))
    elif kind == "folder link":
        place.symlink_to(outside.path / chance.choice((".", "7")))
    elif kind == "dangling":
        place.symlink_to(outside.path / "made")
    elif kind == "hard link":
        os.link(outside.path / "precious.txt", place)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(place.parent)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
        os.chdir(here)
    elif kind == "device":
        try:
            os.mknod(place, 0o666 | 0o020000, os.makedev(1, chance.choice((3, 5))))  # null, zero
        except OSError:
            place.symlink_to("/dev/zero")
    else:
        (place / "inside").mkdir(parents=True)
    if (
        chance.random() < 0.3
        and not os.path.lexists(copy / "journal.sqlite")
        and copy.joinpath("lock").is_file()
    ):
        (copy / "journal.sqlite").write_bytes(b"")  # what is unfinished makes an opening clean up
    return f"{kind} at {name}"


def signed(copy: Path, change: Callable[[dict[str, Any]], None]) -> None:
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


def forged(copy: Path, outside: Outside, chance: random.Random) -> str:
    """A manifest whose checksum is right and whose content is not."""
    told: list[str] = []

    def change(content: dict[str, Any]) -> None:
        for _ in range(chance.choice((1, 1, 2))):
            told.append(_alter(content, chance))
            if not content:
                return

    signed(copy, change)
    return "; ".join(told)


def _alter(content: Any, chance: random.Random) -> str:
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


def deep(copy: Path, outside: Outside, chance: random.Random) -> str:
    """JSON that is nested beyond reason, where JSON is read."""
    file = chance.choice(("generations/2/manifest.json", "lock.json", "CURRENT"))
    (copy / file).write_text(chance.choice(("[", '{"a":')) * chance.choice((500, 5000, 500_000)))
    return f"deep {file}"


def sqlite(copy: Path, outside: Outside, chance: random.Random) -> str:
    """An SQLite file with another schema, other types, or other pages, and right checksums."""
    file = chance.choice(("calls.sqlite", "journal.sqlite"))
    path = copy / file
    tables = {
        "calls.sqlite": ("calls", "call_sources", "unswept"),
        "journal.sqlite": ("operation", "vectors", "purges"),
    }[path.name]
    table = chance.choice(tables)
    kind = chance.choice(("view", "trigger", "types", "bytes", "rows", "foreign", "super-journal", "text"))
    if kind in ("bytes", "text") and path.exists():
        content = bytearray(path.read_bytes())
        for _ in range(chance.choice((1, 3, 40))):
            content[chance.randrange(100, len(content))] = chance.randrange(256)
        path.write_bytes(content)
    elif kind == "super-journal":
        name = str(outside.path / "precious.txt").encode()
        body = bytes(512) + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big", signed=False)
        (copy / f"{file}-journal").write_bytes(body + bytes.fromhex("d9d505f920a163d7"))
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            _spoil(connection, table, kind)
    return f"{kind} of {table} in {path.name}"


def _spoil(connection: sqlite3.Connection, table: str, kind: str) -> None:
    connection.execute("PRAGMA journal_mode=DELETE")
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if kind == "view" or not known:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(VIEW.format(name=table))
    elif kind == "trigger":
        connection.execute(f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END")
    elif kind == "foreign":
        connection.execute("CREATE TABLE other (x, y GENERATED ALWAYS AS (length(hex(zeroblob(x)))) VIRTUAL)")
    else:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if kind == "types":
            for column in columns:
                try:
                    connection.execute(f"UPDATE {table} SET {column} = x'00ff' WHERE rowid % 2")
                except sqlite3.Error:
                    continue
        else:
            connection.execute(
                f"DELETE FROM {table} WHERE rowid % 2" if "vectors" not in table else "SELECT 1"
            )


def odd_values(copy: Path, outside: Outside, chance: random.Random) -> str:
    """JSON of other types than were written, in the records of a generation, with right checksums."""
    generation = copy / "generations" / "2"
    path = chance.choice(
        sorted([*generation.glob("nodes/*/*.arrays"), *generation.glob("corpus/*/*.arrays")])
    )
    told = []

    def spoiled(records: list[bytes]) -> list[bytes]:
        changed = list(records)
        for row in chance.sample(range(len(records)), min(len(records), chance.choice((1, 1, 5, 1000)))):
            content = json.loads(records[row])
            told.append(_alter(content, chance))
            changed[row] = json.dumps(content).encode()
        return changed

    rewrite_records(path, spoiled)
    signed(copy, lambda content: None)
    return f"{path.parent.name}: {'; '.join(told)[:150]}"


KINDS = {
    "links and types": linked,
    "manifests": forged,
    "nesting": deep,
    "SQLite": sqlite,
    "odd values": odd_values,
}


def campaign(work: Path, trials: int, seed: int = 2) -> None:
    """Spoil a fresh copy, use it, and look whether anything outside of it was touched."""
    base, copy = work / "base", work / "place" / "copy"
    build(base)
    chance = random.Random(seed)
    outside = Outside(work / "outside")
    for number, kind, row in turns("hostile", list(KINDS), trials):
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(base, copy)
        try:
            what = KINDS[kind](copy, outside, chance)
        except sqlite3.Error:
            continue
        outcome = tried(lambda: use(copy, "full"))
        record(row, outcome, f"{what}, trial {number}")
        if names := outside.touched():
            row.note("foreign", f"{what}: {names}")
