"""Small corpora, and the shortest way to publish one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stratagraph.errors import Damaged
from stratagraph.store import patches
from stratagraph.store.arrays import open_arrays, write_arrays
from stratagraph.store.files import Directory
from stratagraph.store.folder import IndexFolder
from stratagraph.store.manifest import Manifest
from stratagraph.store.records import NODES, Records, packed
from stratagraph.store.snapshot import Snapshot
from stratagraph.store.staging import Staging
from stratagraph.types.built import Holds
from stratagraph.types.records import Chunk, DocumentState, Node, digest_blocks

DIMENSION = 4
METHOD = "lshtree"


def manifest(**changes: object) -> Manifest:
    values = {
        "parts": {METHOD: {"bits": 8}},
        "methods": (METHOD,),
        "embedder": "test",
        "dimension": DIMENSION,
        "tokenizer": "words",
    }
    return Manifest(**{**values, **changes})


def chunks(document: str, texts: Iterable[str]) -> Iterable[Chunk]:
    for ordinal, text in enumerate(texts):
        yield Chunk(text, document, ordinal, ref=f"{document}/{ordinal}")


def vector(text: str) -> np.ndarray:
    seed = int.from_bytes(text.encode()[-8:], "little") % 2**32
    values = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return (values / np.linalg.norm(values)).astype(np.float16).astype(np.float32)


def fill(staging: Staging, documents: Mapping[str, list[str]], removed: Collection[str] = ()) -> None:
    """Everything but the publishing: documents, vectors, and a node per chunk and one over all."""
    for name, texts in documents.items():
        staging.add(
            name, DocumentState(digest_blocks(texts), f"{name}.txt", "r"), {"name": name}, chunks(name, texts)
        )
    staging.assemble(removed=removed)
    known, _ = staging.known_rows()
    vectors = staging.create_vectors(DIMENSION)
    for row in sorted(set(range(staging.size)) - set(known.tolist())):
        vectors[row] = vector(staging.texts([row])[0])
    nodes = [
        Node(f"n-{identity}", "summary", 0, f"about {text}", (row,), {"row": row})
        for row, (identity, text) in enumerate(
            zip(staging.ids(range(staging.size)), staging.texts(range(staging.size)), strict=True)
        )
    ]
    nodes.append(Node("root", "summary", 1, "all", tuple(range(staging.size))))
    arrays = Holds.CONTENT.of({"level.0.codes": np.arange(len(nodes), dtype=np.uint64)})
    arrays |= Holds.MEASURES.of({"scale": np.array(2.5)})
    staging.put_part(METHOD, nodes, arrays)


def publish(
    folder: IndexFolder,
    documents: Mapping[str, list[str]],
    removed: Collection[str] = (),
    operation: str = "insert",
) -> int:
    with folder.writer(operation) as staging:
        fill(staging, documents, removed)
        return staging.publish(manifest())


def contents(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything a snapshot holds, in comparable form."""
    rows = range(snapshot.size)
    stored = snapshot.part(METHOD)
    return (
        dict(snapshot.document_states()),
        snapshot.document_metadata(),
        snapshot.chunks(rows),
        snapshot.chunk_documents().tolist(),
        np.asarray(snapshot.vectors).tolist(),
        stored.nodes(range(stored.size)),
        {name: np.asarray(array).tolist() for name, array in stored.arrays.items() if name != NODES.slots},
    )


def traces_of(folder: Path, secret: str) -> list[str]:
    """Names of the files that hold a text, also inside of compressed blocks."""
    found = files_holding(folder, secret)
    return found + [str(path) for path, raw in _records(folder) if secret.encode() in raw]


def everything_in(folder: Path) -> bytes:
    """The bytes of all files, and those that are in compressed blocks."""
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return b"\0".join([*files, *(raw for _, raw in _records(folder))])


def keys_in(folder: Path, wanted: set[int]) -> set[int]:
    """The keys that are in the bytes of a folder, at any offset and in either order of bytes."""
    data, keys = everything_in(folder), np.array(sorted(wanted), np.uint64)
    found: set[int] = set()
    for offset in range(8):
        count = (len(data) - offset) // 8
        for order in "<>":
            words = np.frombuffer(data, f"{order}u8", count, offset)
            found.update(keys[np.isin(keys, words)].tolist())
    return found


@contextmanager
def patching(always: bool) -> Iterator[None]:
    """Small arrays are patched too, or none are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patches, "LEAST", 0 if always else 1 << 60)
        patched.setattr(patches, "SHARE", 0)
        patched.setattr(patches, "SMALL", -1)
        yield


def _records(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in [*folder.rglob("nodes/*/*.arrays"), *folder.rglob("corpus/*/*.arrays")]:
        with Directory.open(path.parent) as directory:
            descriptor = directory.descriptor(path.name)
            try:
                segment = open_arrays(directory, path.name, descriptor)
            except Damaged:  # cut short by a kill
                continue
            finally:
                os.close(descriptor)
        yield path, b"\0".join(_raw(segment))


def _raw(segment: Mapping[str, np.ndarray]) -> list[bytes]:
    """All records of a segment of any kind."""
    slots = np.arange(len(segment["lengths"]))
    return Records(NODES, "a segment", {"1-0.arrays": segment}, slots).raw(slots)


def rewrite_arrays(
    path: Path, change: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
) -> None:
    """Put other arrays into a file in the place of some of those that are there."""
    with Directory.open(path.parent) as directory:
        descriptor = directory.descriptor(path.name)
        arrays = {
            name: np.array(each) for name, each in open_arrays(directory, path.name, descriptor).items()
        }
        os.close(descriptor)
        path.unlink()
        write_arrays(directory, path.name, {**arrays, **change(arrays)})


def rewrite_records(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Put other records into a segment, in the places of those that are there."""
    rewrite_arrays(path, lambda segment: packed(change(_raw(segment)), NODES.block))


def files_holding(folder: Path, secret: str) -> list[str]:
    """Names of the files whose bytes hold a text."""
    wanted = secret.encode()
    return [str(path) for path in folder.rglob("*") if path.is_file() and wanted in path.read_bytes()]
