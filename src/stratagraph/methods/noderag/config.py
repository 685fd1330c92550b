"""What can be set about a heterograph, and about a search in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from stratagraph.ingest.summarize import MEMBER_TOKENS
from stratagraph.methods.settings import (
    MethodConfig,
    SearchOptions,
    check_neighbours,
    flag,
    number,
    one_of,
    positive,
    whole,
    wholes,
)

TYPES = "TNRSAHO"
"""The seven node types (paper 001, 2.1): text, entity, relationship, semantic unit, attribute, high-level
element, high-level overview."""
RETRIEVABLE = "TSAHR"
"""Those whose text is retrieved; N and O are names and titles, and only entry points."""
EMBEDDED = "TSAH"
"""Those that have vectors (2.4)."""
KINDS: Mapping[str, float] = {"T": 0.4, "S": 0.3, "A": 0.1, "H": 0.1, "R": 0.1}
"""Shares of the types in the results. Chosen on 40 questions of musique_train100 with given triples: with
half of them for T, or without R, no more than .007 is gained on any data set."""
THEMES: Mapping[str, float] = {"H": 1.0}
MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class NodeRAGConfig(MethodConfig):
    """How a heterograph is built.

    Parameters
    ----------
    sources
        Nodes from which shortest paths are sampled for the betweenness (ERRATA N2).
    statements
        Units and relations that an attribute is made of, at most: the most important ones
        (`attributes.statement_lists`).
    attribute_tokens, element_tokens
        Length that an attribute and a high-level element aim at, in tokens; those that are made of many
        statements may be longer (`summarize.words_for`).
    context_tokens
        Tokens of the statements in the prompt of an attribute or of high-level elements, at most.
    max_community
        Most nodes of a community; so a prompt stays short, and an update rewrites little.
    min_members
        A community with fewer units and attributes gets no high-level element.
    elements
        High-level elements that a model writes of one community, at most.
    resolution
        More of it makes more and smaller communities.
    links
        Links that a node sets in the graph whose level 0 gives the semantic edges; 0 leaves them out.
    neighbours
        How nearest neighbours are searched in a build: `chnsw`, `hnswlib` with or without options, or
        `custom:<name>`, as for `ArchRAGConfig`. The last two join each node with its `links` nearest.
    seed
        Of the betweenness sample, the communities, the clusters, and the order of insertion.
    """

    TEXTS: ClassVar = ("attribute_tokens", "element_tokens", "context_tokens", "elements", "min_members")
    GROUPS: ClassVar = ("sources", "max_community", "resolution", "links", "neighbours", "seed")
    PACKAGES: ClassVar = ("igraph",)
    sources: int = 10
    statements: int = 40
    attribute_tokens: int = 160
    element_tokens: int = 120
    context_tokens: int = MEMBER_TOKENS
    max_community: int = 40
    min_members: int = 3
    elements: int = 3
    resolution: float = 1.0
    links: int = 16
    neighbours: str | Mapping[str, Any] = "chnsw"
    seed: int = 0

    def __post_init__(self) -> None:
        wholes(self, sources=1, statements=1, max_community=2, min_members=1, elements=1, links=0, seed=0)
        wholes(self, attribute_tokens=10, element_tokens=10, context_tokens=100)
        if self.links == 1:
            raise ValueError("links must be 0 or at least 2, not 1: one link each leaves islands")
        positive("resolution", self.resolution)
        check_neighbours(self.neighbours)


@dataclass(frozen=True, slots=True)
class NodeRAGOptions(SearchOptions):
    """How a heterograph is searched. The defaults are those of the paper; several are its ablations.

    Parameters
    ----------
    mode
        `ppr`: entry points and cross nodes, by the mass of the walk. `entry`: the entry points alone
        ("without cross nodes").
    names
        Whether names and titles in the question are entry points; False is "without dual search".
    entry_types
        Types searched by similarity, of T, S, A and H (ERRATA N5).
    similar
        Entry points by similarity; in mode `entry` at least as many as hits are asked for.
    restart, steps
        Of the walk (2.5); `steps=None` goes on to convergence.
    limits
        Maximum number of cross nodes of some types; of the others there are as many as may be wanted.
    types
        Types that are returned, of T, S, A, H and R; None means all. Bare names are never results (N9).
    semantic_edges
        Whether the walk uses the edges of similarity. False gives the paper's ablation without HNSW.
    """

    mode: Literal["ppr", "entry"] = "ppr"
    names: bool = True
    entry_types: tuple[str, ...] = ("S", "A", "H")
    similar: int = 10
    restart: float = 0.5
    steps: int | None = 2
    limits: Mapping[str, int] = field(default_factory=dict)
    types: tuple[str, ...] | None = None
    semantic_edges: bool = True

    def __post_init__(self) -> None:
        one_of("mode", self.mode, ("ppr", "entry"))
        flag("names", self.names)
        flag("semantic_edges", self.semantic_edges)
        object.__setattr__(self, "entry_types", _types("entry_types", self.entry_types, EMBEDDED))
        if self.types is not None:
            object.__setattr__(self, "types", _types("types", self.types, RETRIEVABLE))
            if not self.types:
                raise ValueError("types is empty; None returns all types that have text")
        whole("similar", self.similar, 0)
        number("restart", self.restart)
        if not 0 < self.restart < 1:
            raise ValueError(f"restart must be between 0 and 1, not {self.restart}")
        if self.steps is not None:
            whole("steps", self.steps, 0, MOST_STEPS)
        if not isinstance(self.limits, Mapping):
            raise TypeError(f"limits must be a mapping like {{'T': 10}}, not {self.limits!r}")
        _types("limits", tuple(self.limits), RETRIEVABLE)
        for kind, limit in self.limits.items():
            whole(f"the limit of {kind}", limit, 0)
        object.__setattr__(self, "limits", dict(self.limits))


def _types(name: str, given: Any, allowed: str) -> tuple[str, ...]:
    """Type letters, each once, in the order of `allowed`."""
    if not isinstance(given, str | tuple | list | set | frozenset):
        raise TypeError(f"{name} must be a list of node types, not {given!r}")
    unknown = sorted(str(each) for each in given if each not in tuple(allowed))
    if unknown:
        raise ValueError(f"{name} holds {unknown[0]!r}; it may hold {', '.join(allowed)}")
    return tuple(kind for kind in allowed if kind in given)
