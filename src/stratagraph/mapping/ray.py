"""Pure functions on a cluster of Ray, in actors that load a model once."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from cachetools import LRUCache

from stratagraph.errors import MapperError, require
from stratagraph.mapping.processes import (
    DEATHS,
    SAFE_PATH,
    ApartMapper,
    BatchJob,
    FunctionError,
    PackedFunction,
    environment,
    work,
)

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on every system: with it Ray listens on loopback alone
}
_STORE = 256 * 2**20  # bytes of shared memory of a cluster that is started here; batches are small
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^/\s]+):(?P<port>\d{1,5})")
_HELD = 4
_KNOCKS = 10.0  # seconds
_PATIENCE = 120.0  # seconds for the first worker to say that it is there


class _Actor:
    """What runs on the cluster."""

    def version(self) -> str:
        """The stratagraph that is installed there."""
        return version("stratagraph")

    def run(self, key: str, where: list[Any], batch: bytes) -> bytes | FunctionError:
        """Process a batch. The function is a reference in a list, so that Ray fetches it only on demand."""
        import ray

        return work(key, lambda: ray.get(where[0]), batch)


class _Worker(NamedTuple):
    """An actor, and how many batches it has."""

    actor: Any
    busy: list[BatchJob]


class RayMapper(ApartMapper):
    """One actor per CPU in use, and one per GPU for functions with a model."""

    def __init__(
        self,
        workers: int | None = None,
        address: str | None = None,
        embed: bool | None = None,
        shared_files: bool | None = None,
    ) -> None:
        _ray()
        if address is not None and address != "auto" and _ADDRESS.fullmatch(address) is None:
            raise ValueError(f'the address of a cluster of Ray is "host:port" or "auto", not {address!r}')
        super().__init__(workers or (os.cpu_count() or 1 if address is None else 1), embed)
        self._wanted = workers
        self._address = address
        self.shared_files = address is None if shared_files is None else shared_files
        self._started_here = False
        self._workers: list[_Worker] = []
        self._on_gpus: list[_Worker] = []
        self._functions: LRUCache[str, Any] = LRUCache(_HELD)

    def __repr__(self) -> str:
        where = "" if self._address is None else f"@{self._address}"
        return f"mapper('ray{where}', {self.workers})"

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        with self._lock:
            workers, self._workers, self._on_gpus = [*self._workers, *self._on_gpus], [], []
            self._functions.clear()
            started, self._started_here = self._started_here, False
        if not workers:
            return
        ray = _ray()
        if ray.is_initialized():
            for worker in workers:
                ray.kill(worker.actor)
            if started:
                ray.shutdown()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _forget(self) -> None:
        self._workers, self._on_gpus, self._functions = [], [], LRUCache(_HELD)
        self._started_here = False

    def _send(self, job: BatchJob) -> None:
        with self._lock:
            self._start()
            workers = self._on_gpus if job.model and self._on_gpus else self._workers
            worker = min(workers, key=lambda each: len(each.busy))
            worker.busy.append(job)
            where = self._placed(job.function)
            reference = worker.actor.run.remote(job.function.key, [where], job.batch)
            job.withdraw = partial(_withdrawn, reference)
            future = reference.future()
        future.add_done_callback(lambda done: self._ended(job, worker, done))

    def _ended(self, job: BatchJob, worker: _Worker, done: Any) -> None:
        with self._lock:
            worker.busy.remove(job)
        error = done.exception()
        if error is None:
            job.finish(done.result())
        else:  # Ray itself has restarted it as often as allowed
            job.deaths = DEATHS - 1
            self._bury(job, f"{type(error).__name__}: {' '.join(str(error).split())}")

    def _placed(self, function: PackedFunction) -> Any:
        """A reference to the function on the cluster."""
        if function.key not in self._functions:
            self._functions[function.key] = _ray().put(function.payload)
        return self._functions[function.key]

    def _start(self) -> None:
        """Connect, and start the actors, once."""
        if self._workers:
            return
        ray = _ray()
        if not ray.is_initialized():
            self._connect(ray)
            self._started_here = True
        resources = ray.cluster_resources()
        self.workers = self._wanted or max(1, int(resources.get("CPU", 1)))
        again = {"max_restarts": -1, "max_task_retries": DEATHS - 1}
        actor = ray.remote(_Actor)
        self._workers = [
            _Worker(actor.options(num_cpus=1, **again).remote(), []) for _ in range(self.workers)
        ]
        self._check_version(ray)
        self._on_gpus = [
            _Worker(actor.options(num_cpus=0, num_gpus=1, **again).remote(), [])
            for _ in range(int(resources.get("GPU", 0)))
        ]

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "error"}
        local = {"num_cpus": self.workers, "include_dashboard": False, "object_store_memory": _STORE}
        try:
            with environment(SAFE_PATH | (_QUIET if self._address is None else {})), _hushed():
                if self._address is None:
                    ray.init(address="local", **local, **quiet)
                else:
                    if match := _ADDRESS.fullmatch(self._address):  # else Ray would try for many minutes
                        host, port = match["host"].strip("[]"), int(match["port"])
                        socket.create_connection((host, port), timeout=_KNOCKS).close()
                    ray.init(address=self._address, **quiet)
        except Exception as error:
            where, todo = "here", "look at the messages above, or use mapper='processes'"
            if self._address is not None:
                where = f"at {self._address!r}"
                todo = "start one with `ray start --head`, or give the address that it prints"
            message = " ".join(str(error).split())
            raise MapperError(
                f"no cluster of Ray {where} ({type(error).__name__}: {message}); {todo}"
            ) from error

    def _check_version(self, ray: Any) -> None:
        """Refuse workers with another version of stratagraph, or without it."""
        asked = [each.actor.version.remote() for each in self._workers]
        try:
            versions = set(ray.get(asked, timeout=_PATIENCE))
        except ray.exceptions.GetTimeoutError as error:
            raise self._failed_to_start(
                f"not all workers of Ray began within {_PATIENCE:g} s: {self.workers} were asked for, a CPU "
                f"each, and {ray.available_resources().get('CPU', 0):g} CPUs are free. Ask for fewer workers"
            ) from error
        except Exception as error:
            raise self._failed_to_start(
                f"the workers of Ray cannot run stratagraph: {_install()} ({error})"
            ) from error
        if others := versions - {version("stratagraph")}:
            have = ", ".join(sorted(others))
            raise self._failed_to_start(
                f"workers of Ray have stratagraph {have}, and this process another: {_install()}"
            )

    def _failed_to_start(self, why: str) -> MapperError:
        self.close()
        return MapperError(why)


def _install() -> str:
    return f"pip install 'stratagraph[ray]=={version('stratagraph')}' on every machine of the cluster"


def _withdrawn(reference: Any) -> bool:
    """Ask Ray to cancel a batch. Whether it had begun is known only when it ends."""
    _ray().cancel(reference)
    return False


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Silence Ray's start-up messages; errors are exceptions."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _ray() -> Any:
    """Ray, imported on demand under the settings in `_QUIET`."""
    require("ray", "ray")
    with environment(_QUIET):
        import ray
    return ray
