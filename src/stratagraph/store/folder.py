"""An index folder: its generations, its writer, and its cache of model calls."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from stratagraph.errors import ClosedIndex, Locked, ReadOnly, StoreError, VectorStoreError
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import Check, as_check
from stratagraph.store.copying import copy_index, in_blocks, opened_files, unclaim
from stratagraph.store.external import ExternalPool, remove_leftovers, require_current
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal, Operation
from stratagraph.store.layout import CURRENT, SOURCE_URL, Layout, found_layout, made_layout
from stratagraph.store.lock import TemporaryFolder, WriterLock, now
from stratagraph.store.remote import Remote
from stratagraph.store.snapshot import Snapshot
from stratagraph.store.staging import Staging
from stratagraph.store.verify import Inspect, verify
from stratagraph.system.locks import Lock
from stratagraph.types.protocols import VectorTable

TEMPORARY = "stratagraph-index-"
DEFAULT_CHECK: Check = "sampled"


class IndexFolder:
    """A folder with one index, made by `create` or `open`.

    `path` is absolute, `calls` the cache of model calls, `journal` the state of an unfinished operation, and
    `table` the vector store, if it holds the vectors.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        temporary: TemporaryFolder | None = None,
        made: bool = False,
        check: Check = DEFAULT_CHECK,
        table: VectorTable | None = None,
    ) -> None:
        self.path = layout.path
        self.calls = SqliteCalls.of(layout.root)
        self.journal = Journal(layout.root)
        self.closed = False
        self.url: str | None = None  # that the folder is a copy of
        self._layout = layout
        self.table = table
        self._made = made
        self._check = check
        self._last = 0
        self._moving = False
        self._stale_ok = False
        self._snapshot: Snapshot | None = None
        self._opening = Lock()
        self._finalizer = (
            None
            if temporary is None
            else weakref.finalize(self, _remove_temporary, temporary, self.calls, self.journal)
        )

    @classmethod
    def create(cls, path: Path | None, table: VectorTable | None = None) -> IndexFolder:
        """Create a folder for an index, or open one that is an index, finished or not.

        None creates a private temporary folder, removed when the object is closed or collected, or at exit.
        `table` receives the vectors; the next generation moves those that the folder holds. `NotAnIndex` if
        the path is a file, or a folder with something else; otherwise errors are as of `open`.
        """
        if path is None:
            temporary = TemporaryFolder(TEMPORARY)
            return cls(made_layout(temporary.path / "index"), temporary=temporary)
        is_new = not path.exists()
        folder = cls(made_layout(path), made=is_new, table=table)
        folder._moving = table is not None
        return folder._opened()

    @classmethod
    def open(
        cls,
        path: Path,
        check: str = DEFAULT_CHECK,
        table: VectorTable | None = None,
        *,
        stale_ok: bool = False,
    ) -> IndexFolder:
        """Open the index in a folder, creating no file there.

        If a killed writer left a purge, it is done now if that needs no waiting. `check` says how much of
        large files is compared with checksums, now and for later generations (`checksums.Check`). With
        `stale_ok`, the vector store (`table`) may lack rows of the generation, to repair them.

        `NotAnIndex` if there is no folder, no index in it, or only an unfinished first build;
        `FormatMismatch` or `Damaged` names the file that cannot be read; `VectorStoreError` if the vectors
        are in a store that is not given, or lacks the rows of this generation.
        """
        folder = cls(found_layout(path), check=as_check(check), table=table)
        folder._stale_ok = stale_ok
        return folder._opened()

    def _opened(self) -> Self:
        try:
            if self.generation:
                self.snapshot()
                # A reader finishes a deletion if it can; otherwise the next writer does.
                if self.journal.exists() and os.access(self.path, os.W_OK):
                    with suppress(StoreError, OSError), WriterLock(self._layout.root, "recovery"):
                        self._recover()
        except BaseException:
            self.close()
            raise
        return self

    def refresh(self) -> None:
        """Fetch a newer generation, if the folder is a copy of an index behind a URL."""

    @property
    def generation(self) -> int:
        """Number of the current generation (of the last one, once closed); 0 before the first."""
        if not self.closed:
            self._last = self._layout.current()
        return self._last

    def published(self) -> object:
        """A value that changes with each published generation, at the price of one `stat`."""
        status = self._layout.root.status(CURRENT)
        return None if status is None else (status.st_ino, status.st_mtime_ns)

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors; None before the first generation."""
        return self.snapshot().manifest.dimension or None if self.generation else None

    def snapshot(self) -> Snapshot:
        """The current generation; the same object until it changes.

        `NotAnIndex` before the first generation is published, `Damaged` or `FormatMismatch` if it cannot be
        read.
        """
        self._require_open()
        with self._opening:
            number = self._layout.current()
            if number == 0:
                self._layout.require()
            if self._snapshot is not None and self._snapshot.manifest.generation == number:
                return self._snapshot
            return self._layout.read_current(self._read_snapshot)

    def _read_snapshot(self, directory: Directory, number: int) -> Snapshot:
        snapshot = Snapshot(
            self.path, directory, number, self._check, self.table, moving=self._moving, before=self._snapshot
        )
        pool = snapshot.pool
        # If the journal lists rows, an update is to be finished in the store.
        if isinstance(pool, ExternalPool) and not (self._stale_ok or self.journal.touched()):
            require_current(snapshot.manifest, pool.rows)
        self._snapshot = snapshot
        return snapshot

    @contextmanager
    def writer(
        self, operation: str, *, compact: bool = False, restore: bool = False, anew: bool = False
    ) -> Iterator[Staging]:
        """The right to publish the next generation, inside a `with` block.

        It first finishes or removes what a killed writer left. Leaving the block without `publish` discards
        what was staged. Leaving it by an error keeps the journal, so that the same operation finds its
        vectors again; a request rejected by validation does not count as an interrupted operation.

        With `compact`, all files are written anew; with `restore`, no vectors are taken from the previous
        generation, because the vector store lacks them; with `anew`, nothing is. `Locked` if someone else is
        writing, `ReadOnly` if the folder is a copy of an index behind a URL.
        """
        self._require_open()
        if self._layout.root.holds_file(SOURCE_URL):
            url = self._layout.root.read(SOURCE_URL, most=10_000).decode("utf-8", "replace").strip()
            raise ReadOnly(
                f"{url} was opened from a URL, and such an index is read only. Copy it to a local folder "
                "(copy_to), open and change that, and copy it back with copy_to(URL)"
            )
        with WriterLock(self._layout.root, operation):
            self._recover()
            earlier = self.journal.operation()
            base = self.snapshot() if self.generation else None
            if base is not None and isinstance(base.pool, ExternalPool) and not (restore or anew):
                require_current(base.manifest, base.pool.rows)
            number = self._layout.next_number()
            staging = Staging(
                self._layout,
                number,
                None if anew else base,
                self.journal,
                self._recover,
                compact,
                self.table,
                restore,
                replaced=base if anew else None,
            )
            try:
                self.journal.begin(Operation(operation, now(), number))
                yield staging
                if not staging.published:
                    self._forget(earlier)
            except (KeyError, TypeError, ValueError):
                if earlier is not None or not self.journal.holds_work():
                    self._forget(earlier)
                raise
            finally:
                staging.discard()
                self.journal.close()

    def _recover(self) -> None:
        """Finish what the last writer left, or this one after publishing. Only under the lock.

        It removes older generations, purges, and forgets the operation. The journal goes last: while it is
        there, the next writer or reader finishes this.
        """
        self._layout.sweep()
        if self.journal.exists():
            operation = self.journal.operation()
            published = operation is not None and operation.generation <= self.generation
            removed = True
            if self.journal.touched():
                pool = self.snapshot().pool if self.generation else None
                pool = pool if isinstance(pool, ExternalPool) else None
                removed = remove_leftovers(self.journal, self.table, pool, self.generation)
            self.journal.forget(purged=self._purge(), finished=published, rows=removed)

    def _forget(self, earlier: Operation | None) -> None:
        """After an operation without effect: an earlier interrupted one stays recorded."""
        if earlier is None:
            self.journal.forget(purged=False, finished=True, rows=False)
        else:
            self.journal.begin(earlier)

    def _purge(self) -> bool:
        """Do the purges that are due; False and a warning if they must wait for the next writer."""
        due = self.journal.due(self.generation)
        try:
            if due:
                self.calls.purge(due)
        except (OSError, StoreError) as error:
            warnings.warn(
                f"calls of {len(due)} deleted chunks could not be purged yet ({error}); "
                "the next operation on the index does it",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        return True

    def lacks_rows(self) -> bool:
        """Whether rows of the generation are missing or wrong in the vector store."""
        pool = self.snapshot().pool
        return isinstance(pool, ExternalPool) and pool.wrong_rows() > 0

    def finish_rows(self) -> None:
        """Finish what an update left undone in the vector store; `Locked` if someone is writing."""
        with WriterLock(self._layout.root, "repair"):
            self._recover()
            pool = self.snapshot().pool
            if isinstance(pool, ExternalPool):
                pool.rows.set_mark(self.generation)

    def interrupted(self) -> str | None:
        """The operation that was begun and never finished, and when; None if none is, or it still runs."""
        self._require_open()
        if not self.journal.exists():
            return None
        try:
            with WriterLock(self._layout.root, None):
                operation = self.journal.operation()
                self.journal.close()
        except Locked:
            return None
        except OSError:
            return "an operation that cannot be named, since the folder is read-only"
        return str(operation) if operation and operation.generation > self.generation else None

    def verify(self, inspect: Inspect | None = None) -> list[str]:
        """Check checksums and contents of every file; one line per problem.

        `inspect` checks what searches and settings require beyond that.
        """
        self._require_open()
        return verify(self._layout, self.calls, inspect, self.table)

    def copy_to(self, path: Path) -> None:
        """Copy the current generation and the cache of calls to another folder.

        An earlier copy is replaced at once, when the new one is complete; its readers keep what they opened.
        Copying onto itself does nothing. `NotAnIndex` if the path holds something else, or nothing is
        published here; `Locked` if someone is writing in the earlier copy.
        """
        self._require_open()
        self._require_own_vectors()
        copy_index(self._layout, Path(path))

    def publish_to(self, url: str) -> None:
        """Copy the current generation to a URL; see `remote.Remote.publish`."""
        self._require_open()
        self._require_own_vectors()
        self._layout.root.require_in_place()
        self._layout.require()
        manifest, files = opened_files(self._layout)
        Remote.at(url).publish(manifest, in_blocks(files))

    def _require_own_vectors(self) -> None:
        if self.table is not None and self.snapshot().manifest.vectors:
            raise VectorStoreError(
                f"the vectors of {str(self.path)!r} are in {self.table.name}; a copy would share its rows: "
                "one that is changed takes them from the other. Build the copy from the documents, with a "
                "store of its own or without one (extractions are taken from cache=...)"
            )

    def abandon(self) -> None:
        """Close a folder whose first build failed, and remove it unless it holds an index or paid work."""
        with suppress(StoreError, OSError):  # the error of the build is the one to be seen
            if not self.closed and not self.generation:
                with WriterLock(self._layout.root, None):
                    self.calls.close()
                    if not (self.calls.exists() or self.journal.holds_work()):
                        self.journal.remove()
                        unclaim(self._layout)
                        if self._made:
                            self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Close the folder, and remove it if it is private. May be called twice."""
        if not self.closed:
            with suppress(StoreError, OSError):
                self._last = self._layout.current()
        self.closed = True
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        self.calls.close()
        self.journal.close()
        self._layout.root.close()
        if self._finalizer is not None:
            self._finalizer()

    def _require_open(self) -> None:
        if self.closed:
            if self._finalizer is not None:
                raise ClosedIndex(
                    f"index '{self.path}' was closed, and is gone since it was a temporary one; "
                    "to keep an index, build it with path=..."
                )
            raise ClosedIndex(f"index '{self.path}' was closed; open it again with open_index")


def _remove_temporary(folder: TemporaryFolder, calls: SqliteCalls, journal: Journal) -> None:
    """Remove a temporary folder. A forked child leaves that to its parent."""
    if folder.owner == os.getpid():
        calls.close()
        journal.close()
        folder.close()
