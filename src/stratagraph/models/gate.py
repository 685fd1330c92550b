"""The gate: every model call goes through it, in one order.

cache → budget → limiter → retry → call → parse (and one repair) → ledger
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from stratagraph._sync import aside
from stratagraph.errors import BudgetExceeded, CallFailed, EmbedderError, ModelError, ParseFailed
from stratagraph.mapping import as_mapper
from stratagraph.models.budget import Account, Budget, Ledger, Limits, Scope, Sleep, cost_of
from stratagraph.models.cleaning import Cleaner
from stratagraph.models.concurrency import PendingCall, PendingCalls, Services, run_workers
from stratagraph.models.embedding import GateEmbedder, TextWithParts, excerpt
from stratagraph.models.messages import BROKEN_OFF, Completion, Messages
from stratagraph.models.request import Requests
from stratagraph.models.retry import too_many
from stratagraph.models.stages import Stages
from stratagraph.models.structured import is_refusal, lacks_end, plain_text
from stratagraph.models.task import Call, CallItem, Prompt, Task, models_by_stage, repair_request, stage_of
from stratagraph.models.tracing import logger
from stratagraph.models.wrap import Chat
from stratagraph.text import CountTokens
from stratagraph.text.tokens import TokenEstimate
from stratagraph.types.protocols import (
    CallCache,
    Mapper,
    Progress,
    Spans,
    SpendingJournal,
    VectorJournal,
    Vectors,
)
from stratagraph.types.records import Failure, Usage

__all__ = ["Call", "CallItem", "Gate", "ModelGate", "Prompt", "Task"]

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
DocumentsOf = Callable[[Sequence[str]], tuple[str, ...]]
"""Names the documents of some chunks."""
_ESTIMATED_TOKENS = TokenEstimate()
_FEW = 2  # failures that never end an operation: in a small corpus any share is one or two units


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """An answer, its value where it has one, and what is wrong with it."""

    answer: Completion
    value: T | None
    fault: ParseFailed | None


class ModelGate(Stages):
    """The gate to real models, for several threads and event loops.

    Parameters
    ----------
    llm, embedder
        A chat model or `task.StageModels`, and an embedder; either may be None.
    cache, vectors, spending
        Keep answers, vectors until they are published, and what models were paid for.
    budget
        What may be spent; several gates may share an account.
    max_failures
        The share of a stage's units that may fail before the stage does.
    dimension
        Dimension of existing vectors; new ones must have it too.
    prompts
        Templates by the names of the prompts that they replace.
    services
        Slots, rates and threads that all gates of an index share.
    mapper
        Runs pure functions, and perhaps the embedder; None: a thread here.
    sleep
        Replaced in tests.

    Attributes
    ----------
    count_tokens
        Counts the tokens in a text; can be pickled.
    """

    def __init__(
        self,
        llm: object | None,
        embedder: object | None,
        *,
        cache: CallCache | None = None,
        vectors: VectorJournal | None = None,
        spending: SpendingJournal | None = None,
        budget: Budget | Account | None = None,
        limits: Limits | None = None,
        progress: Progress | None = None,
        count_tokens: CountTokens = _ESTIMATED_TOKENS,
        max_failures: float = 0.2,
        dimension: int | None = None,
        prompts: Mapping[str, str] | None = None,
        services: Services | None = None,
        mapper: Mapper | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not 0 <= max_failures <= 1:
            raise ValueError(f"max_failures is a share from 0 to 1, got {max_failures!r}")
        super().__init__(progress, as_mapper(mapper))
        self._spending = spending
        self._begin()
        self.documents_of: DocumentsOf = lambda chunks: ()
        self.limits = limits or Limits()
        self._cache = cache
        self.count_tokens = count_tokens
        self._max_failures = max_failures
        self._templates = dict(prompts or {})
        self._pending = PendingCalls()
        services = services or Services(self.limits, sleep=sleep)
        account = budget if isinstance(budget, Account) else Account(budget or Budget())
        self._prices = account.budget.prices
        by_stage = models_by_stage(llm)
        requests = {
            id(model): Requests(
                Chat(model, services),
                account=account,
                limits=self.limits,
                services=services,
                sleep=sleep,
                count=count_tokens,
            )
            for model in {id(each): each for each in by_stage.values()}.values()
        }
        self._requests = {stage: requests[id(model)] for stage, model in by_stage.items()}
        self._embedder = (
            None
            if embedder is None
            else GateEmbedder(
                embedder,
                services=services,
                mapper=self._mapper,
                journal=vectors,
                limits=self.limits,
                sleep=sleep,
                pending=self._pending,
                dimension=dimension,
            )
        )

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

    def apart(self) -> Self:
        """A gate to the same services, cache and budget, with its own costs and failures."""
        other = copy(self)
        other._begin()
        return other

    @property
    def has_llm(self) -> bool:
        """Whether there is a language model."""
        return bool(self._requests)

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors; None before the first embedding."""
        return None if self._embedder is None else self._embedder.dimension

    @property
    def cost(self) -> float | None:
        """The cost of all calls so far; None if a price is unknown."""
        return cost_of(self.ledger.models, self._prices)

    @property
    def zero_vectors(self) -> list[str]:
        """The texts whose vectors are zero: stage, index and excerpt."""
        return [] if self._embedder is None else self._embedder.zero_vectors

    async def call(
        self, task: Task[T], values: Mapping[str, str], *, item: str, sources: Sequence[str] = ()
    ) -> T:
        """One call: the parsed answer, from the cache where it is there.

        Raises
        ------
        CallFailed
            This call failed after retries; as `ParseFailed`, if its answers could not be read.
        ModelError
            There is no model, or it refuses every call.
        BudgetExceeded
            The call would go beyond the budget.
        """
        try:
            return await self._call(task, CallItem(values, item, sources))
        except CallFailed as error:
            kind = ParseFailed if isinstance(error, ParseFailed) else CallFailed
            raise kind(f"{task.name} of {item!r}: {error}", finish=error.finish) from error

    async def map(
        self, task: Task[T], items: Sequence[CallItem], *, required: bool = True, final: bool = True
    ) -> list[T | None]:
        """A call per item, results in order; None for those that failed, which are in `failures`.

        With `required=False` no failure ends the operation. With `final=False` the caller asks for failed
        units in another way, so they are neither listed nor counted.

        Raises
        ------
        TooManyFailures
            When more than `max_failures` of the units, and more than two, failed; or the model never
            answered.
        ModelError, BudgetExceeded
            No further call begins; those under way are waited for and kept.
        """
        results: list[T | None] = [None] * len(items)
        failed: list[Failure] = []
        over: list[BudgetExceeded] = []
        waiting = iter(range(len(items)))
        self._units += sum(item.units for item in items) if required and final else 0
        with self._within(task.name, len(items), any_name=True) as scope:

            async def worker() -> None:
                for index in waiting:
                    try:
                        value = await self._call(task, items[index])
                        results[index] = value
                        self._units += 0 if final else items[index].units
                        self._advance(scope, items[index].units)
                    except CallFailed as error:
                        if final:
                            failed.append(self._note_failure(scope, items[index], error, required=required))
                            self._advance(scope, items[index].units)
                    except BudgetExceeded as error:
                        over.append(error)
                        return
                    if over:
                        return

            # Twice as many workers as slots: while half of them wait for the model, the others
            # prepare prompts and read answers, so that a slot never waits for us.
            await run_workers(
                worker,
                min(len(items), 2 * self.limits.concurrency),
                pending=self._pending,
                patience=max(self.limits.timeout, self.limits.grace),
                grace=self.limits.grace,
            )
            if failed and required and not self._answered and self._max_failures < 1:
                raise too_many(self._needed, self._units, self._max_failures)
            if over:  # a new error, whose counts include the calls that have ended meanwhile
                raise self._sender(task.name).exceeded(scope) from over[0]
        return results

    def _note_failure(self, scope: Scope, item: CallItem, error: CallFailed, *, required: bool) -> Failure:
        # Names and answers that cannot be read quote texts, which are not logged by default.
        why = "its answer cannot be read" if isinstance(error, ParseFailed) else str(error)
        failure = self._listed(scope.stage, item.item, str(error), item.sources, why)
        if required:
            self._count(failure, self._needed, self._units)
        return failure

    def _listed(self, stage: str, item: str, reason: str, sources: Sequence[str], why: str) -> Failure:
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

    async def _call(self, task: Task[T], item: CallItem) -> T:
        identity = self._sender(task.name).chat.identity
        call = Call.of(replace(task, prompt=self._prompt(task.prompt)), item, identity)
        cached, value = self._cached(call)
        if not cached:
            (answer, value), joined = await self._pending.share(
                call.key, lambda pending: self._ask_model(pending, call)
            )
            if joined:  # a value of its own from an answer that another caller got
                value = self._parsed_again(call, answer)
        if cached or joined:
            scope = self._scope_for(task.name)
            scope.ledger.add(scope.stage, Usage(cached_calls=1))
        result: T = value
        return result

    def _prompt(self, prompt: Prompt) -> Prompt:
        used = prompt.replaced_by(self._templates)
        self.prompts_used.setdefault(used.name, used.fingerprint)
        return used

    def _sender(self, task: str) -> Requests:
        if not self._requests:
            raise ModelError(f"{task!r} needs a language model, and there is none: pass llm=...")
        return self._requests[stage_of(task)]

    def _cached(self, call: Call[T]) -> tuple[bool, Any]:
        """Whether the cache has a readable answer, and its value."""
        answer = None if self._cache is None else self._cache.get(call.key)
        if answer is None:
            return False, None
        try:
            return True, call.task.parse(answer)
        except ParseFailed:  # the task now reads answers differently
            return False, None

    def _parsed_again(self, call: Call[T], answer: str) -> T:
        value: T = call.task.parse(answer)
        return value

    async def _ask_model(self, pending: PendingCall, call: Call[T]) -> tuple[str, T]:
        """Ask the model, and once more if the answer is unreadable or cut off; keep a usable one.

        If the second answer is no better, a readable part is used where the task allows it. It is listed and
        not kept.
        """
        scope = self._scope_for(call.task.name)
        replies: list[Reply[T]] = []
        prompt = call.prompt
        for _ in range(2):
            try:
                answer = await self._request(call, prompt, scope, pending)
                self._answered = True
                reply = self._judged(call, answer)
            except ParseFailed as fault:  # a framework read the answer itself, and could not
                self._answered = True
                reply = Reply(Completion(""), None, fault)
            if reply.fault is None:
                return self._keep(call, reply)
            if pending.halted:
                raise reply.fault
            replies.append(reply)
            if reply.answer.finish == "filtered":
                break
            if len(replies) == 1:
                logger.info("%s: asking again, since %s", call.task.name, reply.fault)
                prompt = repair_request(call.prompt, reply.answer, str(reply.fault))
        first, second = replies[0], replies[-1]
        for reply in (second, first):
            if reply.value is not None:
                if not call.task.answers_question:  # an answer says how it ended
                    self._note_incomplete(call, scope, reply.fault)
                return reply.answer, reply.value
        assert second.fault is not None
        reason = f"{second.fault} (in the repaired answer; in the first: {first.fault})"
        raise ParseFailed(reason, finish=second.fault.finish) from second.fault

    async def _request(
        self, call: Call[T], prompt: Messages, scope: Scope, pending: PendingCall
    ) -> Completion:
        """One answer; `prompt` is the call's own, or the repair request."""
        return await self._sender(call.task.name).ask(call.task, prompt, scope=scope, pending=pending)

    def _note_incomplete(self, call: Call[T], scope: Scope, fault: object) -> None:
        """List an answer of which only a part is used. It does not count as failed."""
        logger.warning("%s: an incomplete answer is used: %s", call.task.name, fault)
        reason = f"the answer is incomplete, and what can be read of it is used: {fault}"
        documents = self.documents_of(call.sources)
        self.failures.append(Failure(scope.stage, call.item, reason, tuple(call.sources), documents))

    def _judged(self, call: Call[T], answer: Completion) -> Reply[T]:
        """An answer with its value and what is wrong with it."""
        finish, filtered = answer.finish, "the provider's content filter stopped the answer"
        if finish == "filtered" and not call.task.answers_question:
            raise CallFailed(filtered, finish=finish)
        if finish == "refused":
            return Reply(answer, None, ParseFailed(f"the model declines: {answer[:120]!r}", finish=finish))
        try:
            value = call.task.parse(answer)
        except ParseFailed as fault:
            fault.finish = fault.finish or finish
            return Reply(answer, None, fault)
        if finish == "filtered":
            cut = filtered
        elif finish == "length":
            cut = "it was cut off at the model's limit of tokens; write less, and come to the end"
        elif call.task.schema is not None and lacks_end(answer):
            cut = "its JSON stops before the end; write less, and close every bracket"
        else:
            return Reply(answer, value, None)
        return Reply(answer, value if call.task.usable_in_part else None, ParseFailed(cut))

    def _keep(self, call: Call[T], reply: Reply[T]) -> tuple[str, T]:
        if self._cache is not None:
            name, model = call.task.name, self._sender(call.task.name).chat.name
            self._cache.put(call.key, str(reply.answer), task=name, model=model, sources=call.sources)
        value: T = reply.value  # type: ignore[assignment]  # there is no fault
        return reply.answer, value

    async def stream(
        self, prompt: Prompt, values: Mapping[str, str], *, stage: str, expected_output_tokens: int = 300
    ) -> AsyncGenerator[str]:
        """An answer in pieces, as the model writes it, without thoughts; counted, not cached.

        The last item is the whole answer, a `Completion`. If the model fails once a piece is out, the answer
        is broken off there, and a warning tells why.

        Raises
        ------
        CallFailed
            Before the first piece: the model failed, declined, or wrote nothing.
        ModelError
            There is no model, or it refuses every call.
        BudgetExceeded
            The call would go beyond the budget.
        """
        task = Task(
            stage, prompt, plain_text, lambda values: "", expected_output_tokens=expected_output_tokens
        )
        requests, text = self._sender(stage), self._prompt(prompt).render(values)
        cleaner, held, begun, reason, tells = Cleaner(thinking=requests.chat.thinks), "", False, "", False
        started = time.perf_counter()
        try:
            async with aclosing(requests.stream(text, task, scope=Scope(self.ledger, stage, None))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Completion):
                        reason, tells = piece.finish_reason or reason, True
                    held += cleaner.feed(piece)
                    if held and (begun or not is_refusal(held, whole=False)):
                        begun = True
                        yield held
                        held = ""
        except (CallFailed, ModelError) as error:
            if not begun:
                raise
            warnings.warn(f"the answer is broken off: {error}", RuntimeWarning, stacklevel=2)
            reason = BROKEN_OFF
        finally:
            self.ledger.add(stage, Usage(seconds=time.perf_counter() - started))
        reason = reason or (BROKEN_OFF if tells else "")
        finish = Completion("", finish_reason=reason).finish
        held += cleaner.close(cut=finish == "length")
        requests.chat.learn(cleaner)
        if not begun and (finish == "refused" or is_refusal(cleaner.text)):
            raise ParseFailed(f"the model declines: {cleaner.text[:120]!r}", finish="refused")
        if not cleaner.text:
            raise ParseFailed("the model returned an empty answer", finish=finish)
        if held:
            yield held
        yield Completion(cleaner.text, finish_reason=reason)

    async def embed(
        self, stage: str, texts: Sequence[str], sources: Sequence[Sequence[str]] | None = None
    ) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimension), rounded to float16 as they are stored.

        A text that the embedder refuses, or whose vector is not finite, has a zero vector and is listed in
        `failures`, with the documents of its chunks, which are in `sources`.

        Raises
        ------
        EmbedderError, ModelError
            The embedder fails for reasons that concern no single text, or no text has got a vector.
        TooManyFailures
            When more than `max_failures` of the texts, and more than two, have no usable vector.
        """
        vectors, _ = await self.embed_spans(stage, texts, [()] * len(texts), sources)
        return vectors

    @property
    def offers_spans(self) -> bool:
        """Whether the embedder gives vectors of parts of texts (`embed_spans`)."""
        return self._embedder is not None and self._embedder.offers_spans

    async def embed_spans(
        self,
        stage: str,
        texts: Sequence[str],
        spans: Sequence[Spans],
        sources: Sequence[Sequence[str]] | None = None,
    ) -> tuple[Vectors, list[Vectors]]:
        """Unit vectors of texts, and for each text those of its parts, shape (parts, dimension).

        See `embed`.
        """
        embedder = self._need_embedder()
        passages = [TextWithParts(text, tuple(own)) for text, own in zip(texts, spans, strict=True)]
        self._texts += len(texts)
        with self._within(stage, len(passages), any_name=False) as scope:

            def advance(done: int, embedded: Sequence[str]) -> None:
                tokens = sum(map(self.count_tokens, embedded))
                self.ledger.add(stage, Usage(embedded_texts=len(embedded), embedded_tokens=tokens))
                self._advance(scope, done)

            def refuse(passage: TextWithParts, reason: str) -> None:
                own = (
                    {each for at, given in enumerate(passages) if given == passage for each in sources[at]}
                    if sources
                    else ()
                )
                item = next(iter(own)) if len(own) == 1 else excerpt(passage.text)
                failure = self._listed(stage, item, reason, sorted(own), reason)
                self._count(failure, self._unembedded, self._texts)

            rows = await embedder.passages(stage, passages, advance, refuse)
        rows = [each.astype(np.float16).astype(np.float32) for each in rows]
        empty = np.zeros((0, self.dimension or 0), np.float32)
        return np.stack([row[0] for row in rows]) if rows else empty, [row[1:] for row in rows]

    async def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (dimension,); checked like all others."""
        embedder = self._need_embedder()
        return await (aside(embedder.query_here, text) if embedder.here else embedder.query(text))

    def _need_embedder(self) -> GateEmbedder:
        if self._embedder is None:
            raise EmbedderError("there is no embedder: pass embedder=...")
        return self._embedder


Gate = ModelGate
"""What stages and methods call it."""
