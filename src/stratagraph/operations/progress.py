"""Progress of a build on one line, or none."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from typing import TextIO

from stratagraph.system.locks import Lock, after_fork
from stratagraph.types.protocols import Progress

OFTEN = 0.1
"""Seconds between two states of the line on a terminal."""
SELDOM = 10.0
"""Seconds between two lines about one stage, where nobody looks at a terminal."""


@dataclass(frozen=True, slots=True)
class NamedProgress:
    """Reports stages under a name, for operations that run side by side."""

    progress: Progress
    name: str

    def start(self, stage: str, total: int | None) -> None:
        """See `Progress`."""
        self.progress.start(f"{self.name}: {stage}", total)

    def advance(self, stage: str, count: int = 1) -> None:
        """See `Progress`."""
        self.progress.advance(f"{self.name}: {stage}", count)

    def finish(self, stage: str) -> None:
        """See `Progress`."""
        self.progress.finish(f"{self.name}: {stage}")


@dataclass(slots=True)
class _ShownStage:
    total: int | None
    began: float
    reported: float
    done: int = 0


class LineProgress:
    """Shows the stage, its share, rate and remaining time on one line, which a terminal overwrites.

    In a notebook all stages share the line. Without either, it writes a line when a stage ends, and one every
    ten seconds. Of a stage whose items are not counted, it shows the name, and without a terminal the time if
    it took ten seconds. A `file` of None is standard error.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._stages: dict[str, _ShownStage] = {}
        self._lock = Lock()
        after_fork(self._leave_to_parent)
        self._shown = 0  # characters on the line that is written over

    def _leave_to_parent(self) -> None:
        """The parent process goes on reporting the stages that it began."""
        self._stages = {}

    def start(self, stage: str, total: int | None) -> None:
        """See `Progress`."""
        now = time.monotonic()
        with self._lock:
            self._stages[stage] = _ShownStage(total, now, now)
            if total is None and self._is_terminal:
                self._write(f"{stage} ...", over=True)

    def advance(self, stage: str, count: int = 1) -> None:
        """See `Progress`."""
        with self._lock:
            if (state := self._stages.get(stage)) is None:
                return
            state.done += count
            now = time.monotonic()
            if now - state.reported >= (OFTEN if self._is_terminal else SELDOM):
                state.reported = now
                self._write(_line(stage, state, now), over=True)

    def finish(self, stage: str) -> None:
        """See `Progress`."""
        with self._lock:
            state = self._stages.pop(stage, None)
            if state is None:
                return
            seconds = time.monotonic() - state.began
            if state.done:
                self._write(f"{stage}: {state.done:,} in {_time(seconds)}", over=False)
            elif self._is_notebook or (seconds >= SELDOM and not self._is_terminal):
                self._write(f"{stage}: {_time(seconds)}", over=False)
            elif self._is_terminal:  # what is printed next starts on an empty line
                self._write("", over=True)
                self._out.write("\r")

    @property
    def _out(self) -> TextIO:
        return self._file or sys.stderr

    @property
    def _is_terminal(self) -> bool:
        return self._is_notebook or self._out.isatty()

    @property
    def _is_notebook(self) -> bool:
        return type(self._out).__module__.startswith("ipykernel.")

    def _write(self, line: str, *, over: bool) -> None:
        """Write a line; on a terminal the next one replaces it if `over`, and in a notebook always."""
        over = over or self._is_notebook
        if not self._is_terminal:
            self._out.write(line + "\n")
        else:
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + line.ljust(self._shown) + ("" if over else "\n"))
            self._shown = len(line) if over else 0
        self._out.flush()


def _line(stage: str, state: _ShownStage, now: float) -> str:
    rate = state.done / max(now - state.began, 1e-9)
    speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"
    if not state.total:
        return f"{stage}: {state.done:,}, {speed}"
    share = min(100, 100 * state.done // state.total)
    left = _time(max(0, state.total - state.done) / rate) if rate else "?"
    return f"{stage}: {state.done:,} of {state.total:,} ({share} %), {speed}, {left} left"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
