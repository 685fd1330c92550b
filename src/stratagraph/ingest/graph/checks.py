"""The arrays of the graph and of the corpus, checked once when they are opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.ingest.checks import Checks, damage
from stratagraph.ingest.graph.layout import MARKS
from stratagraph.ingest.graph.tables import DICTIONARIES, DROPPED, PREFIX, TABLES
from stratagraph.ingest.lexical import MARKED
from stratagraph.kernels.checks import check_ascending, check_layout, check_range

_POINTS_AT = {
    "typed.mention": "mentions",
    "statements.mention": "mentions",
    "relations.source": "mentions",
    "relations.target": "mentions",
    "labels.relation": "relations",
    "linked.mention": "mentions",
}


def check_arrays(arrays: Mapping[str, NDArray[Any]], chunks: int, dimension: int) -> None:
    """Check that the arrays of the graph fit each other and a corpus; `NameIndex` checks the names.

    `Damaged` if an array is missing, has another dtype or shape, or holds a row out of range. The error names
    it.
    """
    with damage("graph"):
        checks = Checks(arrays)
        counts = checks.rows("counts", 2**31, (3,))
        entities, relations, units = counts.tolist()
        checks.csr("sources", chunks, entities + relations + units, ascending=True)
        checks.of("entities.names", np.uint64, (entities, 2))
        checks.rows("relations.ends", entities, (relations, 2))
        checks.numbers("relations.weights", np.float32, (relations,), least=0.0)
        checks.of("relations.described", np.bool_, (relations,))
        checks.csr("units", entities, units)
        checks.walk(chunks + entities)
        checks.of("uncondensed", np.bool_, (entities + relations,))
        _check_tables(checks, chunks)
        checks.of(MARKS, np.uint64, (entities + relations + units, 2))
        if "vectors" in arrays:
            checks.of("vectors", np.float32, (entities, dimension))
        if "units.vectors" in arrays:
            checks.of("units.vectors", np.float32, (units, dimension))
            checks.of("units.keys", np.uint64, (units,))
        if "mentions.codes" in arrays:
            checks.of("mentions.codes", np.uint8, (entities, -(-dimension // 8)))
            checks.of("mentions.keys", np.uint64, (entities,))

        checks.of("lexical.language", np.uint8, (None,))
        checks.numbers("lexical.norms", np.float32, (chunks,), least=0.0)
        checks.of("lexical.lengths", np.uint32, (chunks,))
        checks.of("lexical.markers", np.int64, (len(MARKED),))
        keys = checks.of("lexical.keys", np.uint64, (None,))
        check_ascending(keys, "lexical.keys", strictly=True)
        rows = checks.rows("lexical.rows", chunks, (None,), dtype=np.int32)
        checks.rows("lexical.counts", 256, rows.shape, dtype=np.uint8, start=1)
        checks.borders("lexical.starts", len(rows), len(keys))


def check_vectors(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise `Damaged` if the graph lacks the vectors of its entities, which some methods need."""
    with damage("graph"):
        Checks(arrays).any("vectors")


def _check_tables(checks: Checks, chunks: int) -> None:
    """Raise `ValueError` unless the tables are those of so many chunks."""
    starts: dict[str, NDArray[Any]] = {}
    for table, kinds in TABLES.items():
        columns = [checks.of(f"{PREFIX}{table}.{name}", kind, (None,)) for name, kind in kinds.items()]
        for name, column in zip(kinds, columns, strict=True):
            checks.of(f"{PREFIX}{table}.{name}", column.dtype, columns[0].shape)
        starts[table] = checks.borders(f"{PREFIX}{table}.starts", len(columns[0]), chunks)
    for pointer, table in _POINTS_AT.items():
        pointing = checks.any(f"{PREFIX}{pointer}")
        count = np.repeat(np.diff(starts[table]), np.diff(starts[pointer.partition(".")[0]]))
        if len(pointing) and ((pointing < 0) | (pointing >= count)).any():
            raise ValueError(f"array '{PREFIX}{pointer}' points behind the {table} of a chunk")
    names = checks.rows(f"{PREFIX}units.names", 2**31, (None,), dtype=np.int32)
    if int(names.sum(dtype=np.int64)) != int(starts["linked"][-1]):
        raise ValueError(f"array '{PREFIX}units.names' does not divide the names of the units")
    checks.rows(f"{PREFIX}dropped", 2**31, (chunks, len(DROPPED)), dtype=np.int32)
    checks.numbers(f"{PREFIX}relations.strength", np.float64, (None,))
    for table, kinds in DICTIONARIES.items():
        keys = checks.of(f"{PREFIX}{table}.key", np.uint64, (None,))
        check_ascending(keys, f"{PREFIX}{table}.key", strictly=True)
        for name, kind in kinds.items():
            checks.of(f"{PREFIX}{table}.{name}", kind, keys.shape)
    content = checks.of(f"{PREFIX}strings.bytes", np.uint8, (None,))
    checks.borders(f"{PREFIX}strings.starts", len(content), len(checks.any(f"{PREFIX}strings.key")))


def check_corpus(vectors: NDArray[Any], documents: NDArray[Any], chunks: int, count: int) -> None:
    """Raise `Damaged` unless the arrays fit the numbers of chunks and of documents (`count`).

    `vectors` are those of the chunks, and `documents` the place of each chunk's document.
    """
    with damage("corpus"):
        check_layout(vectors, "vectors", np.float32, (chunks, None))
        check_layout(documents, "chunk_documents", np.int32, (chunks,))
        check_range(documents, "chunk_documents", count)
        check_ascending(documents, "chunk_documents")
