"""Names in an index folder, and the steps that must be atomic or survive a power cut."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from stratagraph.errors import Damaged, NotAnIndex, StoreError
from stratagraph.store.files import Directory, make_folder

MANIFEST = "manifest.json"
SCRATCH_VECTORS = "scratch.arrays"
CALLS = "calls.sqlite"
JOURNAL = "journal.sqlite"
CURRENT = "CURRENT"
GENERATIONS = "generations"
MARKER = "stratagraph-index"
SHARDS = "shards.json"
"""In a folder of shards: their list (`store.shards`)."""
SOURCE_URL = "url"
"""In a folder that is a cache: the URL that it is a cache of."""
MARKER_TEXT = "An index of stratagraph (Python package). CURRENT names the generation in use; do not edit.\n"

GENERATION = re.compile(r"([1-9][0-9]{0,17})(\.partial)?")
SHARD = re.compile(r"shard-\d{4,}")
OURS = re.compile(rf"{re.escape(MANIFEST)}(\.tmp)?|.+\.arrays")

_RACES = 20  # attempts to open a generation, if a writer replaces each one meanwhile
T = TypeVar("T")


def of_shards(names: Sequence[str]) -> str | None:
    """Advice for a folder with these names, if it is or was one of shards."""
    if SHARDS in names:
        return (
            "it is a folder of shards: use build_shards (in frameworks shards=, as a command --shards), or "
            "open it and insert"
        )
    if any(SHARD.fullmatch(name) for name in names):
        return (
            f"it holds shards, and their list, {SHARDS}, is lost: bring that file back from a copy of the "
            "folder, or open each shard by itself, since each is an index"
        )
    return None


def remove_ours(parent: Directory, name: str) -> None:
    """Remove our files and directories of a generation, and nothing else.

    Links are not followed or removed. Files that cannot be removed (open ones on Windows) stay for the next
    writer.
    """
    if not parent.holds_directory(name):
        return
    with suppress(FileNotFoundError), parent.directory(name) as directory:
        for entry in directory.names():
            if directory.holds_directory(entry):
                remove_ours(directory, entry)
            elif OURS.fullmatch(entry):
                with suppress(FileNotFoundError, PermissionError):
                    directory.unlink(entry)
    with suppress(OSError):
        parent.rmdir(name)


class Layout:
    """The names in an existing index folder; `root` is the folder."""

    def __init__(self, root: Directory) -> None:
        self.root = root
        self.path = root.path

    def generations(self) -> Directory:
        """The directory of generations; `FileNotFoundError` before the first."""
        return self.root.directory(GENERATIONS)

    def generation(self, number: int) -> Directory:
        """The directory of a published generation; `FileNotFoundError` if it is not there."""
        with self.generations() as generations:
            return generations.directory(str(number))

    def read_current(self, read: Callable[[Directory, int], T]) -> T:
        """Call `read` with the current generation, again if a writer replaces it meanwhile.

        `Damaged` if a file of the current generation is missing, `StoreError` if generations are replaced too
        fast.
        """
        for _ in range(_RACES):
            number = self.current()
            try:
                with self.generation(number) as directory:
                    return read(directory, number)
            except FileNotFoundError as error:
                if self.current() == number:
                    raise Damaged(f"{error.filename}: missing") from error
        raise StoreError(f"{self.path}: generations are replaced faster than they can be opened")

    def make_partial(self, number: int) -> Directory:
        """Create the directory of a generation that is being written."""
        with self.root.make(GENERATIONS) as generations:
            self.root.sync()
            return generations.make(f"{number}.partial")

    def remove_partial(self, number: int) -> None:
        """Remove an unpublished generation."""
        with suppress(FileNotFoundError), self.generations() as generations:
            remove_ours(generations, f"{number}.partial")

    def current(self) -> int:
        """The number in CURRENT; 0 before the first generation is published."""
        path = self.path / CURRENT
        try:
            text = self.root.read(CURRENT, most=100).decode("ascii").strip()
        except FileNotFoundError:
            later = [number for number, partial in self._numbers() if number > 1 and not partial]
            if later:
                raise Damaged(f"{path}: missing, although generation {max(later)} exists") from None
            return 0
        except UnicodeDecodeError:
            text = "binary data"
        if not (match := GENERATION.fullmatch(text)) or match[2]:
            raise Damaged(f"{path}: holds {text[:40]!r}, not the number of a generation")
        return int(text)

    def _numbers(self) -> Iterator[tuple[int, bool]]:
        """Numbers in use, and whether each is a partial generation."""
        if self.root.status(GENERATIONS) is None:
            return
        with self.generations() as generations:
            names = generations.names()
        for name in names:
            if match := GENERATION.fullmatch(name):
                yield int(match[1]), bool(match[2])

    def next_number(self) -> int:
        """A number that no generation had, removed or not."""
        return 1 + max([self.current(), *(number for number, _ in self._numbers())])

    def adopt(self, number: int) -> None:
        """Make a complete partial generation current, by renaming CURRENT."""
        with self.generations() as generations:
            generations.rename(f"{number}.partial", str(number))
            generations.sync()
        self.root.sync()  # new files beside the generations, such as the journal, must be on the disk first
        self.root.require_in_place()
        self.root.write(CURRENT, f"{number}\n".encode("ascii"))
        self.root.sync()

    def sweep(self) -> None:
        """Remove leftovers of crashed writers, and past generations. Only under the lock."""
        current = self.current()
        past = [(number, partial) for number, partial in self._numbers() if partial or number != current]
        if past:
            with self.generations() as generations:
                for number, partial in past:
                    remove_ours(generations, f"{number}.partial" if partial else str(number))
                generations.sync()
        for name in (f"{CURRENT}.tmp", "lock.json.tmp", f"{SOURCE_URL}.tmp"):
            if not self.root.holds_directory(name):
                self.root.unlink(name)

    def is_ours(self) -> bool:
        """Whether the folder is an index, finished or not."""
        root = self.root
        return root.holds_file(MARKER) or (root.holds_file(CURRENT) and root.holds_directory(GENERATIONS))

    def claim(self) -> None:
        """Mark the folder as an index unless it is one; see `IndexFolder.create`."""
        if self.is_ours():
            return
        others = self.root.names()
        if others and not self.is_ours():  # nor claimed by another process in between
            some = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
            raise NotAnIndex(
                f"{self.path} is not empty and not an index (it holds {some}); nothing was written: "
                f"{of_shards(others) or 'give an empty or a new folder'}"
            )
        with suppress(FileExistsError), self.root.creator(MARKER) as marker:
            marker.write(MARKER_TEXT.encode("ascii"))
        self.root.sync()

    def require(self) -> None:
        """Raise `NotAnIndex` if the folder holds no finished index."""
        if not self.is_ours():
            names = self.root.names()
            entries = ", ".join(names[:5]) or "nothing"
            advice = of_shards(names) or "give the folder that was the path of build_index"
            raise NotAnIndex(f"{self.path} is not an index (it holds {entries}); {advice}")
        if self.current() == 0:
            raise NotAnIndex(
                f"{self.path} holds a build or a copy that was never finished; run the same command again to "
                "finish it"
            )


def made_layout(path: Path) -> Layout:
    """The layout of a folder, created and marked as an index if need be; else `NotAnIndex`."""
    path = Path(os.path.abspath(path))
    if path.exists() and not path.is_dir():
        raise NotAnIndex(f"{path} is a file; give a folder for the index")
    make_folder(path)
    layout = Layout(Directory.open(path))
    layout.claim()
    return layout


def found_layout(path: Path) -> Layout:
    """The layout of a folder with a finished index; `NotAnIndex` otherwise."""
    path = Path(os.path.abspath(path))
    try:
        layout = Layout(Directory.open(path))
    except FileNotFoundError:
        raise NotAnIndex(f"{path} does not exist; build an index there first") from None
    except NotADirectoryError:
        raise NotAnIndex(f"{path} is a file; an index is a folder") from None
    layout.require()
    return layout
