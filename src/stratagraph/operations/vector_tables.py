"""Adapts a caller's vector store: bounded call times and named errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from typing import Any, TypeVar

from stratagraph.errors import StratagraphError, VectorStoreError
from stratagraph.models.named import adapter_of
from stratagraph.system.locks import after_fork
from stratagraph.types.built import VectorRow
from stratagraph.types.protocols import VectorTable

R = TypeVar("R")
MOST_CALLS = 32
"""Calls of a store under way at once, at most. A thread that waits for a hanging store cannot be stopped."""
_TAKEN = "a LangChain VectorStore, a LlamaIndex vector store, or an object as protocols.VectorTable describes"


def as_table(value: Any, timeout: float) -> VectorTable | None:
    """The `VectorTable` for what a caller passes as `vectors`: None, a framework's store, or a table.

    `timeout` is the number of seconds that a call may take. Raises `TypeError` for anything else, and
    `MissingExtra` if the framework's package is not installed.
    """
    if value is None:
        return None
    if isinstance(value, type):
        raise TypeError(f"vectors must be an object, not the class {value.__name__}: give {_TAKEN}")
    adapter = adapter_of(value, "_vectors")
    table = value if adapter is None else adapter.to_table(value)
    if not isinstance(table, VectorTable):
        raise TypeError(f"vectors must be {_TAKEN}; it is {value!r}")
    return BoundedTable(table, timeout)


class BoundedTable:
    """A table whose calls time out, and whose errors are `VectorStoreError`s."""

    def __init__(self, table: VectorTable, timeout: float) -> None:
        self.name = table.name
        self.filters = table.filters
        self._table = table
        self._timeout = timeout
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._under_way = threading.BoundedSemaphore(MOST_CALLS)

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add or replace rows."""
        self._called(f"add {len(rows)} rows of {len(rows[0].vector)} dimensions", self._table.put, rows)

    def get(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """The texts of the rows with these ids that exist."""
        return self._called(f"give {len(ids)} rows by their ids", self._table.get, ids)

    def search(
        self, vector: Sequence[float], k: int, where: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[str, Any]]:
        """The ids and scores of the `k` most similar rows that `where` admits."""
        what = f"find {k} rows like a vector of {len(vector)} dimensions"
        return self._called(what, self._table.search, vector, k, where)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids."""
        self._called(f"delete {len(ids)} rows", self._table.delete, ids)

    def _called(self, what: str, function: Callable[..., R], *arguments: Any) -> R:
        if not self._under_way.acquire(blocking=False):
            raise VectorStoreError(
                f"{self.name} has not answered {MOST_CALLS} earlier calls; it was not asked to {what}"
            )
        future, under_way = Future[R](), self._under_way

        def run() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            finally:
                under_way.release()

        threading.Thread(target=run, daemon=True, name="stratagraph-vectors").start()
        try:
            return future.result(self._timeout)
        except TimedOut as error:
            if future.done():
                raise VectorStoreError(f"{self.name} could not {what}: {_described(error)}") from error
            raise VectorStoreError(
                f"{self.name} did not {what} within {self._timeout:g} s; give it more time with "
                "Limits(store_timeout=...), or see whether it is there"
            ) from error
        except StratagraphError:
            raise
        except Exception as error:
            raise VectorStoreError(f"{self.name} could not {what}: {_described(error)}") from error


def _described(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__
