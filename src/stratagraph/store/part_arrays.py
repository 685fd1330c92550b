"""Writing the arrays of a part, or what changed in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from stratagraph.store.arrays import Arrays, Layers, as_plain, open_arrays, write_arrays
from stratagraph.store.checksums import FileEntry
from stratagraph.store.contents import (
    NUMBERS,
    PARTS,
    ArrayGroup,
    opened,
    part_file,
    patch_file,
    pieces_folder,
)
from stratagraph.store.files import Directory
from stratagraph.store.nodes import SLOTS
from stratagraph.store.patches import are_numbers, patch, unused
from stratagraph.store.pieces import LEAST, Pieces, piece_file, write_piece, write_pieces

if TYPE_CHECKING:
    from stratagraph.store.snapshot import Snapshot

MEASURES = frozenset(
    {
        "alive",
        "bounds",
        "by_model",
        "condensed",
        "counts",
        "data",
        "describing",
        "gram_counts",
        "kinds",
        "lengths",
        "levels",
        "norms",
        "scales",
        "values",
        "weights",
    }
)
"""Last words of the names of arrays that hold counts, measures or kinds, and no word, key or vector.

Such arrays are stored like row numbers: nothing in them is erased. Only one-dimensional arrays whose items
take at most four bytes qualify, so that no key is among them.
"""
_ANEW = 2
"""If a patch and its pieces take more than half of the bytes of all arrays, all are written anew."""


class ArrayWriter:
    """Writes the arrays of the parts of a new generation.

    Parameters
    ----------
    directory, generation
        Of the new generation.
    base
        The previous generation, whose files may be shared; None if none may be.
    loses
        Whether chunks of that generation are gone. Then no content that is out of use stays in a shared file.
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

    def put(self, part: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        """Write the arrays of a part; those that are given are returned, or those that were written."""
        plain = {name: as_plain(name, array) for name, array in arrays.items()}
        numbers = {name: array for name, array in plain.items() if tells_nothing(name, array)}
        contents = {name: array for name, array in plain.items() if name not in numbers}
        return Layers(self._put_contents(part, contents), self._put_numbers(part, numbers))

    def _put_numbers(self, part: str, arrays: Arrays) -> Arrays:
        before = self._before((part, NUMBERS))
        made = None if before is None else patch(before, arrays, numbers=True)
        if made is None:
            return self._written(part_file(part, NUMBERS), arrays)
        self._kept(NUMBERS, [part_file(part, NUMBERS)])
        self._written(patch_file(part, NUMBERS), made)
        return arrays

    def _put_contents(self, part: str, arrays: Arrays) -> Arrays:
        before = self._before((part, PARTS))
        made = None if before is None else patch(before, arrays, numbers=False, apart=self._loses)
        if before is None or made is None or not self._kept_contents(part, before, made):
            return self._written_contents(part, arrays)
        self._written(patch_file(part, PARTS), made)
        return arrays

    def _before(self, group: ArrayGroup) -> Arrays | None:
        return None if self._base is None else self._base.groups.get(group)

    def _kept_contents(self, part: str, before: Arrays, made: Arrays) -> bool:
        """Share the files that are patched, without what no row has now; whether that was worth it."""
        assert self._base is not None
        pieces, folder = self._base.pieces.get(part), pieces_folder(part)
        if pieces is None:
            if not self._loses:
                self._kept(PARTS, [part_file(part)])
            return not self._loses
        erased = pieces.erased(_ranges(pieces, before, made)) if self._loses else {}
        written = sum(array.nbytes for array in (*made.values(), *erased.values()))
        if written * _ANEW > len(pieces.bytes()):
            return False
        kept = [file for place, file in enumerate(pieces.files) if place not in erased]
        with self._directory.make_all(folder) as directory:
            self._link(folder, directory, kept)
            for place, content in erased.items():
                file = piece_file(place, self._generation)
                self._files[f"{folder}/{file}"] = write_piece(directory, file, content.data)
            directory.sync()
        return True

    def _kept(self, folder: str, files: Sequence[str]) -> None:
        with self._directory.make_all(folder) as directory:
            self._link(folder, directory, [file.removeprefix(f"{folder}/") for file in files])

    def _written_contents(self, part: str, arrays: Arrays) -> Arrays:
        if sum(array.nbytes for array in arrays.values()) <= 2 * LEAST:
            return self._written(part_file(part), arrays)
        folder = pieces_folder(part)
        with self._directory.make_all(folder) as directory:
            files = write_pieces(directory, self._generation, arrays)
            directory.sync()
            self._files |= {f"{folder}/{file}": entry for file, entry in files.items()}
            pieces = Pieces({file: entry.bytes for file, entry in files.items()})
            for file in files:
                with opened(directory, file) as descriptor:
                    pieces.put(file, descriptor)
            return pieces.arrays(directory.path)

    def _written(self, path: str, arrays: Arrays) -> Arrays:
        folder, _, file = path.rpartition("/")
        with self._directory.make_all(folder) as directory:
            self._files[path] = write_arrays(directory, file, arrays)
            directory.sync()
        with opened(self._directory, path) as descriptor:
            return open_arrays(self._directory, path, descriptor)


def tells_nothing(name: str, array: NDArray[Any]) -> bool:
    """Whether an array holds row numbers or measures, and no content of any row."""
    if name == SLOTS or are_numbers(array.dtype):
        return True
    return array.ndim == 1 and array.itemsize <= 4 and name.rpartition(".")[2] in MEASURES


def _ranges(pieces: Pieces, before: Arrays, made: Arrays) -> list[tuple[int, int]]:
    """The byte ranges of all pieces that are out of use."""
    start = pieces.bytes().ctypes.data
    places = {name: array.ctypes.data - start for name, array in before.items()}
    return [(places[name] + begin, places[name] + end) for name, begin, end in unused(before, made)]
