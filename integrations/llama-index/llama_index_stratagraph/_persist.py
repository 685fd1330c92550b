"""Persisting: what LlamaIndex keeps of an index, and the copy of its folder in the persist directory.

`StorageContext.persist` asks the stores of the context, never an index. So `FolderStore` is one of the vector
stores and copies the folders when it is asked. Loading does not pass the persist directory on, so the
struct in the persisted index store names the copy.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.storage.index_store.types import DEFAULT_PERSIST_FNAME, BaseIndexStore
from llama_index.core.storage.storage_context import StorageContext

from stratagraph.errors import NotAnIndex

if TYPE_CHECKING:
    from stratagraph import Index

NAMESPACE = "stratagraph"
_MARKER = "stratagraph-index"  # a file in every index folder
logger = logging.getLogger(__name__)


@dataclass
class FolderStruct(IndexStruct):
    """Where the folder of an index is.

    Attributes
    ----------
    folder
        Absolute path of the index folder, or the URL it was persisted to.
    relative
        The path as the caller wrote it, if that was relative. It stays right when the project moves.
    generation
        Generation of the folder when this was written.
    method
        Method of the index class.
    docstore
        Whether the docstore has the nodes. An index that was opened by its path has them in the folder alone.
    """

    folder: str = ""
    relative: str = ""
    generation: int = 0
    method: str = ""
    docstore: bool = True


def _registered(method: str, name: str) -> type[FolderStruct]:
    """A struct class, by whose type `load_index_from_storage` finds the index class of this name.

    If this package is not imported, loading raises `KeyError(type)`; so the type says what to do.
    """
    kind = f"stratagraph {method}: to load it, import llama_index_stratagraph first"
    namespace = {
        "__doc__": FolderStruct.__doc__,
        "__module__": _INDICES,
        "__qualname__": f"{name}.index_struct_cls",  # where pickle finds it
        "get_type": classmethod(lambda cls: kind),
    }
    struct: type[FolderStruct] = dataclass(type(f"{method.capitalize()}Struct", (FolderStruct,), namespace))

    def load(**arguments: Any) -> Any:
        return getattr(import_module(_INDICES), name)(**arguments)

    structs: dict[Any, Any] = (
        INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS  # the registries are dicts of plain strings
    )
    loaders: dict[Any, Any] = INDEX_STRUCT_TYPE_TO_INDEX_CLASS  # whose values are called
    structs[kind], loaders[kind] = struct, load
    return struct


_INDICES = "llama_index_stratagraph.indices"
_NAMES = {
    "archrag": "ArchRAGIndex",
    "hirag": "HiRAGIndex",
    "lshtree": "LSHTreeIndex",
    "noderag": "NodeRAGIndex",
    "walk": "WalkIndex",
}
STRUCTS = {method: _registered(method, name) for method, name in _NAMES.items()}
"""The struct class of each method; made with this module, before the core is loaded."""


class HoldsIndex(Protocol):
    """An index class, whose `core` may be opened later."""

    core: Index


class FolderStore:
    """A member of `StorageContext.vector_stores` that only persists index folders."""

    stores_text = True
    is_embedding_query = False

    def __init__(self, index_store: BaseIndexStore) -> None:
        self._index_store = index_store
        self._members: list[tuple[FolderStruct, HoldsIndex]] = []

    @classmethod
    def of(cls, storage_context: StorageContext) -> FolderStore:
        """The store of a storage context, added if it has none."""
        stores: dict[str, Any] = storage_context.vector_stores
        if not isinstance(stores.get(NAMESPACE), cls):
            stores[NAMESPACE] = cls(storage_context.index_store)
        store: FolderStore = stores[NAMESPACE]
        return store

    def add(self, struct: FolderStruct, owner: HoldsIndex) -> None:
        """Add the folder of an index to persist."""
        self._members.append((struct, owner))

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Copy the folders beside `persist_path`, a file name in the persist directory.

        No file is written at `persist_path`: LlamaIndex would load it as a store of its own. If the index
        store is written, copies of an earlier persist that it does not name are removed.
        """
        remote = None if fs is None or "file" in fs.protocol else fs
        directory = str(PurePosixPath(persist_path).parent) if remote else str(Path(persist_path).parent)
        copies = [_copied(struct, owner.core, directory, remote) for struct, owner in self._members]
        if self._point_to(copies, f"{directory}/{DEFAULT_PERSIST_FNAME}", fs):
            structs = self._index_store.index_structs()
            named = {_file_name(each.index_id) for each in structs if isinstance(each, FolderStruct)}
            _remove_others(f"{directory}/{NAMESPACE}", named, remote)

    def _point_to(self, copies: list[FolderStruct], persisted: str, fs: Any) -> bool:
        """Write the index store again, with structs that name the copies; False if it is elsewhere."""
        if not isinstance(self._index_store, SimpleIndexStore):
            for struct, owner in self._members:
                note(Path(owner.core.path), struct)
            return False  # the store of a server keeps naming the folder in use
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
    """Copy a folder into a persist directory and return a struct that names the copy."""
    if core.vectors:
        note(Path(core.path), struct)
        return struct  # a copy would share its rows in the vector store with this folder
    target = f"{directory}/{NAMESPACE}/{_file_name(struct.index_id)}"
    if remote is not None:
        if remote.exists(target):
            remote.rm(target, recursive=True)
        with tempfile.TemporaryDirectory(prefix="stratagraph-") as aside:
            core.copy_to(Path(aside) / "index")
            remote.put(f"{aside}/index/", f"{target}/", recursive=True)
        return replace(struct, folder=remote.unstrip_protocol(target), relative="")
    core.copy_to(target)
    note(Path(target), struct)
    relative = "" if Path(target).is_absolute() else target
    return replace(struct, folder=str(Path(target).absolute()), relative=relative)


