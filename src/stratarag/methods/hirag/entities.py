"""The entities of all layers of a hierarchy while it is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stratarag.methods.base import Graph
from stratarag.methods.hirag.naming import Summary
from stratarag.pipeline.carryover import Keys, keys_of
from stratarag.protocols import Vectors
from stratarag.records import Node


class MemberRelation(NamedTuple):
    """A relation from a member of a cluster to its summary entity; `strength` is 0 where nothing is known."""

    member: int
    summary: int
    reason: str
    strength: float


@dataclass(slots=True)
class Entities:
    """The entities of all layers: those of the graph, then the summary entities, in one numbering.

    Attributes
    ----------
    ids, names, texts, sources, vectors, keys
        Of all entities.
    nodes
        The nodes of the summary entities.
    relations
        Of members of clusters with the summary entities of these.
    summaries
        What the clusters of each summary entity say of it, by its row.
    complete
        Whether a model wrote all summaries.
    """

    ids: list[str]
    names: list[str]
    texts: list[str]
    sources: list[Sequence[int]]
    vectors: Vectors
    keys: Keys
    nodes: list[Node] = field(default_factory=list)
    relations: list[MemberRelation] = field(default_factory=list)
    summaries: dict[int, list[Summary]] = field(default_factory=dict)
    complete: bool = True

    @classmethod
    def of(cls, graph: Graph) -> Entities:
        """The entities of the basic graph, layer 0."""
        nodes = graph.stored.nodes(range(graph.entities))
        return cls(
            ids=[node.id for node in nodes],
            names=[node.extra["name"] for node in nodes],
            texts=[node.text for node in nodes],
            sources=[node.sources for node in nodes],
            vectors=np.asarray(graph.vectors),
            keys=keys_of("entity", (node.id for node in nodes)),
        )

    def sources_of(self, members: Sequence[int]) -> list[int]:
        """The union of the members' sources, ascending."""
        return sorted({source for member in members for source in self.sources[member]})
