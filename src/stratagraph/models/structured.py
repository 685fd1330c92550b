"""Reading what models write: text, JSON and delimited records, with the noise that they add.

Every parser raises `ParseFailed` with a reason that is also shown to the model when it is asked again.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from stratagraph.errors import ParseFailed
from stratagraph.models.delimited import delimited_records
from stratagraph.models.shapes import drop_last, fit, recognised

__all__ = ["JsonParser", "Parser", "delimited_records", "is_refusal", "json_as", "plain_text", "read_json"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=BaseModel)


class Parser(Protocol[T_co]):
    """Turns an answer into a value, or raises `ParseFailed`."""

    def __call__(self, answer: str) -> T_co:
        """The value."""
        ...


_LONGEST = 400_000
"""Characters of an answer that are read; no model writes more on purpose."""
_LONGEST_BROKEN = 60_000
"""Characters of broken JSON that are mended, which takes longer than reading."""
_MOST_VALUES = 200
"""JSON values beside each other that are looked at."""
_DEEPEST = 60
"""Levels of JSON; what is asked for has four."""
_THOUGHT_MARK = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_FENCED = re.compile(r"\A```[^\n`]*\n(.*?)\n?[ \t]*```\Z", re.DOTALL)
_FENCES = re.compile(r"```[^\n`]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
_REFUSAL = re.compile(
    r"""(?:i'm\s(?:very\s|so\s)?sorry|i\sam\s(?:very\s|so\s)?sorry|sorry|apologies|i\sapologi[sz]e
          |unfortunately|as\san\sai(?:\slanguage\smodel|\sassistant)?)
        \b[^\n]{0,40}?\bi(?:\scannot|\scan't|\scan\snot|(?:'m|\sam)\s(?:unable|not\sable)\sto|\swon't)\b
      | i(?:\scannot|\scan't|\scan\snot|(?:'m|\sam)\s(?:unable|not\sable)\sto|\swon't)
        \s(?:(?:assist|help|comply|continue)(?:\syou)?\swith|fulfil+|provide|create|generate)
        \s(?:a|an|any|that|the|this|your)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_LONGEST_REFUSAL = 300


def without_thoughts(answer: str) -> str:
    """An answer without the blocks in which a reasoning model thinks aloud."""
    answer = answer[:_LONGEST].lstrip("\ufeff")
    kept: list[str] = []
    end, thinking = 0, False
    for mark in _THOUGHT_MARK.finditer(answer):
        closes = bool(mark[1])
        if closes and not thinking:  # it began without a mark: all before was thought
            kept.clear()
        elif not thinking:
            kept.append(answer[end : mark.start()])
        end, thinking = mark.end(), not closes
    if not thinking:
        kept.append(answer[end:])
    return "".join(kept).strip()


def is_refusal(text: str) -> bool:
    """Whether a short answer begins by declining. Longer texts may say such things of their subject."""
    return len(text) <= _LONGEST_REFUSAL and _REFUSAL.match(text.replace("\u2019", "'")) is not None


def plain_text(answer: str) -> str:
    """The text of an answer, without thoughts, a code fence or quotes around all of it.

    Raises
    ------
    ParseFailed
        If nothing is left, or the model declines.
    """
    text = without_thoughts(answer)
    if (fenced := _FENCED.match(text)) is not None:
        text = fenced[1].strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1]):
        text = text[1:-1].strip()
    if not text:
        raise ParseFailed("the answer is empty; text is expected")
    if is_refusal(text):
        raise ParseFailed(f"the answer declines instead of answering: {text[:120]!r}")
    return text


class JsonParser(Generic[M]):
    """Reads an answer as JSON that satisfies a pydantic model. Made by `json_as`."""

    def __init__(self, model: type[M]) -> None:
        self._model = model

    def __call__(self, answer: str) -> M:
        """The validated object, or `ParseFailed` with what the model should change."""
        return read_json(answer, self._read)

    def _read(self, value: Any, repaired: bool) -> M | None:
        reasons: list[str] = []
        for shaped in self._readings(value, repaired):
            try:
                return self._model.model_validate(shaped)
            except ValidationError as error:
                reasons.append(_reason(error))
        if reasons:
            raise ParseFailed(reasons[0])
        return None

    def _readings(self, value: Any, repaired: bool) -> Iterator[Any]:
        """What a JSON value may have been meant as, the likeliest first."""
        for shaped in fit(value, self._model):
            # Repair makes objects out of almost anything: those must hold a field that was asked for.
            if repaired and not recognised(shaped, self._model):
                continue
            yield shaped
            if repaired:  # an answer that was cut short: all but what it was cut in
                shorter = drop_last(shaped)
                if shorter is not None:
                    yield shorter


