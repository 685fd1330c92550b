"""Settings of a HiRAG index, and options of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from stratagraph.ingest.summarize import MEMBER_TOKENS
from stratagraph.methods.reports import ReportForm
from stratagraph.methods.settings import MethodConfig, SearchOptions, flag, number, one_of, positive, wholes

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
KINDS: Mapping[str, float] = {"local": 0.4, "bridge": 0.4, "global": 0.2}
THEMES: Mapping[str, float] = {"global": 1.0}
META_TYPES = ("organization", "person", "location", "event", "product", "technology", "work", "concept")


@dataclass(frozen=True, slots=True)
class HiRAGConfig(MethodConfig):
    """How a hierarchical knowledge graph is built.

    Parameters
    ----------
    cluster_size, max_cluster
        Approximate mean size and maximum size of a cluster (ERRATA H3).
    threshold
        Posterior probability from which an entity belongs to a further cluster.
    memberships
        Maximum number of clusters of an entity.
    dimensions
        Principal components in which the mixtures are fitted.
    max_layers
        Maximum number of layers of summary entities. Layers end before where a layer has fewer than
        `2 * cluster_size` entities or shrinks by less than a tenth (ERRATA H1).
    meta_types
        General concepts that guide the summaries (the paper's X); with None the model chooses them.
    summary_tokens, report_tokens
        Target lengths of the description of a summary entity, and of a report. Those of many members may be
        longer (`summarize.words_for`).
    report_form
        Of reports that a model writes: `findings` have a title, a summary and up to ten findings, with the
        members that state each; `short` ones have no findings (`reports.ReportForm`).
    context_tokens
        Tokens of the members in the prompt of a report, at most.
    max_community, community_levels
        Maximum size of a community of the finest level, and maximum number of levels.
    resolution
        Resolution of the modularity; larger values make more and smaller communities.
    seed
        Seed of mixtures and communities.
    """

    TEXTS: ClassVar = ("summary_tokens", "report_tokens", "report_form", "context_tokens")
    GROUPS: ClassVar = (
        *("cluster_size", "max_cluster", "threshold", "memberships", "dimensions", "max_layers"),
        *("max_community", "community_levels", "resolution", "seed"),
    )
    PACKAGES: ClassVar = ("igraph", "sklearn")
    cluster_size: int = 8
    max_cluster: int = 16
    threshold: float = 0.1
    memberships: int = 2
    dimensions: int = 10
    max_layers: int = 12
    meta_types: tuple[str, ...] | None = None
    summary_tokens: int = 80
    report_tokens: int = 200
    report_form: ReportForm = "findings"
    context_tokens: int = MEMBER_TOKENS
    max_community: int = 24
    community_levels: int = 3
    resolution: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        wholes(self, cluster_size=2, max_cluster=2, memberships=1, dimensions=1, max_layers=0, seed=0)
        wholes(self, max_community=2, community_levels=1)
        wholes(self, summary_tokens=10, report_tokens=10, context_tokens=100)
        if self.max_cluster < self.cluster_size:
            raise ValueError(
                f"max_cluster must be at least cluster_size = {self.cluster_size}, not {self.max_cluster}"
            )
        one_of("report_form", self.report_form, get_args(ReportForm))
        number("threshold", self.threshold, 0, 1)
        positive("threshold", self.threshold)
        positive("resolution", self.resolution)
        if self.meta_types is not None:
            object.__setattr__(self, "meta_types", _texts(self.meta_types))


@dataclass(frozen=True, slots=True)
class HiRAGOptions(SearchOptions):
    """How a hierarchical knowledge graph is searched.

    Parameters
    ----------
    mode
        The parts of the result: `hi` has all three; `local`, `global` and `bridge` one; `no_bridge` two.
    entities
        Number of most similar entities of all layers: the local part (the paper's n).
    communities
        Number of most similar communities of these entities.
    key_entities
        Number of entities of each community that the bridge connects (the paper's m).
    quotas
        Shares of the local, bridge and global part in the `k` results, however many `entities` the search
        starts from; None takes those of `KINDS`, and of `THEMES`
        for a theme where a model wrote the reports. Unused shares go to the other parts.
    whole
        Show the full text of communities and entities that no model wrote. By default they show the
        statements that are most similar to the question and not in a better hit (`search.excerpts`).
    """

    mode: Mode = "hi"
    entities: int = 20
    communities: int = 10
    key_entities: int = 10
    quotas: tuple[float, float, float] | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        one_of("mode", self.mode, tuple(MODES))
        wholes(self, entities=1, communities=1, key_entities=1)
        flag("whole", self.whole)
        if self.quotas is not None:
            object.__setattr__(self, "quotas", _shares("quotas", self.quotas))


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
        number(name, value, 0, 1e6)
    if not sum(values):
        raise ValueError(f"{name} must not all be 0")
    return tuple(float(value) for value in values)
