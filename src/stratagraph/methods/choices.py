"""Choices by name: those that come along, and functions that a user registers.

A configuration names a registered function `custom:<name>`. Builds and updates need the function, searches do
not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stratagraph.errors import require
from stratagraph.methods.validation import whole

if TYPE_CHECKING:
    from stratagraph.kernels.knn import NearestOthers

CUSTOM = "custom:"
HNSWLIB = "hnswlib"
_HNSWLIB_OPTIONS = ("M", "ef_construction", "ef")


class Choices:
    """The names that a setting may have, and the functions that were registered for it in this process."""

    def __init__(self, setting: str, built_in: Sequence[str]) -> None:
        self._setting = setting
        self._built_in = built_in
        self._registered: dict[str, Callable[..., Any]] = {}

    def check(self, name: Any) -> None:
        """`ValueError` unless the name is built in or has the form of a registered one."""
        if not isinstance(name, str):
            raise TypeError(f"{self._setting} must be a name, not {name!r}")
        if name not in self._built_in and not (name.startswith(CUSTOM) and name != CUSTOM):
            raise ValueError(
                f"there is no {self._setting} {name!r}; choose from {', '.join(self._built_in)}, or register "
                f"your own and name it '{CUSTOM}<name>'"
            )

    def custom(self, name: str) -> Callable[..., Any] | None:
        """The user's function of a name that a configuration gives; None if the name is built in."""
        if not name.startswith(CUSTOM):
            return None
        own = name.removeprefix(CUSTOM)
        if own not in self._registered:
            raise ValueError(
                f"{self._setting} {name!r} is not registered in this process; call "
                f"register_{self._setting}({own!r}, function) before building"
            )
        return self._registered[own]

    def register(self, name: str, function: Callable[..., Any]) -> str:
        """Register a function; gives `custom:<name>`."""
        if not isinstance(name, str) or not callable(function):
            raise TypeError(
                f"register_{self._setting} takes a name and a function, not {name!r} and {function!r}"
            )
        if not name:
            raise ValueError(f"register_{self._setting} needs a name that is not empty")
        self._registered[name] = function
        return CUSTOM + name


_NEIGHBOURS = Choices("neighbours", ("chnsw", HNSWLIB))


def register_neighbours(name: str, function: NearestOthers) -> str:
    """Register a nearest neighbour search as `custom:<name>`, for the setting `neighbours` of a method.

    ArchRAG, NodeRAG and the LSH tree search neighbours in a build. What is returned and raised is as for
    `register_augmentation`.

    Parameters
    ----------
    name
        Its name in this process; a function that had it is replaced.
    function
        Called with vectors (n, d), float32, and k < n; gives the rows of the k nearest others of each vector
        by inner product, shape (n, k), best first, -1 where fewer were found. For equal input it must give
        equal output.

    Examples
    --------
    >>> import numpy as np
    >>> register_neighbours("exact", lambda vectors, k: np.argsort(-(vectors @ vectors.T))[:, 1 : k + 1])
    'custom:exact'
    """
    return _NEIGHBOURS.register(name, function)


def check_neighbours(setting: str | Mapping[str, Any]) -> None:
    """`ValueError` or `TypeError` unless the setting `neighbours` is a name, or hnswlib with its options."""
    name, options = _divided(setting)
    _NEIGHBOURS.check(name)
    if options and name != HNSWLIB:
        raise ValueError(f"neighbours {name!r} takes no options, and {sorted(options)} were given")
    for option, value in options.items():
        if option not in _HNSWLIB_OPTIONS:
            raise ValueError(f"hnswlib has no option {option!r}; it has {', '.join(_HNSWLIB_OPTIONS)}")
        whole(f"{option} of hnswlib", value, 2 if option == "M" else 1, 100_000)


def require_neighbours(setting: str | Mapping[str, Any]) -> None:
    """Raise `MissingExtra` or `ValueError` if the search that the setting `neighbours` names is not here."""
    name, _ = _divided(setting)
    if name == HNSWLIB:
        require("hnswlib", "hnswlib")
    else:
        _NEIGHBOURS.custom(name)


def neighbour_search(setting: str | Mapping[str, Any], seed: int = 0) -> NearestOthers | None:
    """The search that the setting `neighbours` names; None for the one of the kernels, C-HNSW."""
    name, options = _divided(setting)
    if name != HNSWLIB:
        return _NEIGHBOURS.custom(name)
    from stratagraph.kernels.hnswlib import nearest_others

    return partial(nearest_others, seed=seed, threads=os.cpu_count() or 1, **options)


def _divided(setting: str | Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The name and the options of `neighbours`: a name, or a mapping with a `name`."""
    if not isinstance(setting, Mapping):
        return setting, {}
    options = dict(setting)
    return options.pop("name", None), options
