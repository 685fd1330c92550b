"""The arrays of a generation, checked before a search or an update follows them."""

from __future__ import annotations

from collections.abc import Iterator

from stratarag.methods import get_method
from stratarag.pipeline.graph import NAME as GRAPH
from stratarag.pipeline.graph import Graph
from stratarag.pipeline.graph_checks import check_arrays, check_corpus
from stratarag.store.contents import infinite
from stratarag.store.snapshot import Snapshot


def checked_graph(snapshot: Snapshot) -> Graph:
    """The graph of a generation; `Damaged` if its arrays, or those of the corpus, do not fit each other."""
    part = snapshot.part(GRAPH)
    check_corpus(snapshot.vectors, snapshot.chunk_documents(), snapshot.size, snapshot.document_count)
    check_arrays(part.arrays, *snapshot.vectors.shape)
    return Graph(part)


def check_method(snapshot: Snapshot, graph: Graph, method: str) -> None:
    """Whether a method's arrays fit each other and a graph that was checked; `Damaged` if not."""
    get_method(method).check(snapshot.part(method).arrays, graph, *snapshot.vectors.shape)


def check_all(snapshot: Snapshot) -> None:
    """Check what an update starts from: the corpus, the graph and every method. `Damaged` names an array."""
    graph = checked_graph(snapshot)
    for method in snapshot.manifest.methods:
        check_method(snapshot, graph, method)


def not_finite(snapshot: Snapshot) -> Iterator[str]:
    """Where vectors hold what is no number, in a line each; all of them are read."""
    parts = {name: snapshot.part(name).arrays for name in snapshot.manifest.parts}
    for name, arrays in [("corpus", {"vectors": snapshot.vectors}), *parts.items()]:
        for array in infinite(arrays):
            yield f"part '{name}' of the index is damaged: array '{array}' holds values that are not finite"
