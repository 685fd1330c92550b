"""A published generation, opened for reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratarag.errors import Damaged, MethodMissing
from stratarag.protocols import Vectors
from stratarag.store.arrays import open_array
from stratarag.store.database import Database, connect_frozen
from stratarag.store.layout import CORPUS
from stratarag.store.manifest import Manifest
from stratarag.store.tables import Tables
from stratarag.store.view import CHUNK_DOCUMENTS, VECTORS, CorpusView, StoredPart, array_file


class Snapshot(CorpusView):
    """One published generation. It never changes, and stays readable when later ones replace it.

    Everything is opened at once (files are checked by size, arrays mapped, nothing of the text read), so
    that it does not matter when the files' names go away.

    Attributes
    ----------
    manifest
        How the generation was made.
    path
        The index folder.

    Raises
    ------
    FileNotFoundError
        If a file is missing; `IndexFolder.snapshot` tells damage from a race with a writer.
    Damaged, FormatTooNew
        As `Manifest.read` says.
    """

    def __init__(self, path: Path, directory: Path) -> None:
        self.path = path
        self.manifest = Manifest.read(directory)
        arrays = {name: open_array(directory / name) for name in self.manifest.files if name.endswith(".npy")}
        try:
            self._vectors: Vectors = arrays[VECTORS]
            self._chunk_documents: NDArray[np.int32] = arrays[CHUNK_DOCUMENTS]
            corpus = directory / CORPUS
            corpus.stat()  # SQLite's own message for a missing file is vague
            database = Database(corpus, lambda: connect_frozen(corpus), reopen=False)
            self._corpus = Tables(database, self.manifest.chunks)
            self._parts = {name: self._open_part(name, arrays) for name in self.manifest.parts}
        except KeyError as error:
            raise Damaged(f"{directory / 'manifest.json'}: names no file {error}") from error
        self._check_count(corpus)

    def _open_part(self, name: str, arrays: dict[str, NDArray[Any]]) -> StoredPart:
        folder = array_file(name, "")[: -len(".npy")]
        own = {
            path[len(folder) : -len(".npy")]: array
            for path, array in arrays.items()
            if path.startswith(folder)
        }
        return StoredPart(name, self._corpus, own)

    def _check_count(self, corpus: Path) -> None:
        last = self._corpus.database.rows("SELECT MAX(row) FROM chunks")[0][0]
        held = 0 if last is None else last + 1
        if held != self.manifest.chunks or len(self._vectors) != held:
            raise Damaged(
                f"{corpus}: {held} chunks and {len(self._vectors)} vectors, "
                f"but the manifest says {self.manifest.chunks}"
            )

    @property
    def _tables(self) -> Tables:
        return self._corpus

    @property
    def vectors(self) -> Vectors:
        """Unit vectors of the chunks, shape (size, dimension), memory-mapped; zero where there is none."""
        return self._vectors

    def chunk_documents(self) -> NDArray[np.int32]:
        """The place of each chunk's document in the sorted document ids, memory-mapped."""
        return self._chunk_documents

    @property
    def document_count(self) -> int:
        """Number of documents."""
        return self.manifest.documents

    def part(self, name: str) -> StoredPart:
        """What the generation holds under this name: the extraction, the graph, or a method's index.

        Raises
        ------
        MethodMissing
            If this generation holds none; the message names those it holds.
        """
        try:
            return self._parts[name]
        except KeyError:
            held = ", ".join(self._parts) or "none"
            raise MethodMissing(f"index '{self.path}' holds no {name!r}; it holds: {held}") from None

    def close(self) -> None:
        """Let go of the tables. Arrays that someone still holds stay valid."""
        self._corpus.database.close()
