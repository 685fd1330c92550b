"""The arrays of a heterograph, checked once when it is opened."""

from __future__ import annotations

import numpy as np

from stratagraph.ingest.checks import Checks
from stratagraph.ingest.graph.stage import Graph
from stratagraph.kernels.checks import check_range
from stratagraph.methods.drift import check_drift
from stratagraph.methods.groups import check_nodes
from stratagraph.methods.noderag.attributes import SOURCES
from stratagraph.methods.noderag.heterograph import KINDS, SIMILAR, Kind, Layout
from stratagraph.methods.noderag.inputs import BORDERS, ELEMENT_LABELS, MEMBERS
from stratagraph.methods.noderag.matching import CELLS


def check_arrays(checks: Checks, graph: Graph, chunks: int, dimension: int) -> None:
    """Check that the arrays fit each other, the graph, and the number of chunks.

    The index of titles is checked by `NameIndex`.
    """
    check_drift(checks)
    layout = _layout(checks, graph, chunks)
    check_nodes(checks, chunks, dimension, layout.size - layout.first("A"))
    rich = layout.first("O") - layout.first("S")
    checks.of("entries.vectors", np.float32, (rich, dimension))
    checks.csr("walk", layout.size, layout.size, ascending=True)
    told = checks.of(KINDS, np.uint8, checks.any("walk.indices").shape)
    check_range(told & (SIMILAR - 1), KINDS, len(Kind))
    check_range(told, KINDS, 2 * SIMILAR)
    checks.of("titles.lengths", np.uint16, (layout.count("O"),))
    checks.nearest("entries", rich, dimension)
    # What the next update starts from, and by what it finds what is unchanged.
    attributes, rows = layout.count("A"), graph.entities + graph.relations + graph.units
    checks.of("communities.labels", np.int32, (rows + attributes,))
    checks.rows(SOURCES, rows, (None,))
    checks.rows(ELEMENT_LABELS, np.iinfo(np.int64).max, (layout.count("H"),))
    members = checks.rows(MEMBERS, rows, (None,))
    borders = checks.of(BORDERS, np.int64, (attributes + 1,))
    if borders[0] != 0 or borders[-1] != len(members) or (np.diff(borders) < 1).any():
        raise ValueError(f"array '{BORDERS}' does not divide the {len(members)} members of attributes")
    checks.rows(CELLS, rich, (rich,), dtype=np.int32, start=-1)


def _layout(checks: Checks, graph: Graph, chunks: int) -> Layout:
    array = checks.of("layout", np.int64, (8,))
    layout = Layout.of(chunks, graph)
    expected = layout.bounds[:5].tolist()
    if array[:5].tolist() != expected:
        raise ValueError(f"array 'layout' begins with {array[:5].tolist()}, not {expected}")
    checks.borders("layout", int(array[-1]), 7)
    layout = Layout(np.asarray(array))
    if layout.count("O") != layout.count("H"):
        raise ValueError(
            f"array 'layout' has {layout.count('H')} elements and {layout.count('O')} titles of them"
        )
    return layout
