"""A folder of shards: indexes side by side, and a file that lists them.

    root/
    ├── shards.json        how documents are spread, and the folders of the shards
    ├── calls.sqlite       answers to questions over all shards
    ├── lock               of whoever changes the list
    └── shard-0000/ ...    indexes, each as it would be alone

Each shard publishes its own generations, so an operation on several shards is not atomic. A killed one leaves
some shards changed, and the same call finishes it. The list records an unfinished first build, copy or new
method. After the first two, the shards do not open as one; a method is left out until all shards have it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from stratagraph.errors import ClosedIndex, Damaged, NotAnIndex, ShardMissing, StoreError
from stratagraph.store.calls import SqliteCalls
from stratagraph.store.checksums import Check, as_check
from stratagraph.store.files import Directory, make_folder
from stratagraph.store.folder import DEFAULT_CHECK, IndexFolder
from stratagraph.store.layout import MARKER, SHARDS, of_shards
from stratagraph.store.lock import LOCK, NOTE, WriterLock
from stratagraph.store.snapshot import JoinedSnapshot, differences, require_alike
from stratagraph.store.spread import ADD_METHOD, BUILD, COPY, Shard, Spread, description, unfinished_notice
from stratagraph.store.verify import Inspect, verify_folder
from stratagraph.system.locks import Lock

_LONGEST = 1 << 26  # largest list that is read, in bytes


def is_sharded(path: Path) -> bool:
    """Whether a folder is one of shards."""
    return (path / SHARDS).is_file()


class ShardedFolder:
    """A folder of shards, made by `create` or `open`.

    `path` is absolute, and `calls` the cache of answers to questions over all shards.
    """

    url = None  # shards are never a copy of something behind a URL

    def __init__(self, root: Directory, spread: Spread, check: Check, *, partial: bool = False) -> None:
        self.path = root.path
        self.calls = SqliteCalls.of(root)
        self.closed = False
        self._root = root
        self._check = check
        self._partial = partial
        self._writes = False
        self._spread = spread
        self._folders: dict[str, IndexFolder] = {}
        self._snapshot: JoinedSnapshot | None = None
        self._lock = Lock()

    @classmethod
    def create(cls, path: Path, spread: Spread) -> ShardedFolder:
        """Create a folder of shards, or open one that is spread alike; else `NotAnIndex`."""
        path = Path(os.path.abspath(path))
        if path.exists() and not path.is_dir():
            raise NotAnIndex(f"{path} is a file; give a folder for the shards")
        make_folder(path)
        root = Directory.open(path)
        try:
            entries = [name for name in root.names() if name != f"{SHARDS}.tmp"]
            if SHARDS in entries:
                present = _read(root)
                same_count = spread.by is not None or len(present.shards) == len(spread.shards)
                if present.by != spread.by or not same_count:
                    raise NotAnIndex(
                        f"{path} holds {description(present)}, not {description(spread)}; give another folder"
                    )
                spread = present
            elif MARKER in entries:
                raise NotAnIndex(
                    f"{path} holds an index without shards; nothing was written: use build_index (on the "
                    "command line no --shards), or give another folder for the shards"
                )
            elif entries:
                advice = of_shards(entries) or "give an empty or a new folder"
                raise NotAnIndex(
                    f"{path} is not empty and holds no list of shards (but {', '.join(entries[:5])}); "
                    f"nothing was written: {advice}"
                )
            else:
                root.write(SHARDS, spread.to_json().encode("utf-8"))
                root.sync()
        except BaseException:
            root.close()
            raise

        folder = cls(root, spread, DEFAULT_CHECK)
        folder._writes = True  # a builder or copier sees shards before all are finished
        return folder

    @classmethod
    def open(cls, path: Path, check: str = DEFAULT_CHECK, *, partial: bool = False) -> ShardedFolder:
        """Open a folder of shards.

        `ShardMissing` if a built shard is missing (with `partial`, the others are opened), `ShardMismatch` if
        shards have other settings than the first. `NotAnIndex`, `Damaged` or `FormatMismatch` if there is no
        shard, one cannot be read, or (unless `partial`) the first build or a copy is unfinished.
        """
        root = Directory.open(Path(os.path.abspath(path)))
        folder = cls(root, _read(root), as_check(check), partial=partial)
        try:
            folder.snapshot()
        except BaseException:
            folder.close()
            raise
        return folder

    @property
    def spread(self) -> Spread:
        """The shards, and what decides the shard of a document."""
        return self._spread

    @property
    def generation(self) -> int:
        """The sum of the shards' generations; it grows with each change."""
        if self.closed:
            return sum(folder.generation for folder in self._folders.values())
        self._spread = _read(self._root)  # others may have added a shard
        return sum(folder.generation for _, folder in self._present())

    def published(self) -> object:
        """A value that changes with each published generation, at the price of one `stat` for each shard."""
        status = self._root.status(SHARDS)
        listed = None if status is None else (status.st_ino, status.st_mtime_ns)
        return listed, *(folder.published() for folder in list(self._folders.values()))

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors of the last opened generations; None before the first."""
        return None if self._snapshot is None else self._snapshot.manifest.dimension

    def folder(self, shard: Shard) -> IndexFolder:
        """The folder of a shard, created if it was never built."""
        self._require_open()
        if (self.path / shard.folder).is_symlink():
            raise self._missing(shard)
        with self._lock:
            if shard.folder not in self._folders and not shard.built:
                self._folders[shard.folder] = IndexFolder.create(self.path / shard.folder)
        folder = self._opened(shard)
        if folder is None:
            raise self._missing(shard)
        return folder

    def _opened(self, shard: Shard) -> IndexFolder | None:
        """The opened folder of a shard; None if it is missing or unfinished."""
        with self._lock:
            if shard.folder not in self._folders and _exists(self.path, shard):
                try:
                    self._folders[shard.folder] = IndexFolder.open(self.path / shard.folder, self._check)
                except NotAnIndex:
                    if shard.built:
                        raise
            return self._folders.get(shard.folder)

    def _present(self) -> list[tuple[Shard, IndexFolder]]:
        folders = [(shard, self._opened(shard)) for shard in self._spread.shards if _exists(self.path, shard)]
        return [(shard, folder) for shard, folder in folders if folder is not None]

    def folders(self) -> list[IndexFolder]:
        """The folders of all shards that are there."""
        return [folder for _, folder in self._present()]

    def snapshot(self) -> JoinedSnapshot:
        """The current generations; the same object until one of them changes. Errors are those of `open`."""
        self._require_open()
        self._spread = _read(self._root)  # others may have added a shard
        if self._spread.unfinished in (BUILD, COPY) and not (self._partial or self._writes):
            raise NotAnIndex(f"{self.path}: {unfinished_notice(self._spread)}")
        missing = [shard for shard in self._spread.shards if shard.built and not _exists(self.path, shard)]
        if missing and not self._partial:
            raise self._missing(missing[0])
        places = {shard.folder: number for number, shard in enumerate(self._spread.shards)}
        present = [(shard, folder.snapshot()) for shard, folder in self._present() if folder.generation]
        if not present:
            lacks = ", ".join(map(str, missing[:5]))
            advice = f"bring back the folders that were built: {lacks}" if missing else "build it again"
            raise NotAnIndex(f"{self.path} holds no finished shard; {advice}")
        parts = tuple(part for _, part in present)
        if self._snapshot is None or self._snapshot.parts != parts:
            names = [str(shard) for shard, _ in present]
            methods = require_alike(names, parts, adding=self._spread.unfinished == ADD_METHOD)
            numbers = [places[shard.folder] for shard, _ in present]
            lacks_of = list(map(str, missing))
            self._snapshot = JoinedSnapshot(self.path, numbers, names, parts, lacks_of, methods=methods)
        return self._snapshot

    def record_built(self, spread: Spread) -> None:
        """Record the shards; those with a generation count as built."""
        shards = tuple(
            replace(
                each, built=each.built or ((own := self._opened(each)) is not None and own.generation > 0)
            )
            for each in spread.shards
        )
        self._record(
            lambda now: replace(spread, shards=shards, unfinished=now.unfinished, deleting=now.deleting)
        )

    def tell(self, unfinished: str | None) -> None:
        """Record an unfinished operation on all shards; None when it has ended."""
        self._record(
            lambda now: replace(now, unfinished=unfinished, owed=() if unfinished is None else now.owed)
        )

    def tell_deleting(self, keys: Iterable[int]) -> None:
        """Record the keys of the ids that a delete removes; none when it has ended."""
        self._record(lambda now: replace(now, deleting=tuple(keys)))

    def _record(self, change: Callable[[Spread], Spread]) -> None:
        """Change the list; others may have changed it meanwhile."""
        with WriterLock(self._root, "shards"):
            present = _read(self._root)
            self._spread = change(present)
            if self._spread != present:
                self._root.write(SHARDS, self._spread.to_json().encode("utf-8"))
                self._root.sync()

    def require_whole(self, operation: str | None = None) -> None:
        """Refuse to change shards if one is missing, or another build or copy is unfinished."""
        if self._spread.unfinished in (BUILD, COPY) and operation != self._spread.unfinished:
            raise NotAnIndex(f"{self.path}: {unfinished_notice(self._spread)}")
        for shard in self._spread.shards:
            if shard.built and not _exists(self.path, shard):
                raise self._missing(shard)

    def interrupted(self) -> str | None:
        """Operations that were begun in shards and never finished; None if there are none."""
        operations = [(shard, folder.interrupted()) for shard, folder in self._present()]
        interrupted = [f"{shard}: {each}" for shard, each in operations if each]
        return (
            "; ".join([unfinished_notice(self._spread)] * (self._spread.unfinished is not None) + interrupted)
            or None
        )

    def verify(self, inspect: Inspect | None = None) -> list[str]:
        """Check every shard; see `verify_shards`."""
        self._require_open()
        return verify_shards(self.path, inspect)

    def copy_to(self, path: Path) -> None:
        """Copy the current generations to another folder of shards; `NotAnIndex` if it holds other things."""
        self.require_whole()
        target = ShardedFolder.create(
            Path(path),
            replace(self._spread, shards=tuple(replace(each, built=False) for each in self._spread.shards)),
        )
        try:
            if target.path == self.path:
                return
            target.tell(COPY)
            for shard, folder in self._present():
                if folder.generation:
                    folder.copy_to(target.path / shard.folder)
            target.record_built(self._spread)
            target.tell(self._spread.unfinished)
        finally:
            target.close()

    def refresh(self) -> None:
        """Do nothing: there is no URL."""

    def publish_to(self, url: str) -> None:
        """Raise `StoreError`: shards publish one by one, so a URL could show old shards beside new ones."""
        raise StoreError(
            f"{self.path} is a folder of shards, which cannot be copied to a URL as one; "
            f"copy each shard to a URL of its own: open_index({str(self.path / 'shard-0000')!r}).copy_to(URL)"
        )

    def abandon(self) -> None:
        """Close shards whose first build failed; remove those in which nothing was kept."""
        for folder in self._folders.values():
            folder.abandon()
        with suppress(StoreError, OSError):
            if not any((self.path / shard.folder).exists() for shard in self._spread.shards):
                for name in (SHARDS, LOCK, NOTE):
                    self._root.unlink(name)
                self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Close the folders. May be called twice."""
        self.closed = True
        self._snapshot = None
        for folder in self._folders.values():
            folder.close()
        self.calls.close()
        self._root.close()

    def _missing(self, shard: Shard) -> ShardMissing:
        lost = "a link, which is not followed" if (self.path / shard.folder).is_symlink() else "missing"
        advice = (
            "nothing can be changed until its folder is back"
            if self._partial
            else "bring its folder back, or open the others with open_index(..., partial=True), on the "
            "command line --partial; they then answer without it"
        )
        return ShardMissing(f"{self.path}: {shard} is {lost}; {advice}")

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedIndex(f"index '{self.path}' was closed; open it again with open_index")


