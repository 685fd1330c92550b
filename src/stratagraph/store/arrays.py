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
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels import _native
from stratagraph.store.checksums import BLOCK, Digest, FileEntry
from stratagraph.store.files import Directory

SUFFIX = ".arrays"
READ = 1 << 16  # bytes: a larger file is mapped, a smaller one is read
_MAGIC = b"\x93SRARR\x01\n"
_ALIGNED = 64
_DESCRIPTION = 1 << 24  # largest description that is read, in bytes
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPE = re.compile(r"[<|][biufUS][0-9]{1,9}")

Arrays = Mapping[str, NDArray[Any]]
NamedArrays = dict[str, NDArray[Any]]


class OpenFile(NamedTuple):
    """The arrays of a file, and the file's device, inode, size and modification time."""

    arrays: NamedArrays
    identity: tuple[int, ...]


def check_name(name: str, what: str) -> str:
    """Return a name that is safe as a file name everywhere; `ValueError` otherwise."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ValueError(f"{what} {name!r} must consist of letters, digits, '_', '-' and '.'")
    return name


def write_arrays(directory: Directory, file: str, arrays: Arrays) -> FileEntry:
    """Write arrays to a new, synced file; returns its size and checksums. `ValueError`: not plain."""
    plain = {name: as_plain(name, array) for name, array in arrays.items()}
    described, offsets, end = [], [], 0
    for name, array in plain.items():
        offsets.append(begin := _up(end))
        described.append([name, array.dtype.str, list(array.shape), begin])
        end = begin + array.nbytes
    text = json.dumps(described, separators=(",", ":")).encode("ascii")
    head = _MAGIC + len(text).to_bytes(8, "little") + text
    digest, end = Digest(), 0
    with directory.creator(file) as target:
        digest.write(target, head + b" " * (_up(len(head)) - len(head)))
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


def _up(position: int) -> int:
    return -(-position // _ALIGNED) * _ALIGNED


def reserved_array(directory: Directory, file: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A zeroed array in a new file, to be filled in place; its space on the disk is reserved.

    Without the reservation, a full disk would end the process with SIGBUS at a later assignment.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    with directory.creator(file) as target:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(target.fileno(), 0, max(size, 1))
        else:
            for start in range(0, max(size, 1), BLOCK):
                target.write(bytes(min(BLOCK, max(size, 1) - start)))
            target.flush()
        return np.ndarray(shape, dtype, mmap.mmap(target.fileno(), max(size, 1)))


def open_arrays(directory: Directory, file: str, descriptor: int) -> NamedArrays:
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
        # A mapping without a descriptor: an index has hundreds of files, a process may open about a thousand.
        if sys.version_info >= (3, 13):
            mapped = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False)
        elif hasattr(_native, "mapped"):
            return _native.mapped(descriptor, size)
        else:
            mapped = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8)
    raw = np.zeros(size + _ALIGNED, np.uint8)
    start = -raw.ctypes.data % _ALIGNED
    buffer = raw[start : start + size]
    os.lseek(descriptor, 0, os.SEEK_SET)
    content = os.read(descriptor, size)
    buffer[: len(content)] = np.frombuffer(content, np.uint8)
    buffer.flags.writeable = False
    return buffer


def _arrays(described: Any, buffer: NDArray[np.uint8], begin: int) -> NamedArrays:
    arrays: NamedArrays = {}
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
