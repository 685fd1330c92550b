"""Pure functions in processes of this machine, which are started anew and never forked.

They are loky's: these do not import the caller's script, and pickle what is defined in it by value.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from stratagraph._mapping.apart import ApartMapper, Job
from stratagraph._mapping.packing import Packed, Refused, end_with_parent, refused, work

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

IDLE = 60.0
"""Seconds without work after which a worker ends."""
_INLINE = 64 * 2**10  # bytes up to which a function travels with its batch


class ProcessMapper(ApartMapper):
    """So many processes; they start with the first batch."""

    def __init__(self, workers: int | None = None, embed: bool | None = None) -> None:
        super().__init__(workers or os.cpu_count() or 1, embed)
        self._pool: ProcessPoolExecutor | None = None
        self._folder: Path | None = None

    def __repr__(self) -> str:
        return f"mapper('processes', {self.workers})"

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._lock:
            pool, self._pool = self._pool, None
            folder, self._folder = self._folder, None
        if pool is not None:
            pool.shutdown(wait=True, kill_workers=True)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _forget(self) -> None:
        self._pool = self._folder = None

    def _send(self, job: Job) -> None:
        with self._lock:
            pool = self._running()
            where = self._placed(job.function)
            future: Future[bytes | Refused] = pool.submit(_at_work, job.function.key, where, job.batch)
        job.outcome.withdraw = future.cancel
        future.add_done_callback(lambda done: self._ended(job, done, pool))

    def _ended(self, job: Job, done: Future[bytes | Refused], pool: ProcessPoolExecutor) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            job.finish(done.result())
        elif not isinstance(error, BrokenProcessPool):
            job.fail(error)
        else:
            with self._lock:  # all of its batches come here; the first lets go of it
                if self._pool is pool:
                    self._pool = None
            if self._bury(job, " ".join(str(error).split())):
                self._send(job)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            from loky import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(
                self.workers, timeout=IDLE, initializer=end_with_parent if os.name == "posix" else None
            )
        return self._pool

    def _placed(self, function: Packed) -> bytes | str:
        """The function itself, or the file that has it, if it is large."""
        if len(function.payload) <= _INLINE:
            return function.payload
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stratagraph-mapper-"))
        file = self._folder / function.key
        if not file.exists():
            file.write_bytes(function.payload)
        return str(file)


def _at_work(key: str, where: bytes | str, batch: bytes) -> bytes | Refused:
    """Done in a worker."""
    try:
        return work(key, lambda: where if isinstance(where, bytes) else Path(where).read_bytes(), batch)
    except BaseException as error:
        return refused(error)
