"""Options of baselines: keyword arguments of constructors, checked by their annotations.

An annotation is a type, a `Literal`, or `Annotated` with a `Within`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, both included, or excluded if `open`."""

    low: float
    high: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number is within."""
        return self.low < value < self.high if self.open else self.low <= value <= self.high

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"at least {self.low:g}"
        return (
            f"between {self.low:g} and {self.high:g}" if self.open else f"from {self.low:g} to {self.high:g}"
        )


Damping = Annotated[float, Within(0, 1, open=True)]
Share = Annotated[float, Within(0, 1)]
Weight = Annotated[float, Within(0)]
Level = Annotated[int, Within(0)]
Count = Annotated[int, Within(1)]


def names_of(made: type[Any]) -> list[str]:
    """Options of a baseline: arguments of its constructor without the bench."""
    return list(inspect.signature(made).parameters)[1:]


def check(name: str, made: type[Any], options: Mapping[str, Any]) -> None:
    """Refuse unknown options and invalid values by a `ValueError` that says what is allowed."""
    known = names_of(made)
    if strange := sorted(set(options) - set(known)):
        raise ValueError(
            f"{name} has no option {', '.join(map(repr, strange))}; it has {', '.join(known) or 'none'}"
        )
    hints = get_type_hints(made.__init__, include_extras=True) if options else {}
    for key, value in options.items():
        if allowed := _lacking(hints[key], value):
            raise ValueError(f"{key} must be {allowed}, not {value!r}")


def _lacking(hint: Any, value: Any) -> str:
    """What a value should be; empty if it is valid."""
    bounds: Within | None = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    if get_origin(hint) is Literal:
        # 1 == True and 1.0 == 1: the type belongs to the value
        fits = any(type(value) is type(each) and value == each for each in get_args(hint))
        return "" if fits else f"one of {', '.join(map(str, get_args(hint)))}"
    kinds = get_args(hint) or (hint,)
    said = [_WORDS[kind] for kind in kinds if not _is(kind, value)]
    if len(said) == len(kinds):
        return " or ".join(said)
    return "" if bounds is None or bounds.holds(value) else str(bounds)


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}


def _is(kind: type[Any], value: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is kind
