"""Results that outlast a run: each is kept when it ends, and found by all that it depends on.

A result is a JSON file, named by a digest of its identity: everything that decides what it is. Whoever asks
with the same identity gets it; whoever changed a part of it, such as the code or the data, gets nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import stratagraph
from stratagraph.store.files import Directory

NATIVE = "stratagraph.kernels._native"


class Kept:
    """A folder of results by identity.

    Parameters
    ----------
    folder
        Made when the first result comes. A process that is killed leaves whole results alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, identity: Mapping[str, Any]) -> Any:
        """The result of this identity; None if there is none.

        Raises
        ------
        ValueError
            If the file is damaged; the message names it.
        """
        path = self._folder / _name(identity)
        try:
            found = json.loads(path.read_text("utf-8"))
            if found["identity"] == json.loads(_written(identity)):
                return found["result"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it, and its result is made anew") from None
        return None

    def put(self, identity: Mapping[str, Any], result: Any) -> None:
        """Keep a JSON-native result, in one step."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"identity": identity, "result": result}, ensure_ascii=False, default=asdict)
        Directory.open(self._folder).write(_name(identity), content.encode("utf-8"))


def digest(value: Any) -> str:
    """Of a value of JSON's kinds, dataclasses, or tuples of them."""
    return hashlib.blake2b(_written(value).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def digest_of_files(paths: Iterable[Path]) -> str:
    """Of what files, and all files in folders, hold and are called; what is not there counts as nothing."""
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
                with file.open("rb") as content:
                    found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


@cache
def code() -> Mapping[str, Any]:
    """What computes here: the package's files, its compiled kernels, and the versions of what it requires."""
    compiled = find_spec(NATIVE)
    files = [Path(stratagraph.__file__).parent]
    files += [Path(compiled.origin)] if compiled is not None and compiled.origin else []
    return {"stratagraph": digest_of_files(files), "versions": dict(sorted(_versions()))}


def _versions() -> Iterable[tuple[str, str]]:
    try:
        required = requires("stratagraph") or []
    except PackageNotFoundError:  # a checkout on the path, not installed
        required = ["numpy", "scipy"]
    for each in required:
        name = re.match(r"[\w.-]+", each)[0]  # type: ignore[index]
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _name(identity: Mapping[str, Any]) -> str:
    return f"{digest(identity)}.json"


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=asdict)
