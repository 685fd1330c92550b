"""What can be set about a HiRAG index, and about a search in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

Mode = Literal["hi", "local", "global", "bridge", "no_bridge"]
Part = Literal["local", "bridge", "global"]
PARTS: tuple[Part, ...] = ("local", "bridge", "global")
MODES: dict[str, tuple[Part, ...]] = {
    "hi": PARTS,
    "local": ("local",),
    "global": ("global",),
    "bridge": ("bridge",),
    "no_bridge": ("local", "global"),
}
META_TYPES = ("organization", "person", "location", "event", "product", "technology", "work", "concept")


@dataclass(frozen=True, slots=True)
class HiRAGConfig:
    """How a hierarchical knowledge graph is built.

    Parameters
    ----------
    cluster_size, max_cluster
        Members of a cluster on average, about, and at most (ERRATA H3).
    threshold
        Posterior probability from which an entity belongs to a further cluster.
    memberships
        Clusters that an entity belongs to at most.
    dimensions
        Principal components in which the mixtures are fitted.
    stop_change
        A layer is the last if the sparsity of its clusters differs by this part of it or less from that of
        the layer below (the paper's epsilon; ERRATA H1), from the second layer of summary entities on. 0
        goes on while there is something to cluster.
    max_layers
        Most layers of summary entities.
    min_layer
        A layer of fewer entities is not clustered.
    meta_types
        General concepts that guide the summaries (the paper's X); None lets the model choose them, once.
    summary_tokens, report_tokens
        Length that the description of a summary entity, and a report, aim at.
    max_community, community_levels
        Members of a community of the finest level at most, and levels of communities at most.
    resolution
        Of the communities; more makes them more and smaller.
    seed
        Of mixtures and communities.
    """

    cluster_size: int = 8
    max_cluster: int = 16
    threshold: float = 0.1
    memberships: int = 2
    dimensions: int = 10
    stop_change: float = 0.05
    max_layers: int = 5
    min_layer: int = 8
    meta_types: tuple[str, ...] | None = None
    summary_tokens: int = 80
    report_tokens: int = 200
    max_community: int = 24
    community_levels: int = 3
    resolution: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            _whole(name, getattr(self, name), least)
        if self.max_cluster < self.cluster_size:
            raise ValueError(
                f"max_cluster must be at least cluster_size = {self.cluster_size}, not {self.max_cluster}"
            )
        _number("threshold", self.threshold, 0.0, 1.0)
        _number("stop_change", self.stop_change, 0.0, 1.0)
        _number("resolution", self.resolution, 0.0, 1e6)
        if self.threshold == 0 or self.resolution == 0:
            raise ValueError("threshold and resolution must be above 0")
        if self.meta_types is not None:
            object.__setattr__(self, "meta_types", _texts(self.meta_types))


@dataclass(frozen=True, slots=True)
class HiRAGOptions:
    """How a hierarchical knowledge graph is searched.

    Parameters
    ----------
    mode
        The parts of the result: `hi` has all three; `local`, `global` and `bridge` one; `no_bridge` two.
    entities
        Entities of all layers that are most similar to the question: the local part (the paper's n).
    communities
        Communities of these entities that are considered, the most similar first.
    key_entities
        Entities of each community between which the bridge runs (the paper's m).
    quotas
        Shares of the local, bridge and global part in the `k` results, where they take turns; those of parts
        that a mode leaves out, or that have too little, go to the others.
    budgets
        Shares of the parts in the tokens of an answer's context, likewise.
    whole
        Whether communities and entities that no model wrote are shown with all of their text, as it was
        made in the build; else with the statements in them that are most similar to the question, those
        left out that a better hit tells (`pipeline.excerpts`).
    """

    mode: Mode = "hi"
    entities: int = 20
    communities: int = 10
    key_entities: int = 10
    quotas: tuple[float, float, float] = (0.4, 0.4, 0.2)
    budgets: tuple[float, float, float] = (0.3, 0.4, 0.3)
    whole: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        for name in ("entities", "communities", "key_entities"):
            _whole(name, getattr(self, name), 1)
        if not isinstance(self.whole, bool):
            raise TypeError(f"whole must be True or False, not {self.whole!r}")
        for name in ("quotas", "budgets"):
            object.__setattr__(self, name, _shares(name, getattr(self, name)))

    @property
    def narrowed(self) -> bool:
        """Whether nothing else may complete the results; parts that are short leave room to the others."""
        return False


_LEAST = {
    "cluster_size": 2,
    "max_cluster": 2,
    "memberships": 1,
    "dimensions": 1,
    "max_layers": 0,
    "min_layer": 2,
    "summary_tokens": 10,
    "report_tokens": 10,
    "max_community": 2,
    "community_levels": 1,
    "seed": 0,
}


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def _number(name: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not (isfinite(value) and least <= value <= most):
        raise ValueError(f"{name} must be between {least:g} and {most:g}, not {value}")


def _texts(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"meta_types must be a list of concepts, not {values!r}")
    if not values or not all(isinstance(value, str) and value.strip() for value in values):
        raise ValueError(f"meta_types must be concepts, at least one and none blank, not {values!r}")
    return tuple(dict.fromkeys(value.strip() for value in values))


def _shares(name: str, values: object) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != len(PARTS):
        raise TypeError(f"{name} must be three shares: {', '.join(PARTS)}, not {values!r}")
    for value in values:
        _number(name, value, 0.0, 1e6)
    if not sum(values):
        raise ValueError(f"{name} must not all be 0")
    return tuple(float(value) for value in values)
