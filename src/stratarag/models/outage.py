"""Whether a model's server is there at all, as the calls of one operation find it."""

from __future__ import annotations

from collections import Counter

from stratarag._locks import Lock


class Outage:
    """Failures since the last answer, over all calls of an operation to one model. Thread-safe.

    A single call that always fails may do so for what is in it. Where several fail and none succeeds, it is
    the server: a question then sends about as many requests together as one call may alone, and a build,
    which can wait, as many as all calls under way may. Calls that fail side by side may all have met one
    short disturbance, so that one of them must have been repeated, with its pauses, half as often as it may.

    Parameters
    ----------
    attempts
        Requests that one call may send: the first and its retries.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._failures: Counter[int] = Counter()
        self._lock = Lock()

    def failed(self, call: int) -> None:
        """Take note of a failure."""
        with self._lock:
            self._failures[call] += 1

    def answered(self) -> None:
        """Take note of an answer: the server is there."""
        with self._lock:
            self._failures.clear()

    def over(self, *, patient: bool) -> bool:
        """Whether no request should be sent any more."""
        with self._lock:
            calls, failed = len(self._failures), self._failures.total()
            if calls < 2 or max(self._failures.values()) < (self._attempts + 1) // 2:
                return False
            return failed >= self._attempts * (calls if patient else 1)

    @property
    def length(self) -> int:
        """Failures in a row."""
        return self._failures.total()
