"""Sizes and checksums of files: made while they are written, and checked when they are opened."""

from __future__ import annotations

import hashlib
import os
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Literal, get_args

BLOCK = 1 << 20  # bytes that have a checksum of their own
SMALL = 1 << 20  # bytes: a file of up to this size is always checked whole
SAMPLES = 4  # blocks of a larger file that are checked: the first, the last, and others at random

Check = Literal["sizes", "sampled", "full"]
"""How far the files of an index are checked when it is opened.

Sizes are always checked, and so are files of up to 1 MiB. Of larger files, `"sampled"` checks four blocks of
1 MiB, `"full"` checks every byte, and `"sizes"` checks nothing more. If a folder has many segments, all but
`"full"` check only a random sample of them (`contents.LOOKED_INTO`), so that opening does not read all of an
index.
"""


def as_check(check: str) -> Check:
    """One of the three words; `ValueError` names them."""
    for word in get_args(Check):
        if check == word:
            return word  # type: ignore[no-any-return]
    raise ValueError(f"check must be one of {', '.join(get_args(Check))}, not {check!r}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Size in bytes and SHA-256 (hexadecimal) of a file, and CRC-32 of each of its blocks."""

    bytes: int
    sha256: str
    blocks: str

    def __post_init__(self) -> None:
        if type(self.bytes) is not int or not 0 <= self.bytes < 1 << 62:
            raise ValueError(f"no file has {self.bytes!r} bytes")
        if not isinstance(self.sha256, str) or not isinstance(self.blocks, str):
            raise ValueError("checksums must be text")
        if len(self.blocks) != 8 * -(-self.bytes // BLOCK):
            raise ValueError(f"a file of {self.bytes} bytes cannot have {len(self.blocks) / 8} blocks")

    def fields(self) -> dict[str, int | str]:
        """The entry in a manifest; `dataclasses.asdict` takes ten times as long, and files are many."""
        return {"bytes": self.bytes, "sha256": self.sha256, "blocks": self.blocks}


class Digest:
    """The checksums of bytes that arrive one after the other."""

    def __init__(self) -> None:
        self.size = 0
        self._whole = hashlib.sha256()
        self._blocks: list[int] = []

    def add(self, data: bytes | memoryview) -> None:
        """Take in more bytes."""
        view = memoryview(data).cast("B")
        self._whole.update(view)
        while view:
            room = BLOCK - self.size % BLOCK
            before = self._blocks.pop() if room < BLOCK else 0
            self._blocks.append(zlib.crc32(view[:room], before))
            self.size += len(view[:room])
            view = view[room:]

    def write(self, file: BinaryIO, data: bytes | memoryview) -> None:
        """Write bytes to a file and take them in."""
        file.write(data)
        self.add(data)

    def entry(self) -> FileEntry:
        """Size and checksums of the bytes so far."""
        return FileEntry(
            self.size, self._whole.hexdigest(), "".join(f"{block:08x}" for block in self._blocks)
        )


def fingerprint(descriptor: int) -> FileEntry:
    """Size and checksums of a file, from its content on the disk."""
    digest = Digest()
    with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
        file.seek(0)
        while data := file.read(BLOCK):
            digest.add(data)
    return digest.entry()


def problem(descriptor: int, entry: FileEntry, check: Check | None) -> str | None:
    """What is wrong with a file, as far as the check goes (None: its size alone); None if nothing is."""
    size = os.fstat(descriptor).st_size
    if size != entry.bytes:
        return f"{size} bytes, but {entry.bytes} were written"
    if check is None:
        return None
    if check == "full":
        present = fingerprint(descriptor)
        if present.sha256 != entry.sha256:
            return (
                f"altered (SHA-256 {present.sha256[:12]}..., {present.bytes} bytes; "
                f"written were {entry.sha256[:12]}..., {entry.bytes} bytes)"
            )
        return None
    if check == "sizes" and size > SMALL:
        return None
    count = len(entry.blocks) // 8
    chosen: Iterable[int] = range(count)
    if count > SAMPLES:
        chosen = sorted({0, count - 1, *random.sample(range(1, count - 1), SAMPLES - 2)})
    with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
        for block in chosen:
            file.seek(block * BLOCK)
            if f"{zlib.crc32(file.read(BLOCK)):08x}" != entry.blocks[8 * block : 8 * block + 8]:
                return (
                    f"altered in the {min(BLOCK, entry.bytes - block * BLOCK)} bytes from {block * BLOCK} on"
                )
    return None
