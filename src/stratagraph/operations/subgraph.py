"""The subgraph around a question, for its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.names.index import canonical
from stratagraph.ingest.names.linking import link
from stratagraph.operations import listing
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.protocols import Rows
from stratagraph.types.question import Allowed
from stratagraph.types.results import Picture, Retrieval
from stratagraph.viz.question import MOST_HITS, PATHS, Subgraph, question

MOST_ENTITIES = 30
FEW_ENTITIES = 12
"""Entities that are shown even if each is in one passage only."""
MOST_RELATIONS = 120
MOST_SOURCES = 10
"""Passages of a hit that are read; a summary of the corpus has very many."""


class SubgraphPainter:
    """Draws retrievals from the generations that answered them.

    It holds an open index, so copies of a retrieval share it, and a pickled retrieval has none.

    Parameters
    ----------
    snapshot
        The generations.
    allowed
        Tells what the search's filter admits of each of them; None: everything.
    """

    def __init__(
        self, snapshot: listing.AnySnapshot, allowed: Callable[[], Sequence[Allowed] | None]
    ) -> None:
        self._snapshot = snapshot
        self._allowed = allowed

    def __call__(self, retrieval: Retrieval) -> Picture:
        """The subgraph around a question, of all shards."""
        snapshots, allowed = listing.parts_of(self._snapshot), self._allowed()
        parts = [
            _subgraph(part, retrieval, None if allowed is None else allowed[at])
            for at, part in enumerate(snapshots)
        ]
        drawn = Subgraph(
            tuple(listing.once(chain.from_iterable(part.entities for part in parts))),
            tuple(listing.once(chain.from_iterable(part.relations for part in parts))),
            named=frozenset().union(*(part.named for part in parts)),
            meant=frozenset().union(*(part.meant for part in parts)),
            left_out=sum(part.left_out for part in parts),
        )
        return question(retrieval, drawn)

    def __deepcopy__(self, memo: dict[int, object]) -> SubgraphPainter:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _subgraph(snapshot: Snapshot, retrieval: Retrieval, allowed: Allowed | None) -> Subgraph:
    """The entities and relations to draw: named in the question, hit, on a path, or in the hits' passages.

    Entities of the hits' passages are ordered by the number of these passages, then from rare to frequent.
    Entities and relations are drawn only if the filter admits all their passages.
    """
    graph = Graph(snapshot.part(GRAPH))
    linked = link(retrieval.query, graph.names)
    in_hits = _entities_found(graph, retrieval)
    met, shared = _in_passages(graph, _passages(snapshot, retrieval))
    certain = np.unique(np.concatenate([linked.named, linked.near, in_hits]))
    if allowed is not None:
        certain, met = certain[allowed.graph[certain]], met[allowed.graph[met]]
    ranked = np.concatenate([certain, met[~np.isin(met, certain)]])
    most = min(max(FEW_ENTITIES, shared), MOST_ENTITIES)
    chosen = np.sort(ranked[: max(most, len(certain))])
    shown = tuple(listing.entities_at(snapshot, chosen.tolist()))
    names = dict(zip(chosen.tolist(), (each.id for each in shown), strict=True))
    return Subgraph(
        shown,
        tuple(listing.relations_at(snapshot, _relations(graph, chosen, allowed).tolist())),
        named=frozenset(names[row] for row in linked.named.tolist() if row in names),
        meant=frozenset(names[row] for row in linked.near.tolist() if row in names),
        left_out=len(ranked) - len(chosen),
    )


def _passages(snapshot: Snapshot, retrieval: Retrieval) -> Rows:
    ids = dict.fromkeys(source for hit in retrieval.hits[:MOST_HITS] for source in hit.sources[:MOST_SOURCES])
    return np.array(sorted(snapshot.row_of(list(ids)).values()), dtype=np.int64)


def _in_passages(graph: Graph, passages: Rows) -> tuple[Rows, int]:
    """Rows of the entities in these passages, the best first, and how many are in several of them."""
    indptr, indices = graph.sources[0][: graph.entities + 1], graph.sources[1]
    owners = np.repeat(np.arange(graph.entities), np.diff(indptr))
    inside = owners[np.isin(indices[: indptr[-1]], passages)]
    rows, counts = np.unique(inside, return_counts=True)
    frequency = np.diff(indptr)[rows]
    return rows[np.lexsort((rows, frequency, -counts))], int((counts > 1).sum())


def _entities_found(graph: Graph, retrieval: Retrieval) -> Rows:
    """Rows of the entities among the hits and on the traces' paths."""
    names = {hit.id for hit in retrieval.hits[:MOST_HITS]}
    for trace in retrieval.trace[:MOST_HITS]:
        for key in PATHS:
            names.update(map(canonical, _strings(trace.get(key))))
    rows = graph.stored.rows(sorted(names)).values()
    return np.array(sorted(row for row in rows if row < graph.entities), dtype=np.int64)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _relations(graph: Graph, entities: Rows | Sequence[int], allowed: Allowed | None) -> NDArray[np.int64]:
    """Rows of the strongest admitted relations between these entities, ascending."""
    rows = np.flatnonzero(np.isin(graph.ends, entities).all(axis=1))
    if allowed is not None:
        rows = rows[allowed.graph[graph.entities + rows]]
    order = np.lexsort((rows, -graph.weights[rows]))[:MOST_RELATIONS]
    return np.sort(rows[order])
