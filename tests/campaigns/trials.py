"""What the campaigns share: a small index, trials in children of their own, and a table of their ends."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import stratagraph as sg
from stratagraph.errors import StratagraphError
from stratagraph.store.folder import IndexFolder
from stratagraph.testing import FakeEmbedder

PATIENCE = 5  # seconds of CPU that a trial may take
WALL = 40.0  # seconds on the clock: a trial may wait for a machine that is busy
MEMORY = 8 << 30  # bytes of addresses, beyond those that the process has before the trial
METHODS = ("noderag", "lshtree")
PROBLEMS = ("crashes", "hangs", "foreign", "silent", "unnamed")
"""What must not happen: files outside touched, wrong answers without a word, errors that are not ours."""
QUESTIONS = ("Who steers the Aurora?", "What did Olaf Strand repair in Lund?", "storm")


def documents(start: int = 0, stop: int = 8) -> list[sg.Document]:
    """Notes that name a few people and places in turn."""
    people, places = ("Anna Berg", "Olaf Strand", "Maria Lind"), ("Lund", "Ven", "Malmo", "Ystad")
    return [
        sg.Document(
            f"note-{number:03}",
            f"{people[number % 3]} went from {places[number % 4]} to {places[(number + 1) % 4]} on the ferry "
            f"Aurora, number {number}. The pier of {places[number % 4]} was repaired after storm {number}.",
            {"number": number},
        )
        for number in range(start, stop)
    ]


def build(path: Path) -> None:
    """An index of the notes by both methods, a generation behind it, and some answers of a model."""
    with sg.build_index(documents(), METHODS, path, embedder=FakeEmbedder(), progress=False) as index:
        index.insert(documents(8, 10))
    folder = IndexFolder.open(path)
    for row, identity in enumerate(folder.snapshot().ids(range(10))):
        folder.calls.put(f"question {row}", f"answer {row}", task="t", model="m", sources=[identity])
    folder.close()


def answers(index: sg.Index) -> str:
    """A digest of what the index answers and lists."""
    found: list[Any] = [sorted(index.documents().items(), key=str)]
    for method in index.methods:
        for way in ({}, {"fill": False}, {"view": "chunks"}):
            for question in QUESTIONS:
                for hit in index.retrieve(question, k=5, method=method, **way).hits:
                    found.append([hit.id, round(hit.score, 4), hit.text, list(hit.sources)])
        found.append([[node.id, node.text, list(node.sources)] for node in index.nodes(method)])
    found.append([[each.id, each.description, list(each.sources)] for each in index.entities()])
    only = {"number": {"$lt": 4}}
    found.append([hit.id for hit in index.retrieve(QUESTIONS[0], k=50, view="chunks", where=only).hits])
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()


TALLIES: list[Tally] = []
"""The rows of this process, in the order in which they were made."""


@dataclass
class Tally:
    kind: str
    trials: int = 0
    crashes: int = 0
    hangs: int = 0
    foreign: int = 0
    silent: int = 0
    unnamed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        TALLIES.append(self)

    @property
    def sound(self) -> bool:
        return not any(getattr(self, name) for name in PROBLEMS)

    def note(self, problem: str, example: str) -> None:
        setattr(self, problem, getattr(self, problem) + 1)
        if len(self.examples) < 20:
            self.examples.append(f"{problem}: {example}")


def table(rows: list[Tally]) -> str:
    counts, width = ("trials", *PROBLEMS), max((len(row.kind) for row in rows), default=0)
    shown = [f"{'kind':{width}}  {'  '.join(counts)}  outcomes"]
    for row in rows:
        numbers = "  ".join(str(getattr(row, name)).ljust(len(name)) for name in counts)
        outcomes = ", ".join(f"{name} {count}" for name, count in row.outcomes.most_common())
        shown.append(f"{row.kind:{width}}  {numbers}  {outcomes}".rstrip())
    examples = [f"  {row.kind}: {example}" for row in rows for example in row.examples]
    return "\n".join([*shown, *examples])


@dataclass(frozen=True)
class Outcome:
    """How a trial in a child ended: `"ok"`, an error's name, `"crash"` or `"hang"`; and what it returned."""

    end: str
    named: bool
    value: Any
    message: str


