"""What the settings of all methods share: checks, choices by name, and what a change of them concerns.

Each error names the setting and its value. A setting names a function that a user registered `custom:<name>`.
Builds and updates need the function, searches do not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from stratagraph.errors import require
from stratagraph.methods.reports import ReportForm

if TYPE_CHECKING:
    from stratagraph.kernels.knn import NearestOthers

MOST = 2**31 - 1


def whole(name: str, value: Any, least: int, most: int = MOST) -> None:
    """Require a whole number within bounds."""
    if type(value) is not int:
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        bounds = f"at least {least}" if most == MOST else f"from {least} to {most}"
        raise ValueError(f"{name} must be {bounds}, not {value}")


def wholes(settings: Any, **bounds: int | tuple[int, int]) -> None:
    """Require whole numbers in these fields, of at least so much, or from the first number to the second."""
    for name, bound in bounds.items():
        whole(name, getattr(settings, name), *([bound] if isinstance(bound, int) else bound))


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


class MethodConfig:
    """The settings of a method. `TEXTS` and `GROUPS` are the fields that its texts and its groups depend on.

    `PACKAGES` are those of the extra `methods` that a build needs.
    """

    __slots__ = ()
    TEXTS: ClassVar[tuple[str, ...]] = ()
    GROUPS: ClassVar[tuple[str, ...]] = ()
    PACKAGES: ClassVar[tuple[str, ...]] = ()

    @property
    def text_settings(self) -> list[str]:
        """The values of the fields that texts depend on; of a form of reports, its place."""
        values = (getattr(self, name) for name in self.TEXTS)
        forms = get_args(ReportForm)
        return [str(forms.index(value) if value in forms else value) for value in values]

    @property
    def group_settings(self) -> list[object]:
        """The values of the fields that groups depend on."""
        return [getattr(self, name) for name in self.GROUPS]

    def require(self) -> None:
        """Raise `MissingExtra` if a package is not here that a build needs, `ValueError` for a function."""
        if self.PACKAGES:
            require("methods", *self.PACKAGES)
        if "neighbours" in self.GROUPS:
            name, _ = _divided(getattr(self, "neighbours"))  # noqa: B009 - of the subclass
            if name == HNSWLIB:
                require("hnswlib", "hnswlib")
            else:
                _NEIGHBOURS.custom(name)


class SearchOptions:
    """Properties that the search options of every method have."""

    __slots__ = ()

    @property
    def whole(self) -> bool:
        """Whether hits show all of a node's text."""
        return True

    @property
    def narrowed(self) -> bool:
        """Whether only some levels or types are searched, so that the walk must not fill the results up."""
        return any(getattr(self, name, None) is not None for name in ("levels", "types"))
