"""A folder of shards: indexes side by side, and a file that says which they are.

    root/
    ├── shards.json        how documents are spread, and the folders of the shards
    ├── calls.sqlite       answers to questions over all shards
    ├── lock               of whoever changes the list
    └── shard-0000/ ...    indexes, each as it would be alone

Each shard publishes its own generations. What concerns several shards is not one step: a process that is
killed in the middle leaves some with the change and others without it, and the same call finishes it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from stratarag._locks import Lock
from stratarag.errors import (
    ClosedIndex,
    Damaged,
    FormatTooNew,
    NotAnIndex,
    ShardMismatch,
    ShardMissing,
    StoreError,
)
from stratarag.records import Metadata
from stratarag.store.calls import SqliteCalls
from stratarag.store.checksums import Check, as_check
from stratarag.store.files import Directory, make_folder
from stratarag.store.folder import DEFAULT_CHECK, IndexFolder
from stratarag.store.joined import JoinedSnapshot
from stratarag.store.lock import LOCK, NOTE, WriterLock
from stratarag.store.manifest import Manifest
from stratarag.store.snapshot import Snapshot
from stratarag.store.verify import Inspect, verify_folder

SHARDS = "shards.json"
FORMAT = 1
MOST = 100_000
"""Shards of a folder at most."""
_LONGEST = 1 << 26  # bytes of the longest list that is believed
_SAME = ("methods", "embedder", "dimension", "tokenizer", "config")
"""What of a manifest all shards must share."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard: its folder's name, the value of the key that its documents have, and whether it was built."""

    folder: str
    value: str | None = None
    built: bool = False

    def __str__(self) -> str:
        return self.folder if self.value is None else f"{self.folder} ({self.value!r})"


@dataclass(frozen=True, slots=True)
class Spread:
    """How documents are spread over shards: by the hash of their id, or by a metadata key."""

    shards: tuple[Shard, ...]
    by: str | None = None

    @classmethod
    def over(cls, count: int) -> Spread:
        """So many shards, by the hash of a document's id."""
        return cls(tuple(Shard(f"shard-{number:04d}") for number in range(count)))

    def shard_of(self, identity: str) -> int:
        """The shard of a document, where its id decides."""
        digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") % len(self.shards)

    def owner(self, identity: str, metadata: Metadata) -> int | None:
        """The shard that a document with this metadata belongs to; None if it is none of these."""
        return self.shard_of(identity) if self.by is None else self.valued(str(metadata.get(self.by)))

    def valued(self, value: str) -> int | None:
        """The shard of a value of the key, if there is one."""
        return next((at for at, each in enumerate(self.shards) if each.value == value), None)

    def with_value(self, value: str) -> Spread:
        """One more shard, for a value of the key."""
        return replace(self, shards=(*self.shards, Shard(f"shard-{len(self.shards):04d}", value)))

    def to_json(self) -> str:
        """The text of `shards.json`."""
        return json.dumps(
            {"format": FORMAT, "by": self.by, "shards": [asdict(e) for e in self.shards]}, indent=1
        )

    @classmethod
    def from_json(cls, text: str, path: Path) -> Spread:
        """Read a list of shards; `Damaged` or `FormatTooNew` if it is not one that this version knows."""
        try:
            content = json.loads(text)
            version = content["format"]
            if type(version) is not int:
                raise TypeError(f"the format is {version!r}")
            if version > FORMAT:
                raise FormatTooNew(f"{path}: format {version}; this version reads {FORMAT}: upgrade")
            shards = tuple(Shard(**each) for each in content["shards"])
            spread = cls(shards, content["by"])
            spread._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Damaged(f"{path}: not a list of shards ({error!r})") from error
        return spread

    def _check(self) -> None:
        if not (self.by is None) <= len(self.shards) <= MOST or not isinstance(self.by, str | None):
            raise ValueError(f"{len(self.shards)} shards by {self.by!r}")
        for at, each in enumerate(self.shards):
            if each.folder != f"shard-{at:04d}" or type(each.built) is not bool:
                raise ValueError(f"shard {at} cannot be {each!r}")
            if isinstance(each.value, str) != (self.by is not None):
                raise ValueError(f"shard {at} has the value {each.value!r}")
        if self.by is not None and len({each.value for each in self.shards}) < len(self.shards):
            raise ValueError("two shards have one value")


