"""What the handlers of requests share: the open index, changes, costs, settings and uploads."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request

import stratagraph as sg
from stratagraph.server.jobs import Costs, Jobs
from stratagraph.server.reading import Uploads
from stratagraph.server.settings import Settings

OFTEN = 1.0
"""Seconds between two looks at the folder."""
OFTEN_BEHIND_URL = 30.0
"""Seconds between two looks at a URL, each of which is two requests of a storage."""


class Library:
    """An open index. Where the folder has become unreadable, what was read stays, and `problem` says so.

    Parameters
    ----------
    path
        The index folder, or a URL.
    open_index
        Opens it.
    """

    def __init__(self, path: str | Path, open_index: Callable[[], sg.Index]) -> None:
        self.problem: str | None = None
        self._open = open_index
        self._index = open_index()
        self.url = self._index.url
        self.path = self.url or str(path)
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
        """Make the first question as fast as later ones. Of a damaged folder the first question fails."""
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
            self.problem = f"{type(error).__name__}: {error}. What was read before is shown."
        else:
            self.problem = None

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()


@dataclass(frozen=True, slots=True)
class State:
    """The state of one server: index, changes, costs, guard and uploads."""

    library: Library
    jobs: Jobs
    costs: Costs
    settings: Settings
    uploads: Uploads


async def state_of(request: Request) -> State:
    """The server that a request came to; a coroutine, since others are run in threads."""
    state: State = request.app.state.server
    return state
