"""Reading what models write: text and JSON, with the noise that they add.

Every parser raises `ParseFailed` with a reason that is also shown to the model when it is asked again.
"""

from __future__ import annotations

import json
import re
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar, Union, get_args, get_origin

import json_repair
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from stratagraph.errors import ParseFailed
from stratagraph.models.cleaning import clean

__all__ = ["Parser", "is_refusal", "json_as", "plain_text", "read_json", "readable"]

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


Parser = Callable[[str], T]
"""Turns an answer into a value, or raises `ParseFailed`."""
_LONGEST = 400_000
"""Characters of an answer that are read; no model writes more on purpose."""
_LONGEST_BROKEN = 60_000
"""Characters of broken JSON that are mended, which takes longer than reading."""
_MOST_VALUES = 200
"""JSON values beside each other that are looked at."""
_DEEPEST = 60
"""Levels of JSON; what is asked for has four."""
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
_STATES = ("sorry", "very sorry", "so sorry", "unable to ", "not able to ")
_DECLINING = (
    *(f"{subject} {state}" for subject in ("i'm", "i am") for state in _STATES),
    *("sorry", "apologies", "i apologize", "i apologise", "unfortunately", "as an ai"),
    *("i cannot ", "i can't ", "i can not ", "i won't "),
)
"""How refusals begin (`_REFUSAL`)."""


def is_refusal(text: str, *, whole: bool = True) -> bool:
    """Whether a short answer begins by declining; of one that is not `whole`, whether it may become that."""
    if len(text) > _LONGEST_REFUSAL:
        return False
    text = text.replace("\u2019", "'")
    if whole or _REFUSAL.match(text):
        return _REFUSAL.match(text) is not None
    begun = text.casefold()
    return len(begun) < 80 and any(begun.startswith(each) or each.startswith(begun) for each in _DECLINING)


def plain_text(answer: str) -> str:
    """The text of an answer, without thoughts, a code fence or quotes around all of it.

    Raises `ParseFailed` if nothing is left, or the model declines.
    """
    text = clean(answer)[:_LONGEST]
    if (fenced := _FENCED.match(text)) is not None:
        text = fenced[1].strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1]):
        text = text[1:-1].strip()
    if not text:
        raise ParseFailed("the answer is empty; text is expected")
    if is_refusal(text):
        raise ParseFailed(f"the answer declines instead of answering: {text[:120]!r}", finish="refused")
    return text


def json_as(model: type[M]) -> Parser[M]:
    """A parser for answers that should be JSON of this shape; `ParseFailed` says what to change.

    See `_fit` and `read_json` for what it tolerates.
    """

    def read(value: Any, doubtful: bool) -> M | None:
        failed: ParseFailed | None = None
        for shaped in _fit(value, model):
            # Repair makes objects out of almost anything: those must hold a field that was asked for.
            if doubtful and not _recognised(shaped, model):
                continue
            # Of an answer that was cut short, also all but what it was cut in.
            for each in (shaped, _without_last(shaped)) if doubtful else (shaped,):
                if each is None:
                    continue
                try:
                    return model.model_validate(each)
                except ValidationError as error:
                    # In terms of the answer: `findings.0.summary: Field required`.
                    faults = [
                        f"{'.'.join(map(str, fault['loc'])) or 'answer'}: {fault['msg']}"
                        for fault in error.errors(include_url=False, include_context=False)[:5]
                    ]
                    failed = failed or ParseFailed("the JSON does not fit: " + "; ".join(faults))
        if failed is not None:
            raise failed
        return None

    return lambda answer: read_json(answer, read)


