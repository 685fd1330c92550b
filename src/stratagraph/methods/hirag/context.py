"""What all steps of a build work with."""

from __future__ import annotations

from dataclasses import dataclass

from stratagraph.methods.base import Corpus, Graph, Stored
from stratagraph.methods.hirag.config import HiRAGConfig
from stratagraph.models.gate import Gate
from stratagraph.pipeline.carryover import CarryOver


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The arguments of a build, and what it takes over from the previous index.

    `grouped` is the index whose clusters and communities are kept; None finds them anew.
    """

    corpus: Corpus
    graph: Graph
    gate: Gate
    config: HiRAGConfig
    previous: Stored | None
    carry: CarryOver
    grouped: Stored | None

    @property
    def dimension(self) -> int:
        """Of all vectors."""
        return int(self.corpus.vectors.shape[1])
