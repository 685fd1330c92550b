"""Time and memory of making something ready."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

_STATM = Path("/proc/self/statm")
_INTERVAL = 0.01  # seconds


class Meter:
    """A context manager that measures time, and memory by looking at it every 10 ms.

    Attributes
    ----------
    seconds, cpu_seconds
        Of the block, by the clock and of the processor (all threads).
    peak_memory
        Bytes of resident memory above those at the start, at the highest; None where the system does not tell
        (it does on Linux).
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
    """Bytes of this process that are in memory; None where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
