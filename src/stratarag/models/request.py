"""One request for text: budget → limiter → retry → call → ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stratarag.errors import BudgetExceeded, CallFailed, ParseFailed
from stratarag.models.budget import Account, Limits, Sleep
from stratarag.models.flights import Flight
from stratarag.models.ledger import Scope
from stratarag.models.limiter import Limiter
from stratarag.models.retry import translate, with_retries
from stratarag.models.wrap import Chat
from stratarag.records import Usage

T = TypeVar("T")
CountTokens = Callable[[str], int]


def approximate_tokens(text: str) -> int:
    """Tokens by length alone, about four bytes each; for callers without a tokenizer."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


@dataclass
class Asked:
    """A request that the budget admits: what it was estimated at, and what came of it."""

    estimate: Usage
    answer: str | None = None
    pieces: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens in and out, as estimated."""
        return self.estimate.input_tokens + self.estimate.output_tokens


class Requests:
    """Sends requests to one chat model."""

    def __init__(
        self,
        chat: Chat,
        *,
        account: Account,
        limits: Limits,
        limiter: Limiter,
        sleep: Sleep,
        count: CountTokens,
    ) -> None:
        self.chat = chat
        self.account = account
        self.limiter = limiter
        self._limits = limits
        self._sleep = sleep
        self._count = count

    async def ask(
        self, prompt: str, *, schema: type[Any] | None, expected: int, scope: Scope, flight: Flight
    ) -> str:
        """The model's answer to one prompt.

        Raises
        ------
        BudgetExceeded, ModelError, CallFailed
            Before the call; for every call; for this one.
        """
        with self._paid(prompt, expected, scope) as asked:

            async def attempt() -> str:
                await self.limiter.pace(asked.tokens)
                with flight.request():
                    return await self._timed(self.chat.complete(prompt, schema))

            async with self.limiter.slots.one():
                try:
                    asked.answer = await self._persevere(attempt, lambda: not flight.halted)
                except ParseFailed:  # a framework could not read the answer; it is paid for all the same
                    asked.answer = ""
                    raise
        # Whoever got the slot sends its request before this answer is read.
        await asyncio.sleep(0)
        return asked.answer

    async def stream(self, prompt: str, *, expected: int, scope: Scope) -> AsyncGenerator[str, None]:
        """The answer in pieces. Errors are retried until the first piece has arrived, and not after."""
        with self._paid(prompt, expected, scope) as asked:

            async def attempt() -> tuple[AsyncGenerator[str, None], str | None]:
                await self.limiter.pace(asked.tokens)
                source = self.chat.stream(prompt)
                return source, await self._timed(anext(source, None))

            async with self.limiter.slots.one():
                source, piece = await self._persevere(attempt, lambda: True)
                if piece is None:
                    raise CallFailed(f"model {self.chat.name!r} returned an empty answer")
                async with aclosing(source):
                    while piece is not None:
                        asked.pieces.append(piece)
                        yield piece
                        piece = await self._next(source)

    async def _next(self, source: AsyncGenerator[str, None]) -> str | None:
        try:
            return await self._timed(anext(source, None))
        except Exception as error:
            raise translate(error, who=f"model {self.chat.name!r}", attempts=1) from error

    @contextmanager
    def _paid(self, prompt: str, expected: int, scope: Scope) -> Iterator[Asked]:
        """Reserve the estimate, and book what was really used if there was an answer."""
        asked = Asked(Usage(calls=1, input_tokens=self._count(prompt), output_tokens=expected))
        if not self.account.reserve(asked.estimate):
            raise self.exceeded(scope)
        used = Usage()
        try:
            yield asked
        finally:
            if asked.answer is not None or asked.pieces:
                answer = asked.answer if asked.answer is not None else "".join(asked.pieces)
                used = Usage(1, 0, asked.estimate.input_tokens, self._count(answer))
                self.limiter.correct(used.output_tokens - expected)
                scope.ledger.add(scope.stage, used)
            self.account.settle(asked.estimate, used)

    def exceeded(self, scope: Scope) -> BudgetExceeded:
        """What a person needs to know when the budget ends a stage."""
        spent, prices, bound = self.account.spent, self.account.budget.prices, self.account.reached
        cost = "" if prices is None else f", cost {prices.cost(spent.input_tokens, spent.output_tokens):.4g}"
        return BudgetExceeded(
            f"the budget of {bound} is reached at stage {scope.stage!r}, {scope.progress()}; spent: "
            f"{spent.calls:,} calls, {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out{cost}. "
            "What was paid for is kept: the same command resumes here and repeats no call (its budget "
            f"counts anew); a larger Budget({bound.split('=')[0]}=...) raises the limit"
        )

    async def _timed(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._limits.timeout) as deadline:
                return await call
        except TimeoutError as error:
            if deadline.expired():
                raise TimeoutError(f"no answer within {self._limits.timeout:g} s") from error
            raise

    async def _persevere(self, attempt: Callable[[], Awaitable[T]], worthwhile: Callable[[], bool]) -> T:
        attempts = 0

        async def counted() -> T:
            nonlocal attempts
            attempts += 1
            return await attempt()

        try:
            return await with_retries(counted, limits=self._limits, sleep=self._sleep, worthwhile=worthwhile)
        except Exception as error:
            raise translate(error, who=f"model {self.chat.name!r}", attempts=attempts) from error
