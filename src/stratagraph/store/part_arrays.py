"""Writing the arrays of a part, or what changed in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from stratagraph.store.arrays import Arrays, Layers, as_plain, open_arrays, write_arrays
from stratagraph.store.checksums import FileEntry
from stratagraph.store.contents import NUMBERS, PARTS, opened, part_file, patch_file
from stratagraph.store.files import Directory
from stratagraph.store.patches import are_numbers, patch

if TYPE_CHECKING:
    from stratagraph.store.snapshot import Snapshot


class ArrayWriter:
    """Writes the arrays of the parts of a new generation.

    Parameters
    ----------
    directory, generation
        Of the new generation.
    base
        The previous generation, whose files may be shared; None if none may be.
    loses
        Whether chunks of that generation are gone. Then arrays that say something of rows are written whole,
        so that nothing of those chunks is left.
    link
        Shares files of a folder of the previous generation.
    files
        Files of the new generation by path; those that are written are added.
    """

    def __init__(
        self,
        directory: Directory,
        generation: int,
        base: Snapshot | None,
        *,
        loses: bool,
        link: Callable[[str, Directory, Sequence[str]], None],
        files: dict[str, FileEntry],
    ) -> None:
        self._directory = directory
        self._generation = generation
        self._base = base
        self._loses = loses
        self._link = link
        self._files = files

    def put(self, part: str, arrays: Mapping[str, NDArray[Any]], measures: Collection[str]) -> Arrays:
        """Write the arrays of a part; those that are given are returned, or those that were written."""
        plain = {name: as_plain(name, array) for name, array in arrays.items()}
        numbers = {
            name: array for name, array in plain.items() if name in measures or are_numbers(array.dtype)
        }
        contents = {name: array for name, array in plain.items() if name not in numbers}
        return Layers(self._put(part, PARTS, contents), self._put(part, NUMBERS, numbers))

    def _put(self, part: str, folder: str, arrays: Arrays) -> Arrays:
        """Write arrays as a patch of those before, if that is much smaller, and else whole."""
        file, before = part_file(part, folder), None
        if self._base is not None and not (self._loses and folder == PARTS):
            before = self._base.groups.get((part, folder))
        made = None if before is None else patch(before, arrays, numbers=folder == NUMBERS)
        if made is None:
            return self._written(file, arrays)
        with self._directory.make_all(folder) as directory:
            self._link(folder, directory, [file.removeprefix(f"{folder}/")])
        self._written(patch_file(part, folder), made)
        return arrays

    def _written(self, path: str, arrays: Arrays) -> Arrays:
        folder, _, file = path.rpartition("/")
        with self._directory.make_all(folder) as directory:
            self._files[path] = write_arrays(directory, file, arrays)
            directory.sync()
        with opened(self._directory, path) as descriptor:
            return open_arrays(self._directory, path, descriptor)
