"""Tasks of the evaluation's model calls, and meters of time, memory, and the calls of one answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import BaseModel

from stratagraph.errors import CallFailed
from stratagraph.models.gate import Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import json_as
from stratagraph.types.records import Usage

M = TypeVar("M", bound=BaseModel)
_STATM = Path("/proc/self/statm")
_INTERVAL = 0.01  # seconds


class Meter:
    """A context manager that measures time, and memory every 10 ms.

    `cpu_seconds` is of all threads. `peak_memory` is the peak resident memory above that at the start, in
    bytes; None where the system does not tell (Linux does).
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.peak_memory: int | None = None
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="stratagraph-meter", daemon=True)

    def __enter__(self) -> Meter:
        self._before = resident_memory()
        if self._before is not None:
            self.peak_memory = 0
            self._watcher.start()
        self._began, self._worked = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._began
        self.cpu_seconds = time.process_time() - self._worked
        self._look()
        self._done.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL):
            self._look()

    def _look(self) -> None:
        now = resident_memory()
        if now is not None and self._before is not None:
            self.peak_memory = max(self.peak_memory or 0, now - self._before)


def resident_memory() -> int | None:
    """Resident memory of this process in bytes; None where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


class AnswerFailed(CallFailed):
    """An answer failed; `usage` counts its calls and tokens."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


@contextmanager
def booked(gate: Gate, stage: str) -> Iterator[Gate]:
    """A gate for one answer: its calls count in a ledger of their own, and under a stage of `gate`.

    Raises `AnswerFailed` in place of `CallFailed`, with the usage until then.
    """
    own = gate.apart()
    try:
        with own.stage(stage):
            yield own
    except CallFailed as error:
        raise AnswerFailed(str(error), own.ledger.total) from error
    finally:
        gate.ledger.include(own.ledger)
        gate.failures.extend(own.failures)


def unestimated(values: Mapping[str, str]) -> Any:
    """The placeholder of an evaluation's tasks, which an estimate must not be asked about."""
    raise RuntimeError("the calls of an evaluation have no estimate")


def json_task(name: str, form: type[M], tokens: int) -> Task[M]:
    """The task of the prompt of that name, whose answer has about so many tokens."""
    prompt = load_prompt("stratagraph.eval", name)
    return Task(
        f"eval/{name}", prompt, json_as(form), unestimated, schema=form, expected_output_tokens=tokens
    )
