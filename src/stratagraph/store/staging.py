"""The next generation while it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stratagraph.store.arrays import SUFFIX, NamedArrays, as_plain, check_name, reserved_array, write_arrays
from stratagraph.store.assembly import Assembly
from stratagraph.store.contents import (
    CHUNK_ARRAYS,
    CHUNK_DOCUMENTS,
    NUMBERS,
    PARTS,
    PATCHES,
    SLOTS,
    VECTOR_SLOTS,
)
from stratagraph.store.corpus import RecordedCorpus
from stratagraph.store.external import ExternalPool, write_rows
from stratagraph.store.journal import Journal
from stratagraph.store.layout import MANIFEST, SCRATCH_VECTORS, Layout
from stratagraph.store.manifest import Manifest
from stratagraph.store.nodes import (
    HASHES,
    INDICES,
    INDPTR,
    KEYS,
    StoredPart,
    compressed_sources,
    first_sources,
    write_nodes,
)
from stratagraph.store.patches import ROW_TYPES, patch
from stratagraph.store.pool import PoolWriter
from stratagraph.store.records import (
    CHUNKS,
    DOCUMENTS,
    NODES,
    Kind,
    NewRecords,
    Records,
    T,
    write_records,
)
from stratagraph.store.rows import PASSAGES, Fields
from stratagraph.store.segments import OUT_OF_USE, FileWriter
from stratagraph.types.built import Carried, CarriedVectors, Declared, Holds
from stratagraph.types.protocols import Rows, Vectors, VectorTable
from stratagraph.types.records import Chunk, DocumentState, Metadata, Node

if TYPE_CHECKING:
    from stratagraph.store.snapshot import Snapshot

_HELD = 1 << 27  # bytes of opened blocks of nodes that are kept while a generation is made
_CORPUS = ""  # the "part" of the chunks' vectors


class Staging(RecordedCorpus):
    """What `IndexFolder.writer` returns: `add` documents, `assemble`, put vectors and parts, `publish`.

    These are called in this order. After `assemble` it reads like a snapshot, with the new row numbers.
    Readers see nothing of it before `publish`, and without `publish` all of it is removed. `base` is the
    previous generation, which this one continues, and `replaced` that of one which is made anew.
    """

    vectors: Vectors

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
        shared = (None, {}) if base is None else (base.manifest, base.opened)
        self._writer = FileWriter(layout, number, *shared)
        self._directory = self._writer.directory
        self._assembly = Assembly(self._directory.path)
        before = base or replaced
        external = before.pool if before is not None and isinstance(before.pool, ExternalPool) else None
        self._compact = compact or (base is not None and (external is None) != (table is None))
        self._table, self._external = table, external
        self._restore = restore
        self._pool: PoolWriter | None = None
        self._parts: dict[str, StoredPart] = {}

    # Documents

    def add(
        self, document_id: str, state: DocumentState, metadata: Metadata, chunks: Iterable[Chunk]
    ) -> None:
        """Add a document, replacing one of the same id.

        Chunks are streamed to the disk, and get their ids here. A chunk's metadata may repeat its document's.
        `ValueError` if the document was already added, a chunk is of another document, or metadata has no
        JSON form; nothing of the document is kept then.
        """
        self._assembly.add(document_id, state, metadata, chunks)

    def assemble(self, *, removed: Collection[str]) -> None:
        """Make the corpus: the previous documents without `removed`, and the added ones.

        `KeyError` if a document to remove does not exist.
        """
        if self.base is not None and isinstance(self.base.pool, ExternalPool) and not self._restore:
            self.base.pool.download(self._directory.path)
        self._assembly.assemble(self.base, removed)
        assembled = self._assembly
        chunks = None if self.base is None else self.base.chunk_records
        documents = None if self.base is None else self.base.document_records

        def stored(kind: Kind[T], base: Records[T] | None, slots: Rows, new: NewRecords) -> Records[T]:
            name = str(self._directory.path / kind.folder)
            writer, compact = self._writer, self._compact
            return write_records(writer, kind.folder, name, kind, base, slots, new, compact=compact)

        super().__init__(
            self._directory.path,
            stored(CHUNKS, chunks, assembled.chunk_slots, assembled.new_chunks),
            stored(DOCUMENTS, documents, assembled.document_slots, assembled.new_documents),
            assembled.chunk_documents,
        )
        self._assembly.close()

    @property
    def _loses(self) -> bool:
        """Whether a chunk of the previous generation is gone."""
        return self.base is not None and len(self._assembly.rows_before) < self.base.size

    @property
    def _sharing(self) -> dict[str, Any]:
        """How segments are shared with the previous generation (`segments.planned`)."""
        erased = self._loses or self._table is not None  # a vector store holds used rows only
        return {"out_of_use": 0.0 if erased else OUT_OF_USE, "compact": self._compact}

    def known_rows(self) -> tuple[Rows, Rows]:
        """Chunks that the previous generation has too: their rows now (ascending), and their rows there."""
        return self._assembly.rows_now, self._assembly.rows_before

    def arrived_rows(self) -> Rows:
        """Chunks of added documents, ascending; the previous generation may have some of them."""
        return self._assembly.arrived

    # Vectors

    def create_vectors(self, dimension: int, *, copy_known: bool = True) -> Vectors:
        """Vectors of shape (size, dimension), to be filled in; stored as float16.

        Rows of `known_rows` are the previous vectors and read-only, unless `copy_known` is off (after a
        change of the embedder). All others are zero, in a memory-mapped file whose space is reserved: a full
        disk fails here, not at a later assignment. `ValueError` if the previous vectors have another
        dimension.
        """
        copied = self.base.vectors if self.base is not None and copy_known else None
        now, before = self.known_rows()
        if copied is not None and len(now) and copied.shape[1] != dimension:
            raise ValueError(f"the previous vectors have {copied.shape[1]} dimensions, not {dimension}")
        carried = copied is not None and len(now) > 0
        shape = (self.size - len(now) if carried else self.size, dimension)
        own = reserved_array(self._directory, SCRATCH_VECTORS, shape, np.float32)
        if carried:
            rows_before = np.full(self.size, -1, np.int64)
            rows_before[now] = before
            own = cast(Vectors, CarriedVectors(copied, rows_before, own))
        self.vectors = own
        return own

    # Parts

    def put_part(
        self,
        name: str,
        nodes: Sequence[Node] | Carried,
        arrays: Mapping[str, Declared],
        *,
        read_once: bool = False,
    ) -> None:
        """Store a part: the extraction, the graph, or a method's index.

        The `sources` of `nodes` are rows of this generation. Vectors are stored as float16, each once in a
        generation. With `read_once`, few texts are kept in memory, since the part is read only once, from end
        to end.

        `TypeError` if it is not declared what an array holds. `ValueError` if two nodes share an id, sources
        are not ascending rows of this corpus, an array's name is unsafe or reserved, an array is not of a
        type that it can have by its declaration, or something cannot be stored.
        """
        check_name(name, "part name")
        if reserved := {INDPTR, INDICES, NODES.slots, KEYS, HASHES} & set(arrays):
            raise ValueError(f"array name {min(reserved)!r} is reserved for the nodes")
        indptr, indices = compressed_sources(nodes, self.size)
        for array, each in arrays.items():
            check_name(array, "array name")
            if not isinstance(each, Declared):
                raise TypeError(f"what array {array!r} holds is not declared (types.built.Holds)")
        first = first_sources(indptr, indices)
        base = before = None
        if self.base is not None and name in self.base.manifest.parts:
            base = self.base.part(name)
        if isinstance(nodes, Carried):
            before, nodes = nodes.before, nodes.fresh
        options = self._sharing if read_once else {**self._sharing, "held": _HELD}
        records, keys, hashes = write_nodes(self._writer, name, nodes, first, base, before=before, **options)
        own = Holds.ROWS.of({INDPTR: indptr, INDICES: indices, NODES.slots: records.slots})
        own |= Holds.CONTENT.of({KEYS: keys, HASHES: hashes})
        stored = self._put_arrays(name, {**arrays, **own})
        for key, (vectors, holds, chunks) in arrays.items():
            if holds is Holds.VECTORS:
                chunks = first if chunks is None else chunks
                order = np.full(len(vectors), np.iinfo(np.int64).max, np.int64)  # beyond the nodes: the last
                order[: len(chunks)] = chunks[: len(vectors)]
                stored[key] = self._vectors_of(vectors.shape[1]).put(name, key, vectors, order)
        self._parts[name] = StoredPart(name, records, stored)

    def _put_arrays(self, part: str, arrays: Mapping[str, Declared]) -> NamedArrays:
        """Write the arrays of a part, each group of them as a patch of those before if that is much smaller.

        After a deletion content is written whole, so that nothing of deleted chunks is left.
        """
        groups: dict[str, NamedArrays] = {PARTS: {}, NUMBERS: {}}
        for name, (array, holds, _) in arrays.items():
            if holds is Holds.VECTORS:
                continue
            plain = as_plain(name, array)
            if holds is Holds.ROWS and plain.dtype not in ROW_TYPES:
                raise ValueError(f"array {name!r} is declared to hold rows, and is of type {plain.dtype}")
            groups[PARTS if holds is Holds.CONTENT else NUMBERS][name] = plain
        moving = {name for name, each in arrays.items() if each.holds is Holds.ROWS}
        file, stored = f"{part}{SUFFIX}", NamedArrays()
        for folder, group in groups.items():
            before = None
            if self.base is not None and not self._compact and not (self._loses and folder == PARTS):
                before = self.base.groups.get((part, folder))
            changes = None if before is None else patch(before, group, moving)
            if changes is None:
                stored |= self._writer.write(folder, [(file, group)])[file]
            else:
                self._writer.share(folder, [file])
                self._writer.write(f"{PATCHES}/{folder}", [(file, changes)])
                stored |= group
        return stored

    def _vectors_of(self, dimension: int) -> PoolWriter:
        if self._pool is None:
            base = None if self.base is None or self._restore else self.base.pool
            self._pool = PoolWriter(base, dimension)
        return self._pool

    def part(self, name: str) -> StoredPart:
        """A part that was put."""
        return self._parts[name]

    # The end

    def publish(self, manifest: Manifest) -> int:
        """Make this the current generation, and return its number.

        Counts, number and checksums of the manifest are filled in. Readers see the new generation at once, or
        the previous one if the process dies before or the disk is full. Then calls of deleted chunks are
        purged, and older generations removed; if the process dies first, the next writer does that.
        """
        rows = self._write_vectors()
        sealed = replace(
            manifest,
            generation=self._number,
            documents=self.document_count,
            chunks=self.size,
            nodes={name: self._parts[name].size for name in manifest.parts},
            vectors=rows,
            files=dict(sorted(self._writer.entries.items())),
        )
        if deleted := self._deleted_chunks():  # without a cache too: a running call may create it meanwhile
            self._journal.plan_purge(self._number, deleted)
        self._directory.write(MANIFEST, sealed.to_json().encode("utf-8"))
        self._directory.sync_all()
        self._layout.adopt(self._number)
        self.published = True
        self._finish()
        return self._number

    def _write_vectors(self) -> dict[str, str]:
        """Write all vectors; returns the manifest's entry for the rows of a vector store."""
        pool = self._vectors_of(self.vectors.shape[1])
        pool.put(_CORPUS, VECTOR_SLOTS, self.vectors, np.arange(self.size))
        pool.write(self._writer, hashes_alone=self._table is not None, **self._sharing)
        slots, rows = pool.slots(), {}
        if self._table is not None:
            arrays = {PASSAGES: slots[_CORPUS][VECTOR_SLOTS]}
            for part in self._parts:
                arrays |= {f"{part}.{name}": each for name, each in slots.get(part, {}).items()}
            fields = Fields.of(len(pool.hashes()), arrays, self)
            restore = self._restore or self.replaced is not None
            given = self._table, self._external, pool, fields, self._number, self._journal
            rows = write_rows(*given, restore=restore)
        corpus = {
            CHUNK_DOCUMENTS: self.chunk_documents(),
            CHUNKS.slots: self.chunk_records.slots,
            DOCUMENTS.slots: self.document_records.slots,
            **slots.pop(_CORPUS),
        }
        self._writer.entries[CHUNK_ARRAYS] = write_arrays(self._directory, CHUNK_ARRAYS, corpus)
        self._writer.write(SLOTS, ((f"{part}{SUFFIX}", arrays) for part, arrays in slots.items()))
        self._directory.unlink(SCRATCH_VECTORS)
        return rows

    def _deleted_chunks(self) -> list[str]:
        """Ids of the chunks of the previous generation that this one lacks."""
        if self.replaced is not None:
            before = self.replaced.ids(range(self.replaced.size))
            rows = self.row_of(before)
            return [identity for identity in before if identity not in rows]
        if self.base is None:
            return []
        deleted = np.ones(self.base.size, dtype=np.bool_)
        deleted[self._assembly.rows_before] = False
        return self.base.ids(np.flatnonzero(deleted).tolist())

    def discard(self) -> None:
        """Remove what was staged, unless it is published."""
        self._assembly.close()
        self.close()
        if self.base is not None and isinstance(self.base.pool, ExternalPool):
            self.base.pool.release()
        self._directory.close()
        if not self.published:
            self._layout.remove_partial(self._number)
