"""What can be set about an ArchRAG index, and about a search in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from stratagraph.kernels._chnsw_layer import Kind
from stratagraph.kernels._chnsw_options import Mode
from stratagraph.methods.archrag.clustering import check_augmentation, check_clustering


@dataclass(frozen=True, slots=True)
class ArchRAGConfig:
    """How a hierarchy of attributed communities is built (Alg. 1).

    Parameters
    ----------
    augmentation
        `knn`, `codicil` or `none`, or `custom:<name>` of one that was registered with
        `stratagraph.register_augmentation`.
    clustering
        `leiden`, `spectral`, `scan` or `node2vec`; Leiden by the quality functions `cpm`, `significance` or
        `surprise` (`pip install 'stratagraph[leidenalg]'`); or `custom:<name>` of one that was registered
        with `stratagraph.register_clustering`.
    neighbours
        Neighbours that augmentation offers each node (K of ERRATA A2); None takes the average degree.
    quantile
        Added edges are as similar as this quantile of the edges there are (ERRATA A2).
    resolution
        Of Leiden's modularity; more of it makes smaller communities.
    max_community
        Most members of a community (ERRATA A4).
    max_levels
        Most levels of communities above the entities.
    min_communities
        A level of fewer nodes is not clustered again.
    min_shrink
        A level counts only if it has fewer nodes than the one below by at least this share.
    summary_tokens
        Length that a report's summary aims at, in tokens.
    links
        Links that a node of C-HNSW sets within its level (the paper's M).
    mode
        Of C-HNSW: `fast`, or `paper` for the algorithm as the paper prints it, with its errata
        (`kernels.chnsw.CHNSW`).
    codes
        What C-HNSW searches: `int8`, a quarter of the vectors' size, or `float32`. Results are scored by the
        vectors in any case.
    ef
        Candidates that a search of C-HNSW keeps in each level for up to ten results, and in proportion for
        more; None takes as many as reach a recall of .98 on a sample.
    breadth
        Best nodes of a level whose members are entries into the one below; as printed there is one.
    seed
        Of clustering and index.
    """

    augmentation: str = "knn"
    clustering: str = "leiden"
    neighbours: int | None = None
    quantile: float = 0.8
    resolution: float = 1.0
    max_community: int = 15
    max_levels: int = 6
    min_communities: int = 10
    min_shrink: float = 0.1
    summary_tokens: int = 160
    links: int = 16
    mode: Mode = "fast"
    codes: Kind = "int8"
    ef: int | None = None
    breadth: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_augmentation(self.augmentation)
        check_clustering(self.clustering)
        if self.neighbours is not None:
            _whole(self, "neighbours", 1, 1000)
        _whole(self, "max_community", 2, 1000)
        _whole(self, "max_levels", 0, 100)
        _whole(self, "min_communities", 2, 10**9)
        _whole(self, "summary_tokens", 10, 10_000)
        _whole(self, "links", 2, 512)
        _one_of(self, "mode", get_args(Mode))
        _one_of(self, "codes", get_args(Kind))
        if self.ef is not None:
            _whole(self, "ef", 1, 100_000)
        _whole(self, "breadth", 1, 10_000)
        _whole(self, "seed", 0, 2**31 - 1)
        _between(self, "quantile", 0.0, 1.0)
        _between(self, "min_shrink", 0.0, 0.99)
        _number(self, "resolution")
        if not self.resolution > 0:
            raise ValueError(f"resolution must be above 0, not {self.resolution!r}")


@dataclass(frozen=True, slots=True)
class ArchRAGOptions:
    """How a hierarchy is searched, and how an answer is made of what was found.

    Parameters
    ----------
    levels
        The levels searched; None means all. Level 0 are the entities and the relations among them.
    k_per_level
        Results taken from each level; None takes what `k` needs, at least 5 (the paper's). The result has
        the best `k` of them; with `fill=False` all of them and the relations among the entities, whatever
        `k`, as in the paper.
    relations
        Whether the relations among the entities found are results too.
    mode
        Of an answer: `filter` lets the model write scored points for each level first (Eq. 3 and 4),
        `direct` gives what was found to the model as it is (the paper's ablation).
    whole
        Whether communities and entities that no model wrote are shown with all of their text, as it was
        made in the build; else with the statements in them that are most similar to the question, those
        left out that a better hit tells (`pipeline.excerpts`).
    """

    levels: tuple[int, ...] | None = None
    k_per_level: int | None = None
    relations: bool = True
    mode: Literal["filter", "direct"] = "filter"
    whole: bool = False

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", _levels(self.levels))
        if self.k_per_level is not None:
            _whole(self, "k_per_level", 1, 10_000)
        for name in ("relations", "whole"):
            if type(getattr(self, name)) is not bool:
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.mode not in ("filter", "direct"):
            raise ValueError(f"mode must be 'filter' or 'direct', not {self.mode!r}")

    @property
    def narrowed(self) -> bool:
        """Whether only some levels are asked for, so that nothing else may complete the results."""
        return self.levels is not None


def _levels(levels: Any) -> tuple[int, ...]:
    given = [levels] if isinstance(levels, int) else list(levels)
    if not given:
        raise ValueError("levels is empty; None searches all levels")
    for level in given:
        if type(level) is not int or level < 0:
            raise ValueError(f"levels are whole numbers of at least 0, not {level!r}")
    return tuple(sorted(set(given)))


def _whole(owner: Any, name: str, least: int, most: int) -> None:
    value = getattr(owner, name)
    if type(value) is not int:
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")


def _one_of(owner: Any, name: str, known: Sequence[str]) -> None:
    value = getattr(owner, name)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")


def _number(owner: Any, name: str) -> None:
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{name} must be a finite number, not {value!r}")


def _between(owner: Any, name: str, least: float, most: float) -> None:
    _number(owner, name)
    value = getattr(owner, name)
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least:g} to {most:g}, not {value!r}")
