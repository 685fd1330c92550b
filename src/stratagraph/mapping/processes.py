"""Pure functions in other processes: sending functions and batches, and loky's processes on this machine.

A worker loads a function, and the model it holds, once. Loky's processes are never forked, do not import the
caller's script, and pickle what is defined in it by value.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cachetools import LRUCache

from stratagraph.errors import MapperError, require
from stratagraph.system.locks import Lock, after_fork

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

R = TypeVar("R")
T = TypeVar("T")
DEATHS = 4
"""Workers that may die over one batch."""
IDLE = 60.0
"""Seconds without work after which a worker ends."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of children: none imports modules from the current folder, which may be a stranger's."""
_INLINE = 64 * 2**10  # bytes up to which a function travels with its batch
_HELD = 4
"""Functions that a worker keeps loaded: those of one stage, and its model."""
_DEEP = 6
_ORPHAN_LOOKS = 0.5  # seconds


class PackedFunction(NamedTuple):
    """A function as bytes, with a hash by which a worker knows it again."""

    key: str
    payload: bytes


def _dumped(value: object) -> bytes:
    import cloudpickle

    try:
        dumped: bytes = cloudpickle.dumps(value)
    except Exception as error:
        where, what = _culprit(value)
        raise MapperError(
            f"{where} cannot be sent to other processes: {_kind(what)} cannot "
            f"be pickled ({error}). Leave it out in __getstate__ and make it again when it is first used, or "
            "keep the object here: mapper(..., embed=False) for an embedder, mapper='threads' for all else"
        ) from error
    return dumped


def _culprit(value: object) -> tuple[str, object]:
    """The path to the innermost part of an object that cannot be pickled, and that part."""
    name, culprit = _name(value), value
    for _ in range(_DEEP):
        bad = next(((key, part) for key, part in _parts(culprit) if not _picklable(part)), None)
        if bad is None:
            break
        key, culprit = bad
        name = _name(culprit) if key.startswith("(") else f"{name}.{key}"
    return name, culprit


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _name(value: object) -> str:
    return f"{type(value).__qualname__} {getattr(value, 'name', '')!r}".removesuffix(" ''")


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, functools.partial):
        return [("(argument)", part) for part in (*value.args, *value.keywords.values(), value.func)]
    if isinstance(value, list | tuple):
        return [("(item)", part) for part in value]
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).items(), *fields]


def _picklable(value: object) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


# What runs in workers.


class FunctionError(NamedTuple):
    """An error of the function, or its text if the error cannot be pickled."""

    error: bytes | None
    text: str


_loaded: LRUCache[str, Callable[..., Any]] = LRUCache(_HELD)


