"""A question on its way from the façade to the kernels: one frozen value that every layer reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stratagraph._locks import cached_property
from stratagraph.protocols import Vectors
from stratagraph.records import Metadata

T = TypeVar("T")
View = Literal["nodes", "chunks"]
LONGEST = 8_000
"""Characters of a question that are searched for: its names, its words and its vector are of these."""
VIEWS: tuple[View, ...] = get_args(View)
Rank = Literal["walk", "bm25", "dense", "hybrid"]
RANKS: tuple[Rank, ...] = get_args(Rank)
Decompose = bool | Literal["names", "questions"]
DECOMPOSITIONS: tuple[Decompose, ...] = (False, True, "names", "questions")
SHARED_OPTIONS = ("decompose", "fill", "rank", "rerank")
"""How to search, with every method; a method's own options come beside these."""
SEARCH_ARGUMENTS = ("view", "where", "method", *SHARED_OPTIONS)
"""All that a search takes beside the question, `k` and the method's own options."""
Length = Literal["brief", "full"]
LENGTHS: tuple[Length, ...] = get_args(Length)
"""How long an answer is."""
Where = Mapping[str, Any] | Callable[[Metadata], bool]
Mask = NDArray[np.bool_]
Sources = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Source chunks of rows as compressed rows: those of row i are `indices[indptr[i]:indptr[i + 1]]`."""


class Allowed:
    """What a metadata filter admits. A row passes only if *every* chunk that it came from does.

    Parameters
    ----------
    chunks
        The admitted chunks, shape (chunks,).
    graph_sources, node_sources
        Sources of the rows of the graph, and of the method's own nodes.
    """

    def __init__(self, chunks: Mask, graph_sources: Sources, node_sources: Sources) -> None:
        self.chunks = chunks
        self._graph_sources = graph_sources
        self._node_sources = node_sources

    @cached_property
    def graph(self) -> Mask:
        """The admitted entities, relations and units, shape (rows of the graph,)."""
        return rows_allowed(*self._graph_sources, self.chunks)

    @cached_property
    def nodes(self) -> Mask:
        """The admitted nodes of the method, shape (nodes,)."""
        return rows_allowed(*self._node_sources, self.chunks)


def rows_allowed(indptr: NDArray[np.int64], indices: NDArray[np.int64], chunks: Mask) -> Mask:
    """The rows of which every source chunk is admitted, shape (rows,).

    One forbidden source is enough to forbid a summary, since its text may hold what that chunk says.
    A row without sources is admitted by no filter.

    Parameters
    ----------
    indptr, indices
        Sources of row i are the chunks `indices[indptr[i]:indptr[i + 1]]`.
    chunks
        The admitted chunks, shape (chunks,).
    """
    forbidden = np.concatenate(([0], np.cumsum(~chunks[indices], dtype=np.int64)))
    return np.asarray((forbidden[indptr[1:]] == forbidden[indptr[:-1]]) & (np.diff(indptr) > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is searched for, and how.

    Parameters
    ----------
    text
        The question as it was asked, in its first `LONGEST` characters.
    vector
        Its unit vector, shape (dimension,).
    k
        Number of results that are wanted.
    view
        `"nodes"`: the method's own ranking; `"chunks"`: source passages; None: both, in the shares of the
        method (`Method.node_share`).
    method
        Which of the index's methods answers.
    options
        The method's own search options, validated.
    where
        The caller's metadata filter; None admits everything.
    entities
        The names in the question where a model was asked for them; None leaves that to the rules.
    fill
        Whether passages by similarity follow where the method has fewer than `k` results; never where the
        options ask for certain levels or types alone (`narrowed`).
    rank
        How passages are ranked: by the walk, by words, by similarity, or by these two fused.
    allowed
        What `where` admits; set by the reader, which knows the corpus.
    """

    text: str
    vector: Vectors
    k: int
    view: View | None
    method: str
    options: Any
    where: Where | None = None
    entities: tuple[str, ...] | None = None
    fill: bool = True
    rank: Rank = "walk"
    allowed: Allowed | None = None
    _found: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, finder: object, name: str, find: Callable[[], T]) -> T:
        """What a method finds for a question, worked out once for it and its copies with another `k`.

        The default view asks a method twice, for seeds and for nodes, and a ranking whose hits repeat each
        other is asked for again; what neither depends on need not be found again.

        Parameters
        ----------
        finder, name
            Who finds it, and what.
        find
            Finds it: from the text, the vector, the names, the options and the filter, and from nothing else.
        """
        asked = self.vector, self.entities, self.options, self.allowed
        key = finder, name, self.text, *map(id, asked)
        if key not in self._found:
            self._found[key] = find(), asked  # held, so that nothing else has their place in memory
        found: T = self._found[key][0]
        return found
