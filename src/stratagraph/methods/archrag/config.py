"""What can be set about an ArchRAG index, and about a search in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from stratagraph.errors import require
from stratagraph.ingest.summarize import MEMBER_TOKENS
from stratagraph.kernels.chnsw_layer import Kind
from stratagraph.kernels.chnsw_options import Mode
from stratagraph.kernels.leidenalg import QUALITIES, WITHOUT_RESOLUTION, Quality
from stratagraph.methods.archrag.clustering import AUGMENTATIONS, CLUSTERINGS
from stratagraph.methods.reports import ReportForm
from stratagraph.methods.settings import (
    MethodConfig,
    SearchOptions,
    check_neighbours,
    flag,
    levels,
    number,
    one_of,
    positive,
    whole,
    wholes,
)

Merge = Literal["grounded", "paper"]
KINDS: Mapping[str, float] = {"entities": 1.0, "communities": 0.5}
"""Shares of level 0, and of each level above, beside passages. With equal ones, contexts of 2,000 tokens lack
the answers to three more of the demo's 24 factual questions."""
THEMES: Mapping[str, float] = {"entities": 1.0, "communities": 1.0}
"""Shares of level 0, and of each level above, in the results of a theme, which one passage leads. With half
of passages there are .03 fewer of the facts in 1,000 and in 2,000 tokens; with communities alone as many."""


@dataclass(frozen=True, slots=True)
class ArchRAGConfig(MethodConfig):
    """How a hierarchy of attributed communities is built (Alg. 1).

    Parameters
    ----------
    augmentation
        `knn` or `none`, or `custom:<name>` of one that was registered with
        `stratagraph.register_augmentation`.
    clustering
        `leiden` or `leidenalg`, or `custom:<name>` of one that was registered with
        `stratagraph.register_clustering`.
    quality
        What `leidenalg` maximises: `modularity` (also None), `CPM`, `RBER`, `significance` or `surprise`.
    neighbours
        How nearest neighbours are searched in a build: `chnsw`, `hnswlib`, or `custom:<name>` of a search
        that was registered with `stratagraph.register_neighbours`. hnswlib takes options:
        `{"name": "hnswlib", "M": 16, "ef_construction": 200, "ef": 100}`.
    added_neighbours
        Neighbours that augmentation offers each node (K of ERRATA A2); None takes the average degree.
    quantile
        Added edges are as similar as this quantile of the edges there are (ERRATA A2).
    resolution
        Of Leiden's modularity, and of leidenalg's CPM and RBER; more of it makes smaller communities.
    max_community
        Most members of a community (ERRATA A4).
    max_levels
        Most levels of communities above the entities.
    min_communities
        A level of fewer nodes is not clustered again.
    min_shrink
        A level counts only if it has fewer nodes than the one below by at least this share.
    summary_tokens
        Length that a report's summary aims at, in tokens; those of many members may be longer
        (`summarize.words_for`).
    report_form
        Of reports that a model writes: `findings` have a title, a summary and up to ten findings, with the
        members that state each; `short` ones have no findings (`reports.ReportForm`).
    context_tokens
        Tokens of the members in the prompt of a report, at most.
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

    TEXTS: ClassVar = ("summary_tokens", "report_form", "context_tokens")
    GROUPS: ClassVar = (
        *("clustering", "quality", "resolution", "max_community"),
        *("augmentation", "neighbours", "added_neighbours", "quantile", "seed"),
    )
    PACKAGES: ClassVar = ("igraph",)
    augmentation: str = "knn"
    clustering: str = "leiden"
    quality: Quality | None = None
    neighbours: str | Mapping[str, Any] = "chnsw"
    added_neighbours: int | None = None
    quantile: float = 0.8
    resolution: float = 1.0
    max_community: int = 15
    max_levels: int = 6
    min_communities: int = 10
    min_shrink: float = 0.1
    summary_tokens: int = 160
    report_form: ReportForm = "findings"
    context_tokens: int = MEMBER_TOKENS
    links: int = 16
    mode: Mode = "fast"
    codes: Kind = "int8"
    ef: int | None = None
    breadth: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        AUGMENTATIONS.check(self.augmentation)
        CLUSTERINGS.check(self.clustering)
        check_neighbours(self.neighbours)
        if self.quality is not None:
            one_of("quality", self.quality, QUALITIES)
            if self.clustering != "leidenalg":
                raise ValueError(f"quality is for clustering='leidenalg', and it is {self.clustering!r}")
            if self.quality in WITHOUT_RESOLUTION and self.resolution != 1:
                raise ValueError(f"{self.quality} has no resolution, and resolution is {self.resolution}")
        for name, most in (("added_neighbours", 1000), ("ef", 100_000)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1, most)
        wholes(self, max_community=(2, 1000), max_levels=(0, 100), min_communities=2, seed=0)
        wholes(self, summary_tokens=(10, 10_000), context_tokens=100, links=(2, 512), breadth=(1, 10_000))
        one_of("report_form", self.report_form, get_args(ReportForm))
        one_of("mode", self.mode, get_args(Mode))
        one_of("codes", self.codes, get_args(Kind))
        number("quantile", self.quantile, 0, 1)
        number("min_shrink", self.min_shrink, 0, 0.99)
        positive("resolution", self.resolution)

    def require(self) -> None:
        """Raise `MissingExtra` if a package is not here that a build needs, `ValueError` for a function."""
        super(ArchRAGConfig, self).require()  # slots make another class, which a bare `super` does not know
        if self.clustering == "leidenalg":
            require("methods", "leidenalg")
        AUGMENTATIONS.custom(self.augmentation)
        CLUSTERINGS.custom(self.clustering)


@dataclass(frozen=True, slots=True)
class ArchRAGOptions(SearchOptions):
    """How a hierarchy is searched, and how answers are made from the hits.

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
    merge
        The prompt that merges the points: `grounded` says only what points support, `paper` also answers from
        the model's own knowledge where they do not help (Fig. 15; ERRATA M3).
    mode
        Of an answer: `filter` lets the model write scored points for each level first (Eq. 3 and 4),
        `direct` gives what was found to the model as it is (the paper's ablation).
    whole
        True shows the full text of communities and entities that no model wrote. False shows their
        statements that are most similar to the question (`search.excerpts`).
    """

    levels: tuple[int, ...] | None = None
    k_per_level: int | None = None
    relations: bool = True
    merge: Merge = "grounded"
    mode: Literal["filter", "direct"] = "filter"
    whole: bool = False

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", levels(self.levels))
        if self.k_per_level is not None:
            whole("k_per_level", self.k_per_level, 1, 10_000)
        flag("relations", self.relations)
        flag("whole", self.whole)
        one_of("merge", self.merge, get_args(Merge))
        one_of("mode", self.mode, ("filter", "direct"))
        if self.mode == "direct" and self.merge == "paper":
            raise ValueError("merge='paper' has no effect with mode='direct', which merges no points")
