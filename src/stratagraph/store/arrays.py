"""Files of arrays, memory-mapped and never unpickled.

    8 bytes     magic
    8 bytes     length of the description, little-endian
    ...         the description, JSON: a list of [name, type, shape, offset]
    ...         the arrays, each at a multiple of 64 bytes from the first one

A file is checked before it is used: its types are plain numbers or text, and its arrays follow one another
up to the end. Small files are read instead of mapped: they need no descriptor, and nobody can cut them short
under a reader.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels import _native
from stratagraph.store.checksums import BLOCK, Digest, FileEntry
from stratagraph.store.files import Directory

SUFFIX = ".arrays"
READ = 1 << 16  # bytes up to which a file is read and not mapped
_MAGIC = b"\x93SRARR\x01\n"
_ALIGNED = 64
_DESCRIPTION = 1 << 24  # bytes of the longest description that is believed
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPE = re.compile(r"[<|][biufUS][0-9]{1,9}")

Arrays = Mapping[str, NDArray[Any]]


def check_name(name: str, what: str) -> str:
    """Return a name that is safe as a file name everywhere; `ValueError` otherwise."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ValueError(f"{what} {name!r} must consist of letters, digits, '_', '-' and '.'")
    return name


def write_arrays(directory: Directory, file: str, arrays: Arrays) -> FileEntry:
    """Write arrays to a new file (synced), and return its size and checksums.

    Raises
    ------
    ValueError
        If an array holds anything but numbers and text.
    OSError
        If the disk is full.
    """
    plain = {name: as_plain(name, array) for name, array in arrays.items()}
    head, offsets, _ = _laid_out({name: (array.dtype, array.shape) for name, array in plain.items()})
    digest, end = Digest(), 0
    with directory.creator(file) as target:
        digest.write(target, head)
        for offset, array in zip(offsets, plain.values(), strict=True):
            digest.write(target, bytes(offset - end))
            data = array.reshape(-1).view(np.uint8)
            for start in range(0, data.size, BLOCK):
                digest.write(target, data[start : start + BLOCK].data)
            end = offset + data.size
    return digest.entry()


def as_plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to what is stored: in C order, little-endian; `ValueError` unless numbers or text."""
    array = np.asarray(array, order="C")
    if array.dtype.hasobject:
        raise ValueError(f"array {name!r} holds Python objects; only plain numbers and text are stored")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not _TYPE.fullmatch(array.dtype.str):
        raise ValueError(f"array {name!r} is of type {array.dtype}; only plain numbers and text are stored")
    return array


def _laid_out(
    kinds: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
) -> tuple[bytes, list[int], int]:
    """The head of a file, the offset of each array from the end of the head, and the size of the file."""
    described, offsets, end = [], [], 0
    for name, (dtype, shape) in kinds.items():
        begin = _up(end)
        described.append([name, dtype.str, list(shape), begin])
        offsets.append(begin)
        end = begin + dtype.itemsize * math.prod(shape)
    text = json.dumps(described, separators=(",", ":")).encode("ascii")
    head = _MAGIC + len(text).to_bytes(8, "little") + text
    head += b" " * (_up(len(head)) - len(head))
    return head, offsets, len(head) + end


def _up(position: int) -> int:
    return -(-position // _ALIGNED) * _ALIGNED


class Layers(Mapping[str, NDArray[Any]]):
    """Several mappings as one; the first that has a name gives the array. Omits names in `hidden`."""

    def __init__(self, *layers: Arrays, hidden: Collection[str] = ()) -> None:
        self._owners = {name: layer for layer in reversed(layers) for name in layer if name not in hidden}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._owners[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)


class WritableArray:
    """A zeroed array in a new file, to be filled in place; its space on the disk is reserved.

    Without the reservation, a full disk would end the process with SIGBUS at a later assignment.
    """

    def __init__(
        self, directory: Directory, file: str, name: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> None:
        kind = np.dtype(dtype)
        head, _, size = _laid_out({name: (kind, shape)})
        with directory.creator(file) as target:
            target.write(head)
            target.flush()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(target.fileno(), 0, size)
            else:
                for start in range(len(head), size, BLOCK):
                    target.write(bytes(min(BLOCK, size - start)))
                target.flush()
            self._mapped = mmap.mmap(target.fileno(), size)
        self.array: NDArray[Any] = np.ndarray(shape, kind, self._mapped, len(head))

    def flush(self) -> None:
        """Force the array to the disk."""
        self._mapped.flush()


def open_arrays(directory: Directory, file: str, descriptor: int) -> dict[str, NDArray[Any]]:
    """The arrays in a file, read-only, by name; `Damaged` if it is no file of arrays."""
    path, buffer = directory.path / file, file_bytes(descriptor)
    size, begin = len(buffer), len(_MAGIC) + 8
    length = int.from_bytes(bytes(buffer[len(_MAGIC) : begin]), "little")
    if bytes(buffer[: len(_MAGIC)]) != _MAGIC or length > min(_DESCRIPTION, size - begin):
        raise Damaged(f"{path}: not a file of arrays")
    try:
        described = json.loads(bytes(buffer[begin : begin + length]))
        return _arrays(described, buffer, _up(begin + length))
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise Damaged(f"{path}: does not describe its arrays soundly ({error})") from error


def file_bytes(descriptor: int) -> NDArray[np.uint8]:
    """The bytes of a file: mapped, or copied to aligned memory if the file is small."""
    size = os.fstat(descriptor).st_size
    if size > READ:
        return _mapped(descriptor, size)
    raw = np.zeros(size + _ALIGNED, np.uint8)
    start = -raw.ctypes.data % _ALIGNED
    buffer = raw[start : start + size]
    content = os.pread(descriptor, size, 0) if hasattr(os, "pread") else _read(descriptor, size)
    buffer[: len(content)] = np.frombuffer(content, np.uint8)
    buffer.flags.writeable = False
    return buffer


def _mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """A mapping without a descriptor: an index has hundreds of files, a process may open about a thousand."""
    if sys.version_info >= (3, 13):
        return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False), np.uint8)
    if hasattr(_native, "mapped"):
        return _native.mapped(descriptor, size)
    return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), np.uint8)


def _read(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, size)


def _arrays(described: Any, buffer: NDArray[np.uint8], begin: int) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    end = begin
    for name, kind, shape, offset in described:
        if name in arrays or not _NAME.fullmatch(name) or not _TYPE.fullmatch(kind):
            raise ValueError(f"no array may be called {name!r} and be of type {kind!r}")
        if not all(type(length) is int and 0 <= length < 1 << 48 for length in shape) or len(shape) > 8:
            raise ValueError(f"{name!r} cannot have the shape {shape}")
        dtype = np.dtype(kind)
        start = begin + offset
        if type(offset) is not int or start != _up(end):
            raise ValueError(f"{name!r} cannot begin at {offset}")
        end = start + dtype.itemsize * math.prod(shape)
        if end > len(buffer):
            raise ValueError(f"{name!r} ends at byte {end} of {len(buffer)}")
        arrays[name] = buffer[start:end].view(dtype).reshape(shape)
    if end != len(buffer):
        raise ValueError(f"the arrays end at byte {end} of {len(buffer)}")
    return arrays
