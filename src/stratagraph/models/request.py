"""Requests to one chat model of a caller: budget → limiter → retry → call → ledger.

In the caller's event loop the asynchronous method is preferred. Under the synchronous API the blocking one
is, in a thread of the services: an asynchronous client belongs to the loop that first used it.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from stratagraph import _sync
from stratagraph.errors import BudgetExceeded, CallFailed, ModelError, ParseFailed
from stratagraph.models.budget import Account, Limits, Scope, Sleep, UsageHistory
from stratagraph.models.cleaning import Cleaner, template_thinks
from stratagraph.models.concurrency import PendingCall, Services, Slot, within
from stratagraph.models.identity import identity_of_model, model_name, server_address
from stratagraph.models.messages import Completion, Messages, answer_within, content_text, schema_text
from stratagraph.models.retry import (
    Outage,
    describe,
    judge,
    nobody_there,
    refuses_schema,
    refuses_system,
    refuses_temperature,
    shows_outage,
    timed_out,
    translate,
    with_retries,
)
from stratagraph.models.task import Task, stage_of
from stratagraph.models.tracing import Recorded, logger, request_attributes, span
from stratagraph.system.locks import Lock
from stratagraph.text import CountTokens
from stratagraph.types.records import Usage

T = TypeVar("T")
MESSAGE_TOKENS = 4
"""What chat formats add to each message: its role, and the marks around it."""
ANSWER_TOKENS = 3
"""What they add before the answer."""
_END = object()
_COLD, _SYSTEM = "temperature 0", "system messages"
_REFUSALS = {_COLD: refuses_temperature, _SYSTEM: refuses_system}
_PROVIDERS = """
    api.openai.com api.anthropic.com api.mistral.ai api.deepseek.com api.groq.com api.x.ai api.cohere.com
    generativelanguage.googleapis.com
