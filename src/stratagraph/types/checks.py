"""Checks of arguments that several layers take."""

from __future__ import annotations

import operator


def positive(name: str, value: int) -> int:
    """The value as an int of at least 1; otherwise `TypeError` or `ValueError`, naming the argument."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__} {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return operator.index(value)
