"""Files of an index folder, opened through the descriptor of their directory, never through a link.

Links, pipes, devices and directories in the place of files raise a named error before they are touched. So a
folder from a stranger cannot make us read, write or remove anything outside it, or hang.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from stratagraph.errors import Damaged, NotAnIndex, StoreError

_RELATIVE = os.open in os.supports_dir_fd  # Windows has no such calls: there, paths are checked before use
_SAFE = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


@contextmanager
def naming(folder: Path, name: str = "") -> Iterator[None]:
    """Add the file's full name to errors that lack it, as those of a full disk and of `dir_fd` calls do.

    Too many open files become a `StoreError`: an index needs two, and so does each shard.
    """
    try:
        yield
    except OSError as error:
        path = folder / name
        if error.errno == errno.EMFILE:
            raise StoreError(
                f"{path}: this process may not open more files. An open index holds two, one of shards two "
                "for each shard; raise the limit (ulimit -n) and open it again"
            ) from error
        if error.errno is None or (error.filename is not None and os.path.isabs(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


class Directory:
    """A directory of an index, held by its descriptor.

    It stays the same directory if the process changes its working directory, or if another one gets its name.
    `path` is its absolute path when it was opened, for messages and for SQLite.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor
        self._closing = None if descriptor is None else weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open the directory at the user's path, which may be a link."""
        path = Path(os.path.abspath(path))
        if not _RELATIVE:
            if not path.is_dir():
                raise (NotADirectoryError if path.exists() else FileNotFoundError)(
                    errno.ENOENT, "no directory", str(path)
                )
            return cls(path, None)
        with naming(path):
            return cls(path, os.open(path, _DIRECTORY))

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; harmless when done before."""
        if self._closing is not None:
            self._closing()
            self._descriptor = -1  # whoever uses it now gets an error and not another file's descriptor

    def require_in_place(self) -> None:
        """Raise `NotAnIndex` if the folder was removed, moved or replaced."""
        if self._descriptor is None:
            here = self.path.is_dir()
        else:
            try:
                here = os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
            except OSError:
                here = False
        if not here:
            raise NotAnIndex(
                f"{self.path} was removed, moved or replaced since the index was opened, and nothing was "
                "written; open the index again, where it is now"
            )

    # What is there

    def _at(self, name: str) -> dict[str, Any]:
        if self._descriptor is None:
            return {"path": self.path / name}
        return {"path": name, "dir_fd": self._descriptor}

    def names(self) -> list[str]:
        """The names in the directory, sorted."""
        return sorted(os.listdir(self.path if self._descriptor is None else self._descriptor))

    def status(self, name: str) -> os.stat_result | None:
        """The status of an entry (of the link itself if it is one); None if there is none."""
        try:
            return os.stat(**self._at(name), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def holds_file(self, name: str) -> bool:
        """Whether there is a plain file of this name."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def holds_directory(self, name: str) -> bool:
        """Whether there is a real directory of this name."""
        status = self.status(name)
        return status is not None and _is_directory(status)

    # Files

    def descriptor(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a plain file. `FileNotFoundError` if it is not there, `Damaged` if it is not a plain file."""
        self.plain_status(name)
        with naming(self.path, name):
            descriptor = os.open(**self._at(name), flags=flags | _SAFE, mode=0o666)
        try:
            self._require_file(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def plain_status(self, name: str) -> os.stat_result | None:
        """The status of a plain file; None if there is none, `Damaged` if it is not a plain file."""
        status = self.status(name)
        if status is not None:
            self._require_file(name, status)
        return status

    def _require_file(self, name: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise Damaged(f"{self.path / name}: {kind_of(status)}, where a file of the index should be")

    def reader(self, name: str) -> BinaryIO:
        """Open a plain file, here or at a relative path `a/b/c`, for reading; errors as of `descriptor`."""
        with self.holding(name) as (holder, last):
            return os.fdopen(holder.descriptor(last), "rb")

    def read(self, name: str, *, most: int) -> bytes:
        """The content of a file of at most `most` bytes; a larger one is `Damaged`."""
        with self.reader(name) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise Damaged(f"{self.path / name}: more than {most} bytes, which no such file has")
        return content

    @contextmanager
    def creator(self, name: str) -> Iterator[BinaryIO]:
        """A new file, synced when the block ends and removed if it fails; the name must be free."""
        with naming(self.path, name):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE
            descriptor = os.open(**self._at(name), flags=flags, mode=0o666)
            try:
                with os.fdopen(descriptor, "r+b") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    self.unlink(name)
                raise

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, synced, and replace the old one atomically."""
        temporary = f"{name}.tmp"
        self.unlink(temporary)
        with self.creator(temporary) as file:
            file.write(content)
        try:
            self.rename(temporary, name)
        except OSError:
            self.unlink(temporary)
            raise

    def link(self, source: Directory, name: str) -> None:
        """Hard-link a plain file of another directory here; copies it if the disk has no links."""
        if source.plain_status(name) is None:
            raise FileNotFoundError(errno.ENOENT, "missing", str(source.path / name))
        with suppress(OSError):
            if self._descriptor is None or source._descriptor is None:
                os.link(source.path / name, self.path / name)
            else:
                os.link(
                    name,
                    name,
                    src_dir_fd=source._descriptor,
                    dst_dir_fd=self._descriptor,
                    follow_symlinks=False,
                )
            return
        with source.reader(name) as content, self.creator(name) as target:
            shutil.copyfileobj(content, target, 1 << 20)

    def rename(self, old: str, new: str) -> None:
        """Rename an entry, replacing a file of the new name."""
        with naming(self.path, new):
            if self._descriptor is None:
                os.replace(self.path / old, self.path / new)
            else:
                os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if it is there; `Damaged` if it is a directory."""
        try:
            with suppress(FileNotFoundError), naming(self.path, name):
                os.unlink(**self._at(name))
        except OSError:
            if self.holds_directory(name):
                raise Damaged(
                    f"{self.path / name}: a directory, where a file of the index should be"
                ) from None
            raise

    # Directories

    def directory(self, name: str) -> Directory:
        """Open a subdirectory.

        `FileNotFoundError` if it is not there, `Damaged` if it is not a real directory.
        """
        path = self.path / name
        status = self.status(name)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "missing", str(path))
        if not _is_directory(status):
            raise Damaged(f"{path}: {kind_of(status)}, where a directory of the index should be")
        if self._descriptor is None:
            return Directory(path, None)
        with naming(path):
            return Directory(path, os.open(**self._at(name), flags=_DIRECTORY | _SAFE))

    def make(self, name: str) -> Directory:
        """Open a subdirectory, creating it if need be."""
        with suppress(FileExistsError), naming(self.path, name):
            os.mkdir(**self._at(name))
        return self.directory(name)

    @contextmanager
    def holding(self, file: str, *, make: bool = False) -> Iterator[tuple[Directory, str]]:
        """The directory of a relative path `a/b/c`, created if need be (`make`), and the last name in it."""
        *folders, name = file.split("/")
        with ExitStack() as opened:
            current = self
            for folder in folders:
                current = opened.enter_context(current.make(folder) if make else current.directory(folder))
            yield current, name

    def rmdir(self, name: str) -> None:
        """Remove an empty directory; `OSError` if it is not empty."""
        with naming(self.path, name):
            os.rmdir(**self._at(name))

    def sync_all(self) -> None:
        """Force the names in this directory and all below it to the disk."""
        for name in self.names():
            if self.holds_directory(name):
                with self.directory(name) as below:
                    below.sync_all()
        self.sync()

    def sync(self) -> None:
        """Force the names in this directory to the disk; Windows does so by itself."""
        if self._descriptor is not None:
            with naming(self.path):
                os.fsync(self._descriptor)


def _is_directory(status: os.stat_result) -> bool:
    reparse = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISDIR(status.st_mode) and not reparse


def kind_of(status: os.stat_result) -> str:
    """What an entry is, in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def make_folder(path: Path) -> None:
    """Create a folder and its parents, synced so that a power cut cannot remove them."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        with Directory.open(each.parent) as parent:
            parent.sync()


def bytes_below(path: Path) -> int:
    """Size of all files in a folder and below, in bytes."""
    sizes = []
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # a writer may be at work
                sizes.append(os.lstat(os.path.join(folder, name)).st_size)
    return sum(sizes)
