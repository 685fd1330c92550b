"""What mappers over other processes share: packing, unpacking, giving up a batch that kills its workers."""

from __future__ import annotations

import abc
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

from stratagraph._locks import Lock, after_fork
from stratagraph._mapping.packing import Packed, Packer, Refused, opened
from stratagraph.errors import MapperError

T = TypeVar("T")
R = TypeVar("R")
Raw = Future[bytes | Refused]
DEATHS = 4
"""Workers that may die over one batch."""


class Outcome(Future[Any]):
    """What a batch comes to. It can be cancelled for as long as no worker has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.withdraw: Callable[[], bool] = bool
        """Takes the batch back from the workers; False if it is too late."""

    def cancel(self) -> bool:
        """As `Future.cancel`."""
        return self.withdraw() and super().cancel()


class Job:
    """A batch under way: what is done, who waits for it, and how many workers died over it."""

    def __init__(self, function: Packed, batch: bytes, model: bool) -> None:
        self.function = function
        self.batch = batch
        self.model = model
        self.deaths = 0
        self.outcome = Outcome()

    def finish(self, result: bytes | Refused) -> None:
        """Tell who waits what a worker found."""
        try:
            value = opened(result)
        except Exception as error:
            self.fail(error)
        else:
            self._settle(lambda: self.outcome.set_result(value))

    def fail(self, error: BaseException) -> None:
        """Tell who waits of an error."""
        self._settle(lambda: self.outcome.set_exception(error))

    def _settle(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except InvalidStateError:  # cancelled meanwhile: nobody waits any more
            return


class ApartMapper(abc.ABC):
    """A mapper whose workers are other processes."""

    apart = True
    shared_files: bool = True

    def __init__(self, workers: int, embed: bool | None) -> None:
        self.workers = workers
        self.embed = embed
        self._lock = Lock()
        self._packer = Packer()
        after_fork(self._forget)

    def __enter__(self) -> ApartMapper:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def prepare(self, function: Callable[..., Any]) -> None:
        """Pickle a function that will be submitted; `MapperError` if that cannot be."""
        self._packer.function(function)

    def submit(self, function: Callable[[T], R], batch: T, *, model: bool = False) -> Future[R]:
        """Begin `function(batch)`; see `protocols.Mapper`."""
        job = Job(self._packer.function(function), self._packer.batch(batch), model)
        self._send(job)
        return job.outcome

    def _bury(self, job: Job, why: str) -> bool:
        """Count a death; True if the batch is to be done again."""
        job.deaths += 1
        if job.outcome.done():
            return False
        if job.deaths < DEATHS:
            return True
        job.fail(
            MapperError(
                f"{job.deaths} workers died one after the other over the same batch ({why}). If the system "
                "ended them for want of memory, use fewer workers; the same command resumes a build in a "
                "folder"
            )
        )
        return False

    @abc.abstractmethod
    def _send(self, job: Job) -> None:
        """Have a worker do it."""

    @abc.abstractmethod
    def _forget(self) -> None:
        """A forked child has none of its parent's workers."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let the workers go."""
