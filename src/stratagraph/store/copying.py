"""Copies of an index folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged, Locked, NotAnIndex
from stratagraph.store.arrays import file_bytes
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import BLOCK, Digest, FileEntry
from stratagraph.store.contents import open_contents
from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.files import Directory, naming
from stratagraph.store.journal import Journal
from stratagraph.store.layout import GENERATIONS, MANIFEST, MARKER, Layout, made_layout, remove_ours
from stratagraph.store.lock import LOCK, WriterLock
from stratagraph.store.manifest import Manifest

Blocks = Iterable[bytes | memoryview]
FilesInBlocks = Iterator[tuple[str, Blocks]]


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
            manifest, files = opened_files(source)
            take_over(target, manifest, in_blocks(files), SqliteCalls.of(source.root))
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


def take_over(
    target: Layout, manifest: Manifest, files: FilesInBlocks, calls: SqliteCalls | None = None
) -> None:
    """Publish the files of a generation as the next one of a folder, if they match the manifest.

    `calls` become the folder's cache. Calls of chunks that are not in the corpus go: such a chunk was deleted
    in the source, where its calls wait to be purged, or belongs to a generation that is not published yet.
    """
    number = max(manifest.generation, target.next_number())
    try:
        with target.make_partial(number) as partial:
            for name, file in files:
                with partial.holding(name, make=True) as (directory, last):
                    with directory.creator(last) as copied:
                        copy_blocks(file, copied, name, manifest.files[name])
                    directory.sync()
            partial.write(MANIFEST, replace(manifest, generation=number).to_json().encode("utf-8"))
            partial.sync_all()
            if calls is not None:
                calls.copy_to(target.root)
            own = SqliteCalls.of(target.root)
            if own.exists():
                with closing(own):
                    mentioned = own.chunks()
                    contents = open_contents(partial, manifest, "sizes")
                    in_corpus = RecordedCorpus(*contents.corpus_records(partial.path)).row_of(mentioned)
                    own.purge(chunk for chunk in mentioned if chunk not in in_corpus)
    except BaseException:
        target.remove_partial(number)
        raise
    target.adopt(number)


def opened_files(source: Layout) -> tuple[Manifest, dict[str, NDArray[np.uint8]]]:
    """The bytes of the files of the current generation.

    All are opened first, since a writer may remove their names at any time. They are mapped and hold no
    descriptor, since an index may have more files than a process may open.
    """

    def read(directory: Directory, number: int) -> tuple[Manifest, dict[str, NDArray[np.uint8]]]:
        manifest, files = Manifest.read(directory, number), {}
        for name in manifest.files:
            with directory.reader(name) as opened, naming(directory.path, name):
                files[name] = file_bytes(opened.fileno())
        return manifest, files

    return source.read_current(read)


def in_blocks(files: Mapping[str, NDArray[np.uint8]]) -> FilesInBlocks:
    """Files one after the other, each with its content in blocks."""
    for name, content in files.items():
        yield name, (content[start : start + BLOCK].data for start in range(0, len(content), BLOCK))


def copy_blocks(blocks: Blocks, target: BinaryIO, name: str, entry: FileEntry) -> None:
    """Write a file; `Damaged` if it does not match its entry."""
    digest = Digest()
    for block in blocks:
        digest.write(target, block)
        if digest.size > entry.bytes:
            break
    if digest.size != entry.bytes or digest.entry().sha256 != entry.sha256:
        raise Damaged(f"{name}: altered since it was written; verify() says what else is")
