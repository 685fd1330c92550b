"""The full check of an index folder: files, settings, arrays and nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stratagraph.config import Config
from stratagraph.errors import StratagraphError
from stratagraph.ingest.extraction.stage import NAME as EXTRACTION
from stratagraph.ingest.graph.stage import NAME as GRAPH
from stratagraph.operations import listing
from stratagraph.operations.arguments import check_search_options
from stratagraph.operations.changes import settings_of
from stratagraph.operations.checks import checked_graph
from stratagraph.operations.reader import Reader
from stratagraph.store import verify
from stratagraph.store.records import NODES
from stratagraph.store.shards import is_sharded, verify_shards
from stratagraph.store.snapshot import Snapshot
from stratagraph.types.question import WALK, SearchQuestion

_LONGEST = 200  # characters of a question that is asked to see whether one can be


def verify_folder(path: Path) -> list[str]:
    """The problems of an index or of shards, one line each, also if it cannot be opened.

    Raises `NotAnIndex` if the folder holds no finished index.
    """
    if is_sharded(path):
        return verify_shards(path, inspected)
    return verify.verify_folder(path, inspected)


def inspected(snapshot: Snapshot) -> Iterator[str]:
    """The problems of a generation whose files are intact: settings, arrays, nodes, searches."""
    yield from _tried("manifest.json", settings_of, snapshot.manifest, Config())
    yield from _tried(f"{NODES.folder}/{EXTRACTION}", listing.extractions, snapshot)
    unsound = list(_tried(f"part '{GRAPH}'", checked_graph, snapshot))
    yield from unsound
    if unsound:
        return  # whatever follows stands on the graph
    for nodes in (listing.entities, listing.relations, listing.units):
        yield from _tried(f"{NODES.folder}/{GRAPH}", nodes, snapshot)
    reader = Reader(snapshot)
    yield from _tried(f"part '{GRAPH}'", _asked, reader, WALK)
    for method in reader.methods:
        unsound = list(_tried(f"part '{method}'", _asked, reader, method))
        yield from unsound or _tried(f"{NODES.folder}/{method}", listing.method_nodes, snapshot, method)


def _tried(file: str, function: Callable[..., Any], *arguments: Any) -> Iterator[str]:
    """Call a function, and read what it iterates over; yields the error, if there is one."""
    try:
        result = function(*arguments)
        if isinstance(result, Iterator):
            deque(result, maxlen=0)
    except StratagraphError as error:
        yield str(error) if file in str(error) else f"{file}: {error}"
    except Exception as error:  # damage that no check knows of
        yield f"{file}: {type(error).__name__}: {error}"


def _asked(reader: Reader, method: str) -> None:
    """Search for the first chunk, which opens all that a search opens."""
    corpus = reader.snapshot
    text = corpus.texts([0])[0][:_LONGEST] if corpus.size else "nothing"
    vector = np.array(corpus.vectors[0]) if corpus.size else np.ones(corpus.manifest.dimension, np.float32)
    options = check_search_options(method, {})
    reader.search(SearchQuestion(text, vector, 1, method, options, fill=method == WALK))
