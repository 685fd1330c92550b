"""A published generation, opened for reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import MethodMissing, VectorStoreError
from stratagraph.store.arrays import Layers
from stratagraph.store.checksums import Check
from stratagraph.store.contents import DOCUMENTS, VECTOR_SLOTS, Contents, OpenFile, open_contents
from stratagraph.store.corpus import StoredCorpus
from stratagraph.store.external import ExternalPool, external
from stratagraph.store.files import Directory
from stratagraph.store.manifest import Manifest
from stratagraph.store.node_records import SLOTS, NodeRecords
from stratagraph.store.pool import Pool, pooled
from stratagraph.store.rows import PASSAGES, Fields, TableRows
from stratagraph.store.view import CorpusView, StoredPart
from stratagraph.types.protocols import Vectors, VectorTable


def rows_of(
    path: Path, manifest: Manifest, table: VectorTable | None, moving: bool = False
) -> TableRows | None:
    """The rows of a generation in a vector store; None if the folder holds its vectors.

    While vectors are `moving` to the store, the previous generation may still hold them.

    Raises
    ------
    VectorStoreError
        If the vectors are in a store and none is given, or the other way round.
    """
    if not manifest.vectors:
        if table is not None and not moving:
            raise VectorStoreError(
                f"index '{path}' holds its vectors in its folder, not in {table.name}: open it without "
                "vectors=, or move them by build_index with the same documents, settings, path and vectors="
            )
        return None
    if table is None:
        raise VectorStoreError(
            f"index '{path}' keeps its vectors in a vector store ({manifest.vectors.get('store')}): open it "
            "with vectors= and that store"
        )
    return TableRows(table, manifest.vectors["identity"], manifest.dimension)


def _array(pool: Pool, slots: NDArray[np.integer], name: str) -> Vectors:
    return external(pool, slots, name) if isinstance(pool, ExternalPool) else pooled(pool, slots)


class Snapshot(CorpusView):
    """One published generation. It never changes, and stays readable after later ones replace it.

    All files are checked and mapped at once, so that they may be removed later. No text is read.

    Attributes
    ----------
    manifest
        The description of the generation.
    path
        The index folder.
    groups, pieces
        Arrays of parts before patches, by part and folder; their pieces, by part.
    pool
        All vectors.
    opened
        Segment files by path; a later snapshot reuses those that it shares.

    Raises
    ------
    FileNotFoundError
        If a file is missing; `IndexFolder.snapshot` tells damage from a race with a writer.
    Damaged, FormatMismatch
        If a file is not as it was written.
    """

    def __init__(
        self,
        path: Path,
        directory: Directory,
        number: int,
        check: Check,
        table: VectorTable | None = None,
        *,
        moving: bool = False,
        before: Snapshot | None = None,
    ) -> None:
        self.path = path
        self.manifest = Manifest.read(directory, number)
        rows = rows_of(path, self.manifest, table, moving)
        known = {} if before is None else before.same_files(self.manifest)
        contents = open_contents(directory, self.manifest, check, known)
        self.opened = contents.opened
        self.groups = contents.groups
        self.pieces = contents.pieces
        self.pool = contents.pool(self.manifest.dimension, rows)
        self._vectors = _array(self.pool, contents.corpus[VECTOR_SLOTS], PASSAGES)
        self._chunk_documents: NDArray[np.int32] = contents.corpus[DOCUMENTS]
        self._opened = contents.stored_corpus(directory.path)
        self._parts = {name: self._opened_part(name, contents) for name in self.manifest.parts}
        if isinstance(self.pool, ExternalPool):
            self._describe(self.pool, contents)

    def same_files(self, manifest: Manifest) -> dict[str, OpenFile]:
        """Open segment files that another generation shares, by path."""
        ours = self.manifest.files
        return {file: each for file, each in self.opened.items() if manifest.files.get(file) == ours[file]}

    def _describe(self, pool: ExternalPool, contents: Contents) -> None:
        arrays = {PASSAGES: contents.corpus[VECTOR_SLOTS]}
        for name in self.manifest.parts:
            arrays |= {f"{name}.{each}": slots for each, slots in contents.slots[name].items()}
        documents = self.document_ids(range(self.document_count))
        pool.describe(Fields.of(len(pool), arrays, self._chunk_documents, documents))

    def _opened_part(self, name: str, contents: Contents) -> StoredPart:
        own, slots = contents.parts[name], contents.slots[name]
        vectors = {each: _array(self.pool, slots[each], f"{name}.{each}") for each in slots}
        reader = NodeRecords(contents.records(name), own[SLOTS])
        return StoredPart(name, reader, Layers(vectors, own, hidden=[SLOTS]))

    @property
    def corpus(self) -> StoredCorpus:
        """The chunks and documents."""
        return self._opened

    @property
    def _corpus(self) -> StoredCorpus:
        return self._opened

    @property
    def vectors(self) -> Vectors:
        """Unit vectors of the chunks, shape (size, dimension), memory-mapped; zero where there is none."""
        return self._vectors

    def chunk_documents(self) -> NDArray[np.int32]:
        """The place of each chunk's document in the sorted document ids."""
        return self._chunk_documents

    @property
    def document_count(self) -> int:
        """Number of documents."""
        return self.manifest.documents

    def part(self, name: str) -> StoredPart:
        """A part by name: the extraction, the graph, or a method's index.

        Raises
        ------
        MethodMissing
            If there is none; the message names the parts that exist.
        """
        try:
            return self._parts[name]
        except KeyError:
            held = ", ".join(self._parts) or "none"
            raise MethodMissing(f"index '{self.path}' holds no {name!r}; it holds: {held}") from None

    def close(self) -> None:
        """Read no more of the corpus. Arrays in use stay valid."""
        self._opened.close()
