"""Files of arrays in pieces: a delete rewrites only the pieces in which it erases something.

    parts/<part>/<number>-<generation>.piece    its place among the pieces, and the generation that wrote it

Joined, the pieces are a file of arrays (`store/arrays.py`). All but the last have one size, a multiple of
that of memory pages. They are mapped side by side, so that arrays are contiguous; without compiled kernels,
and on Windows, they are read. A piece in which everything is erased is an empty file.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels.hamming import native_available
from stratagraph.store.arrays import Arrays, aligned_bytes, arrays_in, stored
from stratagraph.store.checksums import Digest, FileEntry
from stratagraph.store.files import Directory

if native_available():
    from stratagraph.kernels import _native

LEAST = 1 << 16
"""Bytes of a piece, or this times a power of two."""
MOST = 256
"""Pieces of a file."""
_FILE = re.compile(r"(0|[1-9][0-9]{0,8})-[1-9][0-9]{0,17}\.piece")
_LARGEST = 1 << 48  # bytes of all pieces that are believed

Ranges = Iterable[tuple[int, int]]
"""Where bytes begin and end."""


class Pieces:
    """The pieces of one file of arrays.

    Parameters
    ----------
    sizes
        The bytes of each piece, by the name of its file.

    Attributes
    ----------
    files
        Their names, in order.
    step
        Bytes of each but the last.
    wrong
        Why these cannot be the pieces of a file; None if they can.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._places = {file: int(found[1]) if (found := _FILE.fullmatch(file)) else -1 for file in sizes}
        self.files = tuple(sorted(sizes, key=self._places.__getitem__))
        self.wrong = _misfit(
            [self._places[file] for file in self.files], [sizes[file] for file in self.files]
        )
        self.step = sizes[self.files[0]]
        self._sizes = dict(sizes)
        self._lacking = set(self.files)
        self._memory: _Memory | None = None

    @property
    def complete(self) -> bool:
        """Whether all pieces were added."""
        return not self._lacking

    def put(self, file: str, descriptor: int) -> None:
        """Add a piece of the size given before. Does nothing if the pieces do not fit together."""
        if self.wrong is not None:
            return
        if self._memory is None:
            size = (len(self.files) - 1) * self.step + self._sizes[self.files[-1]]
            self._memory = _native.Range(size) if _maps() else _Read(size)
        if self._sizes[file]:
            self._memory.put(self._places[file] * self.step, descriptor, self._sizes[file])
        self._lacking.discard(file)

    def bytes(self) -> NDArray[np.uint8]:
        """The bytes of all of them, read-only."""
        assert self._memory is not None
        return self._memory.bytes()

    def arrays(self, folder: Path) -> dict[str, NDArray[Any]]:
        """The arrays in them; `Damaged` names their folder."""
        return arrays_in(self.bytes(), folder, "")

    def erased(self, ranges: Ranges) -> dict[int, NDArray[np.uint8]]:
        """The pieces that hold something in these ranges, by their places, with zeros there.

        A piece of zeros alone becomes empty, except the last one.
        """
        found: dict[int, NDArray[np.uint8]] = {}
        whole = self.bytes()
        for begin, end in ranges:
            for place in range(begin // self.step, -(-end // self.step)):
                start = place * self.step
                within = slice(max(begin - start, 0), end - start)
                if place not in found:
                    before = whole[start : start + self.step]
                    if not before[within].any():
                        continue
                    found[place] = before.copy()
                found[place][within] = 0
        last = len(self.files) - 1
        return {place: each if each.any() or place == last else each[:0] for place, each in found.items()}


def _misfit(places: list[int], sizes: list[int]) -> str | None:
    if places != list(range(len(places))):
        return "not every piece is there, and once"
    step = sizes[0]
    if any(size not in (0, step) for size in sizes[:-1]) or not 0 < sizes[-1] <= step:
        return "its pieces are not of one size"
    if len(sizes) * step > _LARGEST or (len(sizes) > 1 and step % LEAST):
        return f"its {len(sizes)} pieces are of {step} bytes"
    return None


class _Memory(Protocol):
    def put(self, at: int, descriptor: int, size: int) -> None: ...
    def bytes(self) -> NDArray[np.uint8]: ...


def _maps() -> bool:
    return native_available() and hasattr(_native, "Range")


class _Read:
    """Pieces that are read one behind the other."""

    def __init__(self, size: int) -> None:
        self._bytes = aligned_bytes(size)

    def put(self, at: int, descriptor: int, size: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            file.seek(0)
            end = at + size
            while at < end and (count := file.readinto(self._bytes[at:end].data)):
                at += count

    def bytes(self) -> NDArray[np.uint8]:
        found = self._bytes.view()
        found.flags.writeable = False
        return found


def of_files(sizes: Mapping[str, int], folder: re.Pattern[str]) -> dict[str, Pieces]:
    """The pieces among files, by what the pattern of their paths finds first; the file is found second."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for path, size in sizes.items():
        if match := folder.fullmatch(path):
            found[match[1]][match[2]] = size
    return {name: Pieces(each) for name, each in found.items()}


def write_pieces(directory: Directory, generation: int, arrays: Arrays) -> dict[str, FileEntry]:
    """Write arrays to new pieces; errors as of `arrays.write_arrays`."""
    size = sum(array.nbytes for array in arrays.values())
    step = LEAST
    while step * MOST < size:
        step *= 2
    files = {}
    for place, content in enumerate(_cut(stored(arrays), step)):
        files[piece_file(place, generation)] = write_piece(directory, piece_file(place, generation), content)
    return files


def piece_file(place: int, generation: int) -> str:
    """Name of a piece that a generation writes."""
    return f"{place}-{generation}.piece"


def write_piece(directory: Directory, file: str, content: memoryview) -> FileEntry:
    """Write a new piece (synced), and return its size and checksums."""
    digest = Digest()
    with directory.creator(file) as target:
        digest.write(target, content)
    return digest.entry()


def _cut(blocks: Iterable[bytes | memoryview], step: int) -> Iterator[memoryview]:
    held = bytearray()
    for block in blocks:
        held += block
        full = len(held) - len(held) % step
        content, held = memoryview(bytes(held[:full])), held[full:]
        yield from (content[start : start + step] for start in range(0, full, step))
    if held:
        yield memoryview(held)
