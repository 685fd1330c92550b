"""What makes `storage_context.persist` and `load_index_from_storage` carry an index folder along.

`StorageContext.persist` asks its stores and never an index. So a store of ours sits among the vector
stores, and when it is asked, it copies the folders under the persist directory. The directory is not
told to whoever loads from it; therefore the struct in the persisted index store names the copy.
"""

from __future__ import annotations

import importlib
import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.index_store.types import DEFAULT_PERSIST_FNAME, BaseIndexStore
from llama_index.core.storage.storage_context import StorageContext

from llama_index_stratagraph._registry import FolderStruct
from stratagraph import Index
from stratagraph.errors import NotAnIndex

NAMESPACE = "stratagraph"
_MARKER = "stratagraph-index"  # a file that every index folder has
logger = logging.getLogger(__name__)


class FolderStore:
    """A store for `StorageContext.vector_stores` that does one thing: persist index folders."""

    stores_text = True
    is_embedding_query = False

    def __init__(self, index_store: BaseIndexStore) -> None:
        self._index_store = index_store
        self._members: list[tuple[FolderStruct, Callable[[], Index]]] = []

    @classmethod
    def of(cls, storage_context: StorageContext) -> FolderStore:
        """The store of a storage context, put there if it has none."""
        stores: dict[str, Any] = storage_context.vector_stores
        if not isinstance(stores.get(NAMESPACE), cls):
            stores[NAMESPACE] = cls(storage_context.index_store)
        store: FolderStore = stores[NAMESPACE]
        return store

    def add(self, struct: FolderStruct, core: Callable[[], Index]) -> None:
        """Persist the folder of this struct, too."""
        self._members.append((struct, core))

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Copy the folders beside `persist_path`, a file name in the persist directory.

        No file of that name is written: LlamaIndex would take it for a store of its own on loading. Copies
        that an earlier persist left there go, where the index store that named them is written over.
        """
        remote = None if fs is None or "file" in fs.protocol else fs
        directory = str(PurePosixPath(persist_path).parent) if remote else str(Path(persist_path).parent)
        copies = [_copied(struct, core(), directory, remote) for struct, core in self._members]
        if self._point_to(copies, f"{directory}/{DEFAULT_PERSIST_FNAME}", fs):
            structs = self._index_store.index_structs()
            named = {_file_name(each.index_id) for each in structs if isinstance(each, FolderStruct)}
            _remove_others(f"{directory}/{NAMESPACE}", named, remote)

    def _point_to(self, copies: list[FolderStruct], persisted: str, fs: Any) -> bool:
        """Write the index store once more, with structs that name the copies; whether it is there."""
        if not isinstance(self._index_store, SimpleIndexStore):
            return False  # a server's is not in the directory; it goes on naming the folder in use
        if not (Path(persisted).exists() if fs is None else fs.exists(persisted)):
            logger.warning("no %s to note the copy in; load it with path=%r", persisted, copies[0].folder)
            return False
        for copy in copies:
            self._index_store.add_index_struct(copy)
        self._index_store.persist(persist_path=persisted, fs=fs)
        for struct, _ in self._members:
            self._index_store.add_index_struct(struct)
        return True


def _copied(struct: FolderStruct, core: Index, directory: str, remote: Any) -> FolderStruct:
    """Copy a folder into a persist directory; the struct returned names the copy.

    A folder whose vectors are in a vector store stays where it is, and is named.
    """
    if core.vectors:
        return struct  # a copy would share the rows of its vectors with this one
    target = f"{directory}/{NAMESPACE}/{_file_name(struct.index_id)}"
    if remote is not None:
        if remote.exists(target):
            remote.rm(target, recursive=True)
        with tempfile.TemporaryDirectory(prefix="stratagraph-") as aside:
            core.copy_to(Path(aside) / "index")
            remote.put(f"{aside}/index/", f"{target}/", recursive=True)
        return replace(struct, folder=remote.unstrip_protocol(target), relative="")
    core.copy_to(target)
    relative = "" if Path(target).is_absolute() else target
    return replace(struct, folder=str(Path(target).absolute()), relative=relative)


def _remove_others(directory: str, named: Collection[str], remote: Any) -> None:
    """Remove index folders that nothing names any more; what is no index folder stays."""
    if remote is not None:
        for entry in remote.ls(directory, detail=False) if remote.exists(directory) else []:
            if PurePosixPath(entry).name not in named and remote.exists(f"{entry}/{_MARKER}"):
                remote.rm(entry, recursive=True)
        return
    for place in Path(directory).iterdir() if Path(directory).is_dir() else []:
        if place.name not in named and not place.is_symlink() and (place / _MARKER).is_file():
            with tempfile.TemporaryDirectory(prefix=".removed-", dir=directory) as aside:
                place.rename(Path(aside) / "index")  # at one moment: nobody opens half of it


def _file_name(index_id: str) -> str:
    return quote(index_id, safe="").replace(".", "%2E")


def located(struct: FolderStruct, owner: object) -> Path:
    """The folder that a struct names, fetched to a temporary one (as long as `owner` lives) if it is remote.

    Raises
    ------
    NotAnIndex
        If it is not there any more.
    """
    if "://" in struct.folder:
        return _fetched(struct.folder, owner)
    places = [Path(place) for place in (struct.folder, struct.relative) if place]
    for place in places:
        if place.is_dir():
            return place
    raise NotAnIndex(
        f"the index folder {struct.folder!r} is not there; if the persist directory was moved, load with "
        f"path='<persist directory>/{NAMESPACE}/{_file_name(struct.index_id)}'"
    )


def _fetched(url: str, owner: object) -> Path:
    # LlamaIndex's own dependency, needed for nothing else here.
    remote, path = importlib.import_module("fsspec.core").url_to_fs(url)
    here = tempfile.mkdtemp(prefix="stratagraph-")
    weakref.finalize(owner, shutil.rmtree, here, ignore_errors=True)
    remote.get(f"{path}/", f"{here}/index/", recursive=True)
    return Path(here) / "index"
