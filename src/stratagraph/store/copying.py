"""Copies of an index folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged, Locked, NotAnIndex
from stratagraph.store.arrays import file_bytes
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import BLOCK, Digest, FileEntry
from stratagraph.store.contents import open_contents, opened
from stratagraph.store.corpus import Corpus
from stratagraph.store.files import Directory, naming
from stratagraph.store.journal import Journal
from stratagraph.store.layout import GENERATIONS, MANIFEST, MARKER, Layout, made_layout, remove_ours
from stratagraph.store.lock import LOCK, WriterLock
from stratagraph.store.manifest import Manifest


def copy_index(source: Layout, path: Path) -> None:
    """Copy the current generation of a folder, and its cache of calls; see `IndexFolder.copy_to`.

    The copy becomes the next generation of the target. Readers of an earlier copy keep their files, and a
    crash leaves the earlier copy.
    """
    source.root.require_in_place()
    source.require()
    path, own = path.resolve(), source.path.resolve()
    if path == own:
        return
    if own in path.parents:
        raise ValueError(f"{path} lies inside of the index itself; copy it to another place")
    is_new = not path.exists()
    target = made_layout(path)
    try:
        journal = Journal(target.root)
        if target.current() == 0 and journal.exists():
            raise NotAnIndex(
                f"{target.path} holds a build that was never finished; nothing was copied there: "
                "run the same build again, or give another folder"
            )
        with WriterLock(target.root, "copy"):
            target.sweep()
            _copy_generation(source, target)
            target.sweep()
            journal.remove()  # an operation interrupted in the earlier copy has lost its generation
    except BaseException as error:
        if is_new and not isinstance(error, Locked):
            unclaim(target)
            with suppress(OSError):
                path.rmdir()
        raise
    finally:
        target.root.close()


def unclaim(layout: Layout) -> None:
    """Remove our files from a folder without a published generation."""
    if layout.current():
        return
    remove_ours(layout.root, GENERATIONS)
    for name in (MARKER, LOCK):
        layout.root.unlink(name)


def _copy_generation(source: Layout, target: Layout) -> None:
    def copy_calls(partial: Directory) -> None:
        SqliteCalls.of(source.root).copy_to(target.root)
        keep_known_calls(partial, manifest, target)

    manifest, files = opened_files(source)
    take_over(target, manifest, files.items(), copy_calls)


def take_over(
    target: Layout,
    manifest: Manifest,
    files: Iterable[tuple[str, BinaryIO]],
    finish: Callable[[Directory], None],
) -> None:
    """Publish the files of a generation as the next one of a folder, if they match the manifest.

    `finish` is called with the new generation before it is published.
    """
    number = max(manifest.generation, target.next_number())
    try:
        with target.make_partial(number) as partial:
            for name, file in files:
                _copy_file(file, partial, name, manifest.files[name])
            partial.write(MANIFEST, replace(manifest, generation=number).to_json().encode("utf-8"))
            partial.sync_all()
            finish(partial)
    except BaseException:
        target.remove_partial(number)
        raise
    target.adopt(number)


def opened_files(source: Layout) -> tuple[Manifest, Mapping[str, BinaryIO]]:
    """The files of the current generation, all opened first: a writer may remove their names at any time."""

    def read(directory: Directory, number: int) -> tuple[Manifest, Mapping[str, BinaryIO]]:
        manifest, files = Manifest.read(directory, number), {}
        for name in manifest.files:
            with opened(directory, name) as descriptor, naming(directory.path, name):
                files[name] = io.BufferedReader(_MappedReader(file_bytes(descriptor)))
        return manifest, files

    return source.read_current(read)


class _MappedReader(io.RawIOBase):
    """Reads mapped bytes. The descriptor is closed already: an index may have more files than may be open."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._left = content

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count].data
        self._left = self._left[count:]
        return count


def _copy_file(source: BinaryIO, directory: Directory, name: str, entry: FileEntry) -> None:
    folder, _, file = name.rpartition("/")
    with directory.make_all(folder) if folder else nullcontext(directory) as holder:
        with holder.creator(file) as target:
            copy_bytes(source, target, name, entry)
        holder.sync()


def copy_bytes(source: BinaryIO, target: BinaryIO, name: str, entry: FileEntry) -> None:
    """Copy a file; `Damaged` if it does not match its entry."""
    digest = Digest()
    while digest.size <= entry.bytes and (data := source.read(BLOCK)):
        digest.write(target, data)
    if digest.size != entry.bytes or digest.entry().sha256 != entry.sha256:
        raise Damaged(f"{name}: altered since it was written; verify() says what else is")


def keep_known_calls(generation: Directory, manifest: Manifest, target: Layout) -> None:
    """Remove from the cache calls of chunks that are not in the copied corpus.

    Such a chunk was deleted in the source, where its calls wait to be purged, or belongs to a generation that
    is not published yet.
    """
    calls = SqliteCalls.of(target.root)
    if not calls.exists():
        return
    try:
        mentioned = calls.chunks()
        corpus = Corpus(*open_contents(generation, manifest, "sizes").corpus_records(generation.path))
        in_corpus = corpus.row_of(mentioned)
        calls.purge(chunk for chunk in mentioned if chunk not in in_corpus)
    finally:
        calls.close()
