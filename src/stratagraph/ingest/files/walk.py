"""The files below the paths that a caller names, by globs and by rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from stratagraph.ingest.roots import Roots, printable, real_path

Skip = Callable[[str, str], None]
_MARKER = "stratagraph-index"  # in an index folder from its first moment, as `store.layout` writes it
_FOLDERS = ("node_modules", "__pycache__")
_BY_DEFAULT = "left out by default"
_SUFFIXES = {
    **dict.fromkeys((".css", ".js", ".mjs", ".cjs", ".map"), _BY_DEFAULT),
    **dict.fromkeys(
        (".avif", ".bmp", ".gif", ".heic", ".ico", ".jpeg", ".jpg", ".png", ".svg", ".tif", ".tiff", ".webp"),
        "a picture",
    ),
    **dict.fromkeys((".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav"), "sound"),
    **dict.fromkeys((".avi", ".m4v", ".mkv", ".mov", ".mp4", ".webm"), "a video"),
    **dict.fromkeys((".eot", ".otf", ".ttf", ".woff", ".woff2"), "a font"),
    **dict.fromkeys((".a", ".class", ".dll", ".dylib", ".exe", ".o", ".pyc", ".so", ".wasm"), "a program"),
}


def matches(name: str, pattern: str) -> bool:
    """Whether a glob matches a path. `*` and `**` match slashes too; `**/` also matches nothing."""
    return any(fnmatchcase(name, pattern.replace("**/", each)) for each in ("", "*/"))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read: its path, its id, and the key of its root; `named` if it was given by itself."""

    path: Path
    name: str
    root: str
    size: int
    named: bool


class Walk:
    """Finds the files below paths.

    Parameters
    ----------
    skip
        Called with a name and a reason for what should be read and cannot be.
    leave_out
        The same for what is left out by a rule.
    include, exclude
        Globs for files in folders. One is compared with the path and with its end from each slash on; an
        absolute one with the absolute path.
    """

    def __init__(self, skip: Skip, leave_out: Skip, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._skip = skip
        self._leave_out = leave_out
        self._include = [printable(PurePath(each)) for each in include]  # without `./` and a slash at the end
        self._exclude = [printable(PurePath(each)) for each in exclude]
        self._roots = Roots()
        self._top, self._typed = Path(), Path()

    def files(self, given: Sequence[Path], roots: Roots) -> Iterator[FoundFile]:
        """Every file below the paths once, with its id by `roots`."""
        self._roots = roots
        inodes: set[tuple[int, int]] = set()
        for typed in given:
            self._top, self._typed = real_path(typed), typed
            for path in self._below(self._top):
                name = self._name(path)
                try:
                    status = path.stat()
                except OSError as error:
                    self._skip(name, "broken link" if path.is_symlink() else str(error.strerror))
                    continue
                if path is not self._top and path.is_symlink() and not self._is_inside(path):
                    self._skip(name, "a link to a file outside the folder is not followed")
                    continue
                if (status.st_dev, status.st_ino) in inodes:
                    self._leave_out(name, "the same file as one before")
                    continue
                inodes.add((status.st_dev, status.st_ino))
                root = roots.above(path)
                assert root is not None
                yield FoundFile(path, name, root.key, status.st_size, path is self._top)

    def _name(self, path: Path) -> str:
        root = self._roots.above(path)
        return printable(path) if root is None else root.id_of(path)

    def _is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._top)

    def _below(self, top: Path) -> Iterator[Path]:
        if not top.is_dir():
            yield top
            return

        def skip_error(error: OSError) -> None:
            self._skip(self._name(Path(error.filename)), str(error.strerror))

        for folder, folders, files in os.walk(top, onerror=skip_error):
            if _MARKER in files or ("CURRENT" in files and "generations" in folders):
                self._leave_out(self._name(Path(folder)), "a stratagraph index")
                folders.clear()
                continue
            folders[:] = [each for each in sorted(folders) if self._enters(Path(folder, each))]
            yield from (path for path in (Path(folder, each) for each in sorted(files)) if self._reads(path))

    def _enters(self, folder: Path) -> bool:
        if folder.name.startswith(".") or self._matches_any(folder, self._exclude):
            return False
        if folder.name in _FOLDERS and not any(folder.name in each.split("/") for each in self._include):
            self._leave_out(self._name(folder), _BY_DEFAULT)
            return False
        if folder.is_symlink():
            self._skip(self._name(folder), "a link to a folder is not followed")
            return False
        return True

    def _reads(self, path: Path) -> bool:
        if path.name.startswith(".") or self._matches_any(path, self._exclude):
            return False
        if self._include:
            return self._matches_any(path, self._include)
        reason = _SUFFIXES.get(path.suffix.lower())
        if reason is not None:
            self._leave_out(self._name(path), f"{reason} ({path.suffix[1:].upper()})")
        return reason is None

    def _matches_any(self, path: Path, patterns: Sequence[str]) -> bool:
        if not patterns:
            return False
        absolute, typed = printable(path), printable(self._typed / path.relative_to(self._top))
        return any(
            matches(absolute, each)
            if os.path.isabs(each)
            else matches(typed, each) or matches(typed, f"*/{each}")
            for each in patterns
        )
