"""Progress bars, and their absence."""

from __future__ import annotations

import sys
import threading
from typing import Any, TextIO

from stratarag._locks import Lock, after_fork


class NoProgress:
    """Shows nothing."""

    def start(self, stage: str, total: int | None) -> None:
        """Do nothing."""

    def advance(self, stage: str, count: int = 1) -> None:
        """Do nothing."""

    def finish(self, stage: str) -> None:
        """Do nothing."""


class TqdmProgress:
    """A bar per stage, on standard error unless told otherwise.

    Parameters
    ----------
    file
        Where the bars are written.
    leave
        Whether a finished bar stays visible.
    """

    def __init__(self, file: TextIO | None = None, *, leave: bool = True) -> None:
        self._file = file
        self._leave = leave
        self._bars: dict[str, Any] = {}
        self._lock = Lock()
        after_fork(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Bars that are open are the parent's, and so may be the lock by which tqdm draws one at a time."""
        if self._bars:
            for bar in self._bars.values():
                bar.disable = True  # or it would be drawn once more when it is forgotten
            next(iter(self._bars.values())).set_lock(threading.RLock())
            self._bars = {}

    def start(self, stage: str, total: int | None) -> None:
        """Open the stage's bar."""
        from tqdm.auto import tqdm

        with self._lock:
            if (open_bar := self._bars.pop(stage, None)) is not None:
                open_bar.close()
            self._bars[stage] = tqdm(
                desc=stage, total=total, file=self._file or sys.stderr, leave=self._leave, dynamic_ncols=True
            )

    def advance(self, stage: str, count: int = 1) -> None:
        """Move the stage's bar."""
        with self._lock:
            if (bar := self._bars.get(stage)) is not None:
                bar.update(count)

    def finish(self, stage: str) -> None:
        """Close the stage's bar; one of a stage that had nothing to do disappears."""
        with self._lock:
            if (bar := self._bars.pop(stage, None)) is not None:
                bar.leave = bar.leave and bar.n > 0
                bar.close()
