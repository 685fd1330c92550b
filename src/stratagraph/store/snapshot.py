"""A published generation, opened for reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import MethodMissing, VectorStoreError
from stratagraph.store.arrays import Layers
from stratagraph.store.checksums import Check
from stratagraph.store.contents import (
    CHUNK_ARRAYS,
    VECTOR_SLOTS,
    Contents,
    OpenFile,
    open_contents,
    slots_file,
)
from stratagraph.store.corpus import Corpus
from stratagraph.store.external import ExternalPool, external
from stratagraph.store.files import Directory
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import SLOTS, StoredPart
from stratagraph.store.pool import Pool, pooled
from stratagraph.store.rows import PASSAGES, Fields, TableRows
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


class Snapshot(Corpus):
    """One published generation. It never changes, and stays readable after later ones replace it.

    All files are checked and mapped at once, so that they may be removed later. No text is read.

    Attributes
    ----------
    manifest
        The description of the generation.
    path
        The index folder.
    vectors
        Unit vectors of the chunks, shape (size, dimension), memory-mapped; zero where there is none.
    groups
        Arrays of parts before patches, by part and folder.
    pool
        All vectors.
    opened
        Open files by path; a later snapshot reuses those that it shares.

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
        super().__init__(*contents.corpus_records(directory.path))
        self.opened = contents.opened
        self.groups = contents.groups
        self.pool = contents.pool(self.manifest.dimension, rows)
        slots = contents.arrays(CHUNK_ARRAYS)[VECTOR_SLOTS]
        self.vectors = _array(self.pool, slots, PASSAGES)
        self._parts = {name: self._opened_part(name, contents) for name in self.manifest.parts}
        if isinstance(self.pool, ExternalPool):
            self._describe(self.pool, slots, contents)

    def same_files(self, manifest: Manifest) -> dict[str, OpenFile]:
        """Open files that another generation shares, by path."""
        ours = self.manifest.files
        return {file: each for file, each in self.opened.items() if manifest.files.get(file) == ours[file]}

    def _describe(self, pool: ExternalPool, slots: NDArray[np.integer], contents: Contents) -> None:
        arrays = {PASSAGES: slots}
        for name in self.manifest.parts:
            own = contents.arrays(slots_file(name))
            arrays |= {f"{name}.{each}": slots for each, slots in own.items()}
        documents = self.document_ids(range(self.document_count))
        pool.describe(Fields.of(len(pool), arrays, self.chunk_documents(), documents))

    def _opened_part(self, name: str, contents: Contents) -> StoredPart:
        slots = contents.arrays(slots_file(name))
        vectors = {each: _array(self.pool, slots[each], f"{name}.{each}") for each in slots}
        arrays = Layers(vectors, contents.parts[name], hidden=[SLOTS])
        return StoredPart(name, contents.nodes(name), arrays)

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
