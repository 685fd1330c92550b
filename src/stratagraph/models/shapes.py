"""Bringing JSON that is nearly right into the shape of a pydantic model, before it is validated."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

# As in `8/10`, `80 out of 100`, `about 7.5`, `90%`.
_NUMBER = re.compile(
    r"[^\d\-]{0,20}(-?\d{1,9}(?:\.\d{1,9})?)(?!\d)(?:\s*(?:/|(?:out\s)?of)\s*(\d{1,9})(?!\d)|\s*%())?"
)
_SCALE = re.compile(r"\b0 to (\d{1,9})\b")


def fit(value: Any, model: type[BaseModel]) -> Iterator[Any]:
    """What a JSON value may have been meant as, for an answer that should be a `model`.

    A list where the object was asked is the object's only list, or holds the object; an object may be
    wrapped in another, or be the one element of the only list.
    """
    listed = _only_list(model)
    if isinstance(value, list):
        if listed is not None:
            yield _fitted({listed: value}, model)
        yield from (_fitted(each, model) for each in value if isinstance(each, dict))
    elif isinstance(value, dict):
        renamed = _fitted(value, model)
        yield renamed
        if len(value) == 1 and not recognised(renamed, model):
            inner = next(iter(value.values()))
            if isinstance(inner, dict | list):
                yield from fit(inner, model)
        if listed is not None and value and not recognised(renamed, model):
            yield _fitted({listed: [value]}, model)


def recognised(value: Any, model: type[BaseModel]) -> bool:
    """Whether an object has at least one field of the model."""
    names = {key for name, field in model.model_fields.items() for key in (name, field.alias)}
    return isinstance(value, dict) and bool(names & value.keys())


def drop_last(value: Any) -> Any | None:
    """An object without the last element of its last list, where there is more than one; else None."""
    for key in reversed(value if isinstance(value, dict) else {}):
        if isinstance(value[key], list) and len(value[key]) > 1:
            return {**value, key: value[key][:-1]}
    return None


def _only_list(model: type[BaseModel]) -> str | None:
    """The name of the model's one list field; None if it has none or several."""
    lists = [name for name, field in model.model_fields.items() if _item_type(field.annotation) is not None]
    return lists[0] if len(lists) == 1 else None


def _fitted(value: Any, annotation: Any) -> Any:
    """A value with known keys, lists and scalars put right, all the way down."""
    model = _model_of(annotation)
    item = _item_type(annotation)
    if model is not None and isinstance(value, dict):
        return _object(value, model)
    if item is not None and value is not None:
        # An object, or one value, where a list of them was asked.
        values = value if isinstance(value, list) else [value]
        return [_fitted(each, item) for each in values]
    if _is_text(annotation) and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _object(value: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    spelled = {_plain(key): name for name, field in model.model_fields.items() for key in _keys(name, field)}
    fitted: dict[str, Any] = {}
    for key, each in value.items():
        name = spelled.get(_plain(str(key)))
        field = None if name is None else model.model_fields[name]
        if name is None or field is None:
            fitted[key] = each
        elif each is not None or field.is_required() or _allows_none(field.annotation):
            if isinstance(each, str) and _is_number(field.annotation):
                each = _number(each, field)
            fitted.setdefault(field.alias or name, _fitted(each, field.annotation))
    return fitted


def _keys(name: str, field: FieldInfo) -> list[str]:
    return [name] if field.alias is None else [name, field.alias]


def _plain(key: str) -> str:
    """`Rating Explanation`, `ratingExplanation` and `rating_explanation` are one key."""
    return "".join(character for character in key.casefold() if character.isalnum())


def _members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; else the annotation alone."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _allows_none(annotation: Any) -> bool:
    return type(None) in _members(annotation) or annotation is Any


def _model_of(annotation: Any) -> type[BaseModel] | None:
    models = [each for each in _members(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    return models[0] if len(models) == 1 else None


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
    """The number that a text begins with; of `8/10` and `80%`, that share of the field's scale."""
    found = _NUMBER.match(text)
    if found is None:
        return text
    number, whole = float(found[1]), found[2] or ("100" if found[3] is not None else None)
    scale = _scale(field)
    if whole is None or scale is None or not float(whole):
        return number
    return number * scale / float(whole)


def _scale(field: FieldInfo) -> float | None:
    """The largest value of a field, by its bound or its description; None where neither says it."""
    bounds = [each.le for each in field.metadata if getattr(each, "le", None) is not None]
    described = _SCALE.search(field.description or "")
    return float(bounds[0]) if bounds else float(described[1]) if described else None


def _is_number(annotation: Any) -> bool:
    members = set(_members(annotation)) - {type(None)}
    return bool(members) and members <= {int, float}


def _is_text(annotation: Any) -> bool:
    members = set(_members(annotation)) - {type(None)}
    return members == {str}
