"""What a method is, seen from outside: it turns a corpus into nodes and arrays, and searches them.

A method never touches a file. It reads a `Corpus`, asks the gate for model calls, and returns a
`Built`; whoever called it stores that. An update is a build over the changed corpus that is handed
the previous index: what is made of the same members has the same id, and is taken over, not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stratarag.models.gate import Gate
from stratarag.pipeline.answer import Compose, compose
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.ranking import Origin, Ranking
from stratarag.protocols import Corpus, Stored, Vectors
from stratarag.records import Built, Metadata

__all__ = [
    "Build",
    "Built",
    "Compose",
    "Corpus",
    "Description",
    "Graph",
    "Mask",
    "Method",
    "Origin",
    "Query",
    "Ranking",
    "Searcher",
    "Stored",
]

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Query:
    """A question on its way through a search.

    `allowed` marks the chunks that a filter admits, shape (corpus size,); None admits all.
    `entities` are the names in the question where a model was asked for them; None leaves that to the
    extractor. `options` are the method's own, already validated.
    """

    text: str
    vector: Vectors
    k: int
    allowed: Mask | None = None
    entities: tuple[str, ...] | None = None
    options: Any = None


@dataclass(frozen=True, slots=True)
class Description:
    """How an index presents itself in `stats()`."""

    nodes: Mapping[str, int]
    details: Metadata = field(default_factory=dict)


class Searcher(Protocol):
    """An opened index: arrays mapped, nothing of the text loaded."""

    def nodes(self, query: Query) -> Ranking:
        """The method's own ranking, at most `query.k` results, of nodes and chunks."""
        ...

    def chunks(self, query: Query) -> Ranking:
        """Source passages ranked by what the method found, at most `query.k`."""
        ...

    def describe(self) -> Description:
        """Counts for `stats()`."""
        ...


class Build(Protocol):
    """Index a corpus; what `previous` already holds of it is taken over."""

    async def __call__(
        self, corpus: Corpus, graph: Graph, gate: Gate, *, config: Any, previous: Stored | None
    ) -> Built:
        """See `Method`."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """One of the methods: its name, its settings, and its verbs.

    `build` is pure but for the gate: same corpus, config and answers, same result. `open` makes a stored
    index searchable without reading any text. `compose` turns what was retrieved into the last prompt of
    an answer; `answer_k` is how much is retrieved for one. `needs_graph`: entities and relations are worth
    asking a model for; `needs_vectors`: the entities are embedded (`Graph.vectors`).
    """

    name: str
    config_type: type[Any]
    options_type: type[Any]
    build: Build
    open: Callable[[Corpus, Graph, Stored, Any], Searcher]
    compose: Compose = compose
    answer_k: int = 10
    needs_graph: bool = True
    needs_vectors: bool = False
