"""A gate whose model answers later, through batch files in OpenAI's format.

    {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions", "body": {"model": ..., ...}}
    {"custom_id": "...", "response": {"status_code": 200, "body": {"choices": [...], ...}}, "error": null}

The operation runs as always. Calls that neither the cache nor the results answer are noted until their stage
ends; then the operation stops. An answer that cannot be read is asked for once more in the next file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

from stratagraph.errors import CallFailed, ParseFailed
from stratagraph.models.budget import Scope
from stratagraph.models.concurrency import PendingCall
from stratagraph.models.gate import ModelGate, Reply
from stratagraph.models.messages import Completion, from_openai
from stratagraph.models.retry import Verdict, judge
from stratagraph.models.task import Call, CallItem, answer_text, repair_request
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Failure

ENDPOINT = "/v1/chat/completions"
MOST_LINES = 50_000
MOST_BYTES = 190_000_000
"""What OpenAI takes in one file, with a little left: 50,000 requests, 200 MB."""
_LONGEST = 300  # characters of what a server says


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request to make, with the tokens it is expected to take and give."""

    custom_id: str
    stage: str
    item: str
    body: Mapping[str, Any]
    input_tokens: int
    output_tokens: int

    def line(self) -> str:
        """The request as a line of a batch file."""
        request = {"custom_id": self.custom_id, "method": "POST", "url": ENDPOINT, "body": self.body}
        return json.dumps(request, ensure_ascii=False)


class LineError(Exception):
    """An error in a line of results, shaped like a client's own.

    `status_code` is None if nothing was sent.
    """

    def __init__(self, status: int | None, body: Any) -> None:
        self.status_code = status
        self.body = body if isinstance(body, dict) else {}
        super().__init__(" ".join(_message(body).split())[:_LONGEST])

    @property
    def about_the_text(self) -> bool:
        """Whether the same request would fail again because of its text."""
        return self.status_code is not None and judge(self) is Verdict.UNIT


def _message(body: Any) -> str:
    """The message in an error body, at any depth."""
    while isinstance(body, dict) and isinstance(body.get("error"), dict | str):
        body = body["error"]
    if isinstance(body, dict):
        said = [str(body[key]) for key in ("code", "message") if body.get(key)]
        return ": ".join(said) or json.dumps(body)
    return str(body)


@dataclass
class Results:
    """The results of a batch by custom id. Of several lines with one id, the first answer counts.

    `unreadable` lists lines that are no results, as `file, line 3: why`.
    """

    answers: dict[str, Completion] = field(default_factory=dict)
    errors: dict[str, LineError] = field(default_factory=dict)
    duplicates: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """All ids that there is a line for, in their order."""
        return list(dict.fromkeys([*self.answers, *self.errors]))

    def add(self, line: str) -> None:
        """Add a line; ValueError if it is not a result."""
        custom_id, found = _read(line)
        if custom_id in self.answers or custom_id in self.errors:
            self.duplicates.append(custom_id)
        if isinstance(found, Completion):
            self.answers.setdefault(custom_id, found)
            self.errors.pop(custom_id, None)
        elif custom_id not in self.answers:
            self.errors.setdefault(custom_id, found)


def _read(line: str) -> tuple[str, Completion | LineError]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    custom_id = value.get("custom_id") if isinstance(value, dict) else None
    if not isinstance(custom_id, str) or not custom_id:
        raise ValueError("no custom_id")
    response = value.get("response")
    if not isinstance(response, dict):
        return custom_id, LineError(None, value.get("error") or "there is no response")
    body, status = response.get("body"), response.get("status_code")
    if not isinstance(status, int):
        status = 200
    if value.get("error"):
        return custom_id, LineError(status if status >= 300 else None, value["error"])
    if status >= 300:
        return custom_id, LineError(status, body)
    answer = from_openai(_attributes(body))
    return custom_id, LineError(None, "the response holds no answer") if answer is None else answer


