"""Published generations, opened for reading: of one index, and of all shards as one."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import MethodMissing, ShardMismatch, VectorStoreError
from stratagraph.kernels.ranges import Parts
from stratagraph.store.arrays import SUFFIX, Arrays, OpenFile
from stratagraph.store.checksums import Check
from stratagraph.store.contents import CHUNK_ARRAYS, SLOTS, VECTOR_SLOTS, open_contents
from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.external import ExternalPool
from stratagraph.store.files import Directory
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import StoredPart
from stratagraph.store.rows import PASSAGES, Fields, TableRows
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows, VectorTable
from stratagraph.types.records import Chunk, DocumentState, Metadata


def rows_of(
    path: Path, manifest: Manifest, table: VectorTable | None, moving: bool = False
) -> TableRows | None:
    """The rows of a generation in a vector store; None if the folder holds its vectors.

    `VectorStoreError` if the vectors are in a store and none is given, or the other way round, unless they
    are `moving` there.
    """
    if not manifest.vectors:
        if table is not None and not moving:
            raise VectorStoreError(
                f"index '{path}' holds its vectors in its folder, not in {table.name}: open it without "
                "vectors=, or move them by build_index with the same documents, settings, path and vectors="
            )
        return None
    if table is None:
        raise VectorStoreError(
            f"index '{path}' keeps its vectors in a vector store ({manifest.vectors.get('store')}): open it "
            "with vectors= and that store"
        )
    return TableRows(table, manifest.vectors["identity"], manifest.dimension)


class Snapshot(RecordedCorpus):
    """One published generation. It never changes, and stays readable after later ones replace it.

    All files are checked and mapped at once, so that they may be removed later. No text is read. `vectors`
    are the unit vectors of the chunks, shape (size, dimension), zero where there is none; `pool` has all
    vectors. `groups` are the arrays of parts before patches, by part and folder. `opened` are the open files
    by path; a later snapshot reuses those that it shares.

    `FileNotFoundError` if a file is missing (`IndexFolder.snapshot` tells damage from a race with a writer),
    `Damaged` or `FormatMismatch` if one is not as it was written.
    """

    def __init__(
        self,
        path: Path,
        directory: Directory,
        number: int,
        check: Check,
        table: VectorTable | None = None,
        *,
        moving: bool = False,
        before: Snapshot | None = None,
    ) -> None:
        self.path = path
        self.manifest = Manifest.read(directory, number)
        rows = rows_of(path, self.manifest, table, moving)
        opened = {} if before is None else before.same_files(self.manifest)
        contents = open_contents(directory, self.manifest, check, opened)
        super().__init__(*contents.corpus_records(directory.path))
        self.opened = contents.opened
        self.groups = contents.groups
        self.pool = contents.pool(self.manifest.dimension, rows)
        slots = {PASSAGES: contents.arrays(CHUNK_ARRAYS)[VECTOR_SLOTS]}
        self.vectors = self.pool.array(slots[PASSAGES], PASSAGES)
        self._parts = {}
        for name in self.manifest.parts:
            vectors = {}
            for each, of_array in contents.arrays(f"{SLOTS}/{name}{SUFFIX}").items():
                slots[f"{name}.{each}"] = of_array
                vectors[each] = self.pool.array(of_array, f"{name}.{each}")
            arrays: Arrays = ChainMap(vectors, contents.parts[name])  # type: ignore[arg-type]  # only read
            self._parts[name] = StoredPart(name, contents.nodes(name), arrays)
        if isinstance(self.pool, ExternalPool):
            self.pool.fields = Fields.of(len(self.pool), slots, self)

    def same_files(self, manifest: Manifest) -> dict[str, OpenFile]:
        """Open files that another generation shares, by path."""
        ours = self.manifest.files
        return {file: each for file, each in self.opened.items() if manifest.files.get(file) == ours[file]}

    def part(self, name: str) -> StoredPart:
        """A part by name: the extraction, the graph, or a method's index; else `MethodMissing`."""
        try:
            return self._parts[name]
        except KeyError:
            parts = ", ".join(self._parts) or "none"
            raise MethodMissing(f"index '{self.path}' holds no {name!r}; it holds: {parts}") from None


