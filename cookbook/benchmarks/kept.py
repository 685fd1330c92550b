"""An embedder whose vectors last from run to run, for the benchmarks that embed corpora."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stratarag.eval.embedding import SharedEmbedder
from stratarag.eval.harness import VECTORS
from stratarag.store.files import Directory
from stratarag.store.journal import Journal


@contextmanager
def kept_embedder(cache: str | Path | None, inner: Any = None) -> Iterator[SharedEmbedder]:
    """`inner`, or the local model, with a memory in a folder: the one that `stratarag eval --cache` fills."""
    if cache is None:
        yield SharedEmbedder(inner)
        return
    folder = Path(cache)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Journal(Directory.open(folder), VECTORS)) as journal:
        yield SharedEmbedder(inner, journal)