def _attributes(value: Any) -> Any:
    """JSON objects with attributes in place of keys, as OpenAI's client has them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): _attributes(each) for key, each in value.items()})
    return [_attributes(each) for each in value] if isinstance(value, list) else value


def read_results(paths: Iterable[str | os.PathLike[str]]) -> Results:
    """The results in some files; ValueError if they hold none."""
    results, files = Results(), [Path(path) for path in paths]
    for path in files:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    results.add(line)
                except ValueError as error:
                    results.unreadable.append(f"{path}, line {number}: {error}")
    if not results.ids:
        first = f"; {results.unreadable[0]}" if results.unreadable else ""
        raise ValueError(f"no result of a batch in {', '.join(map(str, files)) or 'no files'}{first}")
    return results


def write_requests(
    requests: Iterable[BatchRequest],
    path: str | os.PathLike[str],
    *,
    most_lines: int = MOST_LINES,
    most_bytes: int = MOST_BYTES,
) -> list[Path]:
    """Write requests to a file, and to `x.2.jsonl` and so on what exceeds the limits of one.

    Replaces files.
    """
    first = Path(path)
    written = []
    for number, lines in enumerate(_files(requests, most_lines, most_bytes), 1):
        target = first if number == 1 else first.with_name(f"{first.stem}.{number}{first.suffix}")
        part = target.with_name(f"{target.name}.part")
        part.write_text("".join(lines), encoding="utf-8", newline="\n")
        part.replace(target)
        written.append(target)
    return written


def _files(requests: Iterable[BatchRequest], most_lines: int, most_bytes: int) -> Iterator[Sequence[str]]:
    """The lines of each file. A file asks one model: services take no other."""
    lines: list[str] = []
    size, model = 0, None
    for request in requests:
        line = request.line() + "\n"
        length = len(line.encode())
        full = len(lines) == most_lines or size + length > most_bytes or request.body.get("model") != model
        if lines and full:
            yield lines
            lines, size = [], 0
        lines.append(line)
        size, model = size + length, request.body.get("model")
    if lines:
        yield lines


T = TypeVar("T")
SECOND = "-2"
"""Ends the custom id of a request that is made again since its first answer could not be used."""


class CallsPending(Exception):
    """The operation waits for the calls in `BatchGate.requests`."""


class Unanswered(CallFailed):
    """A call that was noted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call whose answer is not in the cache.

    `answer` is the first answer, or the one in use; `usable` says whether a part of it can be used; `final`
    is False while the second answer is awaited.
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
    """A gate to batches. Texts are embedded at once; no request is sent to the chat model.

    `requests` holds what to ask, by custom id. `unusable` and `failed` say why a request is made again.
    """

    def __init__(
        self, llm: object, embedder: object | None, *, results: Results, outcomes: Outcomes, **keywords: Any
    ) -> None:
        super().__init__(llm, embedder, **keywords)
        for sender in self._requests.values():
            sender.body("", None)  # raises for a model without request bodies
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
        """The models' identities, on which the keys of calls depend; by stage if they differ."""
        by_stage = {stage: sender.chat.identity for stage, sender in self._requests.items()}
        first, *others = dict.fromkeys(by_stage.values())
        return "; ".join(f"{stage}: {each}" for stage, each in by_stage.items()) if others else first

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Schemas and features that servers refused, for the next batch."""
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
        """A part that others do not wait for: they go on if it must stop."""
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
    def stage(self, name: str, total: int | None = None) -> Iterator[Scope]:
        """As `ModelGate.stage`, but stops at the end if answers are missing."""
        with super().stage(name, total) as scope:
            yield scope
        self._stop_if_pending()

    def _stop_if_pending(self) -> None:
        if len(self.requests) > self._before:
            self.require_answers()

    async def embed(self, stage: str, texts: Sequence[str]) -> Vectors:
        """As `ModelGate.embed`, but stops first if answers are missing."""
        self._stop_if_pending()
        return await super().embed(stage, texts)

    def _note_failure(self, scope: Scope, item: CallItem, error: CallFailed, *, required: bool) -> Failure:
        if isinstance(error, Unanswered):
            return Failure(scope.stage, item.item, str(error))
        return super()._note_failure(scope, item, error, required=required)

    async def _ask_model(self, pending: PendingCall, call: Call[T]) -> tuple[str, T]:
        """The answer of the batch.

        Raises `Unanswered` if the call was noted, `CallFailed` if it failed for good.
        """
        known = self._known(call)
        if known is None:
            reply = self._result(call, call.key)
            if reply is None:
                raise self._noted(call, call.key, call.prompt)
            if reply.fault is None:
                return self._keep(call, reply)
            self.unusable[call.key] = str(reply.fault)
            known = Outcome(str(reply.answer), str(reply.fault), reply.value is not None, final=False)
            self._put(call, known)
        return self._used(call, known if known.final else self._second(call, known))

    def _second(self, call: Call[T], first: Outcome) -> Outcome:
        """The outcome of a call after its second answer."""
        custom_id, shown = call.key + SECOND, first.answer or ""
        reply = self._result(call, custom_id)
        if reply is None:
            raise self._noted(call, custom_id, repair_request(call.prompt, shown, first.reason))
        if reply.fault is None:
            answer, _ = self._keep(call, reply)
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
        """The result of a request; None if it is to be sent (again).

        Raises `CallFailed` if that would be useless.
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
            self.count_tokens(answer_text(task.placeholder(call.values))),
        )
        return Unanswered("is asked for in the next batch")