"""
"""Servers at which a model costs what the table of prices says."""


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
    """Sends requests to one chat model; TypeError if it has neither `complete` nor `acomplete`."""

    def __init__(
        self,
        model: object,
        *,
        account: Account,
        limits: Limits,
        services: Services,
        sleep: Sleep,
        count: CountTokens,
    ) -> None:
        self.name = model_name(model)
        self.identity = identity_of_model(model)
        self.account = account
        self.limiter = services.limiter
        self._model = model
        self._address = server_address(model)
        self._services = services
        self._limits = limits
        self._sleep = sleep
        self._count = count
        self._history = UsageHistory()
        self._outage = Outage(1 + limits.retries)
        self._lock = Lock()
        self._numbers = itertools.count()
        self._reached = False
        self._warned = False
        self._who = f"model {self.name!r}{f' at {self._address}' if self._address else ''}"
        self._async, self._blocking = (getattr(model, name, None) for name in ("acomplete", "complete"))
        chosen = self._async or self._blocking
        if chosen is None:
            raise TypeError(
                f"llm of type {type(model).__qualname__} has neither complete(prompt) nor acomplete(prompt)"
            )
        try:
            parameters = [*inspect.signature(chosen).parameters.values()]
        except (TypeError, ValueError):
            parameters = []
        self._with_schema = any(p.name == "schema" or p.kind is p.VAR_KEYWORD for p in parameters)
        if _COLD in self.without:  # as another gate learnt from the same server
            self._drop_temperature()

    @property
    def priced_as(self) -> str:
        """The model's name for the table of prices, marked if another server runs it."""
        own = self._address and urlsplit(self._address).hostname not in _PROVIDERS.split()
        return f"{self.name} (own server)" if own else self.name

    @property
    def without(self) -> frozenset[str]:
        """The names of the schemas and features that the model's server refused."""
        known = self._services.refused.copy()
        return frozenset(what for name, at, what in known if (name, at) == (self.name, self._address))

    def do_without(self, refused: str) -> bool:
        """Send requests without a schema or feature; False for a temperature that the user chose."""
        with self._lock:
            if refused == _COLD and _COLD not in self.without and not self._drop_temperature():
                return False
            self._services.refused.add((self.name, self._address, refused))
            return True

    def _drop_temperature(self) -> bool:
        drop = getattr(self._model, "drop_temperature", None)
        return drop is not None and drop()

    def _accepted(self, schema: type[Any] | None) -> type[Any] | None:
        """The schema, unless the model takes none or has refused it."""
        if schema is None or not self._with_schema or schema.__qualname__ in self.without:
            return None
        takes = getattr(self._model, "takes_schema", None)
        return schema if takes is None or takes(schema) else None

    def _goes_without(self, error: Exception, without: frozenset[str] = frozenset()) -> bool:
        """Whether the same request may be sent again, without a feature that it was refused for.

        `without` holds what that request was sent without: other requests may have been refused since.
        """
        for feature, refuses in _REFUSALS.items():
            if feature not in without and refuses(error) and self.do_without(feature):
                logger.info("%s refuses %s; requests go without: %s", self._who, feature, describe(error))
                return True
        return False

    def may_repeat(self, error: Exception, schema: type[Any] | None) -> bool:
        """Whether a request in a batch was refused for something without which it may be sent again."""
        if self._goes_without(error):
            return True
        accepted = self._accepted(schema)
        if accepted is None or not refuses_schema(error):
            return False
        return self.do_without(accepted.__qualname__)

    def _sent(self, prompt: str) -> Messages:
        """A prompt as this model takes it."""
        messages = Messages.of(prompt)
        return messages.joined() if _SYSTEM in self.without else messages

    def body(self, prompt: str, schema: type[Any] | None) -> dict[str, Any]:
        """The body of a request in OpenAI's protocol; TypeError for a model that speaks another."""
        make = getattr(self._model, "body", None)
        if make is None:
            raise TypeError(
                f"batch files hold requests in OpenAI's protocol, and llm is {type(self._model).__name__} "
                f"({self.name!r}): give a name, as 'openai:gpt-4o-mini' or 'openai:NAME@http://127.0.0.1:8000/v1'"
            )
        body: dict[str, Any] = make(self._sent(prompt), self._accepted(schema))
        return body

    def input_tokens(self, prompt: str, schema: type[Any] | None) -> int:
        """Tokens that a request takes in: prompt, schema, and what the chat format adds."""
        sent = self._accepted(schema)
        marks = MESSAGE_TOKENS * len(Messages.of(prompt).by_role) + ANSWER_TOKENS
        return self._count(prompt) + marks + (self._count(schema_text(sent)) if sent else 0)

    def reported(self, answer: Completion, counted: int) -> Usage:
        """An answer's usage as the provider reports it, else as counted here."""
        taken, written = answer.input_tokens, answer.output_tokens
        return Usage(
            1, 0, counted if taken is None else taken, self._count(answer) if written is None else written
        )

    @contextmanager
    def _paid(self, task: Task[Any], prompt: str, scope: Scope) -> Iterator[Request]:
        """Reserve the request's estimate, and book its usage if there was an answer."""
        counted = self.input_tokens(prompt, task.schema)
        request = Request(self._history.expected(task.name, counted, task.expected_output_tokens))
        limit = getattr(self._model, "context_tokens", None)
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
                scope.ledger.add(scope.stage, used, self.priced_as)
            self.account.charge(request.estimate, used)

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
        schema, refused = self._accepted(task.schema), None
        while True:
            without = self.without
            try:
                with self._span(task.name) as recorded:
                    try:
                        answer: Completion = await within(
                            self._limits.timeout,
                            self._complete(prompt, schema, slot),
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
                    reason = answer.finish_reason
                    recorded.set(
                        {
                            "gen_ai.usage.input_tokens": answer.input_tokens,
                            "gen_ai.usage.output_tokens": answer.output_tokens,
                            "gen_ai.response.finish_reasons": [reason] if reason else None,
                        }
                    )
                break
            except Exception as error:
                if self._goes_without(error, without):
                    continue
                if schema is None or not refuses_schema(error):
                    raise
                logger.info("%s refuses the schema %s: %s", self._who, schema.__name__, describe(error))
                refused, schema = schema, None
        if refused is not None:  # it was the schema that was refused, and not the text
            self.do_without(refused.__qualname__)
        return answer

    async def _complete(self, prompt: str, schema: type[Any] | None, slot: Slot) -> Completion:
        """The model's answer. `schema` is passed on only to models that take one."""
        keywords = {"schema": schema} if self._with_schema else {}
        prompt = self._sent(prompt)
        if self._blocking is not None and (self._async is None or _sync.in_background()):
            answer = await self._services.in_thread(slot, self._blocking, prompt, **keywords)
        else:
            try:
                answer = await self._async(prompt, **keywords)  # type: ignore[misc]  # one of the two is there
            except SystemExit as error:
                raise ModelError(f"the model raised SystemExit: {error}") from error
        answer = answer if isinstance(answer, Completion) else Completion(_text(answer, self.name))
        cleaner = Cleaner.of(answer)
        if cleaner.unannounced or schema is None:  # with a schema, servers may let a model think nothing
            self.learn(cleaner)
        return answer

    @property
    def thinks(self) -> bool:
        """Whether only the end of a thought is marked in the model's answers, as seen or by its name."""
        return self._services.thinks.get((self.name, self._address), template_thinks(self.name))

    def learn(self, cleaner: Cleaner) -> None:
        """Remember whether an answer began with a thought that no mark announced."""
        if cleaner.unannounced:
            self._services.thinks[self.name, self._address] = True
        else:
            self._services.thinks.setdefault((self.name, self._address), False)

    def _span(self, task: str, *, nested: bool = True) -> AbstractContextManager[Recorded]:
        attributes = {**request_attributes("chat", self.name, self._address), "stratagraph.task": task}
        return span(f"chat {self.name}", attributes, client=True, nested=nested)

    async def stream(self, prompt: str, task: Task[Any], *, scope: Scope) -> AsyncGenerator[str, None]:
        """The answer in pieces. Errors are retried until the first piece has arrived, and not after."""
        with self._paid(task, prompt, scope) as request:

            async def attempt() -> tuple[AsyncGenerator[str, None], str | None]:
                """A stream with its first piece, begun again without what the server refuses."""
                await self.limiter.pace(request.tokens)
                while True:
                    without, source = self.without, self._pieces(prompt, slot)
                    try:
                        return source, await following(source)
                    except Exception as error:
                        if not self._goes_without(error, without):
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

    async def _pieces(self, prompt: str, slot: Slot) -> AsyncGenerator[str, None]:
        """The answer in pieces; in one piece where the model cannot stream."""
        prompt = self._sent(prompt)
        astream, stream = (getattr(self._model, name, None) for name in ("astream", "stream"))
        if stream is not None and (astream is None or _sync.in_background()):
            pieces = iter(await self._services.in_thread(slot, stream, prompt))
            while (piece := await self._services.in_thread(slot, next, pieces, _END)) is not _END:
                yield _text(piece, self.name)
        elif astream is not None:
            source = astream(prompt)
            async for piece in await source if inspect.isawaitable(source) else source:
                yield _text(piece, self.name)
        else:
            answer = await self._complete(prompt, None, slot)
            yield answer if answer.finish else str(answer)

    def _check_outage(self, task: Task[Any]) -> None:
        """Send nothing to a server that is down: a build ends, an answer goes on without this call."""
        patient = stage_of(task.name) != "answer"
        if not self._outage.over(patient=patient):
            return
        slow = f" within timeout={self._limits.timeout:g} s" if self._outage.too_slow else ""
        hint = " Give it more time with Limits(timeout=...)." if slow else ""
        raise (ModelError if patient else CallFailed)(
            f"{self._who} does not answer{slow}: the last {self._outage.length} requests failed, of several "
            f"calls.{hint} Once it is back, the same command goes on with what an index folder or a cache "
            "kept"
        )

    async def _with_retries(
        self, task: Task[Any], attempt: Callable[[], Awaitable[T]], worthwhile: Callable[[], bool]
    ) -> T:
        attempts, call = 0, next(self._numbers)

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
            down = self._outage.over(patient=stage_of(task.name) != "answer")
            return worthwhile() and not down and (self._reached or not nobody_there(error))

        try:
            return await with_retries(
                counted, limits=self._limits, sleep=self._sleep, worthwhile=again, before_pause=before_pause
            )
        except Exception as error:
            if timed_out(error):
                self._outage.gave_up()
            raise translate(error, who=self._who, attempts=attempts, reached=self._reached) from error


def _text(answer: object, name: str) -> str:
    """A string, or the text of a framework's response object."""
    for value in (answer, getattr(answer, "text", None), getattr(answer, "content", None)):
        if isinstance(value, Completion):
            return value
        if isinstance(value, str | list):  # a lone surrogate cannot be stored
            return content_text(value).encode("utf-8", "replace").decode("utf-8")
    hint = ""
    if inspect.iscoroutine(answer):
        answer.close()
        hint = "; an asynchronous model has `async def acomplete`, not `complete`"
    raise CallFailed(f"model {name!r} returned {type(answer).__qualname__} where a string is expected{hint}")
