"""The methods, by the names that users give. A method is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from stratagraph.methods.base import Method, Way
from stratagraph.methods.settings import SearchOptions
from stratagraph.types.question import WALK

NAMES = ("lshtree", "archrag", "noderag", "hirag")
WAYS = (WALK, *NAMES)


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
