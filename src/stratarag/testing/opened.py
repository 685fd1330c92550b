"""An index as its folder holds it: for tests that look at arrays and searchers."""

from __future__ import annotations

from typing import Any

import stratarag as sr
from stratarag._reader import Reader
from stratarag.methods import get_method
from stratarag.methods.base import Opened
from stratarag.store.folder import IndexFolder
from stratarag.store.snapshot import Snapshot


def snapshot_of(index: sr.Index) -> Snapshot:
    """The generation that is published in the index's folder."""
    return IndexFolder.open(index.path).snapshot()


def opened(index: sr.Index, method: str) -> Opened:
    """What the method's searcher is made over."""
    return Reader(snapshot_of(index)).opened(method)


def searcher_of(index: sr.Index, method: str) -> Any:
    """The method's searcher."""
    return get_method(method).open(opened(index, method))
