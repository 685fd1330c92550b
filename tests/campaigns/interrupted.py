"""Operations that are interrupted at a file-system call, through a shim below Python and SQLite.

A process is killed at the call, the disk is full from the call on, or the power fails at it, and what was not
forced to the disk is lost. Two disks are simulated. One keeps nothing that was not synced: names as of the
last sync of their directory, contents as of the last sync of their file. The other keeps all names, as
journalling file systems mostly do, and loses what was not synced of the contents.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import stratagraph as sg
from stratagraph.store import nodes, patches, pool
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder
from tests.campaigns.trials import Outside, Tally, answers, documents, tried
from tests.store.support import traces_of

KILL, FULL, POWER = 1, 2, 3
AFTER = 1_000_000  # a call that no operation comes to
Listing = dict[str, int]
SECRET = "the key lies under the third stone"
SOURCE = Path(__file__).with_name("shim.c")
_LOADED = "STRATAGRAPH_SHIM"


def available() -> bool:
    return sys.platform == "linux" and shutil.which("cc") is not None


def load(work: Path) -> None:
    """Start this program again with the shim below it, unless it is there already."""
    pool.FEWEST, nodes.NODES = 2, replace(nodes.NODES, fewest=2)  # a handful of documents shares segments
    patches.LEAST, patches.SHARE = 0, 1
    if _LOADED in os.environ:
        Path(os.environ[_LOADED]).unlink(missing_ok=True)  # it stays loaded
        return
    work.rmdir()  # the program that comes makes its own
    built = Path("/tmp") / f"stratagraph-shim-{os.getpid()}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", built, SOURCE, "-ldl", "-lpthread"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(built), _LOADED: str(built)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _shim() -> Any:
    return ctypes.CDLL(None)


def arm(folder: Path, number: int, mode: int, log: Path) -> None:
    _shim().shim_arm(str(folder).encode(), ctypes.c_long(number), mode, str(log).encode())


def secret() -> sg.Document:
    return sg.Document("secret", f"Anna Berg knows that {SECRET}. The Aurora does not.")


CONFIG = {
    "lshtree": {"min_cluster": 2, "max_cluster": 4, "min_level": 3}
}  # so that a few documents have summaries


class Noting:
    """A model that answers with the digest of the prompt, and notes it in a file, also in children."""

    name = "noting"
    log: ClassVar[Path]

    def complete(self, prompt: str) -> str:
        digest = hashlib.sha256(prompt.encode()).hexdigest()[:24]
        with self.log.open("a") as file:
            file.write(f"{digest}\n")
        return f"digest {digest} sums up some notes about the Aurora."

    @classmethod
    def asked(cls) -> list[str]:
        noted = cls.log.read_text().split()
        cls.log.write_text("")
        return noted


def answered(folder: Path) -> set[str]:
    """The prompts whose answers a folder keeps; a copy is asked, so that nothing is repaired."""
    with tempfile.TemporaryDirectory() as copy:
        for file in folder.glob("calls.sqlite*"):
            shutil.copy(file, copy)
        with closing(sqlite3.connect(Path(copy) / "calls.sqlite")) as connection:
            try:
                found = connection.execute("SELECT answer FROM calls").fetchall()
            except sqlite3.OperationalError:  # killed before the table was made
                return set()
    return {answer.split()[1] for (answer,) in found if answer.startswith("digest")}


def build(path: Path) -> None:
    given = [*documents(0, 5), secret()]
    models = {"llm": Noting(), "embedder": FakeEmbedder()}
    sg.build_index(given, "lshtree", path, **models, config=CONFIG, progress=False).close()


def insert(path: Path) -> None:
    with sg.open_index(path, Noting(), FakeEmbedder()) as index:
        index.insert(documents(5, 7))


def delete(path: Path) -> None:
    with sg.open_index(path, Noting(), FakeEmbedder()) as index:
        index.delete(["secret"], missing_ok=True)


def rebuild(path: Path) -> None:
    config = {**CONFIG, "chunking": {"size": 20, "overlap": 2}}
    models = {"llm": Noting(), "embedder": FakeEmbedder()}
    given = [*documents(0, 5), secret()]
    sg.build_index(given, path=path, **models, config=config, rebuild=True, progress=False).close()


def copy(path: Path) -> None:
    with sg.open_index(path.parent / "original", embedder=FakeEmbedder()) as index:
        index.copy_to(path)


def shards(path: Path) -> None:
    made = sg.build_shards(
        documents(0, 5), path, shards=2, method="lshtree", embedder=FakeEmbedder(), progress=False
    )
    made.close()


OPERATIONS: dict[str, Callable[[Path], None]] = {
    "build": build,
    "insert": insert,
    "delete": delete,
    "rebuild": rebuild,
    "copy": copy,
    "shards": shards,
}


class Stages:
    """The folder before each operation, what it answers before and after, and how many calls it takes."""

    def __init__(self, work: Path) -> None:
        self.work = work
        Noting.log = work / "asked"
        Noting.log.touch()
        self.before: dict[str, Path | None] = {"build": None, "shards": None}
        self.calls: dict[str, int] = {}
        self.right: dict[str, tuple[str | None, str]] = {}
        build(work / "built")
        _remember(work / "built")
        shutil.copytree(work / "built", work / "grown")
        insert(work / "grown")
        self.before |= dict.fromkeys(("insert", "delete", "rebuild", "copy"), work / "built")
        for name in OPERATIONS:
            folder = self.fresh(name)
            old = seen(folder) if self.before[name] else None
            self.calls[name] = tried(lambda name=name, folder=folder: self._counted(name, folder)).value
            self.right[name] = (old, seen(folder))

    def fresh(self, name: str) -> Path:
        place = self.work / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if (before := self.before[name]) is not None:
            shutil.copytree(before, place / "idx")
        if name == "copy":
            shutil.copytree(self.work / "grown", place / "original")
        return place / "idx"

    def _counted(self, name: str, folder: Path) -> int:
        arm(folder, 0, KILL, self.work)
        OPERATIONS[name](folder)
        return int(_shim().shim_count())

    def interrupted(self, name: str, folder: Path, number: int, mode: int) -> str:
        """Run an operation up to the given call; how it ended."""

        def work() -> None:
            # The power also fails for the directory above, in which a new folder has its name.
            arm(folder.parent if mode == POWER else folder, number, mode, self.work / "log")
            try:
                OPERATIONS[name](folder)
            finally:
                _shim().shim_count()

        shutil.rmtree(self.work / "log", ignore_errors=True)
        (self.work / "log").mkdir()
        outcome = tried(work)
        if outcome.end == "crash" and outcome.message == "signal 9" and mode in (KILL, POWER):
            return "killed"
        return outcome.end if outcome.named else f"{outcome.end} ({outcome.message})"

    def wrongs(self, name: str, folder: Path, *, done: bool = False) -> Iterator[str]:
        """What is wrong with a folder in which an operation was interrupted; finishes the operation.

        If it was `done` before, its result must be there.
        """
        old, new = self.right[name]
        looked = tried(lambda: _looked(folder))
        if looked.end != "ok":
            if looked.end == "NotAnIndex" and old is None and not done:
                looked = None
            else:
                yield f"opening: {looked.end}: {looked.message}"
                return
        if looked is not None:
            if looked.value["verify"]:
                yield f"verify: {looked.value['verify']}"
            if looked.value["answers"] not in ((new,) if done else (old, new)):
                yield "not the answers of the generation before or after"
            if name == "delete" and looked.value["answers"] == new and holders(folder):
                yield f"a deleted text is left in {holders(folder)}"
        kept, _ = answered(folder), Noting.asked()
        again = tried(lambda: OPERATIONS[name](folder))
        repeated = Noting.asked()
        if kept & set(repeated) or len(repeated) > len(set(repeated)):
            yield f"doing it again asks {len(repeated)} prompts, {len(kept & set(repeated))} answered before"
        if again.end != "ok":
            yield f"doing it again: {again.end}: {again.message}"
            return
        if seen(folder) != new:
            yield "doing it again gives something else"
        if name == "delete" and holders(folder):
            yield f"after finishing, a deleted text is left in {holders(folder)}"
        if left := [each.name for each in folder.rglob("*") if each.name.endswith((".partial", ".tmp"))]:
            yield f"after finishing, {left} are left"
        if outside := [each.name for each in folder.parent.iterdir() if each.name not in ("idx", "original")]:
            yield f"beside the folder, {outside} are left"


@cache
def shared_stages() -> Stages:
    """The stages, made once for all campaigns of a process, in a folder that goes with it."""
    folder = tempfile.TemporaryDirectory(prefix="campaign-stages-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Stages(Path(folder.name))


def _remember(path: Path) -> None:
    folder = IndexFolder.open(path)
    snapshot = folder.snapshot()
    rows = range(snapshot.size)
    for identity, text in zip(snapshot.ids(rows), snapshot.texts(rows), strict=True):
        folder.calls.put(identity, f"It says: {text}", task="t", model="m", sources=[identity])
    folder.close()


def _looked(path: Path) -> dict[str, Any]:
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        return {"verify": index.verify(), "answers": answers(index)}


def seen(path: Path) -> str:
    outcome = tried(lambda: _looked(path)["answers"])
    return str(outcome.value)


def holders(folder: Path) -> list[str]:
    """Names of the files that hold the text of the deleted document, also inside of compressed blocks."""
    return [str(Path(name).relative_to(folder)) for name in traces_of(folder, SECRET)]


@dataclass
class Disk:
    """What is surely on the disk, by inode."""

    contents: dict[int, bytes] = field(default_factory=dict)
    listings: dict[int, Listing] = field(default_factory=dict)

    def take(self, folder: Path) -> None:
        self.listings[folder.stat().st_ino] = {each.name: each.lstat().st_ino for each in folder.iterdir()}
        for each in folder.iterdir():
            if each.is_dir():
                self.take(each)
            else:
                self.contents[each.lstat().st_ino] = each.read_bytes()

    def replay(self, log: Path) -> None:
        """What was made and forced to the disk since."""
        lines = (log / "log").read_text().splitlines() if (log / "log").exists() else []
        for line in lines:
            event, inode, which = line.split()
            if event == "C":  # an inode may have been something else before
                self.listings.pop(int(inode), None)
                self.contents.pop(int(inode), None)
                for place, names in self.listings.items():
                    self.listings[place] = {name: own for name, own in names.items() if own != int(inode)}
                if which == "d":
                    self.listings[int(inode)] = {}
                else:
                    self.contents[int(inode)] = b""
            elif event == "F":
                self.contents[int(inode)] = (log / which).read_bytes()
            else:
                found = [each.split(" ", 1) for each in (log / which).read_text().splitlines()]
                self.listings[int(inode)] = {name: int(own) for own, name in found if name not in (".", "..")}

    def restore(self, inode: int, target: Path) -> None:
        """Make a folder of what is on the disk under a directory."""
        target.mkdir()
        for name, own in self.listings.get(inode, {}).items():
            if own in self.listings:
                self.restore(own, target / name)
            elif own in self.contents:
                (target / name).write_bytes(self.contents[own])

    def forget_unsynced(self, folder: Path, target: Path) -> None:
        """Make a folder with all names of another, and of the files what is on the disk."""
        target.mkdir()
        for each in folder.iterdir():
            if each.is_dir():
                self.forget_unsynced(each, target / each.name)
            else:
                (target / each.name).write_bytes(self.contents.get(each.lstat().st_ino, b""))


def _places(stages: Stages, trials: int, name: str) -> Iterator[int]:
    """The calls of an operation at which it is interrupted, evenly over all of them."""
    calls, share = stages.calls[name], max(1, trials // len(OPERATIONS))
    for number in range(share):
        yield 1 + number * calls // share if share <= calls else 1 + number % calls


def _note(row: Tally, number: int, end: str, wrongs: Iterator[str]) -> None:
    """Count how an operation ended that was interrupted at a call, and what is wrong with its folder."""
    row.trials += 1
    row.outcomes[end.partition(" ")[0]] += 1
    if end == "hang" or end.startswith("crash"):
        row.note("hangs" if end == "hang" else "crashes", f"call {number}: {end}")
    elif " " in end:
        row.note("unnamed", f"call {number}: {end}")
    for wrong in wrongs:
        row.note("silent", f"call {number} ({end}): {wrong}")


def kills(work: Path, trials: int, seed: int = 3, mode: int = KILL, kind: str = "kill") -> None:
    """Interrupt every operation at many places, look at the folder, and do the operation again."""
    load(work)
    stages, outside = shared_stages(), Outside(work / "outside")
    for name in OPERATIONS:
        row = Tally(f"{kind}: {name} ({stages.calls[name]} calls)")
        for number in _places(stages, trials, name):
            folder = stages.fresh(name)
            _note(row, number, stages.interrupted(name, folder, number, mode), stages.wrongs(name, folder))
            if touched := outside.touched():
                row.note("foreign", f"call {number}: {touched}")


def full_disk(work: Path, trials: int, seed: int = 4) -> None:
    """Fill the disk at many places of every operation, free it, look at the folder, and do it again."""
    kills(work, trials, seed, FULL, "full disk")


def power_cuts(work: Path, trials: int, seed: int = 5) -> None:
    """Cut the power at places of every operation, on both disks; the last place is after its end.

    From ten trials on there are also the calls after those that the folder sees, in the folder above it.
    """
    load(work)
    stages = shared_stages()
    for name in OPERATIONS:
        calls = stages.calls[name]
        above = range(calls + 1, calls + 4) if trials >= 10 else range(0)
        for kind in ("synced alone", "all names"):
            row = Tally(f"power cut: {name}, {kind}")
            for number in (*_places(stages, max(1, trials // 2), name), *above, AFTER):
                folder = stages.fresh(name)
                end = _cut(stages, name, folder, number, kind)
                _note(row, number, end, stages.wrongs(name, folder, done=number == AFTER))
                if end not in ("killed", "ok"):
                    row.note("unnamed", f"call {number}: {end}")


def _cut(stages: Stages, name: str, folder: Path, number: int, kind: str) -> str:
    disk, place = Disk(), folder.parent
    disk.take(place)
    root = place.stat().st_ino
    end = stages.interrupted(name, folder, number, POWER)
    disk.replay(stages.work / "log")
    left = stages.work / "left"
    shutil.rmtree(left, ignore_errors=True)
    if kind == "all names":
        disk.forget_unsynced(place, left)
    else:
        disk.restore(root, left)
    shutil.rmtree(place)
    os.rename(left, place)
    return end
