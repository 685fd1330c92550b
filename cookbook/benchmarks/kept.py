"""An embedder whose vectors last from run to run, for the benchmarks that embed corpora."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stratagraph.eval.embedding import SharedEmbedder
from stratagraph.eval.harness import VECTORS
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal


@contextmanager
def kept_embedder(cache: str | Path | None, inner: Any = None) -> Iterator[SharedEmbedder]:
    """Embeds with `inner`, or the local model, and remembers vectors in the folder of `eval --cache`."""
    if cache is None:
        yield SharedEmbedder(inner)
        return
    folder = Path(cache)
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Journal(Directory.open(folder), VECTORS)) as journal:
        yield SharedEmbedder(inner, journal)