def verify_shards(path: Path, inspect: Inspect | None = None) -> list[str]:
    """Check shards, also those that may be too damaged to open; one line per problem, its shard first."""
    try:
        with Directory.open(Path(os.path.abspath(path))) as root:
            spread = _read(root)
    except Damaged as error:
        return [str(error)]
    problems, manifests = [], []
    if spread.unfinished is not None:
        problems.append(unfinished_notice(spread))
    for number, shard in enumerate(spread.shards):
        folder = path / shard.folder
        if not _exists(path, shard):
            problems += [f"{shard}: missing"] * shard.built
            continue
        try:
            problems += [f"{shard}: {each}" for each in verify_folder(folder, inspect)]
            with closing(IndexFolder.open(folder)) as own:
                snapshot = own.snapshot()
                manifests.append((str(shard), snapshot.manifest))
                owners = {
                    name: spread.owner(name, metadata)
                    for name, metadata in snapshot.document_metadata().items()
                }
        except NotAnIndex as error:
            problems += [f"{shard}: {error}"] * shard.built
            continue
        except Damaged:
            continue  # named above
        # An index put in the place of a shard holds documents that are not its own.
        if foreign := [name for name, owner in owners.items() if owner != number]:
            owner = owners[foreign[0]]
            right = "no shard" if owner is None else str(spread.shards[owner])
            problems.append(f"{shard}: holds document {foreign[0]!r} of {right}; {len(foreign)} of others")
    return [*problems, *differences(manifests)]


def _exists(root: Path, shard: Shard) -> bool:
    """Whether a shard has a folder; a link may lead out of the root, and is none."""
    return (root / shard.folder).is_dir() and not (root / shard.folder).is_symlink()


def _read(root: Directory) -> Spread:
    path = root.path / SHARDS
    try:
        return Spread.of(root.read(SHARDS, most=_LONGEST), path)
    except FileNotFoundError as error:
        raise Damaged(f"{path}: missing") from error
