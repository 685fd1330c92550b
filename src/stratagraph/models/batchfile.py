"""Batch files in OpenAI's format, one request or one result to a line.

    {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions", "body": {"model": ..., ...}}
    {"custom_id": "...", "response": {"status_code": 200, "body": {"choices": [...], ...}}, "error": null}

OpenAI's batch API reads the first and writes the second, and so do vLLM's batch runner and others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stratagraph.models.completion import Completion, from_openai
from stratagraph.models.retry import Verdict, judge

ENDPOINT = "/v1/chat/completions"
MOST_LINES = 50_000
MOST_BYTES = 190_000_000
"""What OpenAI takes in one file, with a little left: 50,000 requests, 200 MB."""
_LONGEST = 300  # characters of what a server says


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request that is to be made, and how many tokens it will take and may give.

    `stage` and `item` say what it is for, as in `Failure`; `body` is what would be sent.
    """

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
    """What a line of results says in place of an answer, in the shape of a client's own error.

    Attributes
    ----------
    status_code
        The HTTP status; None where the request was never made, as in a batch that expired.
    body
        What the server said.
    """

    def __init__(self, status: int | None, body: Any) -> None:
        self.status_code = status
        self.body = body if isinstance(body, dict) else {}
        super().__init__(" ".join(_message(body).split())[:_LONGEST])

    @property
    def about_the_text(self) -> bool:
        """Whether the same request would fail again, for what is in it."""
        return self.status_code is not None and judge(self) is Verdict.UNIT


def _message(body: Any) -> str:
    """What a server says in the body of an error, whatever its nesting."""
    while isinstance(body, dict) and isinstance(body.get("error"), dict | str):
        body = body["error"]
    if isinstance(body, dict):
        said = [str(body[key]) for key in ("code", "message") if body.get(key)]
        return ": ".join(said) or json.dumps(body)
    return str(body)


@dataclass
class Results:
    """The results of a batch.

    Attributes
    ----------
    answers, errors
        By custom id; of several lines with one id, the first that holds an answer counts.
    duplicates
        Ids of lines beyond the first.
    unreadable
        Lines that are no results, as `file, line 3: why`.
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
        """Take in a line.

        Raises
        ------
        ValueError
            If it is not a result.
        """
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
    """JSON with attributes in the place of keys, as the client's objects have them."""
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): _attributes(each) for key, each in value.items()})
    return [_attributes(each) for each in value] if isinstance(value, list) else value


def read_results(paths: Iterable[str | os.PathLike[str]]) -> Results:
    """The results in some files.

    Raises
    ------
    ValueError
        If there is not one result in them.
    """
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
    """Write requests to a file, and those that one file may not hold to others: `x.jsonl`, `x.2.jsonl`.

    Each file is whole when it appears; files of these names are replaced.
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
