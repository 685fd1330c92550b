"""Arrays as `.npy` files: written with their checksum, read by memory mapping, never unpickled."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stratarag.errors import Damaged
from stratarag.store.layout import naming
from stratarag.store.manifest import FileEntry

BLOCK = 1 << 24  # bytes written at a time
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def check_name(name: str, what: str) -> str:
    """A name that is safe as a file name everywhere; `ValueError` otherwise."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise ValueError(f"{what} {name!r} must consist of letters, digits, '_', '-' and '.'")
    return name


def write_array(path: Path, array: NDArray[Any]) -> FileEntry:
    """Write an array to the disk (synced) and return size and checksum.

    Raises
    ------
    ValueError
        If the array holds Python objects.
    OSError
        If the disk is full; numpy's own writer would not say so.
    """
    array = np.asarray(array, order="C")
    if array.dtype.hasobject:
        raise ValueError(f"array {path.stem!r} holds Python objects; only plain numbers and text are stored")
    data = array.reshape(-1).view(np.uint8)
    with _whole(path), path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(array))
        for start in range(0, data.size, BLOCK):
            file.write(data[start : start + BLOCK].data)
        file.flush()
        os.fsync(file.fileno())
    return fingerprint(path)


def create_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A writable, zeroed, memory-mapped array whose space on the disk is reserved beforehand.

    Without the reservation, a full disk would end the process with SIGBUS at some later assignment.
    """
    with _whole(path):
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
        size = path.stat().st_size
        with path.open("rb+") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                _write_zeros(file.fileno(), size, array.offset)
    return array


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Leave no part of a file on a disk that is full already."""
    try:
        with naming(path):
            yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _write_zeros(descriptor: int, size: int, start: int) -> None:
    os.lseek(descriptor, start, os.SEEK_SET)
    for position in range(start, size, BLOCK):
        os.write(descriptor, bytes(min(BLOCK, size - position)))


def open_array(path: Path) -> NDArray[Any]:
    """Map a written array read-only, as a plain `ndarray` (a `memmap` makes every slice slow).

    Raises
    ------
    Damaged
        If the file is not a plain array.
    """
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise Damaged(f"{path}: not an array ({error})") from error
    if not isinstance(mapped, np.ndarray):
        raise Damaged(f"{path}: not an array but an archive")
    return np.asarray(mapped)


def fingerprint(path: Path) -> FileEntry:
    """Size and checksum of any file, from its content on the disk."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(file.tell(), digest)
