"""A gate whose model answers later: what an operation asks for goes to a file, answers come from another.

The operation is run as always. Calls that neither the cache nor the results of a batch answer are noted; the
stage that makes them goes on to its end, so that all of them are noted at once, and the operation stops
there. Answers are judged as live ones are: what cannot be read is asked for once more, with the same words,
in the next file; then it is the failure of its unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any, Protocol, TypeVar

from stratagraph.errors import CallFailed, ParseFailed
from stratagraph.models.batchfile import BatchRequest, Results
from stratagraph.models.gate import ModelGate, Reply
from stratagraph.models.ledger import Scope
from stratagraph.models.pending import PendingCall
from stratagraph.models.task import Call, CallItem, repair_request
from stratagraph.protocols import Vectors
from stratagraph.records import Failure

T = TypeVar("T")
SECOND = "-2"
"""Ends the custom id of a request that is made again since its first answer could not be used."""


class CallsPending(Exception):
    """The operation can go no further before some calls are answered; `BatchGate.requests` holds them."""


class Unanswered(CallFailed):
    """A call that was noted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call whose answer is not in the cache.

    Attributes
    ----------
    answer
        The first answer, or the one that is used; None where there is none.
    reason
        What is wrong with it.
    usable
        Whether what can be read of it is better than nothing.
    final
        False while the second answer is awaited.
    """

    answer: str | None
    reason: str
    usable: bool
    final: bool


class Outcomes(Protocol):
    """Outcomes by the keys of the calls, kept from one batch to the next."""

    def outcome(self, key: str) -> tuple[str | None, str, bool, bool] | None:
        """The fields of an outcome."""
        ...

    def keep_outcome(self, key: str, answer: str | None, reason: str, usable: bool, final: bool) -> None:
        """Keep one, in the place of an earlier one."""
        ...


class BatchGate(ModelGate):
    """A gate to batches.

    Parameters
    ----------
    llm, embedder, keywords
        As for `ModelGate`. Texts are embedded at once; no request is sent to the chat model.
    results
        The results of the last batch.
    outcomes
        Where it is kept which calls failed for good.

    Attributes
    ----------
    requests
        What is to be asked, by custom id.
    taken
        Answers that came from the results.
    unusable, failed
        Why requests are made again, by custom id: the answer could not be used, or there was none.
    """

    def __init__(
        self, llm: object, embedder: object | None, *, results: Results, outcomes: Outcomes, **keywords: Any
    ) -> None:
        super().__init__(llm, embedder, **keywords)
        for sender in self._requests.values():
            sender.body("", None)  # tells at once of a model that has none
        self.requests: dict[str, BatchRequest] = {}
        self.taken = 0
        self.unusable: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self._results = results
        self._outcomes = outcomes
        self._answered = True  # a silent model is no reason to end the operation
        self._before = 0

    @property
    def identity(self) -> str:
        """The models with their settings, on which the keys of calls depend; by stage if they differ."""
        by_stage = {stage: sender.chat.identity for stage, sender in self._requests.items()}
        first, *others = dict.fromkeys(by_stage.values())
        return "; ".join(f"{stage}: {each}" for stage, each in by_stage.items()) if others else first

    @property
    def refused(self) -> list[tuple[str, str]]:
        """What the models' servers turned out to refuse, for the next batch."""
        return sorted({each for sender in self._requests.values() for each in sender.chat.refused})

    def do_without(self, refused: Iterable[Sequence[str]]) -> None:
        """Make requests without what was refused in an earlier batch."""
        for sender in self._requests.values():
            sender.chat.do_without({(model, what) for model, what in refused})

    def knows(self, custom_id: str) -> bool:
        """Whether a request was made and answered before."""
        key = custom_id.removesuffix(SECOND)
        cached = self._cache is not None and self._cache.get(key) is not None
        return cached or self._outcomes.outcome(key) is not None

    @contextmanager
    def independently(self) -> Iterator[None]:
        """What others do not wait for: where it can go no further, they can."""
        self._before = len(self.requests)
        try:
            yield
        except CallsPending:
            self._before = len(self.requests)

    def require_answers(self) -> None:
        """Stop the operation if any call is noted."""
        if self.requests:
            raise CallsPending(f"{len(self.requests)} calls are to be answered")

    @contextmanager
    def _open(self, name: str, total: int | None) -> Iterator[Scope]:
        with super()._open(name, total) as scope:
            yield scope
        self._stop_if_pending()

    def _stop_if_pending(self) -> None:
        if len(self.requests) > self._before:
            self.require_answers()

    async def embed(self, stage: str, texts: Sequence[str]) -> Vectors:
        """As `ModelGate.embed`; but nothing is embedded that rests on answers which are not there."""
        self._stop_if_pending()
        return await super().embed(stage, texts)

    def _note_failure(self, scope: Scope, item: CallItem, error: CallFailed, *, required: bool) -> Failure:
        if isinstance(error, Unanswered):
            return Failure(scope.stage, item.item, str(error))
        return super()._note_failure(scope, item, error, required=required)

    async def _ask_model(self, pending: PendingCall, call: Call[T]) -> tuple[str, T]:
        """The answer of the batch; noted if there is none.

        Raises
        ------
        Unanswered
            The call was noted.
        CallFailed
            It failed for good.
        """
        known = self._known(call)
        if known is None:
            reply = self._result(call, call.key)
            if reply is None:
                raise self._noted(call, call.key, call.prompt)
            if reply.fault is None:
                return self._keep(call, reply, self._sender(call.task.name))
            self.unusable[call.key] = str(reply.fault)
            known = Outcome(str(reply.answer), str(reply.fault), reply.value is not None, final=False)
            self._put(call, known)
        return self._used(call, known if known.final else self._second(call, known))

    def _second(self, call: Call[T], first: Outcome) -> Outcome:
        """The end of a call whose first answer could not be used."""
        custom_id, shown = call.key + SECOND, first.answer or ""
        reply = self._result(call, custom_id)
        if reply is None:
            raise self._noted(call, custom_id, repair_request(call.prompt, shown, first.reason))
        if reply.fault is None:
            answer, _ = self._keep(call, reply, self._sender(call.task.name))
            return Outcome(answer, "", usable=True, final=True)
        reason = f"{reply.fault} (in the repaired answer; in the first: {first.reason})"
        better = str(reply.answer) if reply.value is not None else shown
        usable = reply.value is not None or first.usable
        found = Outcome(better if usable else None, reason, usable, final=True)
        self._put(call, found)
        return found

    def _used(self, call: Call[T], found: Outcome) -> tuple[str, T]:
        if found.answer is None:
            raise ParseFailed(found.reason)
        if found.reason:
            self._note_incomplete(call, self._scope_for(call.task.name), found.reason)
        return found.answer, call.task.parse(found.answer)

    def _known(self, call: Call[T]) -> Outcome | None:
        fields = self._outcomes.outcome(call.key)
        return None if fields is None else Outcome(*fields)

    def _put(self, call: Call[T], found: Outcome) -> None:
        self._outcomes.keep_outcome(call.key, *astuple(found))

    def _result(self, call: Call[T], custom_id: str) -> Reply[T] | None:
        """What the results say to a request; None if it is to be made (again).

        Raises
        ------
        CallFailed
            It would fail again, for what is in it.
        """
        answer, error = self._results.answers.get(custom_id), self._results.errors.get(custom_id)
        sender = self._sender(call.task.name)
        if answer is not None:
            self.taken += 1
            scope, counted = (
                self._scope_for(call.task.name),
                sender.input_tokens(call.prompt, call.task.schema),
            )
            scope.ledger.add(scope.stage, sender.reported(answer, counted), sender.chat.priced_as)
            if not answer.filtered:
                return self._judged(call, answer)
            raise self._failed(call, "the provider's content filter stopped the answer")
        if error is not None:
            self.failed[custom_id] = str(error)
            if not sender.does_without(error, call.task.schema) and error.about_the_text:
                raise self._failed(call, str(error))
        return None

    def _failed(self, call: Call[T], reason: str) -> CallFailed:
        self._put(call, Outcome(None, reason, usable=False, final=True))
        return CallFailed(reason)

    def _noted(self, call: Call[T], custom_id: str, prompt: str) -> Unanswered:
        """Note a request."""
        sender, task = self._sender(call.task.name), call.task
        self.requests[custom_id] = BatchRequest(
            custom_id,
            self._scope_for(task.name).stage,
            task.name,
            sender.body(prompt, task.schema),
            sender.input_tokens(prompt, task.schema),
            self.count_tokens(task.expected_answer(call.values)),
        )
        return Unanswered("is asked for in the next batch")
