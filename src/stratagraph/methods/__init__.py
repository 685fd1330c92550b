"""The methods, by the names that users give. A method is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from stratagraph.errors import MissingExtra
from stratagraph.methods.base import Method, Way
from stratagraph.methods.validation import SearchOptions
from stratagraph.types.question import WALK

NAMES = ("lshtree", "archrag", "noderag", "hirag")
WAYS = (WALK, *NAMES)
_PACKAGES = {
    "hnswlib": ("hnswlib", "hnswlib"),
    "igraph": ("igraph", "methods"),
    "leidenalg": ("leidenalg", "methods"),
    "sklearn": ("scikit-learn", "methods"),
}
"""The distribution of each module that a build may need, and the extra that installs it."""


@dataclass(frozen=True, slots=True)
class WalkOptions(SearchOptions):
    """The walk has no options of its own."""


_WALK = Way(WALK, WalkOptions)


def get_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists those there are.
    """
    if name not in NAMES:
        walk = "; every index can be searched by the walk, for which nothing is built" if name == WALK else ""
        raise ValueError(f"there is no method {name!r}; choose from {', '.join(NAMES)}{walk}")
    method: Method = import_module(f"stratagraph.methods.{name}").METHOD
    return method


def get_way(name: str) -> Way:
    """The walk, or the method of that name; `ValueError` if there is none."""
    if name not in WAYS:
        raise ValueError(f"there is no method {name!r}; choose from {', '.join(WAYS)}")
    return _WALK if name == WALK else get_method(name)


def missing_extra(name: str, config: Any) -> MissingExtra | None:
    """The error for the first package that building a method with these settings needs; None if all are here.

    A search needs none of them.
    """
    for module in config.packages:
        if find_spec(module) is None:
            package, extra = _PACKAGES[module]
            return MissingExtra(f"{package}, with which {name} is built,", extra)
    return None
