"""The gate: every model call goes through it, in one order.

cache → budget → limiter → retry → call → parse (and one repair) → ledger
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np

from stratagraph._sync import aside
from stratagraph.errors import BudgetExceeded, CallFailed, EmbedderError, ModelError, ParseFailed
from stratagraph.mapping import as_mapper
from stratagraph.models.budget import Account, Budget, Limits, Scope, Sleep, cost_of
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

T = TypeVar("T")
_ESTIMATED_TOKENS = TokenEstimate()


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
        super().__init__(progress, as_mapper(mapper), spending, max_failures)
        self.limits = limits or Limits()
        self.count_tokens = count_tokens
        self._cache = cache
        self._templates = dict(prompts or {})
        self._pending = PendingCalls()
        services = services or Services(self.limits, sleep=sleep)
        account = budget if isinstance(budget, Account) else Account(budget or Budget())
        self._prices = account.budget.prices
        by_stage = models_by_stage(llm)
        requests = {
            id(model): Requests(
                model,
                account=account,
                limits=self.limits,
                services=services,
                sleep=sleep,
                count=count_tokens,
            )
            for model in {id(each): each for each in by_stage.values()}.values()
        }
        self._requests = {stage: requests[id(model)] for stage, model in by_stage.items()}
        self._embedder: GateEmbedder | None = None
        if embedder is not None:
            self._embedder = GateEmbedder(
                embedder,
                services=services,
                mapper=self._mapper,
                journal=vectors,
                limits=self.limits,
                sleep=sleep,
                pending=self._pending,
                dimension=dimension,
            )

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

    async def _call(self, task: Task[T], item: CallItem) -> T:
        call = self._prepared(task, item)
        cached, value = self._cached(call)
        if not cached:
            (answer, value), joined = await self._pending.share(
                call.key, lambda pending: self._ask_model(pending, call)
            )
            if not joined:
                return value  # type: ignore[no-any-return]
            value = call.task.parse(answer)  # of its own, from an answer that another caller got
        scope = self._scope_for(task.name)
        scope.ledger.add(scope.stage, Usage(cached_calls=1))
        return value  # type: ignore[no-any-return]

    def _prepared(self, task: Task[T], item: CallItem) -> Call[T]:
        sender = self._sender(task.name)
        return Call.of(replace(task, prompt=self._prompt(task.prompt)), item, sender.identity)

    def _prompt(self, prompt: Prompt) -> Prompt:
        template = self._templates.get(prompt.name)
        used = prompt if template is None else Prompt(prompt.name, template, partial=True)
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

    async def _ask_model(self, pending: PendingCall, call: Call[T]) -> tuple[str, T]:
        """Ask the model, and once more if the answer is unreadable or cut off; keep a usable one.

        If the second answer is no better, a readable part is used where the task allows it. It is listed and
        not kept.
        """
        task, scope = call.task, self._scope_for(call.task.name)
        parts: list[tuple[Completion, T, ParseFailed]] = []  # of answers that were cut off
        first: ParseFailed | None = None
        prompt = call.prompt
        while True:
            answer = Completion("")
            value: T | None = None
            fault: ParseFailed | None
            try:
                answer = await self._request(call, prompt, scope, pending)
                self._answered = True
                value, fault = self._judged(task, answer)
            except ParseFailed as unreadable:  # also by a framework that reads the answer itself
                self._answered = True
                fault = unreadable
            if fault is None:
                self._keep(call, answer)
                return answer, value  # type: ignore[return-value]  # there is no fault
            if pending.halted:
                raise fault
            if value is not None:
                parts.append((answer, value, fault))
            if first is not None or answer.finish == "filtered":
                break
            first = fault
            logger.info("%s: asking again, since %s", task.name, fault)
            prompt = repair_request(call.prompt, answer, str(fault))
        for answer, part, cut in reversed(parts):
            if not task.answers_question:  # an answer says how it ended
                reason = f"the answer is incomplete, and what can be read of it is used: {cut}"
                self._list(scope.stage, call.item.item, reason, call.item.sources, reason)
            return answer, part
        reason = f"{fault} (in the repaired answer; in the first: {first or fault})"
        raise ParseFailed(reason, finish=fault.finish) from fault

    async def _request(
        self, call: Call[T], prompt: Messages, scope: Scope, pending: PendingCall
    ) -> Completion:
        """One answer; `prompt` is the call's own, or the repair request."""
        return await self._sender(call.task.name).ask(call.task, prompt, scope=scope, pending=pending)

    def _judged(self, task: Task[Any], answer: Completion) -> tuple[Any, ParseFailed | None]:
        """What can be used of an answer, and what is wrong with it; `ParseFailed` if it cannot be read."""
        finish, cut = answer.finish, ""
        if finish == "filtered":
            cut = "the provider's content filter stopped the answer"
            if not task.answers_question:
                raise CallFailed(cut, finish=finish)
        elif finish == "refused":
            raise ParseFailed(f"the model declines: {answer[:120]!r}", finish=finish)
        elif finish == "length":
            cut = "it was cut off at the model's limit of tokens; write less, and come to the end"
        try:
            value = task.parse(answer)
        except ParseFailed as fault:
            fault.finish = fault.finish or finish
            raise
        if not cut and task.schema is not None and lacks_end(answer):
            cut = "its JSON stops before the end; write less, and close every bracket"
        # An answer without its end is better than none if it is JSON, or somebody waits for it.
        usable = not cut or task.schema is not None or task.answers_question
        return value if usable else None, ParseFailed(cut) if cut else None

    def _keep(self, call: Call[T], answer: str) -> None:
        if self._cache is not None:
            name, model = call.task.name, self._sender(call.task.name).name
            self._cache.put(call.key, str(answer), task=name, model=model, sources=call.item.sources)

    async def stream(
        self, prompt: Prompt, values: Mapping[str, str], *, stage: str, expected_output_tokens: int = 300
    ) -> AsyncGenerator[str]:
        """An answer in pieces, as the model writes it, without thoughts; counted, not cached.

        The last item is the whole answer, a `Completion`. If the model fails once a piece is out, the answer
        is broken off there, and a warning tells why. Raises as `call` does, before the first piece.
        """
        task = Task(
            stage, prompt, plain_text, lambda values: "", expected_output_tokens=expected_output_tokens
        )
        requests, text = self._sender(stage), self._prompt(prompt).render(values)
        cleaner, held, begun, reason, tells = Cleaner(thinking=requests.thinks), "", False, "", False
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
        requests.learn(cleaner)
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
        """As `embed`, and for each text the unit vectors of its parts, shape (parts, dimension)."""
        embedder = self._need_embedder()
        passages = [TextWithParts(text, tuple(own)) for text, own in zip(texts, spans, strict=True)]
        self._texts += len(texts)
        with self._within(stage, len(passages), any_name=False) as scope:

            def advance(done: int, embedded: Sequence[str]) -> None:
                tokens = sum(map(self.count_tokens, embedded))
                self.ledger.add(stage, Usage(embedded_texts=len(embedded), embedded_tokens=tokens))
                self._advance(scope, done)

            def refuse(passage: TextWithParts, reason: str) -> None:
                places = [at for at, given in enumerate(passages) if given == passage] if sources else []
                own = sorted({each for at in places for each in (sources or ())[at]})
                item = own[0] if len(own) == 1 else excerpt(passage.text)
                failure = self._list(stage, item, reason, own, reason)
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