def read_json(answer: str, read: Callable[[Any, bool], T | None]) -> T:
    """What `read` makes of the first JSON value in an answer that it can read.

    Parameters
    ----------
    answer
        What a model wrote: JSON, perhaps among prose, in fences, or broken.
    read
        Called with a value and whether the text had to be repaired to give it. It returns None for what
        cannot be meant, and raises `ParseFailed` with a reason for what is meant but wrong.

    Raises
    ------
    ParseFailed
        If no value can be read: the first reason, or that there is no JSON.
    """
    text = _HALF_ESCAPES.sub(r"\\ufffd", _NUL_ESCAPE.sub("", without_thoughts(answer)))
    if not text:
        raise ParseFailed("the answer is empty; JSON is expected")
    if _too_deep(text):
        raise ParseFailed(f"the brackets of the answer are nested more than {_DEEPEST} deep")
    failed, unknown = None, None
    for value, repaired in _candidates(text):
        try:
            found = read(value, repaired)
        except ParseFailed as error:
            failed = failed or error
            continue
        except (ValueError, ArithmeticError, RecursionError) as error:  # numbers of thousands of digits
            failed = failed or ParseFailed(f"the JSON cannot be read: {str(error)[:200]}")
            continue
        if found is not None:
            return found
        unknown = unknown or value
    if failed is not None:
        raise failed
    if is_refusal(text):
        raise ParseFailed(f"the answer declines instead of answering: {text[:120]!r}")
    if isinstance(unknown, dict):
        keys = ", ".join(map(repr, list(unknown)[:5]))
        raise ParseFailed(f"the JSON has none of the fields that were asked for, but {keys[:200]}")
    raise ParseFailed("the answer holds no JSON object; answer with JSON only")


def lacks_end(answer: str) -> bool:
    """Whether the JSON of an answer stops before its end, so that a repair loses what would have followed.

    Only the closing brace of the outermost object may be missing: some models forget it, and nothing is lost.
    """
    text = without_thoughts(answer)
    start = _first_bracket(text)
    if start is None or next(_strict(text[start:]), None) is not None:
        return False
    source = text[start:].rstrip().removesuffix("```").rstrip()
    if _depth(source) <= 0:  # brackets in strings count too: an unescaped quote may hide the last ones
        return False
    depth = _depth(_STRING.sub("", source))
    return depth > 1 or (depth == 1 and not (source[0] == "{" and source[-1] in "]}"))


def _depth(text: str) -> int:
    """Brackets of a text that are open at its end."""
    return sum(1 if each in "[{" else -1 for each in _ANY_BRACKET.findall(text))


def _too_deep(text: str) -> bool:
    """Whether more brackets are open at once than any answer needs; those in strings count too."""
    depth = 0
    for bracket in _ANY_BRACKET.finditer(text):
        depth = depth + 1 if bracket[0] in "[{" else max(0, depth - 1)
        if depth > _DEEPEST:
            return True
    return False


def json_as(model: type[M]) -> JsonParser[M]:
    """A parser for answers that should be JSON of this shape.

    It reads through prose and code fences around the JSON, single quotes, trailing commas, an object
    where a list was asked or a list where an object was, keys in another spelling, null for a field
    that may be left out, and an end that was cut off. What it returns is validated: an empty object
    is no answer where fields are required.
    """
    return JsonParser(model)


def _candidates(text: str) -> Iterator[tuple[Any, bool]]:
    """JSON values found in a text, each with whether it had to be repaired; strict ones first."""
    blocks = [block.strip() for block in _FENCES.findall(text)]
    sources = [text, *blocks]
    for source in sources:
        yield from ((value, False) for value in itertools.islice(_strict(source), _MOST_VALUES))
    starts = [source[at:] for source in (*blocks, text) if (at := _first_bracket(source)) is not None]
    for source in dict.fromkeys(starts):
        if _parses(source):  # there is nothing to repair, and nothing was cut off
            continue
        value = _mended(source[:_LONGEST_BROKEN])
        if isinstance(value, dict | list):
            yield value, True


def _mended(source: str) -> Any:
    try:
        return json_repair.loads(source, skip_json_loads=True)
    except (
        AssertionError,
        ValueError,
        ArithmeticError,
        LookupError,
        RecursionError,
    ):  # not all of what models write is foreseen
        return None


_BRACKET = re.compile(r"[{\[]")
_LIST_OF_OBJECTS = re.compile(r"\[\s*\{")
_ANY_BRACKET = re.compile(r"[{}\[\]]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
_NUL_ESCAPE = re.compile(r"\\u0000")
_HALF_ESCAPES = re.compile(  # half of a surrogate pair, escaped: read, it could not be stored
    r"\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2})", re.IGNORECASE
)


def _first_bracket(text: str) -> int | None:
    """Where JSON may begin: the first brace, or a bracket before it that is not a citation."""
    for match in _BRACKET.finditer(text):
        if match[0] == "{" or re.match(r"\[\s*[{\[\"'\]]", text[match.start() :]):
            return match.start()
    return None


def _strict(text: str) -> Iterator[Any]:
    """Correct JSON objects and lists in a text, outermost ones only."""
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while (match := _BRACKET.search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            # Looking further inside broken JSON would find parts of it that pass for the whole.
            if text[match.start()] == "{" or _LIST_OF_OBJECTS.match(text, match.start()):
                return
            at = match.end()
            continue
        yield value


def _parses(source: str) -> bool:
    """Whether a text begins with correct JSON, after which no more of it begins."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(source)
    except (ValueError, RecursionError):
        return False
    return _first_bracket(source[end:]) is None


def _reason(error: ValidationError) -> str:
    """What is wrong, in terms of the answer: `findings.0.summary: Field required`."""
    faults = [
        f"{'.'.join(str(part) for part in each['loc']) or 'answer'}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False)[:5]
    ]
    return "the JSON does not fit: " + "; ".join(faults)
