"""What the handlers of requests share: the open index, changes with their progress, and what they cost."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from fastapi import Request

import stratagraph as sg
from stratagraph.errors import message_of
from stratagraph.server.guard import Refused, Settings
from stratagraph.store.lock import TemporaryFolder

PREFIX = "stratagraph-upload-"
_URL = re.compile(  # or a host with its port; bounded, so that it is linear
    r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]+|(?:localhost|(?:[\w-]{1,63}\.){1,5}[\w-]{1,63}):\d+\b)"
)
_PATH = re.compile(  # in quotes it may be short and have blanks
    r"(?<=['\"])(?:[A-Za-z]:)?[/\\][^'\"]*(?=['\"])"
    r"|(?<![\w./\\])(?:[A-Za-z]:)?[/\\]{1,2}[^\s/\\'\"]+[/\\][^\s'\"]*"
)
OFTEN = 1.0
"""Seconds between two looks at the folder."""
OFTEN_BEHIND_URL = 30.0
"""Seconds between two looks at a URL, each of which is two requests of a storage."""
KEPT = 50
"""Jobs that are remembered."""
WAITING = 20
"""Jobs that may wait at the same time."""


def public(error: BaseException, places: Collection[str] = ()) -> str:
    """The message of an error for clients: without paths, URLs, hosts and processes of this machine.

    `places` are those of the index. A message about a client's own request keeps its other paths, which may
    be ids of documents.
    """
    if isinstance(error, sg.errors.Locked):
        return "another process changed the documents; try again later"
    return without_places(message_of(error), places, isinstance(error, sg.errors.StratagraphError | OSError))


def without_places(text: str, places: Collection[str] = (), others: bool = True) -> str:
    """A text without the places of the index, and without `others`: any URL and absolute path."""
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, "INDEX")
    return _PATH.sub("PATH", _URL.sub("URL", text)) if others else text


class Uploads:
    """Folders of uploaded files, inside one temporary folder of this server."""

    def __init__(self) -> None:
        self._root = TemporaryFolder(PREFIX)
        self._making = threading.Lock()

    def folder(self) -> Path:
        """A new empty folder."""
        with self._making:
            if not self._root.path.is_dir():
                self._root = TemporaryFolder(PREFIX)
        return Path(tempfile.mkdtemp(dir=self._root.path))

    def close(self) -> None:
        """Remove all uploads."""
        self._root.close()


class Library:
    """An open index that follows its folder, or its URL.

    If the folder becomes unreadable, the last generation stays in use, and `problem` says why.
    """

    def __init__(self, path: str | Path, open_index: Callable[[], sg.Index]) -> None:
        self.problem: str | None = None
        self._open = open_index
        self._index = open_index()
        self.url = self._index.url
        self.name = (self.url or os.path.realpath(path)).rstrip("/").rpartition("/")[2]
        own = str(self._index.path.absolute()), os.path.abspath(path), os.path.realpath(path), self.url or ""
        self.places = frozenset(own) - {"", "/"}
        self._often = OFTEN if self.url is None else OFTEN_BEHIND_URL
        self._identity = self._look()
        self._looked = time.monotonic()
        self._lock = asyncio.Lock()

    async def current(self) -> sg.Index:
        """The index in its newest generation, checked at most every `OFTEN` seconds."""
        if time.monotonic() - self._looked > self._often and not self._lock.locked():
            async with self._lock:
                await asyncio.to_thread(self._follow)
                self._looked = time.monotonic()
        return self._index

    async def warm(self) -> None:
        """Load what questions need. A damaged folder is passed over here; the first question reports it."""
        with suppress(sg.errors.StratagraphError, OSError):
            await asyncio.to_thread(self._index.warm)

    def _look(self) -> tuple[int, int]:
        status = os.stat(self._index.path)
        return status.st_dev, status.st_ino

    def _follow(self) -> None:
        try:
            identity = self._look()
            if identity == self._identity:
                self._index.reload()
            else:  # another folder has taken the place of the one that was opened
                self._index, self._identity = self._open(), identity
        except (sg.errors.StratagraphError, OSError, ValueError) as error:
            told = f"{type(error).__name__}: {public(error, self.places)}"
            self.problem = f"{told}. What was read before is shown."
        else:
            self.problem = None

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """The number of runs of an operation, their usage, and their cost; None if a price is unknown."""

    operation: str
    count: int
    usage: sg.Usage
    cost: float | None


class Costs:
    """Sums by operation."""

    def __init__(self) -> None:
        self._sums: dict[str, Cost] = {}

    def add(self, operation: str, usage: sg.Usage, cost: float | None) -> None:
        """Count an operation."""
        spent = self._sums.get(operation, Cost(operation, 0, sg.Usage(), 0.0))
        together = None if spent.cost is None or cost is None else spent.cost + cost
        self._sums[operation] = Cost(operation, spent.count + 1, spent.usage + usage, together)

    def all(self) -> list[Cost]:
        """The sums, by operation."""
        return [self._sums[name] for name in sorted(self._sums)]


@dataclass(slots=True)
class Job:
    """A change with its progress and outcome.

    `stage`, `done` and `total` describe the current stage; `total` is None if it is unknown.
    """

    id: int
    kind: Literal["add", "delete"]
    title: str
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    stage: str = ""
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    error: str | None = None


class JobProgress:
    """The `Progress` of an index. The running job shows the stage that advanced last."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._stages: dict[str, tuple[int, int | None]] = {}
        self._lock = threading.Lock()

    def follow(self, job: Job | None) -> None:
        """Report progress to this job from now on; None stops that."""
        with self._lock:
            self._job, self._stages = job, {}

    def start(self, stage: str, total: int | None) -> None:
        """A stage begins."""
        with self._lock:
            self._show(stage, 0, total)

    def advance(self, stage: str, count: int = 1) -> None:
        """Units of a stage are done."""
        with self._lock:
            done, total = self._stages.get(stage, (0, None))
            self._show(stage, done + count, total)

    def finish(self, stage: str) -> None:
        """A stage has ended."""
        with self._lock:
            self._stages.pop(stage, None)

    def _show(self, stage: str, done: int, total: int | None) -> None:
        self._stages[stage] = done, total
        if self._job is not None:
            self._job.stage, self._job.done, self._job.total = stage, done, total


