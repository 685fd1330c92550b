"""Where things lie in an index folder, and the few steps that must be atomic or survive a power cut."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stratarag.errors import Damaged, NotAnIndex

CORPUS = "corpus.sqlite"
MANIFEST = "manifest.json"
SCRATCH = "scratch.sqlite"
MARKER = "stratarag-index"
MARKER_TEXT = "An index of stratarag (Python package). CURRENT names the generation in use; do not edit.\n"

_GENERATION = re.compile(r"([1-9][0-9]*)(\.partial)?")
_OURS = re.compile(rf"({re.escape(CORPUS)}|{re.escape(SCRATCH)})(-journal)?|{re.escape(MANIFEST)}|.+\.npy")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the file's name into errors that lack it, as those of a full disk do."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_file(path: Path) -> None:
    """Force a file's content to the disk."""
    with naming(path), path.open("rb+") as file:
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a small file through to the disk."""
    with naming(path), path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Force a directory's entries to the disk (Windows has no such call, and does it by itself)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_ours(directory: Path) -> None:
    """Remove a generation's files and its directories, leaving whatever we did not put there.

    What cannot be removed now (Windows keeps files that are open) is left for the next writer.
    """
    with suppress(FileNotFoundError):
        for entry in list(directory.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                remove_ours(entry)
            elif _OURS.fullmatch(entry.name):
                with suppress(FileNotFoundError, PermissionError):
                    entry.unlink()
        with suppress(OSError):
            directory.rmdir()


class Layout:
    """The names in an index folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generations = path / "generations"
        self.calls = path / "calls.sqlite"
        self.journal = path / "journal.sqlite"

    def generation(self, number: int) -> Path:
        """The directory of a published generation."""
        return self.generations / str(number)

    def partial(self, number: int) -> Path:
        """The directory of a generation while it is written."""
        return self.generations / f"{number}.partial"

    def current(self) -> int:
        """The number in CURRENT; 0 before the first generation is published."""
        path = self.path / "CURRENT"
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return self._never_published()
        except UnicodeDecodeError:
            text = "binary data"
        if not (match := _GENERATION.fullmatch(text)) or match[2]:
            raise Damaged(f"{path}: holds {text[:40]!r}, not the number of a generation")
        return int(text)

    def _never_published(self) -> int:
        """A first build leaves at most generation 1 behind; more than that means that CURRENT was lost."""
        later = [number for number, partial in self._numbers() if number > 1]
        if later:
            raise Damaged(f"{self.path / 'CURRENT'}: missing, although generation {max(later)} exists")
        return 0

    def _numbers(self) -> Iterator[tuple[int, bool]]:
        if self.generations.is_dir():
            for entry in sorted(self.generations.iterdir()):
                if match := _GENERATION.fullmatch(entry.name):
                    yield int(match[1]), bool(match[2])

    def next_number(self) -> int:
        """A number that no generation had, not even one that could not be removed."""
        return 1 + max([self.current(), *(number for number, _ in self._numbers())])

    def adopt(self, number: int) -> None:
        """Make a finished partial generation the current one. The rename of CURRENT is the moment."""
        os.rename(self.partial(number), self.generation(number))
        sync_directory(self.generations)
        temporary = self.path / "CURRENT.tmp"
        write_text(temporary, f"{number}\n")
        os.replace(temporary, self.path / "CURRENT")
        sync_directory(self.path)

    def sweep(self) -> None:
        """Remove what crashed writers left and generations that are past. Only while holding the lock."""
        current = self.current()
        for number, partial in list(self._numbers()):
            if partial or number != current:
                remove_ours(self.partial(number) if partial else self.generation(number))
        (self.path / "CURRENT.tmp").unlink(missing_ok=True)

    def is_ours(self) -> bool:
        """Whether the folder is an index, finished or not."""
        return (self.path / MARKER).is_file() or (
            (self.path / "CURRENT").is_file() and self.generations.is_dir()
        )

    def claim(self) -> None:
        """Make the folder ours, or find that it is; see `IndexFolder.create`."""
        if self.path.exists() and not self.path.is_dir():
            raise NotAnIndex(f"{self.path} is a file; give a folder for the index")
        self.path.mkdir(parents=True, exist_ok=True)
        if self.is_ours():
            return
        found = sorted(entry.name for entry in self.path.iterdir())
        if found:
            some = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            raise NotAnIndex(
                f"{self.path} is not empty and not an index (it holds {some}); "
                "nothing was written: give an empty or a new folder"
            )
        write_text(self.path / MARKER, MARKER_TEXT)

    def require(self) -> None:
        """Refuse a path that holds no finished index, saying what is there."""
        if not self.path.exists():
            raise NotAnIndex(f"{self.path} does not exist; build an index there first")
        if not self.path.is_dir():
            raise NotAnIndex(f"{self.path} is a file; an index is a folder")
        if not self.is_ours():
            found = sorted(entry.name for entry in self.path.iterdir())[:5]
            held = ", ".join(found) or "nothing"
            raise NotAnIndex(
                f"{self.path} is not an index (it holds {held}); "
                "give the folder that was the path of build_index"
            )
        if self.current() == 0:
            raise NotAnIndex(f"{self.path} holds a build that was never finished; run the same build again")
