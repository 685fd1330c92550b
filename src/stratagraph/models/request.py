"""One request for text: budget → limiter → retry → call → ledger."""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stratagraph.errors import BudgetExceeded, CallFailed, ModelError, ParseFailed
from stratagraph.models.budget import Account, Limits, Scope, Sleep, UsageHistory
from stratagraph.models.concurrency import PendingCall, Services, Slot, within
from stratagraph.models.messages import Completion, Messages, answer_within, schema_text
from stratagraph.models.retry import (
    Outage,
    describe,
    judge,
    nobody_there,
    refuses_schema,
    shows_outage,
    timed_out,
    translate,
    with_retries,
)
from stratagraph.models.task import Task, stage_of
from stratagraph.models.tracing import Recorded, answer_attributes, logger, request_attributes, span
from stratagraph.models.wrap import Chat
from stratagraph.text import CountTokens
from stratagraph.types.records import Usage

T = TypeVar("T")
MESSAGE_TOKENS = 4
"""What chat formats add to each message: its role, and the marks around it."""
ANSWER_TOKENS = 3
"""What they add before the answer."""


@dataclass
class Request:
    """A request that the budget admits, its estimate and its answer."""

    estimate: Usage
    answer: Completion | None = None
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
        services: Services,
        sleep: Sleep,
        count: CountTokens,
    ) -> None:
        self.chat = chat
        self.account = account
        self.limiter = services.limiter
        self._limits = limits
        self._sleep = sleep
        self._count = count
        self._history = UsageHistory()
        self._outage = Outage(1 + limits.retries)
        self._numbers = itertools.count()
        self._reached = False
        self._warned = False
        at = f" at {chat.address}" if chat.address else ""
        self._who = f"model {chat.name!r}{at}"

    def input_tokens(self, prompt: str, schema: type[Any] | None) -> int:
        """Tokens that a request takes in: prompt, schema, and what the chat format adds."""
        sent = self.chat.accepted(schema)
        marks = MESSAGE_TOKENS * len(Messages.of(prompt).by_role) + ANSWER_TOKENS
        return self._count(prompt) + marks + (self._count(schema_text(sent)) if sent else 0)

    def body(self, prompt: str, schema: type[Any] | None) -> dict[str, Any]:
        """What would be sent."""
        return self.chat.body(prompt, self.chat.accepted(schema))

    def does_without(self, error: Exception, schema: type[Any] | None) -> bool:
        """Whether a request was refused for a feature without which it may be sent again."""
        if self._gave_up(error, frozenset()):
            return True
        accepted = self.chat.accepted(schema)
        if accepted is None or not refuses_schema(error):
            return False
        self.chat.do_without(accepted.__qualname__)
        return True

    async def ask(self, task: Task[Any], prompt: str, *, scope: Scope, pending: PendingCall) -> Completion:
        """The model's answer to a prompt.

        Raises `BudgetExceeded`, `ModelError` (for every call) or `CallFailed`.
        """
        pending.rest()
        self._check_outage(task)
        with self._paid(task, prompt, scope) as request:

            async def attempt() -> Completion:
                await self.limiter.pace(request.tokens)
                with pending.request():
                    return await self._send(task, prompt, slot, pending)

            async with self.limiter.slots.one(self._limits.timeout) as slot:
                try:
                    request.answer = await self._with_retries(task, attempt, lambda: not pending.halted)
                except ParseFailed:  # a framework could not read the answer; it is paid for all the same
                    request.answer = Completion("")
                    raise
        # Let the next holder of the slot send its request before this answer is parsed.
        await asyncio.sleep(0)
        return request.answer

    async def _send(self, task: Task[Any], prompt: str, slot: Slot, pending: PendingCall) -> Completion:
        """One request, repeated without what the server refuses (schema, temperature, system message)."""
        accepted, without = self.chat.accepted(task.schema), self.chat.without
        try:
            return await self._send_once(task, prompt, accepted, slot, pending)
        except Exception as error:
            if self._gave_up(error, without):
                return await self._send(task, prompt, slot, pending)
            if accepted is None or not refuses_schema(error):
                raise
            logger.info("%s refuses the schema %s: %s", self._who, accepted.__name__, describe(error))
        answer = await self._send_once(task, prompt, None, slot, pending)
        self.chat.do_without(accepted.__qualname__)  # it was the schema that was refused, and not the text
        return answer

    def _gave_up(self, error: Exception, without: frozenset[str]) -> bool:
        """Whether the same request may be sent again, without a feature that it was refused for."""
        feature = self.chat.feature_refused(error, without)
        if feature is not None:
            logger.info("%s refuses %s; requests go without: %s", self._who, feature, describe(error))
        return feature is not None

    async def _send_once(
        self, task: Task[Any], prompt: str, schema: type[Any] | None, slot: Slot, pending: PendingCall
    ) -> Completion:
        with self._span(task.name) as recorded:
            request = self.chat.complete(prompt, schema, slot)
            try:
                answer: Completion = await within(
                    self._limits.timeout,
                    request,
                    slot,
                    who=self._who,
                    pending=pending,
                    given_up=self._outage.gave_up,
                )
            except Exception as error:
                carried = answer_within(error)
                if carried is None:
                    raise
                answer = carried
            recorded.set(answer_attributes(answer))
        return answer

    def _span(self, task: str, *, nested: bool = True) -> AbstractContextManager[Recorded]:
        """The span of one request."""
        attributes = {
            **request_attributes("chat", self.chat.name, self.chat.address),
            "stratagraph.task": task,
        }
        return span(f"chat {self.chat.name}", attributes, client=True, nested=nested)

    async def stream(self, prompt: str, task: Task[Any], *, scope: Scope) -> AsyncGenerator[str, None]:
        """The answer in pieces. Errors are retried until the first piece has arrived, and not after."""
        with self._paid(task, prompt, scope) as request:

            async def attempt() -> tuple[AsyncGenerator[str, None], str | None]:
                """A stream with its first piece, begun again without what the server refuses."""
                await self.limiter.pace(request.tokens)
                while True:
                    without, source = self.chat.without, self.chat.stream(prompt, slot)
                    try:
                        return source, await following(source)
                    except Exception as error:
                        if not self._gave_up(error, without):
                            raise

            async def following(source: AsyncGenerator[str, None]) -> str | None:
                piece: str | None = await within(
                    self._limits.timeout, anext(source, None), slot, who=self._who, pending=None
                )
                return piece

            async with self.limiter.slots.one(self._limits.timeout) as slot:
                source, piece = await self._with_retries(task, attempt, lambda: True)
                with self._span(task.name, nested=False):
                    async with aclosing(source):
                        while piece is not None:
                            request.pieces.append(piece)
                            yield piece
                            try:
                                piece = await following(source)
                            except Exception as error:
                                raise translate(error, who=self._who, attempts=1) from error

    @contextmanager
    def _paid(self, task: Task[Any], prompt: str, scope: Scope) -> Iterator[Request]:
        """Reserve the request's estimate, and book its usage if there was an answer."""
        counted = self.input_tokens(prompt, task.schema)
        request = Request(self._history.expected(task.name, counted, task.expected_output_tokens))
        limit = self.chat.context_tokens
        if isinstance(limit, int) and request.tokens > limit and not self._warned:
            self._warned = True
            message = (
                f"{self._who} runs with a context of {limit:,} tokens, and a prompt with its answer takes "
                f"about {request.tokens:,}: the server may cut the prompt without a word. Give the model a "
                "larger context (for Ollama: num_ctx), or build with smaller chunks"
            )
            logger.warning(message)
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if not self.account.reserve(request.estimate):
            raise self.exceeded(scope)
        used = Usage()
        try:
            yield request
        finally:
            if request.answer is not None or request.pieces:
                answer = Completion("".join(request.pieces)) if request.answer is None else request.answer
                used = self.reported(answer, counted)
                self._history.add(task.name, counted, used)
                self.limiter.correct(used.input_tokens + used.output_tokens - request.tokens)
                scope.ledger.add(scope.stage, used, self.chat.priced_as)
            self.account.charge(request.estimate, used)

    def reported(self, answer: Completion, counted: int) -> Usage:
        """An answer's usage as the provider reports it, else as counted here."""
        reported_in, reported_out = answer.input_tokens, answer.output_tokens
        return Usage(
            1,
            0,
            counted if reported_in is None else reported_in,
            self._count(answer) if reported_out is None else reported_out,
        )

    def exceeded(self, scope: Scope) -> BudgetExceeded:
        """The error when the budget ends a stage."""
        spent, prices, bound = self.account.spent, self.account.budget.prices, self.account.reached
        cost = "" if prices is None else f", cost {prices.cost(spent.input_tokens, spent.output_tokens):.4g}"
        return BudgetExceeded(
            f"the budget of {bound} is reached at stage {scope.stage!r}, {scope.progress()}; spent: "
            f"{spent.calls:,} calls, {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out{cost}. "
            "In an index folder or a cache, what was paid for is kept: the same command resumes here and "
            "repeats no call (its budget counts anew); a larger "
            f"Budget({bound.split('=')[0]}=...) raises the limit"
        )

    def _check_outage(self, task: Task[Any]) -> None:
        """Send nothing to a server that is down: a build ends, an answer goes on without this call."""
        patient = _is_patient(task)
        if not self._outage.over(patient=patient):
            return
        kind = ModelError if patient else CallFailed
        slow = f" within timeout={self._limits.timeout:g} s" if self._outage.too_slow else ""
        hint = " Give it more time with Limits(timeout=...)." if slow else ""
        raise kind(
            f"{self._who} does not answer{slow}: the last {self._outage.length} requests failed, of several "
            f"calls.{hint} Once it is back, the same command goes on with what an index folder or a cache "
            "kept"
        )

    async def _with_retries(
        self, task: Task[Any], attempt: Callable[[], Awaitable[T]], worthwhile: Callable[[], bool]
    ) -> T:
        attempts, call, patient = 0, next(self._numbers), _is_patient(task)

        async def counted() -> T:
            nonlocal attempts
            self._check_outage(task)
            attempts += 1
            answer = await attempt()
            self._outage.answered()
            self._reached = True
            return answer

        def before_pause(error: Exception, seconds: float) -> None:
            logger.info("%s: attempt %d: %s (%s)", self._who, attempts, describe(error), judge(error).value)
            if seconds:
                self.limiter.pause(seconds)

        def again(error: Exception) -> bool:
            if shows_outage(error):
                self._outage.failed(call)
            down = self._outage.over(patient=patient)
            return worthwhile() and not down and (self._reached or not nobody_there(error))

        try:
            return await with_retries(
                counted, limits=self._limits, sleep=self._sleep, worthwhile=again, before_pause=before_pause
            )
        except Exception as error:
            if timed_out(error):
                self._outage.gave_up()
            raise translate(error, who=self._who, attempts=attempts, reached=self._reached) from error


def _is_patient(task: Task[Any]) -> bool:
    """Whether the call is part of a build, not of an answer."""
    return stage_of(task.name) != "answer"
