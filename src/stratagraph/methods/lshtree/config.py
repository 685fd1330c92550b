"""What can be set about an LSH tree, and about a search in one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class LSHTreeConfig:
    """How a tree is built.

    Parameters
    ----------
    min_cluster, max_cluster
        Bounds on the members of a summary; `max_cluster >= 2 * min_cluster - 1` (ERRATA L3).
    bits
        Length of the hash codes; None derives it from the number of chunks (ERRATA L2).
    max_levels
        Most levels of summaries above the chunks (the paper's L).
    min_level
        A level of fewer nodes is not grouped again (the paper's n_min).
    summary_tokens
        Length that a summary aims at, in tokens.
    seed
        Of the hyperplanes.
    """

    min_cluster: int = 4
    max_cluster: int = 12
    bits: int | None = None
    max_levels: int = 5
    min_level: int = 8
    summary_tokens: int = 160
    seed: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | None):
                raise TypeError(f"{item.name} must be a whole number, not {value!r}")
            if value is None and item.name != "bits":
                raise TypeError(f"{item.name} must be a whole number, not None")
        if self.min_cluster < 2:
            raise ValueError(
                f"min_cluster must be at least 2, or no level would shrink, not {self.min_cluster}"
            )
        if self.max_cluster < 2 * self.min_cluster - 1:
            raise ValueError(
                f"max_cluster must be at least 2 * min_cluster - 1 = {2 * self.min_cluster - 1}, "
                f"not {self.max_cluster}: otherwise a cluster one too large cannot be split"
            )
        if self.bits is not None and not 1 <= self.bits <= 1024:
            raise ValueError(f"bits must be between 1 and 1024, not {self.bits}")
        if self.max_levels < 0 or self.min_level < 2:
            raise ValueError(
                f"max_levels must be at least 0 and min_level at least 2, "
                f"not {self.max_levels} and {self.min_level}"
            )
        if self.summary_tokens < 10:
            raise ValueError(f"summary_tokens must be at least 10, not {self.summary_tokens}")


@dataclass(frozen=True, slots=True)
class LSHTreeOptions:
    """How a tree is searched.

    Parameters
    ----------
    mode
        `collapsed`: the nearest nodes of all levels together. `per_level`: the nearest of each level, with
        equal shares in the results (the paper's).
    k_per_level
        Results taken from each level in mode `per_level`; None takes what its share of `k` needs. With
        `fill=False` the result is exactly these, whatever `k`.
    levels
        The levels searched; None means all. Level 0 are the chunks.
    """

    mode: Literal["collapsed", "per_level"] = "collapsed"
    k_per_level: int | None = None
    levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("collapsed", "per_level"):
            raise ValueError(f"mode must be 'collapsed' or 'per_level', not {self.mode!r}")
        if self.k_per_level is not None:
            _whole("k_per_level", self.k_per_level, 1)
        if self.levels is not None:
            object.__setattr__(self, "levels", _levels(self.levels))

    @property
    def whole(self) -> bool:
        """Whether hits show all of a node's text; here they do."""
        return True

    @property
    def narrowed(self) -> bool:
        """Whether only some levels are asked for, so that nothing else may complete the results."""
        return self.levels is not None


def _levels(given: Any) -> tuple[int, ...]:
    """Levels, each once, ascending; a single one may stand for a list of one."""
    if isinstance(given, str) or not isinstance(given, int | Iterable):
        raise TypeError(f"levels must be a list of whole numbers, not {given!r}")
    levels = [given] if isinstance(given, int) else list(given)
    if not levels:
        raise ValueError("levels is empty; None searches all levels")
    for level in levels:
        _whole("a level", level, 0)
    return tuple(sorted(set(levels)))


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
