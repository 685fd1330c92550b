"""The interface of a method: it turns a corpus into nodes and arrays, and searches them.

A method never touches a file. It reads a `Corpus`, asks the gate for model calls and returns a `Built`, which
the caller stores. An update is a build over the changed corpus with the previous index at hand: nodes made of
the same members have the same id and are taken over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.nearest import Nearest
from stratagraph.methods.groups import GroupBuilder
from stratagraph.search.answer import Compose, compose
from stratagraph.search.ranking import Ranking, RowTable
from stratagraph.types.built import Built
from stratagraph.types.protocols import Corpus, Stored, Vectors
from stratagraph.types.question import SearchQuestion, Sources
from stratagraph.types.records import Metadata

__all__ = [
    "Build",
    "Built",
    "Check",
    "Compose",
    "Corpus",
    "Graph",
    "Method",
    "MethodDescription",
    "Opened",
    "Ranking",
    "RowTable",
    "SearchQuestion",
    "Searcher",
    "Stored",
]


@dataclass(frozen=True, slots=True)
class Opened:
    """A generation opened for questions, as a method's searcher is given it.

    Parameters
    ----------
    corpus
        The chunks and their vectors.
    graph
        Entities, relations and semantic units.
    passages
        The nearest chunks by similarity.
    part
        The method's own nodes and arrays.
    """

    corpus: Corpus
    graph: Graph
    passages: Nearest
    part: Stored

    @property
    def sources(self) -> Sources:
        """The chunks behind each of the method's own nodes."""
        return self.part.arrays["sources.indptr"], self.part.arrays["sources.indices"]

    def nearest(self, name: str, vectors: Vectors) -> Nearest:
        """The search over vectors whose `Nearest.index` arrays the part holds under this name."""
        return Nearest(vectors, self.part.arrays, name)


@dataclass(frozen=True, slots=True)
class MethodDescription:
    """The part of `stats()` about one method."""

    nodes: Mapping[str, int]
    details: Metadata = field(default_factory=dict)


class Searcher(Protocol):
    """An opened index of a method: arrays are memory-mapped, texts are not loaded.

    The reader adds what all methods share: filters (`SearchQuestion.allowed`) and the passages of the walk.
    """

    def nodes(self, question: SearchQuestion) -> Ranking:
        """The method's own ranking, of nodes and chunks; without chunks if `question.mixed`.

        At most `question.k` results, unless the options ask for a number per level without `fill`.
        """
        ...

    def describe(self) -> MethodDescription:
        """Counts for `stats()`."""
        ...


Build = Callable[[GroupBuilder[Any]], Awaitable[Built]]
"""Indexes a corpus. Nodes with the same members as in the previous index keep their texts and vectors."""
Check = Callable[[Checks, Graph, int, int], None]
"""Checks that arrays fit each other, the graph, and a corpus of so many chunks and dimensions.

It raises `ValueError` if one is missing, has another dtype or shape, or names a row that does not exist.
"""


@dataclass(frozen=True, slots=True)
class Way:
    """A way of searching: the walk, or a method.

    `compose` turns a retrieval into the last prompt of an answer, and `answer_k` is the default number of
    hits for it.
    """

    name: str
    options_type: type[Any]
    compose: Compose = compose
    answer_k: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Way):
    """One of the methods: its name, its settings, and its verbs.

    `build` depends on nothing but its arguments and the model's answers. `check` looks at the arrays of a
    stored index, and `open` makes it searchable without reading any text. `needs_graph`: entities and
    relations are worth asking a model for; `needs_vectors`: the entities have vectors (`Graph.vectors`);
    `needs_units`: the semantic units have (`Graph.unit_vectors`). `cosines`: the scores of its ranking are
    similarities to the question, and so compare between indexes.

    What the results consist of, whatever the scores: `passages` is the share of the walk's passages
    (`cookbook/benchmarks/nuggets.py` and `default_view.py`: so many that four hits hold three). `kinds`
    are the shares of the method's own kinds of nodes among these, in proportion; a kind that is not named
    comes after all others, unless none is. `themes` are the same in the default view where a question asks
    for a theme and a model wrote the nodes; one passage leads, and they fill the rest.
    """

    config_type: type[Any]
    build: Build
    check: Check
    open: Callable[[Opened], Searcher]
    needs_graph: bool = True
    needs_vectors: bool = False
    needs_units: bool = False
    cosines: bool = False
    passages: float = 0.75
    kinds: Mapping[str, float] = field(default_factory=dict)
    themes: Mapping[str, float] = field(default_factory=dict)
