"""Metadata filters: a `where` as a predicate on a chunk's metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from stratagraph.question import Where
from stratagraph.records import Metadata

Predicate = Callable[[Metadata], bool]
_MISSING = object()


def compile_where(where: Where) -> Predicate:
    """Turn a filter into a predicate on a chunk's metadata.

    A mapping admits a chunk if every key fits: a plain value by equality, a list by membership, or a
    mapping of operators (`$eq $ne $gt $gte $lt $lte $in $nin`). A value in the metadata that is itself
    a list fits if any item of it does (for `$ne` and `$nin`: if every item does). A missing key fits
    only `$ne` and `$nin`; values that cannot be compared do not fit. A callable is taken as it is.

    Raises
    ------
    ValueError
        If an operator is unknown, or stands where the name of a field should.
    TypeError
        If `where` is neither a mapping nor callable, or `$in` or `$nin` have no list.
    """
    if callable(where):
        return where
    if not isinstance(where, Mapping):
        raise TypeError(
            "`where` must be a mapping such as {'year': {'$gte': 1901}}, or a function on metadata, "
            f"not {type(where).__name__}: {where!r}"
        )
    tests = [(key, test) for key, condition in where.items() for test in _tests(key, condition)]
    return lambda metadata: all(test(metadata.get(key, _MISSING)) for key, test in tests)


def _tests(key: str, condition: Any) -> list[Callable[[Any], bool]]:
    if isinstance(key, str) and key.startswith("$"):
        raise ValueError(
            f"unknown operator {key!r} in place of a field; all fields of a filter must fit, and for "
            "anything else `where` can be a function on metadata"
        )
    if isinstance(condition, Mapping):
        unknown = sorted(set(condition) - set(_OPERATORS), key=str)
        if unknown:
            raise ValueError(
                f"unknown operator {unknown[0]!r} in the filter on {key!r}; there are {', '.join(_OPERATORS)}"
            )
        return [_OPERATORS[name](operand) for name, operand in condition.items()]
    return [_OPERATORS["$in" if _is_list(condition) else "$eq"](condition)]


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


_equal = _compare(lambda item, operand: item == operand)
_OPERATORS: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "$eq": _equal,
    "$ne": _negate(_equal),
    "$gt": _compare(lambda item, operand: item > operand),
    "$gte": _compare(lambda item, operand: item >= operand),
    "$lt": _compare(lambda item, operand: item < operand),
    "$lte": _compare(lambda item, operand: item <= operand),
    "$in": _member,
    "$nin": _negate(_member),
}
