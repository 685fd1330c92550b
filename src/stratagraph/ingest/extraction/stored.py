"""Extractions as they are stored: JSON in the nodes of a part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import numpy as np

from stratagraph.errors import Damaged
from stratagraph.ingest.carryover import read_counts
from stratagraph.ingest.checks import Checks, damage
from stratagraph.types.protocols import Stored
from stratagraph.types.records import EntityMention, Extraction, Node, RelationMention, SemanticUnit

BATCH = 1024
"""Chunks that are read at once."""
MAKERS, TITLES, NOTES = "makers", "titles", "notes"
"""Arrays: the key of each extraction's maker, that of the title that was read with the chunk (0 if a model
made it, or the caller), and the counts of the notes of all chunks, as JSON."""


def to_json(extraction: Extraction) -> str:
    """An extraction as compact JSON."""
    return json.dumps(
        {
            "units": [[unit.text, *unit.entities] for unit in extraction.units],
            "entities": [
                [entity.name, entity.type, entity.description, *([True] if entity.doubtful else [])]
                for entity in extraction.entities
            ],
            "relations": [
                [
                    each.source,
                    each.target,
                    each.description,
                    each.strength,
                    *([each.type] if each.type else []),
                ]
                for each in extraction.relations
            ],
            "terms": list(extraction.terms),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


EMPTY = to_json(Extraction())


def from_json(text: str) -> Extraction:
    """The extraction that `to_json` wrote; a description that equals a unit shares its string."""
    value = json.loads(text)
    # `TypeError` if anything is of another type than it was written as.
    named = (each[:3] for each in (*value["entities"], *value["relations"]))
    types = chain(*(each[4:] for each in value["relations"]))
    "".join(chain(*value["units"], *named, types, value["terms"]))
    sum(chain(*(each[3:4] for each in value["relations"])))
    units = [SemanticUnit(unit, tuple(names)) for unit, *names in value["units"]]
    of_unit = {unit.text: unit.text for unit in units}.get
    return Extraction(
        units=tuple(units),
        entities=tuple(
            EntityMention(name, kind, of_unit(description, description), *doubtful)
            for name, kind, description, *doubtful in value["entities"]
        ),
        relations=tuple(
            RelationMention(source, target, of_unit(description, description), *more)
            for source, target, description, *more in value["relations"]
        ),
        terms=tuple(value["terms"]),
    )


def extractions(stored: Stored, size: int) -> Iterator[tuple[int, Extraction]]:
    """All stored extractions with their chunk rows, a batch at a time."""
    for start in range(0, size, BATCH):
        rows = range(start, min(start + BATCH, size))
        for row, node in zip(rows, stored.nodes(rows), strict=True):
            yield row, extraction_of(node)


def extraction_of(node: Node) -> Extraction:
    """The extraction of a stored node; `Damaged` if it cannot be read."""
    try:
        return from_json(node.text)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(
            f"the extraction of chunk {node.id!r} (row {list(node.sources)}) is damaged: "
            f"{error!r}. Restore the folder from a copy, or build again"
        ) from error


def check(stored: Stored) -> None:
    """Raise `Damaged` unless these arrays fit the extractions."""
    with damage("extraction"):
        checks, count = Checks(stored.arrays), len(stored.arrays["sources.indptr"]) - 1
        for name in (MAKERS, TITLES):
            checks.of(name, np.uint64, (count,))
        checks.of(NOTES, np.uint8, (None,))
        read_counts(stored.arrays, NOTES)