class JoinedPart:
    """The nodes of a part in several generations."""

    def __init__(self, name: str, snapshots: Sequence[Snapshot]) -> None:
        self._parts = [snapshot.part(name) for snapshot in snapshots]
        self.rows_of = Parts([part.size for part in self._parts])

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.rows_of.size

    def levels(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        """Kind and level of the nodes at these rows."""
        return self.rows_of.read(rows, lambda part, own: self._parts[part].levels(own))


class JoinedVectors:
    """The vectors of several corpora, read on demand."""

    def __init__(self, snapshots: Sequence[Snapshot], rows_of: Parts) -> None:
        self._snapshots = snapshots
        self._rows_of = rows_of
        self.shape = rows_of.size, snapshots[0].manifest.dimension

    def __getitem__(self, rows: Rows) -> NDArray[np.float32]:
        vectors = np.zeros((len(rows), self.shape[1]), np.float32)
        for part, places, own in self._rows_of.split(rows):
            vectors[places] = self._snapshots[part].vectors[own]
        return vectors


class JoinedSnapshot:
    """Generations of several folders (`parts`), read as one.

    `numbers` and `names` are the place of each among the shards, and its name in messages; `missing` are the
    names of missing shards; `rows_of` has the first chunk row of each.
    """

    def __init__(
        self,
        path: Path,
        numbers: Sequence[int],
        names: Sequence[str],
        parts: Sequence[Snapshot],
        missing: Sequence[str] = (),
        *,
        methods: Sequence[str],
    ) -> None:
        self.path = path
        self.numbers = tuple(numbers)
        self.names = tuple(names)
        self.parts = tuple(parts)
        self.missing = tuple(missing)
        self.manifest = replace(_manifest([part.manifest for part in parts]), methods=tuple(methods))
        self.rows_of = Parts([part.size for part in parts])
        self._documents_of = Parts([part.document_count for part in parts])
        self._joined: dict[str, JoinedPart] = {}

    @property
    def size(self) -> int:
        """Number of chunks."""
        return self.rows_of.size

    @property
    def document_count(self) -> int:
        """Number of documents."""
        return self._documents_of.size

    @cached_property
    def vectors(self) -> Any:
        """Unit vectors of the chunks, gathered by rows."""
        return JoinedVectors(self.parts, self.rows_of)

    @cached_property
    def _chunk_documents(self) -> NDArray[np.int32]:
        numbered = zip(self.parts, self._documents_of.starts[:-1].tolist(), strict=True)
        return np.concatenate([part.chunk_documents() + np.int32(start) for part, start in numbered])

    def chunk_documents(self) -> NDArray[np.int32]:
        """The number of each chunk's document, held in memory."""
        return self._chunk_documents

    def part(self, name: str) -> JoinedPart:
        """The nodes of a part."""
        if name not in self._joined:
            self._joined[name] = JoinedPart(name, self.parts)
        return self._joined[name]

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids."""
        return self.rows_of.read(rows, lambda part, own: self.parts[part].ids(own))

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts."""
        return self.rows_of.read(rows, lambda part, own: self.parts[part].texts(own))

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks, with the document's metadata merged under their own."""
        return self.rows_of.read(rows, lambda part, own: self.parts[part].chunks(own))

    def row_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by chunk id; ids that are not there are left out."""
        rows: dict[str, int] = {}
        for part, start in zip(self.parts, self.rows_of.starts.tolist(), strict=False):
            left = [each for each in ids if each not in rows]
            rows.update((name, start + row) for name, row in part.row_of(left).items())
        return rows

    def refs(self, refs: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the caller's own ids of passages; those not there are left out."""
        rows_of: dict[str, list[int]] = {}
        for part, start in zip(self.parts, self.rows_of.starts.tolist(), strict=False):
            for name, rows in part.refs(refs).items():
                rows_of.setdefault(name, []).extend(start + row for row in rows)
        return rows_of

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their numbers, as `chunk_documents` has them."""
        return self._documents_of.read(numbers, lambda part, own: self.parts[part].document_ids(own))

    def document_states(self) -> dict[str, DocumentState]:
        """The state of each document by its id."""
        return {key: state for part in self.parts for key, state in part.document_states().items()}

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None."""
        metadata: dict[str, Metadata] = {}
        for part in self.parts:
            metadata |= part.document_metadata(ids)
        return metadata

    def chunk_metadata(self) -> list[Metadata]:
        """Each chunk's metadata, in row order."""
        return [each for part in self.parts for each in part.chunk_metadata()]


def _manifest(manifests: Sequence[Manifest]) -> Manifest:
    spent: dict[str, Counter[str]] = {}
    nodes: Counter[str] = Counter()
    for each in manifests:
        nodes.update(each.nodes)
        for model, counted in each.spent.items():
            spent.setdefault(model, Counter()).update(counted)
    return replace(
        manifests[0],
        generation=sum(each.generation for each in manifests),
        documents=sum(each.documents for each in manifests),
        chunks=sum(each.chunks for each in manifests),
        nodes=dict(nodes),
        roots={key: root for each in manifests for key, root in each.roots.items()},
        spent={model: dict(counted) for model, counted in spent.items()},
        files={},
    )


_SAME = ("methods", "embedder", "dimension", "tokenizer", "config")
"""What of a manifest all shards must share."""


def require_alike(names: Sequence[str], parts: Sequence[Snapshot], *, adding: bool) -> tuple[str, ...]:
    """The methods of all shards; `ShardMismatch` if the shards differ.

    While a method is being added (`adding`), shards may differ in methods, and those that all have count.
    """
    manifests = [part.manifest for part in parts]
    methods, compared = tuple(manifests[0].methods), manifests
    if adding:
        own = [each.config.get("methods", {}) for each in manifests]
        in_all = [name for name in methods if all(name in each.methods for each in manifests)]
        methods = tuple(name for name in in_all if all(each.get(name) == own[0].get(name) for each in own))
        if methods:
            common = {"methods": {name: own[0].get(name) for name in methods}}
            compared = [
                replace(each, methods=methods, config={**each.config, **common}) for each in manifests
            ]
    difference = next(differences(list(zip(names, compared, strict=True))), None)
    if difference is not None:
        advice = (
            "A new method, or new settings of one, reached only some: give it to each of the others alone, "
            "as in open_index(SHARD).add_method(...)"
            if adding
            else "Build that shard again with the settings of the others"
        )
        raise ShardMismatch(f"{difference}. {advice}")
    return methods


def differences(manifests: Sequence[tuple[str, Manifest]]) -> Iterator[str]:
    """Differences from the first shard, one line each."""
    for name, manifest in manifests[1:]:
        first, first_manifest = manifests[0]
        for what in _SAME:
            own, other = getattr(manifest, what), getattr(first_manifest, what)
            if own != other:
                where = what
                while isinstance(own, Mapping) and isinstance(other, Mapping):  # the innermost that differs
                    key = next(key for key in {**other, **own} if own.get(key) != other.get(key))
                    where, own, other = f"{where}.{key}", own.get(key), other.get(key)
                shown = [
                    f"{text[:117]}..." if len(text := repr(each)) > 120 else text for each in (own, other)
                ]
                yield f"{name} differs from {first} in {where}: {shown[0]}, not {shown[1]}"
