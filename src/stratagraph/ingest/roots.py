"""Ids of files: the folders that an index was made of, and the id of each file in them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path, PurePath

from stratagraph.types.records import content_id

_KEY_DIGITS = 8


def printable(path: PurePath) -> str:
    """A path with forward slashes as UTF-8; bytes that are not UTF-8 are escaped without ambiguity."""
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

    Parameters
    ----------
    recorded
        Path and prefix of each root of the index, by its key.
    moved
        Recorded paths, and where these folders are now.

    Raises
    ------
    ValueError
        If a folder that moved is none of the index.
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
        names, and the id of a file is its name.

        Raises
        ------
        ValueError
            If there is a `name`, and not one new folder or file; or one that has another prefix.
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
