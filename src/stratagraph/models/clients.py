"""Clients, each in the process or the event loop that it belongs to."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from stratagraph.system.locks import Lock, after_fork

C = TypeVar("C")
_left_to_parent: list[Any] = []  # closing a connection in the child would end the parent's


class PerProcess(Generic[C]):
    """A client per process: two that share a connection would read each other's answers."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._client: C | None = None
        self._lock = Lock()
        after_fork(self._leave_to_parent)

    def get(self) -> C:
        """The client of this process; made when first asked for."""
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def _leave_to_parent(self) -> None:
        if self._client is not None:
            _left_to_parent.append(self._client)
            self._client = None


class PerLoop(Generic[C]):
    """A client per event loop: connections cannot be used in another loop."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, C] = weakref.WeakKeyDictionary()

    def get(self) -> C:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                del self._clients[other]  # a client's connections know their loop, which so would stay
            self._clients[loop] = self._make()
        return self._clients[loop]