def read_json(answer: str, read: Callable[[Any, bool], T | None]) -> T:
    """What `read` makes of the last complete JSON value in an answer that it can read.

    Earlier ones are drafts. Of a call of a tool that was written as text, its arguments are the value. If no
    complete value can be read, broken ones are repaired.

    `read` gets a value and whether it is doubtful: it was repaired, or stands behind broken JSON. It returns
    None for what cannot be meant, and raises `ParseFailed` for what is meant but wrong. Raises `ParseFailed`
    with the first reason if no value can be read.
    """
    text = clean(answer)[:_LONGEST]
    if not text:
        raise ParseFailed("the answer is empty; JSON is expected")
    if max(accumulate(_brackets(text), lambda depth, step: max(0, depth + step)), default=0) > _DEEPEST:
        raise ParseFailed(f"the brackets of the answer are nested more than {_DEEPEST} deep")
    failed, unknown = None, None
    for found, doubtful in _candidates(text):
        try:
            value = _arguments(found)
            result = read(_storable(value) if "\\u" in text else value, doubtful)
        except ParseFailed as error:
            failed = failed if failed is not None and doubtful else error
            continue
        except (ValueError, ArithmeticError, RecursionError) as error:  # numbers of thousands of digits
            failed = failed or ParseFailed(f"the JSON cannot be read: {str(error)[:200]}")
            continue
        if result is not None:
            return result
        unknown = unknown or value
    if failed is not None:
        raise failed
    if is_refusal(text):
        raise ParseFailed(f"the answer declines instead of answering: {text[:120]!r}", finish="refused")
    if isinstance(unknown, dict):
        keys = ", ".join(map(repr, list(unknown)[:5]))
        raise ParseFailed(f"the JSON has none of the fields that were asked for, but {keys[:200]}")
    raise ParseFailed("the answer holds no JSON object; answer with JSON only")


def lacks_end(answer: str) -> bool:
    """Whether the JSON of an answer stops before its end, so that a repair loses what would have followed.

    Only the closing brace of the outermost object may be missing: some models forget it, and nothing is lost.
    """
    text = clean(answer)[:_LONGEST]
    text = text[max((end for _, end, _ in _complete(text)), default=0) :]
    start = _first_bracket(text)
    if start is None:
        return False
    source = text[start:].rstrip().removesuffix("```").rstrip()
    if sum(_brackets(source)) <= 0:  # an unescaped quote may hide the last ones
        return False
    depth = sum(_brackets(_STRING.sub("", source)))
    return depth > 1 or (depth == 1 and not (source[0] == "{" and source[-1] in "]}"))


def _brackets(text: str) -> Iterator[int]:
    """1 for each bracket of a text that opens, -1 for each that closes, those in strings too."""
    return (1 if each in "[{" else -1 for each in _ANY_BRACKET.findall(text))


