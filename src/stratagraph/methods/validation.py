"""Checks of the settings and search options of methods; each error names the setting and its value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

MOST = 2**31 - 1


def whole(name: str, value: Any, least: int, most: int = MOST) -> None:
    """Require a whole number within bounds."""
    if type(value) is not int:
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        bounds = f"at least {least}" if most == MOST else f"from {least} to {most}"
        raise ValueError(f"{name} must be {bounds}, not {value}")


def wholes(settings: Any, **least: int) -> None:
    """Require whole numbers of at least so much in these fields."""
    for name, bound in least.items():
        whole(name, getattr(settings, name), bound)


def number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> None:
    """Require a finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{name} must be a finite number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least:g} to {most:g}, not {value!r}")


def positive(name: str, value: Any) -> None:
    """Require a finite number above 0."""
    number(name, value)
    if value <= 0:
        raise ValueError(f"{name} must be above 0, not {value!r}")


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Require one of some texts."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def flag(name: str, value: Any) -> None:
    """Require True or False."""
    if type(value) is not bool:
        raise TypeError(f"{name} must be True or False, not {value!r}")


def levels(given: Any) -> tuple[int, ...]:
    """Numbers of levels, each once, ascending; a single number stands for a list of one."""
    if isinstance(given, str) or not isinstance(given, int | Iterable):
        raise TypeError(f"levels must be a list of whole numbers, not {given!r}")
    numbers = [given] if isinstance(given, int) else list(given)
    if not numbers:
        raise ValueError("levels is empty; None searches all levels")
    for level in numbers:
        whole("a number in levels", level, 0)
    return tuple(sorted(set(numbers)))


def searched_levels(wanted: Sequence[int] | None, count: int) -> list[int]:
    """The levels to search, of those from 0 to `count - 1`; `ValueError` names one that is not there."""
    for level in wanted or ():
        if level >= count > 0:
            raise ValueError(f"level {level} is not in this index, which has levels 0 to {count - 1}")
    return [level for level in range(count) if wanted is None or level in wanted]


class SearchOptions:
    """Properties that the search options of every method have."""

    __slots__ = ()

    @property
    def whole(self) -> bool:
        """Whether hits show all of a node's text."""
        return True

    @property
    def narrowed(self) -> bool:
        """Whether the options restrict the results, so that the walk must not fill them up."""
        return False
