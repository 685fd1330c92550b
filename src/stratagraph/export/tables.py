"""The records of an export, kind by kind: their fields are the same in every format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from stratagraph.records import (
    Chunk,
    Extraction,
    GraphEntity,
    GraphRelation,
    GraphUnit,
    Metadata,
    MethodNode,
)

_BATCH = 1000  # documents

Record = dict[str, Any]
Table = tuple[str, Iterator[Record]]


class Source(Protocol):
    """What is read of an index."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it holds."""
        ...

    def documents(self) -> dict[str, Metadata]:
        """Metadata by document id."""
        ...

    def chunks(self, document_ids: str | Iterable[str] | None = None) -> dict[str, list[Chunk]]:
        """Chunks by document."""
        ...

    def find_chunks(self, ids: str | Iterable[str]) -> list[Chunk]:
        """Chunks by id."""
        ...

    def entities(self, ids: str | Iterable[str] | None = None) -> Iterator[GraphEntity]:
        """The graph's entities."""
        ...

    def relations(self) -> Iterator[GraphRelation]:
        """The graph's relations."""
        ...

    def units(self) -> Iterator[GraphUnit]:
        """The graph's semantic units."""
        ...

    def extractions(self) -> Iterator[tuple[str, Extraction]]:
        """What was extracted from each chunk, in the order of `chunks`."""
        ...

    def nodes(self, method: str | None = None) -> Iterator[MethodNode]:
        """A method's nodes."""
        ...


def tables(index: Source, methods: Sequence[str]) -> Iterator[Table]:
    """All kinds of records, each with its name, in the order in which one refers to another."""
    yield "document", ({"id": each, "metadata": dict(m)} for each, m in index.documents().items())
    yield "chunk", _chunks(index)
    yield "entity", (asdict(each) for each in index.entities())
    yield "relation", (asdict(each) for each in index.relations())
    yield "unit", (asdict(each) for each in index.units())
    yield "node", ({"method": name, **asdict(each)} for name in methods for each in index.nodes(name))


def _chunks(index: Source) -> Iterator[Record]:
    said = index.extractions()
    documents = iter(index.documents())
    while names := list(islice(documents, _BATCH)):
        for chunk in chain.from_iterable(index.chunks(names).values()):
            identity, extraction = next(said)
            if identity != chunk.id:
                raise RuntimeError(
                    f"chunk {chunk.id!r} has the extraction of {identity!r}: the index changed"
                )
            yield {
                "id": chunk.id,
                "document": chunk.document_id,
                "ordinal": chunk.ordinal,
                "start": chunk.start,
                "end": chunk.end,
                "ref": chunk.ref,
                "text": chunk.text,
                "metadata": dict(chunk.metadata),
                "extraction": asdict(extraction),
            }


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write a file at, which takes its name when the block is left without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