def _storable(value: Any) -> Any:
    """A JSON value without NUL and lone surrogates, which escapes can write and no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "")
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(each) for key, each in value.items()}
    return value


def readable(given: Any, read: Callable[[Any], T]) -> T:
    """What `read` makes of a list, without the entries that it refuses: they do not cost the others.

    For `pydantic.WrapValidator`. Raises `ValidationError` if no entry is left.
    """
    try:
        return read(given)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
        good = [each for place, each in enumerate(given) if place not in wrong] if wrong else []
        if not good:
            raise
        return read(good)


def _candidates(text: str) -> Iterator[tuple[Any, bool]]:
    """JSON values in a text, each with whether it is doubtful; complete ones first, from the last one on."""

    def is_citation(value: Any) -> bool:  # numbers at most, as in `[2]`
        return isinstance(value, list) and not any(isinstance(each, dict | list | str) for each in value)

    if parameters := _PARAMETER.findall(text):
        yield {one or other: _loaded(value or also) for one, value, other, also in parameters}, False
    blocks = [block.strip() for block in _FENCES.findall(text)][::-1]
    for source in (text, *blocks):
        values = [*deque(_complete(source), _MOST_VALUES)][::-1]
        for value, _, doubtful in sorted(values, key=lambda found: is_citation(found[0])):
            yield value, doubtful
    starts = [source[at:] for source in (*blocks, text) if (at := _first_bracket(source)) is not None]
    for source in dict.fromkeys(starts):
        with suppress(ValueError, RecursionError):
            _, end = json.JSONDecoder(strict=False).raw_decode(source)
            if _first_bracket(source[end:]) is None:  # there is nothing to repair, and nothing was cut off
                continue
        try:
            value = json_repair.loads(source[:_LONGEST_BROKEN], skip_json_loads=True)
        except (AssertionError, ValueError, ArithmeticError, LookupError, RecursionError):
            continue  # json_repair raises these for some unusual texts
        if isinstance(value, dict | list):
            yield value, True


# A parameter of a tool as Qwen3-Coder and MiniMax write it, and as GLM-4.5 does.
_PARAMETER = re.compile(
    r'<parameter(?:=|\s+name=")([\w.-]+)"?>\s*((?:(?!<parameter).)*?)\s*</parameter>'
    r"|<arg_key>([\w.-]+)</arg_key>\s*<arg_value>((?:(?!<arg_key).)*?)</arg_value>",
    re.DOTALL,
)
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_OF_A_CALL = {"name", "tool", "tool_name", "function", "type", "id", "index", "call_id", "recipient_name"}


def _arguments(value: Any) -> Any:
    """The arguments of a tool's call, or of a list of calls; any other value as it is."""
    if isinstance(value, list):
        calls = [_arguments(each) for each in value]
        return value if calls == value else calls[0] if len(calls) == 1 else calls
    if isinstance(value, dict):
        for key in ("tool_calls", "tool_call", "function_call", "function"):
            if isinstance(value.get(key), dict | list) and value.keys() - {key} <= _OF_A_CALL:
                return _arguments(value[key])
        for key in _ARGUMENTS:
            if key in value and value.keys() - {key} <= _OF_A_CALL:
                arguments = _loaded(value[key]) if isinstance(value[key], str) else value[key]
                return arguments if isinstance(arguments, dict) else value
    return value