class Jobs:
    """Runs changes one at a time, in threads."""

    def __init__(self, costs: Costs, progress: JobProgress, places: Collection[str]) -> None:
        self._costs = costs
        self._places = places
        self._progress = progress
        self._jobs: dict[int, Job] = {}
        self._numbers = count(1)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._received = 0

    def all(self) -> list[Job]:
        """The jobs that are remembered, the latest first."""
        return list(reversed(self._jobs.values()))

    def get(self, number: int) -> Job:
        """A job by its number; `KeyError` if it is not remembered."""
        if number not in self._jobs:
            raise KeyError(f"there is no job {number}")
        return self._jobs[number]

    def check_room(self) -> None:
        """Refuse a further change if as many wait as may wait."""
        waiting = sum(job.state == "waiting" for job in self._jobs.values())
        if waiting + self._received >= WAITING:
            message = f"{WAITING} changes wait already; try again when some are done"
            raise Refused(429, "TooMany", message)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Reserve room for a change while its file arrives, which bounds the files on the disk."""
        self.check_room()
        self._received += 1
        try:
            yield
        finally:
            self._received -= 1

    def start(
        self,
        kind: Literal["add", "delete"],
        title: str,
        work: Callable[[Job], sg.BuildReport],
        after: Callable[[], None] = lambda: None,
    ) -> Job:
        """Queue a change: `work` runs in a thread when its turn comes, `after` once it has ended."""
        self.check_room()
        job = Job(next(self._numbers), kind, title)
        self._jobs[job.id] = job
        ended = [number for number, each in self._jobs.items() if each.state in ("done", "failed")]
        for number in ended[:-KEPT]:
            del self._jobs[number]
        task = asyncio.create_task(self._run(job, work, after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def _run(self, job: Job, work: Callable[[Job], sg.BuildReport], after: Callable[[], None]) -> None:
        async with self._turn:
            began = time.monotonic()
            self._progress.follow(job)
            job.state = "running"
            try:
                report = await asyncio.to_thread(work, job)
            except Exception as error:
                job.error = f"{type(error).__name__}: {public(error, self._places)}"
                job.state = "failed"
            else:
                job.report = asdict(report)
                for failure in job.report["failures"]:
                    failure["reason"] = without_places(failure["reason"], self._places)
                job.state = "done"
                self._costs.add(report.operation, report.usage, report.cost)
            finally:
                job.seconds = time.monotonic() - began
                self._progress.follow(None)
                after()


@dataclass(frozen=True, slots=True)
class State:
    """The state of one server: index, changes, costs, guard and uploads."""

    library: Library
    jobs: Jobs
    costs: Costs
    settings: Settings
    uploads: Uploads


async def state_of(request: Request) -> State:
    """The state of the server. A coroutine, since FastAPI runs plain functions in threads."""
    state: State = request.app.state.server
    return state
