"""Whether a model's server is there at all, as the calls of one operation find it."""

from __future__ import annotations

from collections import Counter

from stratagraph._locks import Lock


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
        self._late = 0
        self._lock = Lock()

    def failed(self, call: int) -> None:
        """Take note of a failure."""
        with self._lock:
            self._failures[call] += 1

    def gave_up(self) -> None:
        """Take note of a call that ended since no answer came in time."""
        with self._lock:
            self._late += 1

    def answered(self) -> None:
        """Take note of an answer: the server is there."""
        with self._lock:
            self._failures.clear()
            self._late = 0

    @property
    def too_slow(self) -> bool:
        """Whether so many calls in a row ended without an answer in time as one call may send requests."""
        return self._late >= max(2, self._attempts)

    def over(self, *, patient: bool) -> bool:
        """Whether no request should be sent any more."""
        if self.too_slow:
            return True
        with self._lock:
            calls, failed = len(self._failures), self._failures.total()
            if calls < 2 or max(self._failures.values()) < (self._attempts + 1) // 2:
                return False
            return failed >= self._attempts * (calls if patient else 1)

    @property
    def length(self) -> int:
        """Failures in a row, or calls that were given up, whichever are more."""
        return max(self._failures.total(), self._late)
