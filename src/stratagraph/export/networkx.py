"""An index as a graph of networkx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stratagraph.errors import MissingExtra
from stratagraph.export.graph import Vertex, elements
from stratagraph.export.tables import Source

if TYPE_CHECKING:
    import networkx


def to_networkx(index: Source, methods: Sequence[str]) -> networkx.MultiDiGraph:
    """The graph of `export.graph`; see `Index.to_networkx`."""
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("networkx", "networkx") from error
    graph = networkx.MultiDiGraph()
    for each in elements(index, methods):
        if isinstance(each, Vertex):
            graph.add_node(each.id, kind=each.kind, label=each.label, **each.values)
        else:
            graph.add_edge(each.source, each.target, kind=each.kind, **each.values)
    return graph
