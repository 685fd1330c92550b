"""Questions that workers of a mapper search for, each in its own opening of the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from stratagraph.models.embedding import unit_rows
from stratagraph.operations.reader import Answering
from stratagraph.operations.shards.reader import opened_reader
from stratagraph.search.decompose import TracedHits
from stratagraph.store.folder import IndexFolder
from stratagraph.store.shards import ShardedFolder, is_sharded
from stratagraph.system.locks import Lock
from stratagraph.types.protocols import Vectors
from stratagraph.types.question import LONGEST, Question

_readers: dict[Path, Answering] = {}
_lock = Lock()


class Searched(NamedTuple):
    """What a worker found for a question, and its unit vector."""

    found: TracedHits
    vector: Vectors


@dataclass(frozen=True, slots=True)
class SearchApart:
    """Searches the current generation of a folder, which a worker opens once.

    Parameters
    ----------
    path, generation
        The folder, and the generation that the caller sees; a worker that has an older one opens it again.
    embedder
        An embedder that runs in the worker.
    question
        All of the questions but their texts and vectors.
    """

    path: Path
    generation: int
    embedder: Any
    question: Question

    def __call__(self, texts: Sequence[str]) -> list[Searched]:
        """The hits of each question."""
        reader = _reader(self.path, self.generation)
        return [self._searched(reader, text[:LONGEST]) for text in texts]

    def _searched(self, reader: Answering, text: str) -> Searched:
        dimension = reader.snapshot.manifest.dimension
        vector = unit_rows([self.embedder.embed_query(text)], [text], label=_label, dimension=dimension)[0][0]
        return Searched(reader.search(replace(self.question, text=text, vector=vector, _found={})), vector)


def _label(_: int) -> str:
    return "the question"


def _reader(path: Path, generation: int) -> Answering:
    with _lock:
        reader = _readers.get(path)
        if reader is None or reader.snapshot.manifest.generation != generation:
            folder = ShardedFolder.open(path) if is_sharded(path) else IndexFolder.open(path)
            reader = _readers[path] = opened_reader(folder.snapshot())
        return reader
