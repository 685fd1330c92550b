"""The next generation while it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import MethodMissing
from stratagraph.store import nodes as node_files
from stratagraph.store.arrays import Layers, WritableArray, check_name, open_arrays, write_arrays
from stratagraph.store.assembly import ArrayWriter, Assembled, Scratch, assemble
from stratagraph.store.checksums import FileEntry
from stratagraph.store.contents import (
    CHUNK_ARRAYS,
    CHUNK_DOCUMENTS,
    SLOTS,
    VECTOR_SLOTS,
    VECTORS,
    opened,
    slots_file,
)
from stratagraph.store.corpus import CHUNK_SLOTS, CHUNKS_FOLDER, DOCUMENT_SLOTS, DOCUMENTS_FOLDER, Corpus
from stratagraph.store.external import ExternalPool
from stratagraph.store.external_writer import ExternalWriter
from stratagraph.store.files import Directory
from stratagraph.store.journal import Journal
from stratagraph.store.layout import MANIFEST, SCRATCH, SCRATCH_VECTORS, Layout
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import (
    INDICES,
    INDPTR,
    StoredPart,
    compressed_sources,
    first_sources,
    write_nodes,
)
from stratagraph.store.pool import FOLDER as VECTOR_FOLDER
from stratagraph.store.pool import PoolWriter
from stratagraph.store.records import (
    CHUNKS,
    DOCUMENTS,
    NODES,
    Kind,
    NewRecords,
    NodeRecord,
    Records,
    T,
    Written,
    write_records,
)
from stratagraph.store.rows import PASSAGES, Fields
from stratagraph.store.segments import OUT_OF_USE
from stratagraph.types.built import Carried, CarriedVectors
from stratagraph.types.protocols import Rows, Vectors, VectorTable
from stratagraph.types.records import Chunk, Metadata, Node

if TYPE_CHECKING:
    from stratagraph.store.snapshot import Snapshot

_HELD = 1 << 27  # bytes of opened blocks of nodes that are kept while a generation is made
_CORPUS = ""  # stands for a part, where vectors are those of the chunks


class Staging(Corpus):
    """What `IndexFolder.writer` returns: `add` documents, `assemble`, put vectors and parts, `publish`.

    After `assemble` it reads like a snapshot, with the new row numbers. Readers see nothing of it before
    `publish`, and without `publish` all of it is removed.

    Attributes
    ----------
    base
        The previous generation, which this one continues; None for the first, and for one made anew.
    replaced
        The previous generation of one that is made anew.
    published
        Whether `publish` was called.
    """

    def __init__(
        self,
        layout: Layout,
        number: int,
        base: Snapshot | None,
        journal: Journal,
        finish: Callable[[], None],
        compact: bool = False,
        table: VectorTable | None = None,
        restore: bool = False,
        replaced: Snapshot | None = None,
    ) -> None:
        self.base = base
        self.replaced = replaced
        self.published = False
        self._layout = layout
        self._number = number
        self._journal = journal
        self._finish = finish
        self._scratch: Scratch | None = None
        self._assembled: Assembled | None = None
        self._made: Directory | None = None
        earlier = base or replaced
        external = earlier.pool if earlier is not None and isinstance(earlier.pool, ExternalPool) else None
        self._compact = compact or (base is not None and (external is None) != (table is None))
        self._external = (
            None
            if table is None
            else ExternalWriter(table, external, restore=restore or replaced is not None)
        )
        self._restore = restore
        self._vectors: Vectors | None = None
        self._pool: PoolWriter | None = None
        self._parts: dict[str, StoredPart] = {}
        self._files: dict[str, FileEntry] = {}

    # Documents

    def add(self, document_id: str, digest: str, metadata: Metadata, chunks: Iterable[Chunk]) -> None:
        """Add a document, replacing one of the same id.

        Chunks are streamed to the disk, and get their ids here. A chunk's metadata may repeat its document's.

        Raises
        ------
        ValueError
            If the document was already added, a chunk is of another document, or metadata has no JSON form.
            Nothing of the document is kept then.
        RuntimeError
            After `assemble`.
        """
        if self._assembled is not None:
            raise RuntimeError("documents must be added before assemble()")
        self._open_scratch().add(document_id, digest, metadata, chunks)

    def _open_scratch(self) -> Scratch:
        if self._scratch is None:
            self._made = self._layout.make_partial(self._number)
            self._scratch = Scratch(self._made.path / SCRATCH)
        return self._scratch

    def assemble(self, *, removed: Collection[str]) -> None:
        """Make the corpus: the previous documents without `removed`, and the added ones.

        Raises
        ------
        KeyError
            If a document to remove does not exist.
        """
        if self._assembled is not None:
            raise RuntimeError("assemble() was already called")
        before = {} if self.base is None else self.base.digests()
        for identity in removed:
            if identity not in before:
                raise KeyError(f"no document {identity!r} in generation {self._number - 1}")
        scratch = self._open_scratch()
        if self.base is not None and isinstance(self.base.pool, ExternalPool) and not self._restore:
            self.base.pool.download(self._directory.path)
        self._assembled = assembled = assemble(scratch, self.base, removed)
        chunks = None if self.base is None else self.base.chunk_records
        documents = None if self.base is None else self.base.document_records
        super().__init__(
            self._directory.path,
            self._stored_texts(CHUNKS, CHUNKS_FOLDER, chunks, assembled.chunk_slots, assembled.new_chunks),
            self._stored_texts(
                DOCUMENTS, DOCUMENTS_FOLDER, documents, assembled.document_slots, assembled.new_documents
            ),
            assembled.chunk_documents,
        )
        scratch.close()
        self._directory.unlink(SCRATCH)

    def _stored_texts(
        self, kind: Kind[T], folder: str, base: Records[T] | None, slots: Rows, new: NewRecords
    ) -> Records[T]:
        def write(directory: Directory) -> Written:
            return write_records(directory, self._number, kind, base, slots, new, compact=self._compact)

        return self._stored(kind, str(self._directory.path / folder), folder, write)

    def _stored(
        self, kind: Kind[T], name: str, folder: str, write: Callable[[Directory], Written], **held: int
    ) -> Records[T]:
        """Write records to a folder, share those segments that are kept, and open all."""
        with self._directory.make_all(folder) as directory:
            written = write(directory)
            self._link(folder, directory, written.kept)
            directory.sync()
        self._files |= {f"{folder}/{file}": entry for file, entry in written.files.items()}
        segments = {}
        for file in (*written.kept, *written.files):
            path = f"{folder}/{file}"
            if file in written.kept and self.base is not None and path in self.base.opened:
                segments[file] = self.base.opened[path].arrays
            else:
                with opened(self._directory, path) as descriptor:
                    segments[file] = open_arrays(self._directory, path, descriptor)
        return Records(kind, name, segments, written.slots, **held)

    def _link(self, folder: str, directory: Directory, files: Sequence[str]) -> None:
        """Share files of the previous generation."""
        if files and self.base is not None:
            before = self.base.manifest
            self._layout.link(before.generation, folder, directory, files)
            self._files |= {f"{folder}/{file}": before.files[f"{folder}/{file}"] for file in files}

    @property
    def _loses(self) -> bool:
        """Whether a chunk of the previous generation is gone."""
        return self.base is not None and len(self._made_of.rows_before) < self.base.size

    @property
    def _sharing(self) -> dict[str, Any]:
        """How segments are shared with the previous generation (`segments.planned`)."""
        erased = self._loses or self._external is not None  # a vector store holds what is in use alone
        return {"out_of_use": 0.0 if erased else OUT_OF_USE, "compact": self._compact}

    @property
    def _directory(self) -> Directory:
        if self._made is None:
            raise RuntimeError("call assemble() first")
        return self._made

    @property
    def _made_of(self) -> Assembled:
        if self._assembled is None:
            raise RuntimeError("call assemble() first")
        return self._assembled

    def known_rows(self) -> tuple[Rows, Rows]:
        """Chunks that the previous generation has too: their rows now (ascending), and their rows there."""
        return self._made_of.rows_now, self._made_of.rows_before

    def arrived_rows(self) -> Rows:
        """Chunks of added documents, ascending; the previous generation may have some of them."""
        return self._made_of.arrived

    # Vectors

    def create_vectors(self, dimension: int, *, copy_known: bool = True) -> Vectors:
        """Vectors of shape (size, dimension), to be filled in; stored as float16.

        Rows of `known_rows` are the previous vectors and read-only, unless `copy_known` is off (after a
        change of the embedder). All others are zero, in a memory-mapped file whose space is reserved: a full
        disk fails here, not at a later assignment.

        Raises
        ------
        ValueError
            If the previous vectors have another dimension.
        """
        if self._vectors is not None:
            raise ValueError("this generation has its vectors already")
        copied = self.base.vectors if self.base is not None and copy_known else None
        now, before = self.known_rows()
        if copied is not None and len(now) and copied.shape[1] != dimension:
            raise ValueError(f"the previous vectors have {copied.shape[1]} dimensions, not {dimension}")
        carried = copied is not None and len(now) > 0
        shape = (self.size - len(now) if carried else self.size, dimension)
        own = WritableArray(self._directory, SCRATCH_VECTORS, VECTORS, shape, np.float32).array
        if carried:
            origin = np.full(self.size, -1, np.int64)
            origin[now] = before
            own = cast(Vectors, CarriedVectors(copied, origin, own))
        self._vectors = own
        return own

    @property
    def vectors(self) -> Vectors:
        """The vectors of this generation, after `create_vectors`."""
        if self._vectors is None:
            raise RuntimeError("call create_vectors() first")
        return self._vectors

    # Parts

    def put_part(
        self,
        name: str,
        nodes: Sequence[Node] | Carried,
        arrays: Mapping[str, NDArray[Any]],
        origins: Mapping[str, Rows] | None = None,
        *,
        measures: Collection[str] = (),
        read_once: bool = False,
    ) -> None:
        """Store a part: the extraction, the graph, or a method's index.

        Parameters
        ----------
        nodes
            Their `sources` are rows of this generation.
        arrays
            Those whose names end in "vectors" are stored as float16, each vector once in a generation.
        origins
            The chunk of each vector of an array, if its rows are not those of the first nodes.
        measures
            Names of arrays without content that a deletion must erase; see `types.built.Built`.
        read_once
            Keep nothing open, since the next stage reads the part from end to end and nobody after it.

        Raises
        ------
        ValueError
            If the part is there already, two nodes share an id, sources are not ascending rows of this
            corpus, an array's name is unsafe or reserved, or something cannot be stored.
        """
        check_name(name, "part name")
        if name in self._parts:
            raise ValueError(f"this generation has its {name!r} already")
        if self._assembled is None:
            raise RuntimeError("call assemble() first")
        if reserved := {INDPTR, INDICES, node_files.SLOTS} & set(arrays):
            raise ValueError(f"array name {min(reserved)!r} is reserved for the nodes")
        indptr, indices = compressed_sources(nodes, self.size)
        for array in arrays:
            check_name(array, "array name")
        first = first_sources(indptr, indices)
        vectors = {key: array for key, array in arrays.items() if _are_vectors(key, array)}
        others = {key: array for key, array in arrays.items() if key not in vectors}
        records = self._put_nodes(name, nodes, first, read_once)
        others |= {INDPTR: indptr, INDICES: indices, node_files.SLOTS: records.slots}
        shared = None if self._compact else self.base
        writer = ArrayWriter(
            self._directory, self._number, shared, loses=self._loses, link=self._link, files=self._files
        )
        stored = writer.put(name, others, {*measures, node_files.SLOTS})
        placed = {}
        for key, rows in vectors.items():
            order = _order(len(rows), (origins or {}).get(key, first))
            placed[key] = self._vectors_of(rows.shape[1]).put(name, key, rows, order)
        self._parts[name] = StoredPart(name, records, Layers(placed, stored, hidden=[node_files.SLOTS]))

    def _put_nodes(
        self, name: str, nodes: Sequence[Node] | Carried, order: Rows, read_once: bool
    ) -> Records[NodeRecord]:
        base, known = None, None
        given: Sequence[Node]
        if self.base is not None and name in self.base.manifest.parts:
            base = self.base.part(name).records
        if isinstance(nodes, Carried):
            given, known = nodes.fresh, np.full(len(nodes.before), -1, np.int64)
            if base is not None:
                known[nodes.before >= 0] = base.slots[nodes.before[nodes.before >= 0]]
        else:
            given = nodes

        def write(directory: Directory) -> Written:
            return write_nodes(directory, self._number, name, given, order, base, kept=known, **self._sharing)

        held = {} if read_once else {"held": _HELD}
        return self._stored(NODES, node_files.label(name), f"{node_files.FOLDER}/{name}", write, **held)

    def _vectors_of(self, dimension: int) -> PoolWriter:
        if self._pool is None:
            base = None if self.base is None or self._restore else self.base.pool
            self._pool = PoolWriter(base, dimension)
        return self._pool

    def part(self, name: str) -> StoredPart:
        """A part that was put."""
        if name not in self._parts:
            raise MethodMissing(f"no {name!r} was put in this generation yet")
        return self._parts[name]

    # The end

    def publish(self, manifest: Manifest) -> int:
        """Make this the current generation, and return its number.

        Counts, number and checksums of the manifest are filled in. Readers see the new generation at once, or
        the previous one if the process dies before. Then calls of deleted chunks are purged, and older
        generations removed; if the process dies first, the next writer does that.

        Raises
        ------
        ValueError
            If the manifest names other parts or another dimension.
        OSError
            On a full disk; the previous generation stays.
        """
        if self.published:
            raise RuntimeError("publish() was already called")
        sealed = self._seal(manifest)
        if removed := self._gone():  # even without a cache: an answer under way may make one before the purge
            self._journal.plan_purge(self._number, removed)
        if self._external is not None:
            self._external.write(self._journal)
        self._directory.write(MANIFEST, sealed.to_json().encode("utf-8"))
        self._directory.sync_all()
        self._layout.adopt(self._number)
        self.published = True
        self._finish()
        return self._number

    def _seal(self, manifest: Manifest) -> Manifest:
        dimension = self.vectors.shape[1]
        if manifest.dimension != dimension:
            raise ValueError(f"the manifest says dimension {manifest.dimension}, the vectors {dimension}")
        if set(manifest.parts) != set(self._parts):
            raise ValueError(f"the manifest names {list(manifest.parts)}, there are {list(self._parts)}")
        if unknown := [name for name in manifest.methods if name not in manifest.parts]:
            raise ValueError(f"the manifest names the method {unknown[0]!r}, which is none of its parts")
        counted = replace(
            manifest,
            generation=self._number,
            documents=self.document_count,
            chunks=self.size,
            nodes={name: self._parts[name].size for name in manifest.parts},
        )
        self._write_vectors()
        vectors = {} if self._external is None else self._external.description
        return replace(counted, vectors=vectors, files=dict(sorted(self._files.items())))

    def _write_vectors(self) -> None:
        pool = self._vectors_of(self.vectors.shape[1])
        pool.put(_CORPUS, VECTOR_SLOTS, self.vectors, np.arange(self.size))
        plan = pool.plan(**self._sharing)
        with self._directory.make(VECTOR_FOLDER) as directory:
            elsewhere = self._external is not None
            files = pool.write(directory, self._number, plan, hashes_alone=elsewhere)
            if plan.kept and self.base is not None:
                kept = [self.base.pool.files[number] for number in plan.kept]
                self._link(VECTOR_FOLDER, directory, kept)
        self._files |= {f"{VECTOR_FOLDER}/{file}": entry for file, entry in files.items()}
        slots = pool.slots(plan)
        if self._external is not None:
            fields = self._fields(len(pool.hashes(plan)), slots)
            self._external.plan(pool, plan, fields, self._number)
        corpus = {
            CHUNK_DOCUMENTS: self.chunk_documents(),
            CHUNK_SLOTS: self.chunk_records.slots,
            DOCUMENT_SLOTS: self.document_records.slots,
            **slots.pop(_CORPUS),
        }
        self._files[CHUNK_ARRAYS] = write_arrays(self._directory, CHUNK_ARRAYS, corpus)
        with self._directory.make(SLOTS) as directory:
            for part, arrays in slots.items():
                file = slots_file(part)
                self._files[file] = write_arrays(directory, file.removeprefix(f"{SLOTS}/"), arrays)
            directory.sync()
        self._vectors = None
        self._directory.unlink(SCRATCH_VECTORS)

    def _fields(self, count: int, slots: Mapping[str, Mapping[str, NDArray[np.integer]]]) -> Fields:
        arrays = {PASSAGES: slots[_CORPUS][VECTOR_SLOTS]}
        for part, own in slots.items():
            arrays |= {f"{part}.{name}": each for name, each in own.items() if part != _CORPUS}
        documents = self.document_ids(range(self.document_count))
        return Fields.of(count, arrays, self.chunk_documents(), documents)

    def _gone(self) -> list[str]:
        """Chunks of the previous generation that this one has not."""
        if self.replaced is not None:
            before = self.replaced.ids(range(self.replaced.size))
            rows = self.row_of(before)
            return [identity for identity in before if identity not in rows]
        if self.base is None:
            return []
        is_removed = np.ones(self.base.size, dtype=np.bool_)
        is_removed[self._made_of.rows_before] = False
        return self.base.ids(np.flatnonzero(is_removed).tolist())

    def discard(self) -> None:
        """Remove what was staged, unless it is published."""
        if self._scratch is not None:
            self._scratch.close()
        self.close()
        self._vectors = None
        if self.base is not None and isinstance(self.base.pool, ExternalPool):
            self.base.pool.release()
        if self._made is not None:
            self._made.close()
            if not self.published:
                self._layout.remove_partial(self._number)


def _are_vectors(name: str, array: NDArray[Any]) -> bool:
    return name.endswith(VECTORS) and array.ndim == 2 and array.dtype in (np.float32, np.float16)


def _order(count: int, first: Rows) -> Rows:
    """Sort keys of new vectors: the first chunk of their nodes; vectors beyond the nodes sort last."""
    places = np.full(count, np.iinfo(np.int64).max, np.int64)
    places[: len(first)] = first[:count]
    return places
