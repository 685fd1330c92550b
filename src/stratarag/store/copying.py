"""A copy of an index folder that is an index of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from stratarag.errors import Damaged, NotAnIndex, StoreError
from stratarag.store.arrays import BLOCK
from stratarag.store.calls import SqliteCalls
from stratarag.store.database import Database, connect_frozen
from stratarag.store.journal import Journal
from stratarag.store.layout import CORPUS, MANIFEST, Layout, naming, remove_ours, sync_directory, write_text
from stratarag.store.lock import WriterLock
from stratarag.store.manifest import Manifest
from stratarag.store.tables import Tables

_RACES = 20  # how often a writer may replace the generation whose files are being opened


def copy_index(source: Layout, path: Path) -> None:
    """Copy what is published in a folder, and its cache of calls; see `IndexFolder.copy_to`."""
    source.require()
    path = path.resolve()
    own = source.path.resolve()
    if path == own:
        return
    if own in path.parents:
        raise ValueError(f"{path} lies inside of the index itself; copy it to another place")
    if path.exists():
        _copy_into(source, Layout(path))
    else:
        _copy_anew(source, path)


def _copy_anew(source: Layout, path: Path) -> None:
    """Make the copy beside its place and move it there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copy-", dir=path.parent) as aside:
        fresh = Layout(Path(aside) / "index")
        fresh.claim()
        _copy(source, fresh)
        fresh.path.rename(path)
        sync_directory(path.parent)


def _copy_into(source: Layout, target: Layout) -> None:
    """Publish the copy as the next generation of the folder that is there.

    So readers keep what they have opened, a crash leaves the earlier copy, and files of others stay.
    """
    target.claim()
    journal = Journal(target.journal)
    if target.current() == 0 and journal.exists():
        raise NotAnIndex(
            f"{target.path} holds a build that was never finished; nothing was copied there: "
            "run the same build again, or give another folder"
        )
    with WriterLock(target.path, "copy"):
        _copy(source, target)
        journal.remove()  # what was begun in the earlier copy has no base any more
        target.sweep()


def _copy(source: Layout, target: Layout) -> None:
    with _opened(source) as (manifest, files):
        number = max(manifest.generation, target.next_number())
        partial = target.partial(number)
        try:
            _write(files, replace(manifest, generation=number), partial)
            _copy_calls(source, partial / CORPUS, target)
        except BaseException:
            remove_ours(partial)
            raise
        target.adopt(number)


@contextmanager
def _opened(source: Layout) -> Iterator[tuple[Manifest, Mapping[str, BinaryIO]]]:
    """The files of the generation in use, opened at once: a writer may remove their names at any time."""
    for _ in range(_RACES):
        directory = source.generation(source.current())
        with ExitStack() as stack:
            try:
                manifest = Manifest.read(directory)
                files: dict[str, BinaryIO] = {
                    name: stack.enter_context((directory / name).open("rb")) for name in manifest.files
                }
            except FileNotFoundError as error:
                if source.generation(source.current()) == directory:
                    raise Damaged(f"{error.filename}: missing") from error
                continue
            yield manifest, files
            return
    raise StoreError(f"{source.path}: generations are replaced faster than they can be opened")


def _write(files: Mapping[str, BinaryIO], manifest: Manifest, directory: Path) -> None:
    for name, file in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path), path.open("wb") as copy:
            shutil.copyfileobj(file, copy, BLOCK)
            copy.flush()
            os.fsync(copy.fileno())
    write_text(directory / MANIFEST, manifest.to_json())
    for folder, _, _ in os.walk(directory):
        sync_directory(Path(folder))


def _copy_calls(source: Layout, corpus: Path, target: Layout) -> None:
    """Copy the cache, but no call that went into a chunk which is not in the corpus copied.

    Such a chunk is deleted and its calls are about to be purged, or is not published yet.
    """
    calls = SqliteCalls(target.calls)
    try:
        SqliteCalls(source.calls).copy_to(target.calls)
        mentioned = calls.chunks()
        database = Database(corpus, lambda: connect_frozen(corpus), reopen=False)
        known = Tables(database, 0).row_of(mentioned)
        database.close()
        calls.purge(chunk for chunk in mentioned if chunk not in known)
    finally:
        calls.close()
