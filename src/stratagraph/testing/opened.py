"""Arrays and searchers of an index, for tests."""

from __future__ import annotations

from typing import Any

import stratagraph as sg
from stratagraph.methods import get_method
from stratagraph.methods.base import Opened
from stratagraph.operations.reader import Reader
from stratagraph.store.folder import IndexFolder
from stratagraph.store.snapshot import Snapshot


def snapshot_of(index: sg.Index) -> Snapshot:
    """The current generation in the index's folder."""
    return IndexFolder.open(index.path).snapshot()


def opened(index: sg.Index, method: str) -> Opened:
    """The inputs of the method's searcher."""
    return Reader(snapshot_of(index)).opened(method)


def searcher_of(index: sg.Index, method: str) -> Any:
    """The method's searcher."""
    return get_method(method).open(opened(index, method))
