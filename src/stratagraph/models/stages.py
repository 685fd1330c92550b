"""The stages of an operation: usage, seconds, progress and failures, and pure functions on the mapper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from stratagraph.errors import CallFailed, ParseFailed
from stratagraph.mapping import growing, in_order
from stratagraph.models.budget import Ledger, Scope
from stratagraph.models.retry import too_many
from stratagraph.models.task import CallItem
from stratagraph.models.tracing import logger, span
from stratagraph.system.threads import in_thread, stoppable
from stratagraph.types.protocols import Mapper, Progress, SpendingJournal
from stratagraph.types.records import Failure, Usage

R = TypeVar("R")
S = TypeVar("S")
DocumentsOf = Callable[[Sequence[str]], tuple[str, ...]]
"""Names the documents of some chunks."""
_FEW = 2  # failures that never end an operation: in a small corpus any share is one or two units
_TRACED = ("calls", "cached_calls", "input_tokens", "output_tokens", "embedded_texts")
_scope: ContextVar[Scope | None] = ContextVar("stratagraph_stage", default=None)


class Stages:
    """The part of a gate that knows which stage is under way, and what it cost and failed at."""

    def __init__(
        self, progress: Progress | None, mapper: Mapper, spending: SpendingJournal | None, max_failures: float
    ) -> None:
        if not 0 <= max_failures <= 1:
            raise ValueError(f"max_failures is a share from 0 to 1, got {max_failures!r}")
        self.documents_of: DocumentsOf = lambda chunks: ()
        self._progress = progress
        self._mapper = mapper
        self._spending = spending
        self._max_failures = max_failures
        self._begin()

    def _begin(self) -> None:
        """Reset costs and failures."""
        self.ledger = Ledger(self._spending)
        self.failures: list[Failure] = []
        self.prompts_used: dict[str, str] = {}
        self._units = 0
        self._needed: list[Failure] = []  # those of units that the operation cannot do without
        self._texts = 0  # to embed
        self._unembedded: list[Failure] = []
        self._answered = False

    async def compute(
        self, function: Callable[[list[S]], list[R]], items: Iterable[S], *, batch: int
    ) -> list[R]:
        """Apply a pure function to items in batches of at least `batch`, on the mapper; results in order.

        The open stage advances by each item, up to its total. Raises `MapperError` if workers keep dying over
        a batch, or cannot be given their work.
        """
        scope = _scope.get()

        def collected(batches: Iterable[list[R]]) -> list[R]:
            results: list[R] = []
            for each in batches:
                results += each
                if scope is not None and scope.total is not None:
                    self._advance(scope, min(len(each), scope.total - scope.done))
            return results

        with stoppable() as stop:
            batches = growing(items, batch, self._mapper.workers)
            return await in_thread(collected, in_order(self._mapper, function, batches, stop))

    @contextmanager
    def underway(self, name: str) -> Iterator[None]:
        """Show that work without items is under way; its seconds are booked by the caller."""
        if self._progress is not None:
            self._progress.start(name, None)
        try:
            yield
        finally:
            if self._progress is not None:
                self._progress.finish(name)

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Scope]:
        """Book calls, seconds and progress inside the block under this stage."""
        scope = Scope(self.ledger, name, total)
        self.ledger.add(name, Usage())
        if self._progress is not None:
            self._progress.start(name, total)
        token = _scope.set(scope)
        started = time.perf_counter()
        logger.info("%s: begins%s", name, "" if total is None else f" ({total:,} units)")
        before = self.ledger.stages[name]
        try:
            with span(f"stratagraph stage {name}", {"stratagraph.units": total}) as recorded:
                try:
                    yield scope
                finally:
                    used = self.ledger.stages[name] - before
                    recorded.set({f"stratagraph.{each}": getattr(used, each) for each in _TRACED})
        finally:
            _scope.reset(token)
            seconds = time.perf_counter() - started
            self.ledger.add(name, Usage(seconds=seconds))
            logger.info("%s: ends after %.1f s", name, seconds)
            if self._progress is not None:
                self._progress.finish(name)

    @contextmanager
    def _within(self, name: str, total: int, *, any_name: bool) -> Iterator[Scope]:
        """The open stage if it is this gate's and may be used, else a new one."""
        scope = _scope.get()
        if scope is not None and scope.ledger is self.ledger and (any_name or scope.stage == name):
            yield scope
        else:
            with self.stage(name, total) as scope:
                yield scope

    @contextmanager
    def independently(self) -> Iterator[None]:
        """Run a part on which nothing else depends; see `batching.BatchGate`."""
        yield

    def require_answers(self) -> None:
        """Stop the operation if answers are missing, as in `batching.BatchGate`."""

    def advance(self, stage: str, count: int = 1) -> None:
        """Report progress of a stage without model calls."""
        if self._progress is not None:
            self._progress.advance(stage, count)

    def _advance(self, scope: Scope, count: int) -> None:
        scope.done += count
        if count:
            self.advance(scope.stage, count)

    def _scope_for(self, name: str) -> Scope:
        scope = _scope.get()
        return scope if scope is not None and scope.ledger is self.ledger else Scope(self.ledger, name, None)

    def _note_failure(self, scope: Scope, item: CallItem, error: CallFailed, *, required: bool) -> Failure:
        # Names and answers that cannot be read quote texts, which are not logged by default.
        why = "its answer cannot be read" if isinstance(error, ParseFailed) else str(error)
        failure = self._list(scope.stage, item.item, str(error), item.sources, why)
        if required:
            self._count(failure, self._needed, self._units)
        return failure

    def _list(self, stage: str, item: str, reason: str, sources: Sequence[str], why: str) -> Failure:
        """A failure, added to `failures` and logged with the reason `why`."""
        failure = Failure(stage, item, reason, tuple(sources), self.documents_of(sources))
        logger.warning("%s: a unit failed (%s): %s", stage, failure.place or "no document", why)
        logger.debug("%s: %s failed: %s", stage, item, reason)
        self.failures.append(failure)
        return failure

    def _count(self, failure: Failure, failures: list[Failure], units: int) -> None:
        """Add to the failures among units; `TooManyFailures` if these are more than may fail."""
        failures.append(failure)
        if len(failures) > max(_FEW, self._max_failures * units):
            raise too_many(failures, units, self._max_failures)
