"""The files below the paths that a caller names, by globs and by rules, and their ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path, PurePath

from stratagraph.types.records import content_id

Skip = Callable[[str, str], None]
_KEY_DIGITS = 8
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
    """A path as UTF-8 text with forward slashes, in which bytes that are not UTF-8 are escaped."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def real_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a file or folder without links in it; a linked file keeps its own name."""
    absolute = Path(os.path.abspath(path))
    if absolute.is_dir():
        return Path(os.path.realpath(absolute))
    return Path(os.path.realpath(absolute.parent), absolute.name)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was given, or a file that was given by itself.

    A file's id is `prefix`, joined with its path in the folder. `key` stands for the root in the records of
    documents, and stays when the folder moves.
    """

    key: str
    path: Path
    prefix: str

    def id_of(self, path: Path) -> str:
        """The id of a file in the folder; that of the folder itself is its prefix, or `.`."""
        inside = "" if path == self.path else printable(path.relative_to(self.path))
        return "/".join(filter(None, (self.prefix, inside))) or "."

    def path_of(self, name: str) -> Path:
        """The file with an id."""
        inside = name[len(self.prefix) :].lstrip("/")
        return self.path / inside if inside else self.path


class Roots:
    """The roots of an index, and those that join it.

    `recorded` are path and prefix of each root of the index, by its key; `moved` are recorded paths, and
    where these folders are now. `ValueError` if a folder that moved is none of the index.
    """

    def __init__(
        self, recorded: Mapping[str, Sequence[str]] | None = None, moved: Mapping[str, str] | None = None
    ) -> None:
        known = [Root(key, Path(path), prefix) for key, (path, prefix) in (recorded or {}).items()]
        for old, new in (moved or {}).items():
            before, after = real_path(old), real_path(new)
            inside = [each for each in known if each.path.is_relative_to(before)]
            already = any(each.path.is_relative_to(after) for each in known)
            if not inside and not already:
                folders = ", ".join(repr(str(each.path)) for each in known) or "none"
                raise ValueError(f"no folder of the index was {str(before)!r}; its folders are: {folders}")
            known = [
                replace(each, path=after / each.path.relative_to(before)) if each in inside else each
                for each in known
            ]
        self._by_path = {each.path: each for each in known}
        self._by_key = {each.key: each for each in known}

    def add(self, given: Sequence[Path], name: str | None) -> None:
        """Let folders and files join, which are real paths.

        Of one new folder, ids begin with `name`, if it is given. Of several they begin with the folders'
        names, and the id of a file is its name. `ValueError` if there is a `name`, and not one new folder or
        file; or one that has another prefix.
        """
        paths = dict.fromkeys(path for path in given if self.above(path) is None)
        new = [path for path in paths if not any(parent in paths for parent in path.parents)]
        every = dict.fromkeys(given)
        outer = (path for path in every if not any(parent in every for parent in path.parents))
        folders = {path for path in outer if path.is_dir()}
        if name is not None:
            prefixes = {root.prefix for path in given if (root := self.above(path)) is not None}
            if len(new) != 1 and (new or prefixes != {name}):
                raise ValueError(
                    f"name={name!r} names one folder that is new to the index; {len(new)} of those given are"
                )
            if not name or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
                raise ValueError(f"name={name!r}: ids must begin with a relative path, such as 'letters'")
        for path in new:
            own = path.name if path not in folders or len(folders) > 1 else ""
            digits = (content_id(str(path), str(number))[:_KEY_DIGITS] for number in count())
            key = next(each for each in digits if each not in self._by_key)
            root = Root(key, path, printable(PurePath(name or own)) if name or own else "")
            self._by_path[path] = self._by_key[key] = root

    def above(self, path: Path) -> Root | None:
        """The root that holds a file or folder: the innermost one."""
        return next((self._by_path[each] for each in (path, *path.parents) if each in self._by_path), None)

    def by_key(self, key: str) -> Root | None:
        """The root with a key."""
        return self._by_key.get(key)

    def recorded(self) -> dict[str, list[str]]:
        """Path and prefix of each root by its key, as an index records them."""
        return {key: [str(root.path), root.prefix] for key, root in self._by_key.items()}


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

    `skip` is called with a name and a reason for what should be read and cannot be, `leave_out` for what is
    left out by a rule. A glob for files in folders (`include`, `exclude`) is compared with the path and with
    its end from each slash on; an absolute one with the absolute path.
    """

    def __init__(self, skip: Skip, leave_out: Skip, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._skip = skip
        self._leave_out = leave_out
        self._include = [printable(PurePath(each)) for each in include]  # without `./` and a slash at the end
        self._exclude = [printable(PurePath(each)) for each in exclude]
        self._roots, self._top, self._typed = Roots(), Path(), Path()

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
                if (
                    path is not self._top
                    and path.is_symlink()
                    and not path.resolve().is_relative_to(self._top)
                ):
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