def is_sharded(path: Path) -> bool:
    """Whether a folder is one of shards."""
    return (path / SHARDS).is_file()


class ShardedFolder:
    """A folder of shards: made by `create` or `open`.

    Attributes
    ----------
    path
        The folder, absolute.
    calls
        The cache of answers to questions over all shards.
    closed
        Whether `close` was called.
    """

    def __init__(self, root: Directory, spread: Spread, check: Check, *, partial: bool = False) -> None:
        self.path = root.path
        self.calls = SqliteCalls.of(root)
        self.closed = False
        self._root = root
        self._check = check
        self._partial = partial
        self._spread = spread
        self._folders: dict[str, IndexFolder] = {}
        self._snapshot: JoinedSnapshot | None = None
        self._lock = Lock()

    @classmethod
    def create(cls, path: Path, spread: Spread) -> ShardedFolder:
        """Make a folder of shards, or take one that is spread in the same way.

        Raises
        ------
        NotAnIndex
            If the path holds something else, or shards that are spread in another way.
        """
        path = Path(os.path.abspath(path))
        if path.exists() and not path.is_dir():
            raise NotAnIndex(f"{path} is a file; give a folder for the shards")
        make_folder(path)
        root = Directory.open(path)
        try:
            held = [name for name in root.names() if name != f"{SHARDS}.tmp"]
            if SHARDS in held:
                present = _read(root)
                same_count = spread.by is not None or len(present.shards) == len(spread.shards)
                if present.by != spread.by or not same_count:
                    raise NotAnIndex(
                        f"{path} holds {_told(present)}, not {_told(spread)}; give another folder"
                    )
                return cls(root, present, DEFAULT_CHECK)
            if held:
                raise NotAnIndex(
                    f"{path} is not empty and holds no shards (but {', '.join(held[:5])}); nothing was "
                    "written: give an empty or a new folder"
                )
            folder = cls(root, spread, DEFAULT_CHECK)
            folder._write(spread)
            return folder
        except BaseException:
            root.close()
            raise

    @classmethod
    def open(cls, path: Path, check: str = DEFAULT_CHECK, *, partial: bool = False) -> ShardedFolder:
        """Open a folder of shards, and all that were built.

        Raises
        ------
        ShardMissing
            If a shard that was built is not there, unless `partial`: then the others are opened.
        ShardMismatch
            If shards have other settings than the first.
        NotAnIndex, Damaged, FormatTooNew
            If there is no shard, or one cannot be read.
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
        """The shards, and what decides over the shard of a document."""
        return self._spread

    @property
    def generation(self) -> int:
        """The sum of the shards' generations: it grows with each change to any of them."""
        if self.closed:
            return sum(folder.generation for folder in self._folders.values())
        self._refresh()
        return sum(folder.generation for _, folder in self._present())

    @property
    def dimension(self) -> int | None:
        """Dimension of the vectors of the generations that were opened last; None before the first."""
        return None if self._snapshot is None else self._snapshot.manifest.dimension

    def folder(self, shard: Shard) -> IndexFolder:
        """The folder of a shard, for whoever builds it: it is made if it never was built."""
        self._require_open()
        if (self.path / shard.folder).is_symlink():
            raise self._missing(shard)
        with self._lock:
            if shard.folder not in self._folders and not shard.built:
                self._folders[shard.folder] = IndexFolder.create(self.path / shard.folder)
        found = self._found(shard)
        if found is None:
            raise self._missing(shard)
        return found

    def _found(self, shard: Shard) -> IndexFolder | None:
        """The folder of a shard, opened; None if it is not there, or its first build has not ended."""
        with self._lock:
            if shard.folder not in self._folders and self._is_there(shard):
                try:
                    self._folders[shard.folder] = IndexFolder.open(self.path / shard.folder, self._check)
                except NotAnIndex:
                    if shard.built:
                        raise
            return self._folders.get(shard.folder)

    def _present(self) -> list[tuple[Shard, IndexFolder]]:
        """The shards that are there, with their folders."""
        found = [(shard, self._found(shard)) for shard in self._spread.shards if self._is_there(shard)]
        return [(shard, folder) for shard, folder in found if folder is not None]

    def snapshot(self) -> JoinedSnapshot:
        """The generations that are published now; the same object while none of them changes.

        Raises
        ------
        ShardMissing, ShardMismatch, NotAnIndex, Damaged, FormatTooNew
            As for `open`.
        """
        self._require_open()
        self._refresh()
        missing = [shard for shard in self._spread.shards if shard.built and not self._is_there(shard)]
        if missing and not self._partial:
            raise self._missing(missing[0])
        places = {shard.folder: number for number, shard in enumerate(self._spread.shards)}
        present = [(shard, folder.snapshot()) for shard, folder in self._present() if folder.generation]
        if not present:
            lacks = f"; missing: {', '.join(map(str, missing))}" if missing else ""
            raise NotAnIndex(f"{self.path} holds no finished shard{lacks}; build it again")
        parts = tuple(part for _, part in present)
        if self._snapshot is None or self._snapshot.parts != parts:
            names = [str(shard) for shard, _ in present]
            _require_alike(names, parts)
            numbers = [places[shard.folder] for shard, _ in present]
            self._snapshot = JoinedSnapshot(self.path, numbers, names, parts, list(map(str, missing)))
        return self._snapshot

    def settled(self, spread: Spread) -> None:
        """Record the shards that there are now; those that hold a generation count as built."""
        shards = tuple(
            replace(each, built=each.built or ((own := self._found(each)) is not None and own.generation > 0))
            for each in spread.shards
        )
        with WriterLock(self._root, "shards"):
            if replace(spread, shards=shards) != _read(self._root):
                self._write(replace(spread, shards=shards))

    def require_whole(self) -> None:
        """Refuse to change shards of which one is missing; `ShardMissing` names it."""
        for shard in self._spread.shards:
            if shard.built and not self._is_there(shard):
                raise self._missing(shard)

    def bytes_on_disk(self) -> int:
        """Size of all files in the folder, in bytes."""
        sizes = []
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(FileNotFoundError):  # a writer may be at work
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
        return sum(sizes)

    def interrupted(self) -> str | None:
        """The operations that were begun in shards and never finished; None if there are none."""
        found = [(shard, folder.interrupted()) for shard, folder in self._present()]
        return "; ".join(f"{shard}: {each}" for shard, each in found if each) or None

    def verify(self, inspect: Inspect | None = None) -> list[str]:
        """Check every shard; one line for each problem, with the shard's folder first."""
        self._require_open()
        return list(_problems(self.path, self._spread, inspect))

    def copy_to(self, path: Path) -> None:
        """Copy the generations that are published now to another folder of shards.

        Raises
        ------
        NotAnIndex
            If the folder is there and holds something else.
        ShardMissing
            If a shard is not there.
        """
        self.require_whole()
        target = ShardedFolder.create(Path(path), replace(self._spread, shards=self._unbuilt()))
        try:
            if target.path == self.path:
                return
            for shard, folder in self._present():
                if folder.generation:
                    folder.copy_to(target.path / shard.folder)
            target.settled(self._spread)
        finally:
            target.close()

    @property
    def url(self) -> None:
        """Shards are never a cache of something behind a URL."""

    def refresh(self) -> None:
        """Shards are never a cache, so that there is nothing to fetch."""

    def publish_to(self, url: str) -> None:
        """Refuse: shards publish one by one, and readers of a URL would meet some old and some new."""
        raise StoreError(
            f"{self.path} is a folder of shards, which cannot be copied to a URL as one; "
            f"copy each shard to a URL of its own: open_index({str(self.path / 'shard-0000')!r}).copy_to(URL)"
        )

    def abandon(self) -> None:
        """Close shards whose first build failed; those in which nothing was kept leave nothing behind."""
        for folder in self._folders.values():
            folder.abandon()
        with suppress(StoreError, OSError):
            if not any((self.path / shard.folder).exists() for shard in self._spread.shards):
                for name in (SHARDS, LOCK, NOTE):
                    self._root.unlink(name)
                self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Let go of the folders. May be called twice."""
        self.closed = True
        self._snapshot = None
        for folder in self._folders.values():
            folder.close()
        self.calls.close()
        self._root.close()

    def _unbuilt(self) -> tuple[Shard, ...]:
        return tuple(replace(each, built=False) for each in self._spread.shards)

    def _is_there(self, shard: Shard) -> bool:
        return _is_folder(self.path / shard.folder)

    def _refresh(self) -> None:
        """Turn to the list as it is now: others may have added a shard."""
        self._spread = _read(self._root)

    def _write(self, spread: Spread) -> None:
        self._root.write(SHARDS, spread.to_json().encode("utf-8"))
        self._root.sync()
        self._spread = spread

    def _missing(self, shard: Shard) -> ShardMissing:
        lost = "a link, which is not followed" if (self.path / shard.folder).is_symlink() else "missing"
        return ShardMissing(
            f"{self.path}: {shard} is {lost}; bring its folder back, or open the others with "
            "open_index(..., partial=True), which then answer without it"
        )

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedIndex(f"index '{self.path}' was closed; open it again with open_index")


def verify_shards(path: Path, inspect: Inspect | None = None) -> list[str]:
    """`ShardedFolder.verify` of shards so damaged that they may not open."""
    root = Directory.open(Path(os.path.abspath(path)))
    try:
        spread = _read(root)
    except Damaged as error:
        return [str(error)]
    finally:
        root.close()
    return list(_problems(root.path, spread, inspect))


def _problems(path: Path, spread: Spread, inspect: Inspect | None) -> Iterator[str]:
    manifests = []
    for number, shard in enumerate(spread.shards):
        folder = path / shard.folder
        if not _is_folder(folder):
            if shard.built:
                yield f"{shard}: missing"
            continue
        try:
            yield from (f"{shard}: {each}" for each in verify_folder(folder, inspect))
            with closing(IndexFolder.open(folder)) as own:
                snapshot = own.snapshot()
                manifests.append((str(shard), snapshot.manifest))
                yield from _misplaced(snapshot, spread, number)
        except NotAnIndex as error:
            if shard.built:
                yield f"{shard}: {error}"
        except Damaged:
            continue  # told above
    yield from _differences(manifests)


def _misplaced(snapshot: Snapshot, spread: Spread, number: int) -> Iterator[str]:
    """Whether a shard holds documents that are not its own, as an index put in its place does."""
    owners = {name: spread.owner(name, told) for name, told in snapshot.document_metadata().items()}
    foreign = [name for name, owner in owners.items() if owner != number]
    if foreign:
        owner = owners[foreign[0]]
        right = "no shard" if owner is None else str(spread.shards[owner])
        yield f"{spread.shards[number]}: holds document {foreign[0]!r} of {right}; {len(foreign)} of others"


def _is_folder(path: Path) -> bool:
    """Whether there is a folder; a link may lead out of the root, and is none."""
    return path.is_dir() and not path.is_symlink()


def _require_alike(names: Sequence[str], parts: Sequence[Snapshot]) -> None:
    manifests = [part.manifest for part in parts]
    found = next(_differences(list(zip(names, manifests, strict=True))), None)
    if found is not None:
        raise ShardMismatch(f"{found}. Build that shard again with the settings of the others")


def _differences(manifests: Sequence[tuple[str, Manifest]]) -> Iterator[str]:
    """Where shards differ from the first in what all must share."""
    for name, manifest in manifests[1:]:
        first, known = manifests[0]
        for what in _SAME:
            own, other = getattr(manifest, what), getattr(known, what)
            if own != other:
                yield f"{name} differs from {first} in {what}: {_short(own)}, not {_short(other)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _told(spread: Spread) -> str:
    return f"shards by {spread.by!r}" if spread.by is not None else f"{len(spread.shards)} shards"


def _read(root: Directory) -> Spread:
    path = root.path / SHARDS
    try:
        text = root.read(SHARDS, most=_LONGEST).decode("utf-8")
    except FileNotFoundError as error:
        raise Damaged(f"{path}: missing") from error
    except UnicodeDecodeError as error:
        raise Damaged(f"{path}: not a list of shards ({error})") from error
    return Spread.from_json(text, path)
