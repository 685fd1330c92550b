"""Metadata filters: a `where` as a predicate on a chunk's metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stratagraph.types.dates import day_of
from stratagraph.types.question import Where
from stratagraph.types.records import Chunk, Metadata, json_native

Predicate = Callable[[Metadata], bool]
_MISSING = object()
_DEEPEST = 20
_IDS = ("$document", "$passage")


def compile_where(where: Where) -> Predicate:
    """Turn a filter into a predicate on a chunk's metadata.

    A mapping admits a chunk if every key passes. The condition of a key is a value (equality), a list
    (membership), or a mapping of operators (`$eq $ne $gt $gte $lt $lte $in $nin`, and `$until`: a date, as
    `types.dates.day_of` reads it, that is not after the given one). If the metadata holds a list, one passing
    item is enough (for `$ne` and `$nin`, every item must pass). A missing key passes only `$ne` and `$nin`;
    values that cannot be compared do not pass. `$and` and `$or` take a list of filters, `$not` takes one.
    Values are converted as metadata is when it is stored (`types.records.json_native`), so that a date finds
    the date that was given. `$document` and `$passage` are keys in the place of metadata: the id of the
    document, and of the chunk or its `ref`. A callable is used as it is, also among those; its argument is
    the metadata with these two keys.

    Raises
    ------
    ValueError
        If an operator is unknown or in the place of a field, a condition is empty, or nesting is deeper than
        20 levels.
    TypeError
        If `where` is neither a mapping nor callable, an operator has an operand of the wrong kind, or a value
        is an object that metadata cannot hold.
    """
    return _all_of(where, _DEEPEST)


def reads_ids(where: Any) -> bool:
    """Whether a filter reads the ids that `with_ids` adds to metadata, or has a function, which may."""
    if callable(where):
        return True
    if isinstance(where, Mapping):
        return any(key in _IDS or reads_ids(each) for key, each in where.items())
    return isinstance(where, list | tuple) and any(map(reads_ids, where))


def with_ids(chunk: Chunk) -> Metadata:
    """The metadata of a chunk, with what `$document` and `$passage` are compared with."""
    names = [chunk.id, chunk.ref] if chunk.ref else [chunk.id]
    return {**chunk.metadata, "$document": chunk.document_id, "$passage": names}


def _all_of(where: Any, depth: int) -> Predicate:
    if callable(where):
        predicate: Predicate = where
        return predicate
    if not isinstance(where, Mapping):
        raise TypeError(
            "a filter must be a mapping such as {'year': {'$gte': 1901}}, or a function on metadata, not "
            f"{type(where).__name__}: {where!r}"
        )
    if not depth:
        raise ValueError(f"a filter may be nested {_DEEPEST} levels deep, not deeper")
    tests = [test for key, condition in where.items() for test in _tests(key, condition, depth - 1)]
    return lambda metadata: all(test(metadata) for test in tests)


def _tests(key: str, condition: Any, depth: int) -> list[Predicate]:
    if key == "$not":
        excluded = _all_of(condition, depth)
        return [lambda metadata: not excluded(metadata)]
    if key in ("$and", "$or"):
        if not isinstance(condition, list | tuple) or not condition:
            raise TypeError(f"{key} takes a list of filters, not {condition!r}")
        parts = [_all_of(each, depth) for each in condition]
        combine = all if key == "$and" else any
        return [lambda metadata: combine(part(metadata) for part in parts)]
    if isinstance(key, str) and key.startswith("$") and key not in _IDS:
        raise ValueError(
            f"unknown operator {key!r} in place of a field; there are $and, $or and $not, the ids $document "
            f"and $passage, and on the values of a field {', '.join(_OPERATORS)}"
        )
    if not isinstance(condition, Mapping):
        condition = {"$in" if _is_list(condition) else "$eq": condition}
    if not condition:
        raise ValueError(f"the filter on {key!r} has no condition; leave the key out to admit everything")
    if unknown := sorted(set(condition) - set(_OPERATORS), key=str):
        raise ValueError(
            f"unknown operator {unknown[0]!r} in the filter on {key!r}; there are {', '.join(_OPERATORS)}"
        )
    tests = [_OPERATORS[name](json_native(operand, key=key)) for name, operand in condition.items()]
    return [lambda metadata: all(test(metadata.get(key, _MISSING)) for test in tests)]


def _is_list(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def _items(value: Any) -> Sequence[Any]:
    if value is _MISSING:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _compare(operation: Callable[[Any, Any], bool]) -> Callable[[Any], Callable[[Any], bool]]:
    def bind(operand: Any) -> Callable[[Any], bool]:
        def fits(item: Any) -> bool:
            try:
                return bool(operation(item, operand))
            except TypeError:
                return False

        return lambda value: any(fits(item) for item in _items(value))

    return bind


def _negate(positive: Callable[[Any], Callable[[Any], bool]]) -> Callable[[Any], Callable[[Any], bool]]:
    def bind(operand: Any) -> Callable[[Any], bool]:
        test = positive(operand)
        return lambda value: not test(value)

    return bind


def _member(operand: Any) -> Callable[[Any], bool]:
    """Membership in a list; a string would admit its parts, and `$nin` of a number everything."""
    if not _is_list(operand):
        raise TypeError(f"$in and $nin take a list of values, not {operand!r}")
    return _compare(lambda item, among: item in among)(operand)


def _until(operand: Any) -> Callable[[Any], bool]:
    if (latest := day_of(operand)) is None:
        raise ValueError(f"$until takes a date such as '2024-06-30', '2024-06' or 2024, not {operand!r}")
    last = latest.last
    return lambda value: (day := day_of(value)) is not None and day.last <= last  # a list is no date


def _equal(operand: Any) -> Callable[[Any], bool]:
    """Equality with an item of a list, or with the whole of it."""
    item = _compare(lambda item, operand: item == operand)(operand)
    return lambda value: item(value) or bool(value == operand)


_OPERATORS: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "$eq": _equal,
    "$ne": _negate(_equal),
    "$gt": _compare(lambda item, operand: item > operand),
    "$gte": _compare(lambda item, operand: item >= operand),
    "$lt": _compare(lambda item, operand: item < operand),
    "$lte": _compare(lambda item, operand: item <= operand),
    "$in": _member,
    "$nin": _negate(_member),
    "$until": _until,
}
