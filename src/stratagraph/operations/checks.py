"""Checks of a generation's arrays before a search or update follows them."""

from __future__ import annotations

import numpy as np

from stratagraph.errors import Damaged, StratagraphError
from stratagraph.ingest.carryover import VECTOR_KEYS, VECTORS
from stratagraph.ingest.checks import Checks, damage
from stratagraph.ingest.extraction import stored as extraction
from stratagraph.ingest.extraction.stage import NAME as EXTRACTION
from stratagraph.ingest.graph.checks import check_arrays, check_corpus
from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.ingest.graph.stage import Graph
from stratagraph.ingest.graph.statements import NAME_CODES, NAME_KEYS, UNIT_KEYS, UNIT_VECTORS
from stratagraph.methods import get_method
from stratagraph.store.contents import are_infinite
from stratagraph.store.pool import PooledVectors
from stratagraph.store.snapshot import Snapshot

UNNAMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that kernels and methods raise over impossible numbers."""


def checked_graph(snapshot: Snapshot) -> Graph:
    """The graph of a generation; `Damaged` if its arrays or the corpus's do not fit."""
    part = snapshot.part(GRAPH)
    check_corpus(snapshot.vectors, snapshot.chunk_documents(), snapshot.size, snapshot.document_count)
    check_arrays(part.arrays, *snapshot.vectors.shape)
    return Graph(part)


def check_method(snapshot: Snapshot, graph: Graph, method: str) -> None:
    """Raise `Damaged` if a method's arrays do not fit each other and the graph."""
    with damage(method):
        get_method(method).check(Checks(snapshot.part(method).arrays), graph, *snapshot.vectors.shape)


def check_all(snapshot: Snapshot) -> None:
    """Raise `Damaged` if the corpus, the graph or a method is not fit to be updated."""
    graph = checked_graph(snapshot)
    for method in snapshot.manifest.methods:
        check_method(snapshot, graph, method)
    if EXTRACTION in snapshot.manifest.parts:
        extraction.check(snapshot.part(EXTRACTION))
    for name in snapshot.manifest.parts:
        arrays = snapshot.part(name).arrays
        with damage(name):  # the keys by which vectors and codes of names are found
            for keys, vectors in ((VECTOR_KEYS, VECTORS), (UNIT_KEYS, UNIT_VECTORS)):
                if keys in arrays:
                    (count,) = Checks(arrays).of(keys, np.uint64, (None,)).shape
                    shape = Checks(arrays).any(vectors).shape
                    if shape[:1] < (count,):
                        raise ValueError(f"array '{keys}' has {count} keys of '{vectors}' with shape {shape}")
            if NAME_KEYS in arrays:
                (count,) = Checks(arrays).of(NAME_KEYS, np.uint64, (None,)).shape
                Checks(arrays).of(NAME_CODES, np.uint8, (count, None))


def blamed(snapshot: Snapshot, error: Exception) -> Damaged | None:
    """The damaged vectors behind an error without a name, if any; reads all vectors."""
    if isinstance(error, StratagraphError):
        return None
    parts = {name: snapshot.part(name).arrays for name in snapshot.manifest.parts}
    for name, arrays in [("corpus", {"vectors": snapshot.vectors}), *parts.items()]:
        vectors = (array for array in arrays if isinstance(arrays[array], PooledVectors))
        for array in (array for array in vectors if are_infinite(arrays[array])):
            return Damaged(
                f"part '{name}' of the index is damaged: array '{array}' holds values that no unit vector "
                "has. Restore the folder from a copy, or build again"
            )
    return None
