"""What requests turn out to use, so that a budget reserves what the next ones will."""

from __future__ import annotations

from collections import defaultdict

from stratagraph._locks import Lock
from stratagraph.records import Usage


class UsageHistory:
    """Tokens that requests used, against those that were counted beforehand. Thread-safe.

    Tokenizers differ, formats add tokens, and models write more or less than a task's typical length: what
    was seen corrects what is expected, upwards only.
    """

    def __init__(self) -> None:
        self._counted = 0
        self._taken = 0
        self._answers: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._lock = Lock()

    def add(self, task: str, counted: int, used: Usage) -> None:
        """Take note of a request: the input tokens counted for it, and what it used."""
        with self._lock:
            self._counted += counted
            self._taken += used.input_tokens
            answers = self._answers[task]
            answers[0] += 1
            answers[1] += used.output_tokens

    def expected(self, task: str, counted: int, typical: int) -> Usage:
        """What a request may use, of which so many input tokens were counted.

        Parameters
        ----------
        task
            The kind of call.
        counted
            Input tokens.
        typical
            Tokens of an answer where nothing was seen yet.
        """
        with self._lock:
            factor = self._taken / self._counted if self._counted else 1.0
            answers, tokens = self._answers[task]
        mean = -(-tokens // answers) if answers else 0
        return Usage(1, 0, max(counted, round(counted * factor)), max(typical, mean))
