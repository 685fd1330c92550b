"""Metadata as JSON, the extra values of nodes, and the error for a row that does not exist."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stratagraph.errors import Damaged
from stratagraph.types.records import Metadata

ADVICE = ". Where no row was asked for by its number, an array is damaged: verify() says which"
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class NoSuchRow(Damaged, IndexError):
    """A row does not exist. The caller asked for it, or a damaged array names it."""


def to_json(metadata: Metadata, owner: str) -> str:
    """Metadata as stored; half of a surrogate pair becomes U+FFFD.

    Raises
    ------
    ValueError
        If a key is not a string or a value has no JSON form; names `owner` and the key.
    """
    if not metadata:
        return "{}"
    try:
        if all(isinstance(key, str) for key in metadata):
            text = encode(dict(metadata))
            try:
                text.encode()
            except UnicodeEncodeError:
                text = encode(_valid(json.loads(text)))
            return text
    except (TypeError, ValueError):
        pass  # said below, with the key
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError(f"{owner}: the metadata key {key!r} is not a string")
        _check_value(key, value, owner)
    raise ValueError(f"{owner}: the metadata cannot be stored as JSON")


def _check_value(key: str, value: object, owner: str) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{owner}: the metadata value of {key!r} cannot be stored as JSON ({error}); "
            "convert it to a string or a number first"
        ) from error


def valid_mapping(value: Any, *, escaped: bool) -> dict[str, Any]:
    """Metadata that was read from JSON; `ValueError` unless it is an object.

    `escaped`: the JSON has escapes of surrogates; their halves become U+FFFD.
    """
    if not isinstance(value, dict):
        raise ValueError(f"metadata that is no object but {str(value)[:40]}")
    return dict(_valid(value)) if escaped else value


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_valid(each) for each in value]
    if isinstance(value, dict):
        return {_valid(key): _valid(each) for key, each in value.items()}
    return value


_TEXT = dict.fromkeys(("by", "description", "digest", "maker", "name", "reason", "title", "type"), str)
_LISTS = dict.fromkeys(("members", "names", "opposite_types", "summaries", "types"), list)
_TYPES: dict[str, Any] = {**_TEXT, **_LISTS, "notes": dict, "rating": (int, float), "weight": (int, float)}
"""What the values of nodes are that are read again, by their names."""
_ITEMS = {"members": str, "names": str, "types": str, "opposite_types": str, "summaries": dict}


class Extra(dict[str, Any]):
    """A node's own values. A missing value, or one of another type, raises `Damaged`."""

    def __init__(self, part: str, identity: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._part = part
        self._id = identity

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise self._damage(f"has no {key!r}")
        value = super().__getitem__(key)
        items = value if key in _ITEMS and isinstance(value, list) else ()
        if not isinstance(value, _TYPES.get(key, object)) or not all(
            isinstance(each, _ITEMS[key]) for each in items
        ):
            raise self._damage(f"has {str(value)[:40]!r} as its {key!r}")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if there is none."""
        if key not in self:
            return default
        return self[key]

    def _damage(self, what: str) -> Damaged:
        return Damaged(
            f"part '{self._part}': node {self._id[:80]!r} {what}, with which no node of its kind is written. "
            "Restore the folder from a copy, or build again"
        )
