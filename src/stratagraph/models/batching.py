"""A gate whose model answers later, through batch files in OpenAI's format.

    {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions", "body": {"model": ..., ...}}
    {"custom_id": "...", "response": {"status_code": 200, "body": {"choices": [...], ...}}, "error": null}

The operation runs as always. Calls that neither the cache nor the results answer are noted until their stage
ends; then the operation stops. A repair request is a call like any other: it comes into the next file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from stratagraph.errors import CallFailed
from stratagraph.models.budget import Scope
from stratagraph.models.concurrency import PendingCall
from stratagraph.models.gate import ModelGate
from stratagraph.models.messages import Completion, Messages, from_openai
from stratagraph.models.retry import Verdict, judge
from stratagraph.models.task import Call, CallItem, answer_text
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
        details = [str(body[key]) for key in ("code", "message") if body.get(key)]
        return ": ".join(details) or json.dumps(body)
    return str(body)


@dataclass
class Results:
    """The results of a batch by custom id. Of several lines with one id, the first answer counts.

    `lines` holds them as they were read, `ignored` what cannot be used of the files, with the reason.
    """

    replies: dict[str, Completion | LineError] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a line; ValueError if it is not a result."""
        custom_id, reply = _read(line)
        if custom_id in self.replies:
            self.ignored.append(f"{custom_id}: several lines, of which the first answer counts")
            if not isinstance(self.replies[custom_id], LineError) or isinstance(reply, LineError):
                return
        self.replies[custom_id], self.lines[custom_id] = reply, line


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
    # With attributes in place of keys, as OpenAI's client has them.
    whole = json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields))
    answer = from_openai(getattr(whole.response, "body", None))
    return custom_id, LineError(None, "the response holds no answer") if answer is None else answer


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
                    results.ignored.append(f"{path}, line {number}: {error}")
    if not results.replies:
        first = f"; {results.ignored[0]}" if results.ignored else ""
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
_REPAIR = "-2"
"""Ends the custom id of a request that is made again since its first answer could not be used."""


class CallsPending(Exception):
    """The operation waits for the calls in `BatchGate.requests`."""


class Unanswered(CallFailed):
    """A call whose request is noted for the next batch file."""


class BatchGate(ModelGate):
    """A gate to batches. Texts are embedded at once; no request is sent to the chat model.

    `results` are those of this round. `earlier` are results of previous rounds that did not reach the cache.
    `requests` holds the next requests by custom id, and `again` the reason for each repeated one. `unused`
    holds the lines of answers that did not reach the cache: the next round needs them.
    """

    def __init__(
        self, llm: object, embedder: object | None, *, results: Results, earlier: Results, **keywords: Any
    ) -> None:
        super().__init__(llm, embedder, **keywords)
        for sender in self._requests.values():
            sender.body("", None)  # raises for a model without request bodies
        self.requests: dict[str, BatchRequest] = {}
        self.taken = 0
        self.again: dict[str, str] = {}
        self.unused = dict(earlier.lines)
        self._results = results
        self._earlier = earlier
        self._answered = True  # a silent model is no reason to end the operation
        self._before = 0

    @property
    def identity(self) -> str:
        """The models' identities, on which the keys of calls depend; by stage if they differ."""
        by_stage = {stage: sender.identity for stage, sender in self._requests.items()}
        first, *others = dict.fromkeys(by_stage.values())
        return "; ".join(f"{stage}: {each}" for stage, each in by_stage.items()) if others else first

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Schemas and features that servers refused, for the next batch."""
        return sorted({(each.name, what) for each in self._requests.values() for what in each.without})

    def do_without(self, refused: Sequence[Sequence[str]]) -> None:
        """Make requests without what was refused in an earlier batch."""
        for sender in self._requests.values():
            for name, what in refused:
                if name == sender.name:
                    sender.do_without(what)

    def knows(self, custom_id: str) -> bool:
        """Whether a request was made and answered before."""
        key = custom_id.removesuffix(_REPAIR)
        cached = self._cache is not None and self._cache.get(key) is not None
        return cached or custom_id in self._earlier.replies

    @contextmanager
    def independently(self) -> Iterator[None]:
        """Run a part on which nothing else depends: missing answers stop this part only."""
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

    async def embed(
        self, stage: str, texts: Sequence[str], sources: Sequence[Sequence[str]] | None = None
    ) -> Vectors:
        """As `ModelGate.embed`, but stops first if answers are missing."""
        self._stop_if_pending()
        return await super().embed(stage, texts, sources)

    def _note_failure(self, scope: Scope, item: CallItem, error: CallFailed, *, required: bool) -> Failure:
        if isinstance(error, Unanswered):
            return Failure(scope.stage, item.item, str(error))
        return super()._note_failure(scope, item, error, required=required)

    def _keep(self, call: Call[T], answer: str) -> None:
        self.unused.pop(call.key, None)
        self.unused.pop(call.key + _REPAIR, None)
        super()._keep(call, answer)

    async def _request(
        self, call: Call[T], prompt: Messages, scope: Scope, pending: PendingCall
    ) -> Completion:
        """The answer in the results, or `Unanswered` once the request is noted.

        Raises `CallFailed` if the request would fail again because of its text.
        """
        sender, task = self._sender(call.task.name), call.task
        custom_id = call.key if prompt == call.prompt else call.key + _REPAIR
        new = self._results.replies.get(custom_id)
        earlier = self._earlier.replies.get(custom_id)
        reply = earlier if isinstance(earlier, Completion) or new is None else new
        if isinstance(reply, Completion):
            if reply is new:
                self.unused[custom_id] = self._results.lines[custom_id]
                self.taken += 1
                used = sender.reported(reply, sender.input_tokens(call.prompt, task.schema))
                scope.ledger.add(scope.stage, used, sender.priced_as)
            return reply
        if reply is not None and not sender.may_repeat(reply, task.schema) and reply.about_the_text:
            if reply is new:
                self.unused[custom_id] = self._results.lines[custom_id]
            raise CallFailed(str(reply))
        if reply is not None:
            self.again[custom_id] = str(reply)
        self.requests[custom_id] = BatchRequest(
            custom_id,
            scope.stage,
            task.name,
            sender.body(prompt, task.schema),
            sender.input_tokens(prompt, task.schema),
            self.count_tokens(answer_text(task.placeholder(call.item.values))),
        )
        raise Unanswered("is asked for in the next batch")
