"""Time limits of a connection, since uvicorn waits forever for a request's head and for a client to read."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""Time for the head of a request to arrive, from the opening of the connection or the first byte."""
HALF_OPEN = 100
"""Connections of one client that have sent no whole head, a fifth of all; more are closed at once."""
READ_SECONDS = 60.0
"""Time in which a client must read what was sent, before more is sent."""


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose request head is not sent, or answer not read, in time."""

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    _waiting: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first head, unless the client has too many such connections."""
        super().connection_made(transport)
        if self._waiting[self._client] >= HALF_OPEN:
            transport.abort()
        else:
            self._watch()

    @property
    def _client(self) -> str:
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request is under way, wait again if only part of a head arrived."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._head_timer is None:
            self._watch()

    def on_response_complete(self) -> None:
        """Stop waiting: between two requests uvicorn's own keep-alive limit applies."""
        self._unwatch()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._forget_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._unwatch()
        self._forget_reading()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._waiting[self._client] += 1
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
            self._waiting[self._client] -= 1
            if not self._waiting[self._client]:
                del self._waiting[self._client]

    def _forget_reading(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