def work(key: str, payload: Callable[[], bytes], batch: bytes) -> bytes | FunctionError:
    """Process a batch here. `payload` returns the function's bytes if it is not loaded."""
    try:
        function = _loaded.get(key)
        if function is None:
            function = _loaded[key] = pickle.loads(payload())
        return pickle.dumps(function(pickle.loads(batch)), protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # one that ends a worker would be taken for its death
        return refused(error)


def refused(error: BaseException) -> FunctionError:
    """An error in a form that can be sent; only its text if it does not survive pickling."""
    text = f"{_kind(error)}: {error}"
    try:
        dumped = pickle.dumps(error)
        pickle.loads(dumped)
    except Exception:
        return FunctionError(None, text)
    return FunctionError(dumped if isinstance(error, Exception) else None, text)


def opened(result: bytes | FunctionError) -> Any:
    """The result of a worker; raises the worker's error."""
    if not isinstance(result, FunctionError):
        return pickle.loads(result)
    if result.error is None:
        raise MapperError(f"a worker failed with {result.text}")
    error = pickle.loads(result.error)
    error.add_note("in a worker of the mapper")
    raise error


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def end_with_parent() -> None:
    """End this process when its parent is gone: it may hold a lock."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_ORPHAN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="stratagraph-parent", daemon=True).start()


class BatchJob(Future[Any]):
    """The result of a batch under way, with its function and how many workers died over it."""

    def __init__(self, function: PackedFunction, batch: bytes, model: bool) -> None:
        super().__init__()
        self.function = function
        self.batch = batch
        self.model = model
        self.deaths = 0
        self.withdraw: Callable[[], bool] = bool
        """Takes the batch back from the workers; returns False if one has begun."""

    def cancel(self) -> bool:
        """As `Future.cancel`, until a worker begins."""
        return self.withdraw() and super().cancel()

    def finish(self, result: bytes | FunctionError) -> None:
        """Pass a worker's result to the caller."""
        try:
            value = opened(result)
        except Exception as error:
            self.fail(error)
        else:
            with contextlib.suppress(InvalidStateError):  # cancelled: no caller waits
                self.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Pass an error to the caller."""
        with contextlib.suppress(InvalidStateError):
            self.set_exception(error)


class ApartMapper(abc.ABC):
    """A mapper whose workers are other processes."""

    apart = True
    shared_files: bool = True

    def __init__(self, workers: int, embed: bool | None) -> None:
        require("parallel", "cloudpickle", "loky")
        self.workers = workers
        self.embed = embed
        self._lock = Lock()
        self._packed: LRUCache[int, tuple[object, PackedFunction]] = LRUCache(_HELD)
        after_fork(self._forget)

    def __enter__(self) -> ApartMapper:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def prepare(self, function: Callable[..., Any]) -> PackedFunction:
        """A function as bytes; `MapperError` names what in it cannot be pickled. The last few are kept."""
        with self._lock:
            if (held := self._packed.get(id(function))) is not None:
                return held[1]
        payload = _dumped(function)
        packed = PackedFunction(hashlib.blake2b(payload, digest_size=16).hexdigest(), payload)
        with self._lock:
            self._packed[id(function)] = function, packed  # held, so that its id stays its own
        return packed

    def submit(self, function: Callable[[T], R], batch: T, *, model: bool = False) -> Future[R]:
        """Begin `function(batch)`; see `protocols.Mapper`."""
        job = BatchJob(self.prepare(function), _dumped(batch), model)
        self._send(job)
        return job

    def _bury(self, job: BatchJob, why: str) -> bool:
        """Count a dead worker; True if the batch must be sent again."""
        job.deaths += 1
        if job.done():
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
    def _send(self, job: BatchJob) -> None:
        """Give the batch to a worker."""

    @abc.abstractmethod
    def _forget(self) -> None:
        """Drop the parent's workers in a forked child."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class ProcessMapper(ApartMapper):
    """Worker processes, started with the first batch."""

    def __init__(self, workers: int | None = None, embed: bool | None = None) -> None:
        super().__init__(workers or os.cpu_count() or 1, embed)
        self._pool: ProcessPoolExecutor | None = None
        self._folder: Path | None = None

    def __repr__(self) -> str:
        return f"mapper('processes', {self.workers})"

    def close(self) -> None:
        """Kill the processes."""
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

    def _send(self, job: BatchJob) -> None:
        with self._lock:
            pool = self._running()
            where = self._placed(job.function)
            future: Future[bytes | FunctionError] = pool.submit(_at_work, job.function.key, where, job.batch)
        job.withdraw = future.cancel
        future.add_done_callback(lambda done: self._ended(job, done, pool))

    def _ended(self, job: BatchJob, done: Future[bytes | FunctionError], pool: ProcessPoolExecutor) -> None:
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

            posix = os.name == "posix"
            with environment(SAFE_PATH):  # loky lets nobody else choose the environment of its trackers
                self._pool = ProcessPoolExecutor(
                    self.workers, timeout=IDLE, initializer=end_with_parent if posix else None, env=SAFE_PATH
                )
                if posix:
                    from multiprocessing import resource_tracker

                    resource_tracker.ensure_running()  # else the first worker starts it
        return self._pool

    def _placed(self, function: PackedFunction) -> bytes | str:
        """The function's bytes, or the path of a file with them if they are many."""
        if len(function.payload) <= _INLINE:
            return function.payload
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stratagraph-mapper-"))
        file = self._folder / function.key
        if not file.exists():
            file.write_bytes(function.payload)
        return str(file)


def _at_work(key: str, where: bytes | str, batch: bytes) -> bytes | FunctionError:
    return work(key, lambda: where if isinstance(where, bytes) else Path(where).read_bytes(), batch)
