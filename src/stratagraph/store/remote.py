"""An index behind a URL of fsspec: object storage, a file server, the memory of this process.

    URL/
    ├── stratagraph-index    the marker of an index
    ├── CURRENT              the number of the current generation; written last
    └── generations/N/       its files and its manifest

Folders that other tools copied there open as well. Such storage has no locks. Readers always see a whole
generation, since its files never change and `CURRENT` is one small object. There may be one writer at a time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from stratagraph.errors import (
    Damaged,
    MissingExtra,
    NotAnIndex,
    RemoteError,
    StoreError,
    StratagraphError,
    require,
)
from stratagraph.store.checksums import BLOCK
from stratagraph.store.copying import FilesInBlocks, copy_blocks
from stratagraph.store.layout import (
    CURRENT,
    GENERATION,
    GENERATIONS,
    MANIFEST,
    MARKER,
    MARKER_TEXT,
    OURS,
    SHARDS,
)
from stratagraph.store.manifest import LONGEST, Manifest

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # two letters at least: C:// is a drive
_TRIES = 5  # looks at a CURRENT that is being written, where the storage does not replace it in one step


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL."""
    return isinstance(path, str) and _URL.match(path) is not None


class Remote:
    """The files behind a URL; `url` is the URL without user name and password, for messages."""

    def __init__(self, url: str, system: Any, root: str) -> None:
        self.url = shown(url)
        self._system = system
        self._root = root.rstrip("/")

    @classmethod
    def at(cls, url: str) -> Remote:
        """The files behind a URL. The storage is not accessed yet.

        `MissingExtra` if fsspec, or its package for this protocol, is not installed; `ValueError` for an
        unknown protocol.
        """
        require("remote", "fsspec")
        import fsspec
        from fsspec.registry import known_implementations

        protocol = url.partition("://")[0]
        try:
            system, root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            package = known_implementations[protocol]["class"].partition(".")[0]
            if package == "fsspec":  # it says by itself which other packages it needs
                raise RemoteError(f"{shown(url)}: {error}") from error
            raise MissingExtra(package) from error
        except ValueError as error:
            protocols = ", ".join(sorted(fsspec.available_protocols()))
            raise ValueError(f"{shown(url)}: {error}; fsspec knows {protocols}") from error
        except Exception as error:
            raise _refused(shown(url), error) from error
        return cls(url, system, root)

    # Reading

    def current(self) -> int:
        """The number of the current generation; `NotAnIndex` says what is there instead."""
        with self._named():
            self._system.invalidate_cache()
        for attempt in range(_TRIES):
            try:
                text = self._read(CURRENT, 100).decode("ascii", "replace")
            except FileNotFoundError:
                names = self._names("")
                what = f"holds {', '.join(sorted(names)[:5]) or 'nothing'}"
                if SHARDS in names:
                    what = "holds shards, which cannot be opened from a URL; open each of them alone"
                elif MARKER in names:
                    what = "holds a copy that was never finished; do the same copy_to again"
                else:
                    what = f"is not an index (it {what}); copy one there first: index.copy_to(URL)"
                raise NotAnIndex(f"{self.url} {what}") from None
            if text.endswith("\n"):
                break
            time.sleep(0.05 * attempt)
        match = GENERATION.fullmatch(text.strip())
        if match is None or match[2]:
            raise Damaged(f"{self.url}/{CURRENT}: holds {text[:40]!r}, not the number of a generation")
        return int(text)

    def manifest(self, number: int) -> Manifest:
        """The manifest of a generation; `FileNotFoundError` if it is gone."""
        file = f"{GENERATIONS}/{number}/{MANIFEST}"
        path = f"{self.url}/{file}"
        manifest = Manifest.of(self._read(file, LONGEST), path, number)
        for name in manifest.files:
            if name == MANIFEST or not OURS.fullmatch(name.rpartition("/")[2]):
                raise Damaged(f"{path}: names a file {name!r}, which no index has")
        return manifest

    def files(self, manifest: Manifest) -> FilesInBlocks:
        """The files that a manifest names, one after the other."""
        for name in manifest.files:
            with (
                self._named(),
                self._system.open(self._path(f"{GENERATIONS}/{manifest.generation}/{name}"), "rb") as file,
            ):
                yield name, self._blocks(file)

    def _blocks(self, file: Any) -> Iterator[bytes]:
        with self._named():
            while block := file.read(BLOCK):
                yield block

    def _read(self, name: str, most: int) -> bytes:
        with self._named():
            content: bytes = self._system.cat_file(self._path(name), start=0, end=most + 1)
        if len(content) > most:
            raise Damaged(f"{self.url}/{name}: more than {most} bytes, which no such file has")
        return content

    # Writing

    def publish(self, manifest: Manifest, files: FilesInBlocks) -> None:
        """Publish files as the next generation, `CURRENT` last, and remove earlier ones.

        A reader that is fetching an earlier one turns to the new one. `NotAnIndex` if the URL leads to
        something else, `Damaged` if a file is not as it was written, `RemoteError` if the storage refuses.
        The previous generation then stays.
        """
        names = self._names("")
        if MARKER not in names and not {CURRENT, GENERATIONS} <= names:
            if names:
                raise NotAnIndex(
                    f"{self.url} is not empty and not an index (it holds {', '.join(sorted(names)[:5])}); "
                    "nothing was written: give an empty or a new place"
                )
            self._write(MARKER, MARKER_TEXT)
        number = max(manifest.generation, 1 + max(self._numbers(), default=0))
        folder = f"{GENERATIONS}/{number}"
        try:
            for name, blocks in files:
                path = self._path(f"{folder}/{name}")
                with self._named():
                    self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                    with self._system.open(path, "wb") as target:
                        copy_blocks(blocks, target, name, manifest.files[name])
            self._write(f"{folder}/{MANIFEST}", replace(manifest, generation=number).to_json())
        except BaseException:
            with suppress(StoreError, OSError):  # the first error is the one to be seen; the next copy sweeps
                self._remove(number)
            raise
        self._write(CURRENT, f"{number}\n")
        for earlier in self._numbers():
            if earlier != number:
                self._remove(earlier)

    def _remove(self, number: int) -> None:
        """Remove our files of a generation."""
        with self._named():
            folder = self._path(f"{GENERATIONS}/{number}")
            for path in self._system.find(folder):
                if OURS.fullmatch(path.rpartition("/")[2]):
                    self._system.rm_file(path)
            with suppress(OSError):  # where folders exist by themselves, and it holds nothing else
                for path in sorted(self._system.find(folder, withdirs=True), reverse=True):
                    self._system.rmdir(path)
                self._system.rmdir(folder)

    def _write(self, name: str, text: str) -> None:
        with self._named():
            path = self._path(name)
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, text.encode("utf-8"))

    def _numbers(self) -> list[int]:
        matches = map(GENERATION.fullmatch, self._names(GENERATIONS))
        return [int(match[1]) for match in matches if match]

    def _names(self, folder: str) -> set[str]:
        path = self._path(folder).rstrip("/")
        try:
            with self._named():
                self._system.invalidate_cache()
                entries = self._system.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        return {entry.rstrip("/").rpartition("/")[2] for entry in entries if entry.rstrip("/") != path}

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (StratagraphError, FileNotFoundError, NotADirectoryError):
            raise
        except Exception as error:
            raise _refused(self.url, error) from error


def shown(url: str) -> str:
    """A URL for messages, without user name and password."""
    return re.sub(r"://[^/@]*@", "://", url).rstrip("/")


def _refused(url: str, error: Exception) -> RemoteError:
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, PermissionError) or "credential" in what.lower():
        return RemoteError(f"{url}: access was refused ({what}); check the credentials that fsspec finds")
    return RemoteError(f"{url}: the storage failed ({what}); check the URL, the network and the credentials")
