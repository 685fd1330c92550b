"""An index folder: its generations, its writer and its cache of model calls."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from stratagraph._locks import Lock
from stratagraph.errors import ClosedIndex, Damaged, Locked, ReadOnly, StoreError, VectorStoreError
from stratagraph.protocols import VectorTable
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import Check, as_check
from stratagraph.store.copying import copy_index, opened_files, unclaim
from stratagraph.store.external import ExternalPool
from stratagraph.store.external_writer import require_current, settled
from stratagraph.store.journal import Journal, Operation, begun
from stratagraph.store.layout import ORIGIN, Layout, found_layout, made_layout
from stratagraph.store.lock import WriterLock
from stratagraph.store.remote import Remote, publish
from stratagraph.store.snapshot import Snapshot
from stratagraph.store.staging import Staging
from stratagraph.store.verify import Inspect, verify

DEFAULT_CHECK: Check = "sampled"
_RACES = 20  # how often a reader may find that a writer has just replaced the generation it was opening


class IndexFolder:
    """A folder with one index: made by `create` or `open`.

    Attributes
    ----------
    path
        The folder, absolute.
    calls
        The folder's private cache of model calls.
    journal
        What the unfinished operation has done; keeps its vectors.
    table
        Where the vectors are, if not in the folder.
    closed
        Whether `close` was called.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        private: bool = False,
        made: bool = False,
        check: Check = DEFAULT_CHECK,
        table: VectorTable | None = None,
    ) -> None:
        self.path = layout.path
        self.calls = SqliteCalls.of(layout.root)
        self.journal = Journal(layout.root)
        self.closed = False
        self._layout = layout
        self.table = table
        self._made = made
        self._check = check
        self._last = 0
        self._moving = False
        self._stale_ok = False
        self._snapshot: tuple[int, Snapshot] | None = None
        self._opening = Lock()
        self._finalizer = (
            weakref.finalize(self, _remove_private, self.path, os.getpid(), self.calls, self.journal)
            if private
            else None
        )

    @classmethod
    def create(cls, path: Path | None, table: VectorTable | None = None) -> IndexFolder:
        """Make a folder for an index, or take one that is an index already, finished or not.

        None makes a private temporary folder, which is removed when the object is closed or forgotten,
        or at the interpreter's exit. Vectors go to `table`, if one is given; what a generation that is there
        holds itself is moved there by the next.

        Raises
        ------
        VectorStoreError
            If vectors are in a store, and it is not given, or has not the rows of this generation.
        NotAnIndex
            If the path is a file, or a folder that holds something else.
        FormatMismatch, Damaged
            If it holds an index that cannot be read.
        """
        if path is None:
            return cls(made_layout(Path(tempfile.mkdtemp(prefix="stratagraph-"))), private=True)
        made = not path.exists()
        folder = cls(made_layout(path), made=made, table=table)
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

        `table` is where its vectors are, if not in the folder; `stale_ok` opens it also if the rows there are
        not those of its generation, to be mended.

        `check` is `"sizes"`, `"sampled"` or `"full"`, and says how much of large files is held against
        their checksums, now and whenever a later generation is opened; see `checksums.Check`.

        What a killed writer left to be purged is purged now if that is possible without waiting.

        Raises
        ------
        ValueError
            If there is no such check.
        NotAnIndex
            If there is no folder, no index in it, or only one whose first build never finished.
        FormatMismatch, Damaged
            If it cannot be read; the message names the file.
        VectorStoreError
            If vectors are in a store, and it is not given, or has not the rows of this generation.
        """
        folder = cls(found_layout(path), check=as_check(check), table=table)
        folder._stale_ok = stale_ok
        return folder._opened()

    def _opened(self) -> Self:
        try:
            if self.generation:
                self.snapshot()
                # A reader's chance to finish a delete; it is not its duty, so whatever prevents it may.
                if self.journal.exists() and os.access(self.path, os.W_OK):
                    with suppress(StoreError, OSError), WriterLock(self._layout.root, "recovery"):
                        self._recover()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def url(self) -> str | None:
        """What it is a cache of; None for a folder that stands for itself."""
        return None

    def refresh(self) -> None:
        """Fetch what was published since, where the folder is a cache."""

    @property
    def generation(self) -> int:
        """Number of the generation that is published now (that was, once closed); 0 before the first."""
        if not self.closed:
            self._last = self._layout.current()
        return self._last

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors; None before the first generation."""
        return self.snapshot().manifest.dimension if self.generation else None

    def snapshot(self) -> Snapshot:
        """The generation that is published now; the same object while that does not change.

        Raises
        ------
        ClosedIndex
            After `close`.
        NotAnIndex
            Before the first generation was published.
        Damaged, FormatMismatch
            If it cannot be read.
        """
        self._require_open()
        with self._opening:
            for _ in range(_RACES):
                number = self._layout.current()
                if number == 0:
                    self._layout.require()
                if self._snapshot is not None and self._snapshot[0] == number:
                    return self._snapshot[1]
                try:
                    with self._layout.generation(number) as directory:
                        snapshot = Snapshot(
                            self.path,
                            directory,
                            number,
                            self._check,
                            self.table,
                            moving=self._moving,
                            before=None if self._snapshot is None else self._snapshot[1],
                        )
                    if isinstance(snapshot.pool, ExternalPool):
                        self._require_current(snapshot, snapshot.pool)
                    self._snapshot = number, snapshot
                    return snapshot
                except FileNotFoundError as error:
                    if self._layout.current() == number:
                        raise Damaged(f"{error.filename}: missing") from error
        raise StoreError(f"{self.path}: generations are replaced faster than they can be opened")

    def _require_current(self, snapshot: Snapshot, pool: ExternalPool) -> None:
        """Refuse a vector store with other rows, unless an update is only to be finished there."""
        try:
            if not (self._stale_ok or self.journal.touched()):
                require_current(snapshot.manifest, pool.rows)
        except BaseException:
            snapshot.close()
            raise

    @contextmanager
    def writer(self, operation: str, *, compact: bool = False, restore: bool = False) -> Iterator[Staging]:
        """The right to publish the next generation, for the length of a `with` block.

        It shares files with the generation before it, unless `compact` asks for all to be written anew. With
        `restore` it takes no vectors from it, since the vector store that should have them has not.

        What a killed writer left is finished or removed first. Leaving the block without `publish`
        discards what was staged; leaving it by an error keeps the journal, so that the same operation
        finds its vectors again. What was wrongly asked for, before anything was done, was not interrupted.

        Raises
        ------
        Locked
            If someone else is writing.
        ReadOnly
            If the folder is a cache of an index behind a URL.
        """
        self._require_open()
        self.require_writable()
        with WriterLock(self._layout.root, operation):
            self._recover()
            earlier = self.journal.operation()
            base = self.snapshot() if self.generation else None
            if base is not None and isinstance(base.pool, ExternalPool) and not restore:
                require_current(base.manifest, base.pool.rows)
            number = self._layout.next_number()
            finish = self._clean_up
            staging = Staging(
                self._layout, number, base, self.journal, self.calls, finish, compact, self.table, restore
            )
            try:
                self.journal.begin(begun(operation, number))
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

    def require_writable(self) -> None:
        """Refuse to change a cache, whose generations come from elsewhere; `ReadOnly` says what to do."""
        if self._layout.root.holds_file(ORIGIN):
            origin = self._layout.root.read(ORIGIN, most=10_000).decode("utf-8", "replace").strip()
            raise ReadOnly(
                f"{origin} was opened from a URL, and such an index is read only. Copy it to a local folder "
                "(copy_to), open and change that, and copy it back with copy_to(URL)"
            )

    def _recover(self) -> None:
        """Bring the folder to where the last writer would have left it. Only under the lock."""
        self._layout.sweep()
        if self.journal.exists():
            operation = self.journal.operation()
            published = operation is not None and operation.generation <= self.generation
            self.journal.settle(purged=self._purge(), finished=published, rows=self._settled_rows())

    def _forget(self, earlier: Operation | None) -> None:
        """After an operation that had nothing to do: what was interrupted before it still is."""
        if earlier is None:
            self.journal.settle(purged=False, finished=True, rows=False)
        else:
            self.journal.begin(earlier)

    def _clean_up(self) -> None:
        """After publishing: remove older generations, purge, forget the operation.

        The journal goes last: while it is there, whoever opens the folder finishes this.
        """
        self._layout.sweep()
        self.journal.settle(purged=self._purge(), finished=True, rows=self._settled_rows())

    def _purge(self) -> bool:
        """Do the purges that are due; False (and a warning) if they must wait for the next writer."""
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

    def _settled_rows(self) -> bool:
        """Remove from the vector store what the generation does not need."""
        if not self.journal.touched():
            return True
        pool = self.snapshot().pool if self.generation else None
        return settled(
            self.journal, self.table, pool if isinstance(pool, ExternalPool) else None, self.generation
        )

    def lacks_rows(self) -> bool:
        """Whether the vector store lacks rows of the generation, or holds others in their places."""
        pool = self.snapshot().pool
        return isinstance(pool, ExternalPool) and pool.wrong_rows() > 0

    def settle(self) -> None:
        """Finish what an update left undone in the vector store.

        Raises
        ------
        Locked
            If someone is writing.
        """
        with WriterLock(self._layout.root, "repair"):
            self._recover()
            pool = self.snapshot().pool
            if isinstance(pool, ExternalPool):
                pool.rows.set_mark(self.generation)

    def interrupted(self) -> str | None:
        """The operation that was begun and never finished, and when; None if there is none.

        An operation that is running now is not an interrupted one.
        """
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

    def bytes_on_disk(self) -> int:
        """Size of all files in the folder, in bytes."""
        sizes = []
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(FileNotFoundError):  # a writer may be at work
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
        return sum(sizes)

    def verify(self, inspect: Inspect | None = None) -> list[str]:
        """Check every file against its checksum and its meaning; one line per problem, none if sound.

        What searches and settings ask of a generation beyond that is for `inspect` to say.
        """
        self._require_open()
        return verify(self._layout, self.calls, inspect, self.table)

    def copy_to(self, path: Path) -> None:
        """Copy the generation that is published now, and the cache of calls, to another folder.

        Nothing of an unfinished operation goes along. An earlier copy is replaced at one moment, once the
        new one is whole; its readers keep what they opened. Onto itself, nothing is copied.

        Raises
        ------
        NotAnIndex
            If the path holds something else, or nothing was published here yet.
        Locked
            If someone is writing in the earlier copy.
        """
        self._require_open()
        self._require_own_vectors()
        copy_index(self._layout, Path(path))

    def publish_to(self, url: str) -> None:
        """Copy the generation that is published now to a URL; see `remote.publish`."""
        self._require_open()
        self._require_own_vectors()
        self._layout.root.require_in_place()
        self._layout.require()
        with opened_files(self._layout) as (manifest, files):
            publish(Remote.at(url), manifest, files)

    def _require_own_vectors(self) -> None:
        if self.table is not None and self.snapshot().manifest.vectors:
            raise VectorStoreError(
                f"the vectors of {str(self.path)!r} are in {self.table.name}; a copy would share its rows: "
                "one that is changed takes them from the other. Build the copy from the documents, with a "
                "store of its own or without one (extractions are taken from cache=...)"
            )

    def abandon(self) -> None:
        """Close a folder whose first build failed, leaving nothing behind if nothing was kept.

        What was paid for (answers of models, vectors) is kept, for the next try; an index is, too.
        """
        with suppress(StoreError, OSError):  # the error of the build is the one to be seen
            if not self.closed and not self.generation:
                with WriterLock(self._layout.root, None):
                    self.calls.close()
                    self._unclaim()
        self.close()

    def _unclaim(self) -> None:
        """Remove what `create` made, as far as it holds nothing."""
        if self.calls.exists() or self.journal.holds_work():
            return
        self.journal.remove()
        unclaim(self._layout)
        if self._made:
            with suppress(OSError):
                self.path.rmdir()

    def close(self) -> None:
        """Let go of the folder, and remove it if it is a private one. May be called twice."""
        if not self.closed:
            with suppress(StoreError, OSError):
                self._last = self._layout.current()
        self.closed = True
        if self._snapshot is not None:
            self._snapshot[1].close()
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


def _remove_private(path: Path, owner: int, calls: SqliteCalls, journal: Journal) -> None:
    """Remove a private folder, which nobody else knows; a forked child leaves it to its parent."""
    if owner == os.getpid():
        calls.close()
        journal.close()
        shutil.rmtree(path, ignore_errors=True)
