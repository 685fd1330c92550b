"""Clients, each in the event loop that it belongs to."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")


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
