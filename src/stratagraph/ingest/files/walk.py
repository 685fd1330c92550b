"""The files below the paths that a caller names, by globs and by rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

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


def printable(path: PurePath) -> str:
    """A path with forward slashes as UTF-8; bytes that are not UTF-8 are escaped without ambiguity."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read; `named` if it was given by itself, and not in a folder."""

    path: Path
    name: str
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
        self._include = [_plain(each) for each in include]
        self._exclude = [_plain(each) for each in exclude]

    def files(self, given: Sequence[Path]) -> Iterator[Found]:
        """Every file below the paths once."""
        inodes: set[tuple[int, int]] = set()
        for root, path in ((above, each) for above in given for each in self._below(above)):
            name = printable(path)
            try:
                status = path.stat()
            except OSError as error:
                self._skip(name, "broken link" if path.is_symlink() else str(error.strerror))
                continue
            if (status.st_dev, status.st_ino) in inodes:
                self._leave_out(name, "the same file as one before")
                continue
            inodes.add((status.st_dev, status.st_ino))
            yield Found(path, name, status.st_size, path is root)

    def _below(self, root: Path) -> Iterator[Path]:
        if not root.is_dir():
            yield root
            return

        def skip_error(error: OSError) -> None:
            self._skip(printable(Path(error.filename)), str(error.strerror))

        for folder, folders, files in os.walk(root, onerror=skip_error):
            if _MARKER in files or ("CURRENT" in files and "generations" in folders):
                self._leave_out(printable(Path(folder)), "a stratagraph index")
                folders.clear()
                continue
            folders[:] = [each for each in sorted(folders) if self._enters(Path(folder, each))]
            yield from (path for path in (Path(folder, each) for each in sorted(files)) if self._reads(path))

    def _enters(self, folder: Path) -> bool:
        if folder.name.startswith(".") or _any(folder, self._exclude):
            return False
        if folder.name in _FOLDERS and not any(folder.name in each.split("/") for each in self._include):
            self._leave_out(printable(folder), _BY_DEFAULT)
            return False
        if folder.is_symlink():
            self._skip(printable(folder), "a link to a folder is not followed")
            return False
        return True

    def _reads(self, path: Path) -> bool:
        if path.name.startswith(".") or _any(path, self._exclude):
            return False
        if self._include:
            return _any(path, self._include)
        reason = _SUFFIXES.get(path.suffix.lower())
        if reason is not None:
            self._leave_out(printable(path), f"{reason} ({path.suffix[1:].upper()})")
        return reason is None


def _any(path: Path, patterns: Sequence[str]) -> bool:
    if not patterns:
        return False
    name, absolute = printable(path), printable(Path(os.path.realpath(path.parent), path.name))
    return any(
        matches(absolute, each) if os.path.isabs(each) else matches(name, each) or matches(name, f"*/{each}")
        for each in patterns
    )


def _plain(pattern: str) -> str:
    """A glob without what paths do without: `./` before it and a slash behind it."""
    return printable(PurePath(pattern))
