"""What can be set about an LSH tree, and about a search in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stratagraph.methods.settings import (
    MethodConfig,
    SearchOptions,
    check_neighbours,
    levels,
    one_of,
    whole,
    wholes,
)


@dataclass(frozen=True, slots=True)
class LSHTreeConfig(MethodConfig):
    """How a tree is built.

    Parameters
    ----------
    min_cluster, max_cluster
        Bounds on the members of a summary; `max_cluster >= 2 * min_cluster - 1` (ERRATA L3).
    bits
        Length of the hash codes (ERRATA L2). Of 128 to 1,024, 512 puts most gold passages into the five
        groups nearest to a question, whichever one of three corpora is left out
        (`cookbook/benchmarks/groups.py`).
    max_levels
        Most levels of summaries above the chunks (the paper's L).
    min_level
        A level of fewer nodes is not grouped again (the paper's n_min).
    summary_tokens
        Length that a summary aims at, in tokens.
    neighbours
        How nearest neighbours are searched in a build: `chnsw`, `hnswlib` with or without options, or
        `custom:<name>`, as for `ArchRAGConfig`.
    seed
        Of the hyperplanes.
    """

    TEXTS: ClassVar = ("summary_tokens",)
    GROUPS: ClassVar = ("min_cluster", "max_cluster", "bits", "neighbours", "seed")
    min_cluster: int = 4
    max_cluster: int = 12
    bits: int = 512
    max_levels: int = 5
    min_level: int = 8
    summary_tokens: int = 160
    neighbours: str | Mapping[str, Any] = "chnsw"
    seed: int = 0

    def __post_init__(self) -> None:
        wholes(self, min_cluster=2, max_cluster=2, max_levels=0, min_level=2, summary_tokens=10, seed=0)
        wholes(self, bits=(1, 1024))
        check_neighbours(self.neighbours)
        if self.max_cluster < 2 * self.min_cluster - 1:
            raise ValueError(
                f"max_cluster must be at least 2 * min_cluster - 1 = {2 * self.min_cluster - 1}, "
                f"not {self.max_cluster}: otherwise a cluster one too large cannot be split"
            )


@dataclass(frozen=True, slots=True)
class LSHTreeOptions(SearchOptions):
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
        one_of("mode", self.mode, ("collapsed", "per_level"))
        if self.k_per_level is not None and self.mode == "collapsed":
            raise ValueError('k_per_level is for mode="per_level", and the mode is "collapsed"')
        if self.k_per_level is not None:
            whole("k_per_level", self.k_per_level, 1)
        if self.levels is not None:
            object.__setattr__(self, "levels", levels(self.levels))
