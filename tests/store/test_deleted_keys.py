"""No key of a deleted name, id or text is left in any byte of the folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import stratagraph as sg
from stratagraph.methods import NAMES
from stratagraph.testing import FakeEmbedder
from stratagraph.testing.contract import CountingModel, documents
from stratagraph.types.records import content_key
from tests.store.support import everything_in

KINDS = ("graph", "entity", "attribute", "name", "text")
CONFIG = {"noderag": {"sources": 10_000}, "hirag": {"cluster_size": 6}}
LONE = sg.Document("lone", "Xanthippe met Quentin.")
GONE = (["doc-003", "doc-010", "doc-024", "doc-041"], [LONE.id])
"""What is deleted: of one small document, too little changes for centrality to be measured again."""


def said(index: sg.Index) -> set[str]:
    """Ids, names and texts of documents, chunks and the graph."""
    found = set(index.documents())
    for chunks in index.chunks(list(index.documents())).values():
        found |= {value for chunk in chunks for value in (chunk.id, chunk.text)}
    found |= {value for entity in index.entities() for value in (entity.id, entity.name)}
    found |= {value for relation in index.relations() for value in (relation.id, relation.text)}
    return found | {value for unit in index.units() for value in (unit.id, unit.text)}


def keys(values: set[str]) -> set[int]:
    """The keys of values, by themselves and of each kind, and both halves of ids."""
    found = {content_key(value) for value in values}
    found |= {content_key(kind, value) for kind in KINDS for value in values}
    halves = [value for value in values if len(value) == 32 and set(value) <= set("0123456789abcdef")]
    return found | {int(half, 16) for value in halves for half in (value[:16], value[16:])}


def held(folder: Path, wanted: set[int]) -> set[int]:
    """The keys that are in the bytes of a folder, at any offset and in either order of bytes."""
    data, keys = everything_in(folder), np.array(sorted(wanted), np.uint64)
    found: set[int] = set()
    for offset in range(8):
        count = (len(data) - offset) // 8
        for order in "<>":
            words = np.frombuffer(data, f"{order}u8", count, offset)
            found.update(keys[np.isin(keys, words)].tolist())
    return found


def test_a_deletion_leaves_no_key_of_what_it_removes(tmp_path: Path) -> None:
    path = tmp_path / "idx"
    with sg.build_index(
        [*documents(60), LONE],
        list(NAMES),
        path,
        llm=CountingModel(),
        embedder=FakeEmbedder(),
        progress=False,
        config=CONFIG,
    ) as index:
        for gone in GONE:
            before = said(index)
            present = held(path, keys(before))
            index.delete(gone)
            after = said(index)
            # Terms of other texts stay, also where they are entities no more.
            left = "\n".join(after).casefold()
            wanted = present & keys({value for value in before - after if value.casefold() not in left})
            assert len(wanted) > 5
            assert held(path, wanted) == set()
