"""The manifest of a generation: the format, how the index was built, and a checksum of every file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from stratagraph.errors import Damaged, FormatMismatch
from stratagraph.store.arrays import check_name
from stratagraph.store.checksums import FileEntry
from stratagraph.store.files import Directory
from stratagraph.store.layout import MANIFEST

FORMAT = 6
"""The format of index folders and of lists of shards. No other is read."""
FORMAT_KEY = "stratagraph"
"""The key of the format in the JSON of a manifest and of a list of shards."""
LONGEST = 1 << 26
"""Largest manifest that is read, in bytes."""
_IDENTITY = re.compile(r"[0-9a-f]{16}")
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_MOST = 1 << 48  # more than anything can be counted


def _version() -> str:
    try:
        return version("stratagraph")
    except PackageNotFoundError:  # imported from a source tree that was never installed
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of one generation, written last and read first.

    `parts` are the settings of each part (the extraction, the graph, the methods), and `methods` the names of
    those that are methods, the default one first. `embedder` is the fingerprint of the embedder, `dimension`
    that of its vectors, `tokenizer` that of the chunks; `config` configures the corpus: chunking, extraction,
    models; `prompts` are fingerprints of the prompts. `complete` says for each part whether a model made
    everything that a model can make of it. `roots` are path and prefix of each folder that files were read
    from, by its key in the documents' records. `spent` are calls and tokens of each chat model, in all
    operations that led to this generation. `version` is that of the package that wrote it.

    Filled in on publishing: number of the `generation`, counts (`nodes`: per part), every file of the
    generation (`files`), and for vectors in a vector store (`vectors`) the `identity` of the rows and the
    name of the `store`.
    """

    parts: Mapping[str, Mapping[str, Any]]
    methods: Sequence[str]
    embedder: str
    dimension: int
    tokenizer: str
    config: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    complete: Mapping[str, bool] = field(default_factory=dict)
    roots: Mapping[str, Sequence[str]] = field(default_factory=dict)
    spent: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    version: str = field(default_factory=_version)
    generation: int = 0
    documents: int = 0
    chunks: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    vectors: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileEntry] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of `manifest.json`; `checksum` covers everything else in it."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "files"}
        content = json.loads(json.dumps({FORMAT_KEY: FORMAT, **fields}, default=dict))  # as it is read back
        content["files"] = {name: entry.fields() for name, entry in self.files.items()}
        content["checksum"] = _checksum(content)
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
        if content["files"]:
            files = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content["files"].items())
            lines[list(content).index("files")] = ' "files": {\n' + ",\n".join(files) + "\n }"
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def of(cls, raw: bytes, path: str | Path, number: int) -> Manifest:
        """The manifest in the bytes of a file, which must be that of generation `number`.

        `FormatMismatch` if it is of another format; `Damaged` if it is not that manifest, was altered, or
        names a file outside of its generation.
        """
        content = json_object(raw, path, str(path).replace("\\", "/").rsplit("/", 3)[0])
        try:
            if content.pop("checksum", None) != _checksum(content):
                raise ValueError("the content does not agree with its checksum")
            for name in content["files"]:
                if not _PATH.fullmatch(name):
                    raise ValueError(f"the path {name!r} leaves the index folder, or is none of an index")
            files = {name: FileEntry(**entry) for name, entry in content["files"].items()}
            fields = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
            manifest = cls(**{**fields, "methods": tuple(content["methods"]), "files": files})
            manifest._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Damaged(f"{path}: {error}") from error
        if manifest.generation != number:
            raise Damaged(f"{path}: describes generation {manifest.generation}, but stands in {number}")
        return manifest

    def _check(self) -> None:
        """Refuse values that we never write."""
        mappings = dict.fromkeys(
            ("parts", "config", "prompts", "complete", "nodes", "roots", "spent", "vectors"), dict
        )
        for name, kind in {**mappings, **dict.fromkeys(("embedder", "tokenizer", "version"), str)}.items():
            if not isinstance(value := getattr(self, name), kind):
                raise ValueError(f"{name} must be of type {kind.__name__}, not {value!r}")
        if self.vectors and not _IDENTITY.fullmatch(str(self.vectors.get("identity"))):
            raise ValueError(f"the rows of its vectors cannot be those of {self.vectors!r}")
        counts = {name: getattr(self, name) for name in ("generation", "dimension", "documents", "chunks")}
        for name, count in [*counts.items(), *self.nodes.items()]:
            most = _MOST // 2 if name == "generation" else _MOST  # others will follow that generation
            if type(count) is not int or not 0 <= count < most:
                raise ValueError(f"the count of {name!r} cannot be {count!r}")
        for key, root in self.roots.items():
            if not (len(root) == 2 and all(isinstance(each, str) for each in root)):
                raise ValueError(f"the root {key!r} cannot be {root!r}")
        for model, counted in self.spent.items():
            strange = counted.keys() - {"calls", "input_tokens", "output_tokens"}
            if strange or not all(type(count) is int and 0 <= count < _MOST for count in counted.values()):
                raise ValueError(f"what {model!r} was asked cannot be {counted!r}")
        if self.nodes.keys() != self.parts.keys():
            raise ValueError(
                f"counts the nodes of {sorted(self.nodes)}, but the parts are {sorted(self.parts)}"
            )
        for name in self.parts:
            check_name(name, "part")
        if unknown := [name for name in self.methods if name not in self.parts]:
            raise ValueError(f"names a method {unknown[0]!r} that is none of the parts")

    @classmethod
    def read(cls, directory: Directory, number: int) -> Manifest:
        """The manifest of a generation, which must have this number."""
        return cls.of(directory.read(MANIFEST, most=LONGEST), directory.path / MANIFEST, number)


def json_object(
    raw: bytes, path: str | Path, folder: str, command: str = "build", function: str = "build_index"
) -> dict[str, Any]:
    """The JSON object in a file of our format; else `Damaged`, or `FormatMismatch` for other formats.

    `folder` is the index that the file belongs to, and `command` and `function` build it, for the message.
    """
    try:
        content = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path}: not JSON ({type(error).__name__}: {error})") from error
    if not isinstance(content, dict):
        raise Damaged(f"{path}: not a JSON object")
    number = content.get(FORMAT_KEY)
    if type(number) is not int or number != FORMAT:
        actual = f"no key {FORMAT_KEY!r}" if number is None else f"format {str(number)[:40]}, not {FORMAT}"
        raise FormatMismatch(
            f"{path}: made by an unreleased version of stratagraph ({actual}); build it again. Remove the "
            f"folder, then run `stratagraph {command} DOCUMENTS -o {folder}`, or in Python "
            f"{function}(documents, path={folder!r})"
        )
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))  # ASCII, whatever it holds
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