def _loaded(text: str) -> Any:
    """The JSON that a text is; the text if it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text


_BRACKET = re.compile(r"[{\[]")
_LIST_OF_OBJECTS = re.compile(r"\[\s*\{")
_ANY_BRACKET = re.compile(r"[{}\[\]]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)


def _first_bracket(text: str) -> int | None:
    """Where JSON may begin: the first brace, or a bracket before it that is not a citation."""
    for match in _BRACKET.finditer(text):
        if match[0] == "{" or re.match(r"\[\s*[{\[\"'\]]", text[match.start() :]):
            return match.start()
    return None


_WITHIN = re.compile(r"(?:[{\[,]|[\"']\s*:)\s*\Z")


def _complete(text: str) -> Iterator[tuple[Any, int, bool]]:
    """Correct JSON objects and lists in a text, outermost ones only, with their ends.

    Behind broken JSON they are doubtful. Only those are given that can be no part of it, since no mark of
    JSON stands before them.
    """
    decoder = json.JSONDecoder(strict=False)
    at, broken = 0, 0
    while (match := _BRACKET.search(text, at)) is not None and broken < _MOST_VALUES:
        start, at = match.start(), match.end()
        if broken and _WITHIN.search(text[max(0, start - 40) : start]):
            continue
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken += text[start] == "{" or _LIST_OF_OBJECTS.match(text, start) is not None
            continue
        yield value, at, broken > 0


# As in `8/10`, `80 out of 100`, `about 7.5`, `90%`.
_NUMBER = re.compile(
    r"[^\d\-]{0,20}(-?\d{1,9}(?:\.\d{1,9})?)(?!\d)(?:\s*(?:/|(?:out\s)?of)\s*(\d{1,9})(?!\d)|\s*%())?"
)
_SCALE = re.compile(r"\b0 to (\d{1,9})\b")


def _fit(value: Any, model: type[BaseModel]) -> Iterator[Any]:
    """What a JSON value may have been meant as, for an answer that should be a `model`.

    A list may stand for the object's only list or hold the object; an object may be wrapped in another, or be
    the one element of the only list.
    """
    lists = [name for name, field in model.model_fields.items() if _item_type(field.annotation) is not None]
    listed = lists[0] if len(lists) == 1 else None
    if isinstance(value, list):
        if listed is not None:
            yield _fitted({listed: value}, model)
        yield from (_fitted(each, model) for each in value if isinstance(each, dict))
    elif isinstance(value, dict):
        renamed = _fitted(value, model)
        yield renamed
        if len(value) == 1 and not _recognised(renamed, model):
            inner = next(iter(value.values()))
            if isinstance(inner, dict | list):
                yield from _fit(inner, model)
        if listed is not None and value and not _recognised(renamed, model):
            yield _fitted({listed: [value]}, model)


def _recognised(value: Any, model: type[BaseModel]) -> bool:
    """Whether an object has at least one field of the model."""
    names = {key for name, field in model.model_fields.items() for key in (name, field.alias)}
    return isinstance(value, dict) and bool(names & value.keys())


def _without_last(value: Any) -> Any | None:
    """An object without the last element of its last list, where there is more than one; else None."""
    for key in reversed(value if isinstance(value, dict) else {}):
        if isinstance(value[key], list) and len(value[key]) > 1:
            return {**value, key: value[key][:-1]}
    return None


def _fitted(value: Any, annotation: Any) -> Any:
    """A value with its keys, lists and scalars corrected recursively."""
    models = [each for each in _members(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    item = _item_type(annotation)
    if len(models) == 1 and isinstance(value, dict):
        return _object(value, models[0])
    if item is not None and value is not None:
        # An object, or one value, where a list of them was asked.
        values = value if isinstance(value, list) else [value]
        return [_fitted(each, item) for each in values]
    if _is_one_of(annotation, str) and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _object(value: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    spelled = {
        _plain(key): name for name, field in model.model_fields.items() for key in (name, field.alias or name)
    }
    fitted: dict[str, Any] = {}
    for key, each in value.items():
        name = spelled.get(_plain(str(key)))
        field = None if name is None else model.model_fields[name]
        if name is None or field is None:
            fitted[key] = each
        elif (
            each is not None
            or field.is_required()
            or field.annotation is Any
            or type(None) in _members(field.annotation)
        ):
            if isinstance(each, str) and _is_one_of(field.annotation, int, float):
                each = _number(each, field)
            fitted.setdefault(field.alias or name, _fitted(each, field.annotation))
    return fitted


def _plain(key: str) -> str:
    """`Rating Explanation`, `ratingExplanation` and `rating_explanation` are one key."""
    return "".join(character for character in key.casefold() if character.isalnum())


def _members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; else the annotation alone."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _item_type(annotation: Any) -> Any | None:
    """What a list or a tuple of any length holds; None for anything else."""
    for each in _members(annotation):
        arguments = get_args(each)
        if get_origin(each) is list and arguments:
            return arguments[0]
        if get_origin(each) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return arguments[0]
        if each is list:
            return Any
    return None


def _number(text: str, field: FieldInfo) -> Any:
    """The number that a text begins with; of `8/10` and `80%`, that share of the field's scale.

    The scale ends at the field's bound, or at the number in its description.
    """
    match = _NUMBER.match(text)
    if match is None:
        return text
    number, whole = float(match[1]), float(match[2] or (100 if match[3] is not None else 0))
    bounds = [each.le for each in field.metadata if getattr(each, "le", None) is not None]
    described = _SCALE.search(field.description or "")
    scale = bounds[0] if bounds else described[1] if described else None
    return number if not whole or scale is None else number * float(scale) / whole


def _is_one_of(annotation: Any, *scalars: type) -> bool:
    """Whether a value must have one of these types, or may also be None."""
    members = set(_members(annotation)) - {type(None)}
    return bool(members) and members <= set(scalars)
