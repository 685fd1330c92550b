"""The subgraph around a question, for its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.names.index import canonical
from stratagraph.ingest.names.linking import link
from stratagraph.operations import listing
from stratagraph.store.snapshot import Snapshot
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

    It holds an open index, so copies of a retrieval share it, and a pickled retrieval has none. `allowed`
    tells what the search's filter admits of each generation; None: everything.
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
    hits = retrieval.hits[:MOST_HITS]
    linked = link(retrieval.query, graph.names)
    ids = {hit.id for hit in hits}
    for trace in retrieval.trace[:MOST_HITS]:
        for key in PATHS:
            ids.update(map(canonical, _strings(trace.get(key))))
    rows = graph.stored.rows(sorted(ids)).values()
    in_hits = np.array(sorted(row for row in rows if row < graph.entities), np.int64)

    chunk_ids = dict.fromkeys(source for hit in hits for source in hit.sources[:MOST_SOURCES])
    passages = np.array(sorted(snapshot.row_of(list(chunk_ids)).values()), np.int64)
    indptr, indices = graph.sources[0][: graph.entities + 1], graph.sources[1]
    owners = np.repeat(np.arange(graph.entities), np.diff(indptr))
    in_passages, counts = np.unique(owners[np.isin(indices[: indptr[-1]], passages)], return_counts=True)
    frequency = np.diff(indptr)[in_passages]
    in_passages = in_passages[np.lexsort((in_passages, frequency, -counts))]

    certain = np.unique(np.concatenate([linked.named, linked.near, in_hits]))
    relations = np.ones(graph.relations, np.bool_)
    if allowed is not None:
        certain, in_passages = certain[allowed.graph[certain]], in_passages[allowed.graph[in_passages]]
        relations &= allowed.graph[graph.entities : graph.entities + graph.relations]
    ranked = np.concatenate([certain, in_passages[~np.isin(in_passages, certain)]])
    most = min(max(FEW_ENTITIES, int((counts > 1).sum())), MOST_ENTITIES)
    chosen = np.sort(ranked[: max(most, len(certain))])
    joining = np.flatnonzero(relations & np.isin(graph.ends, chosen).all(axis=1))
    strongest = np.sort(joining[np.lexsort((joining, -graph.weights[joining]))[:MOST_RELATIONS]])
    shown = tuple(listing.entities_at(snapshot, chosen.tolist()))
    names = dict(zip(chosen.tolist(), (each.id for each in shown), strict=True))
    return Subgraph(
        shown,
        tuple(listing.relations_at(snapshot, strongest.tolist())),
        named=frozenset(names[row] for row in linked.named.tolist() if row in names),
        meant=frozenset(names[row] for row in linked.near.tolist() if row in names),
        left_out=len(ranked) - len(chosen),
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)