def _remove_others(directory: str, named: Collection[str], remote: Any) -> None:
    """Remove index folders that are not named; other files stay."""
    if remote is not None:
        for entry in remote.ls(directory, detail=False) if remote.exists(directory) else []:
            if PurePosixPath(entry).name not in named and remote.exists(f"{entry}/{_MARKER}"):
                remote.rm(entry, recursive=True)
        return
    for place in Path(directory).iterdir() if Path(directory).is_dir() else []:
        if place.name not in named and not place.is_symlink() and (place / _MARKER).is_file():
            with tempfile.TemporaryDirectory(prefix=".removed-", dir=directory) as aside:
                place.rename(Path(aside) / "index")  # a reader never opens half of it


def _file_name(index_id: str) -> str:
    return quote(index_id, safe="").replace(".", "%2E")


def located(struct: FolderStruct) -> Path:
    """The local folder that a struct names, if it notes the struct's id: anybody may have written a struct.

    Raises
    ------
    NotAnIndex
        If there is no such folder, or the struct names a URL.
    """
    copy = f"{NAMESPACE}/{_file_name(struct.index_id)}"
    if "://" in struct.folder:
        raise NotAnIndex(
            f"the index store names the URL {struct.folder!r}, which is opened only if you name it too: load "
            f"with path={struct.folder!r}, which is read-only, or fetch it and load with path='<folder>'"
        )
    places = [place for place in (struct.folder, struct.relative) if place and Path(place).is_dir()]
    for place in places:
        if Path(place, _note_of(struct)).is_file():
            return Path(place)
    if places:
        raise NotAnIndex(
            f"the folder {places[0]!r} does not note that it is the index {struct.index_id!r} of this store; "
            f"if you trust it, load with path={places[0]!r}"
        )
    raise NotAnIndex(
        f"the index folder {struct.folder!r} is not there; if the persist directory was moved, load with "
        f"path='<persist directory>/{copy}'"
    )


def note(folder: Path, struct: FolderStruct) -> None:
    """Note in a folder that a struct names it, as an empty file, which is all that `located` looks for."""
    (folder / _note_of(struct)).touch()


def _note_of(struct: FolderStruct) -> str:
    return f"llama-index-{_file_name(struct.index_id)}"
