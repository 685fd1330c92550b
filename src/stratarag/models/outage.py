"""Whether a model's server is there at all, as the calls of one operation find it."""

from __future__ import annotations

from stratarag._locks import Lock


class Outage:
    """Failures since the last answer, over all calls of an operation to one model. Thread-safe.

    A single call that always fails may do so for what is in it. Where several fail and none succeeds, it is
    the server: a question then sends no more requests together than one call may alone, and a build, which
    can wait, as many as all calls under way may.

    Parameters
    ----------
    attempts
        Requests that one call may send: the first and its retries.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._failed = 0
        self._calls: set[int] = set()
        self._lock = Lock()

    def failed(self, call: int) -> None:
        """Take note of a failure."""
        with self._lock:
            self._failed += 1
            self._calls.add(call)

    def answered(self) -> None:
        """Take note of an answer: the server is there."""
        with self._lock:
            self._failed = 0
            self._calls.clear()

    def over(self, *, patient: bool) -> bool:
        """Whether no request should be sent any more."""
        with self._lock:
            calls = len(self._calls)
            return calls > 1 and self._failed >= self._attempts * (calls if patient else 1)

    @property
    def length(self) -> int:
        """Failures in a row."""
        return self._failed
