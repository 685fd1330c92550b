"""What LlamaIndex keeps of an index in its index store, and how it finds our classes again on loading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.registry import INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS
from llama_index.core.data_structs.struct_type import IndexStructType
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.registry import INDEX_STRUCT_TYPE_TO_INDEX_CLASS

IndexClass = TypeVar("IndexClass", bound=type[BaseIndex[Any]])


@dataclass
class FolderStruct(IndexStruct):
    """Where an index lies. All the rest is in the folder.

    Attributes
    ----------
    folder
        Absolute path of the index folder, or a URL of a file system where it was persisted.
    relative
        The same as the caller wrote it, where that was a relative path: it holds when the project moves.
    generation
        Of the folder, when this was written.
    method
        The method that the index asks.
    """

    folder: str = ""
    relative: str = ""
    generation: int = 0
    method: str = ""


def struct_class(method: str) -> type[FolderStruct]:
    """The struct of a method: LlamaIndex tells index classes apart by the type of their struct.

    Where nobody has imported this package, a type is all that LlamaIndex says of a persisted index, in a bare
    `KeyError`. So it says what to do.
    """
    name = f"stratagraph {method}: to load it, import llama_index_stratagraph first"
    kind = cast(IndexStructType, name)  # the registries are dicts of plain strings
    namespace = {"__doc__": FolderStruct.__doc__, "get_type": classmethod(lambda cls: kind)}
    return dataclass(type(f"{method.capitalize()}Struct", (FolderStruct,), namespace))


def register(index_class: IndexClass) -> IndexClass:
    """Make an index class known to `load_index_from_storage`."""
    struct: type[IndexStruct] = vars(index_class)["index_struct_cls"]
    kind = struct.get_type()
    INDEX_STRUCT_TYPE_TO_INDEX_STRUCT_CLASS.setdefault(kind, struct)
    INDEX_STRUCT_TYPE_TO_INDEX_CLASS.setdefault(kind, index_class)
    return index_class