def tried(work: Callable[[], Any]) -> Outcome:
    """Do something in a child of its own, with little time and memory, and say how it ended."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stacks:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _child(work, writing, stacks)
        os.close(writing)
        told, late = _told(reading, child)
        _, status = os.waitpid(child, 0)
        if told and not os.WIFSIGNALED(status):
            return Outcome(**json.loads(told))
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        hung = late or number == signal.SIGXCPU
        stacks.seek(0)
        where = stacks.read().decode(errors="replace")
        return Outcome("hang" if hung else "crash", False, None, f"signal {number} {where}".strip())


def _child(work: Callable[[], Any], writing: int, stacks: IO[bytes]) -> None:
    try:
        faulthandler.dump_traceback_later(0.75 * WALL, file=stacks)  # of what hangs
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        used = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + PATIENCE + 1, used + PATIENCE + 2))
        limit_memory(MEMORY)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)
        try:
            told = {"end": "ok", "named": True, "value": work(), "message": ""}
        except BaseException as error:
            # An `OSError` with a file's name is what a disk says; all other errors must be of ours.
            named = isinstance(error, StratagraphError) or (
                isinstance(error, OSError) and bool(error.filename)
            )
            told = {"end": type(error).__name__, "named": named, "value": None, "message": str(error)[:300]}
        os.write(writing, json.dumps(told).encode())
    finally:
        os._exit(0)


def limit_memory(size: int) -> None:
    """Let this process take `size` bytes of addresses beyond those that it has.

    A limit on all of them would starve the child of a large process: where not even a thread's stack can be
    had, `Thread.start` waits for ever, which looks like a hang of the code under trial.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


def _told(reading: int, child: int) -> tuple[bytes, bool]:
    """What a child wrote, and whether it took too long and was killed."""
    deadline, told = time.monotonic() + WALL, b""
    try:
        while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(reading, 1 << 16)
            if not piece:
                return told, False
            told += piece
        os.kill(child, signal.SIGKILL)
        return told, True
    finally:
        os.close(reading)


class Outside:
    """Files beside an index that nobody may touch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        (path / "7").mkdir(parents=True)
        for name in ("precious.txt", "corpus.sqlite", "manifest.json", "vectors.npy", "7/corpus.sqlite"):
            (path / name).write_text(f"precious {name}")
        self._before = self._seen()

    def _seen(self) -> dict[str, tuple[int, bytes]]:
        return {
            str(each.relative_to(self.path)): (
                each.stat().st_mtime_ns,
                each.read_bytes() if each.is_file() else b"",
            )
            for each in sorted(self.path.rglob("*"))
        }

    def touched(self) -> list[str]:
        """Names of what was changed, made or removed; put back for the next trial."""
        seen = self._seen()
        names = [name for name in {*seen, *self._before} if seen.get(name) != self._before.get(name)]
        if names:
            self.__init__(self.path)  # type: ignore[misc]  # as it was
        return sorted(names)


def use(path: Path, check: str) -> dict[str, Any]:
    """Open, verify, ask, and insert, as a user would; the answers, and what went wrong on the way.

    An error of ours ends the trial there, as it would for a user.
    """
    done: dict[str, Any] = {"verify": None, "answers": None, "inserted": False}
    folder = IndexFolder.open(path, check)
    done["verify"] = folder.verify()
    folder.close()
    with sg.open_index(path, embedder=FakeEmbedder()) as index:
        done["answers"] = answers(index)
        try:
            index.insert(documents(30, 31))
            done["inserted"] = True
        except StratagraphError as error:
            done["insert"] = type(error).__name__
    return done


def turns(title: str, kinds: Sequence[str], trials: int) -> Iterator[tuple[int, str, Tally]]:
    """Trials by their number, the kind whose turn it is, and the row that counts those of the kind."""
    rows = [Tally(f"{title}: {kind}") for kind in kinds]
    for number in range(trials):
        place = number % len(kinds)
        yield number, kinds[place], rows[place]


def fresh(base: Path, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)


def record(
    tally: Tally, outcome: Outcome, what: str, wrong: Callable[[Any], Any] = lambda value: None
) -> None:
    """Count a trial that ended; `wrong` tells what is silently wrong with what it returned, if anything."""
    tally.trials += 1
    if outcome.end == "ok" and (problem := wrong(outcome.value)):
        tally.note("silent", f"{what}: {problem}")
    tally.outcomes[outcome.end] += 1
    if outcome.end in ("hang", "crash"):
        tally.note("hangs" if outcome.end == "hang" else "crashes", f"{what}: {outcome.message}")
    elif not outcome.named:
        tally.note("unnamed", f"{what}: {outcome.end}: {outcome.message}")
    if sys.stderr.isatty():
        print(f"\r{tally.kind} {tally.trials}", end="", file=sys.stderr)
