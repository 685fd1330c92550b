"""A question as one frozen value that every layer reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Vectors
from stratagraph.types.records import Metadata

T = TypeVar("T")
View = Literal["chunks"]
WALK = "walk"
"""The way of searching that every index has: passages by a walk over names and links (`search.walk`)."""
LONGEST = 8_000
"""Characters of a question that are searched for and embedded; the rest is ignored."""
VIEWS: tuple[View, ...] = get_args(View)
Rank = Literal["walk", "bm25", "dense", "hybrid"]
RANKS: tuple[Rank, ...] = get_args(Rank)
Guided = bool | Literal["choice", "overview"]
GUIDED: tuple[Guided, ...] = (False, True, "choice", "overview")
Turn = tuple[str, str]
"""A turn of a conversation: who spoke, one of `ROLES`, and the text."""
ROLES = ("user", "assistant")
SHARED_OPTIONS = (
    "as_of",
    "decompose",
    "fill",
    "guided",
    "guided_steps",
    "history",
    "min_score",
    "rank",
    "recency",
    "rerank",
)
"""Options of a search by any method; a method has its own in addition."""
SEARCH_ARGUMENTS = ("method", "view", "where", *SHARED_OPTIONS)
"""Arguments of a search, without the question, `k` and the method's own options."""
Length = Literal["brief", "full"]
LENGTHS: tuple[Length, ...] = get_args(Length)
"""How long an answer is."""
Where = Mapping[str, Any] | Callable[[Metadata], bool]
Mask = NDArray[np.bool_]
Sources = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Source chunks of rows as compressed rows: those of row i are `indices[indptr[i]:indptr[i + 1]]`."""


def narrowed(where: Where | None, further: Where | None) -> Where | None:
    """The filter that admits what both admit.

    A filter that a part was made with holds in every call: what a call gives only narrows it.
    """
    conditions = [each for each in (where, further) if each is not None]
    return {"$and": conditions} if len(conditions) == 2 else next(iter(conditions), None)


class Allowed:
    """What a metadata filter admits. A node passes only if *every* chunk it came from does.

    `chunks` are the admitted chunks, shape (chunks,); the others are the sources of the graph's nodes, and of
    the method's.
    """

    def __init__(self, chunks: Mask, graph_sources: Sources, node_sources: Sources) -> None:
        self.chunks = chunks
        self._graph_sources = graph_sources
        self._node_sources = node_sources

    @property
    def parts(self) -> Sequence[Allowed]:
        """What it admits of each shard; of one index, itself."""
        return (self,)

    @cached_property
    def graph(self) -> Mask:
        """Admitted entities, relations and units, shape (nodes of the graph,)."""
        return rows_allowed(*self._graph_sources, self.chunks)

    @cached_property
    def nodes(self) -> Mask:
        """Admitted nodes of the method, shape (nodes,)."""
        return rows_allowed(*self._node_sources, self.chunks)


def rows_allowed(indptr: NDArray[np.int64], indices: NDArray[np.int64], chunks: Mask) -> Mask:
    """Rows whose source chunks are all admitted (`chunks`, shape (chunks,)); shape (rows,).

    The sources of row i are `indices[indptr[i]:indptr[i + 1]]`. One forbidden chunk forbids a summary, whose
    text may repeat it. A row without sources is never admitted.
    """
    forbidden = np.concatenate(([0], np.cumsum(~chunks[indices], dtype=np.int64)))
    return np.asarray((forbidden[indptr[1:]] == forbidden[indptr[:-1]]) & (np.diff(indptr) > 0))


@dataclass(frozen=True, slots=True, eq=False)
class SearchQuestion:
    """What to search for, and how.

    `text` are the first `LONGEST` characters of the question, `vector` is its unit vector, `k` the number of
    results, `method` the name of a method or `"walk"`, and `options` are the method's search options,
    validated. `where` None admits everything; `allowed` is what `where` admits, set by the reader. `entities`
    are the names in the question if a model found them; None leaves that to the rules. With `fill`, passages
    of the walk have a share in a method's results; `rank` is how passages are ranked. `recency` is a
    half-life in days by which newer passages and nodes are preferred; None ignores their dates. `theme` is
    what is searched for by vectors and words if the question asks for a theme, which is `text` without hub
    words (`search.walk.PassageWalk.theme`); None if it asks for facts. `shares` are those of the kinds of
    nodes in a method's own results (`methods.base.Method`), set by the reader.
    """

    text: str
    vector: Vectors
    k: int
    method: str
    options: Any
    where: Where | None = None
    entities: tuple[str, ...] | None = None
    fill: bool = True
    rank: Rank = "walk"
    recency: float | None = None
    allowed: Allowed | None = None
    theme: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    _found: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def mixed(self) -> bool:
        """Whether the walk's passages get a share; a method then leaves out its own passages."""
        return self.fill and not self.options.narrowed

    def once(self, finder: object, name: str, find: Callable[[], T], *, by_text: bool = False) -> T:
        """Compute something once for this question and its copies with another `k`.

        `find` may depend only on the text, vector, entities, options and filter, and `by_text` on text and
        entities alone. `finder` and `name` identify what it finds.
        """
        options = (self.vector, self.options, self.recency, self.allowed)
        inputs = (self.entities, *(() if by_text else options))
        key = finder, name, self.text, *map(id, inputs)
        if key not in self._found:
            self._found[key] = find(), inputs  # kept alive, so that no other object gets their `id`
        value: T = self._found[key][0]
        return value
