"""Chunks and documents of a generation, in segments.

The record of a chunk is JSON: text, ordinal, start, end, ref, own metadata. Columns beside it hold the two
halves of its id, the key of its ref (0 for none), and whether it has metadata of its own. The record of a
document is its digest and metadata. Document ids are stored beside the records as text, for binary search.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import ClosedIndex, Damaged
from stratagraph.store.blocks import Columns, Records, Segment, encode, fields, leading
from stratagraph.store.metadata import ADVICE, NoSuchRow, from_json
from stratagraph.store.segments import KeyIndex, Keys
from stratagraph.system.locks import cached_property
from stratagraph.types.protocols import Rows
from stratagraph.types.records import Chunk, Metadata, content_key

FOLDER = "corpus"
CHUNKS, DOCUMENTS = "chunks", "documents"
"""Folders of the segments of each, in `FOLDER`."""
CHUNK_SLOTS, DOCUMENT_SLOTS = "texts.slots", "documents.slots"
"""Arrays of a generation: the slot of each chunk, and of each document in the order of the ids."""
CHUNK_COLUMNS: Columns = {"ids": np.uint64, "tails": np.uint64, "refs": np.uint64, "noted": np.bool_}
DOCUMENT_COLUMNS: Columns = {}
NAMES, NAME_BOUNDS = "names", "names.bounds"
"""Arrays of a segment of documents: their ids, and where each begins."""
FEWEST = 1024
"""Chunks or documents in a new segment, where there are as many."""
BLOCK = 1 << 9
"""Bytes of texts from which a block is closed: a search reads few texts, each in a block of its own."""

IdHalves = tuple[Keys, Keys]
ChunkFields = tuple[str, int, int, int, str, dict[str, Any]]
"""Of a chunk: text, ordinal, start, end, ref, metadata of its own."""
_FENCE = 64  # of so many ids one is held, where ids are looked for


def chunk_record(text: str, ordinal: int, start: int, end: int, ref: str, metadata: str) -> bytes:
    """The record of a chunk; `metadata` is JSON."""
    return f"{encode([text, ordinal, start, end, ref])[:-1]},{metadata}]".encode()


def document_record(digest: str, metadata: str) -> bytes:
    """The record of a document; `metadata` is JSON."""
    return f"[{encode(digest)},{metadata}]".encode()


def halves(ids: Sequence[str]) -> IdHalves:
    """The two halves of chunk ids; `Damaged` if an id is not valid."""
    if wrong := next((each for each in ids if not _is_id(each)), None):
        raise Damaged(f"{wrong[:80]!r} is not the id of a chunk, which has 32 hexadecimal digits")
    raw = b"".join(map(bytes.fromhex, ids))
    both = np.frombuffer(raw, "<u8").reshape(-1, 2)
    return both[:, 0].astype(np.uint64), both[:, 1].astype(np.uint64)


def ref_key(ref: str) -> int:
    """64-bit key of the caller's own chunk id; 0 for none."""
    return content_key(ref) or 1 if ref else 0


def _metadata(found: Any, raw: bytes, owner: str) -> dict[str, Any]:
    try:
        if b"\\ud" in raw or not isinstance(found, dict):
            return from_json(json.dumps(found))
        return found
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"{owner}: metadata that is not JSON ({error})") from error


def _require(sound: bool, raw: bytes, owner: str) -> None:
    if not sound:
        raise Damaged(f"{owner}: fields of the wrong types in {raw[:60]!r}")


def chunk_fields(raw: bytes, owner: str) -> ChunkFields:
    """The fields of a chunk's record; `Damaged` if it is not valid."""
    found = fields(raw, owner)
    _require(tuple(map(type, found[:-1])) == (str, int, int, int, str), raw, owner)
    text, ordinal, start, end, ref, metadata = found
    return text, ordinal, start, end, ref, _metadata(metadata, raw, owner)


def document_fields(raw: bytes, owner: str) -> tuple[str, dict[str, Any]]:
    """Digest and metadata of a document's record; `Damaged` if it is not valid."""
    if raw.startswith(b'["') and raw.endswith(b'",{}]'):
        return leading(raw, owner, 0), {}
    found = fields(raw, owner)
    _require(len(found) == 2 and type(found[0]) is str, raw, owner)
    return found[0], _metadata(found[1], raw, owner)


def names_misfit(segment: Segment) -> str | None:
    """Why the document ids of a segment cannot be read; None if they can."""
    names, bounds = segment.get(NAMES), segment.get(NAME_BOUNDS)
    if names is None or names.dtype != np.uint8 or names.ndim != 1:
        return "holds no ids of documents"
    if (
        bounds is None
        or bounds.dtype != np.int64
        or bounds.shape != (len(segment["lengths"]) + 1,)
        or int(bounds[0]) != 0
        or int(bounds[-1]) != len(names)
        or (bounds[1:] < bounds[:-1]).any()
    ):
        return "does not divide the ids of its documents"
    return None


class DocumentIds(Sequence[bytes]):
    """Sorted document ids as UTF-8, which sorts as the texts do."""

    def __init__(self, documents: Records, slots: NDArray[np.integer]) -> None:
        self._documents = documents
        self._slots = slots

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, number: Any) -> Any:
        return self._at(int(self._slots[number]))

    def _at(self, slot: int) -> bytes:
        number, place = self._documents.place(slot)
        segment = self._documents.segments[number]
        start, end = segment[NAME_BOUNDS][place : place + 2].tolist()
        return segment[NAMES][start:end].tobytes()

    def at(self, numbers: Sequence[int] | Rows) -> list[bytes]:
        """The ids of documents by their numbers."""
        return self.of_slots(self._slots[np.asarray(numbers, np.int64)])

    def of_slots(self, slots: NDArray[np.integer]) -> list[bytes]:
        """The ids of documents by their slots."""
        return list(map(self._at, slots.tolist()))

    @cached_property
    def _fences(self) -> list[bytes]:
        return self.at(range(0, len(self), _FENCE))

    def search(self, wanted: Sequence[bytes]) -> tuple[Rows, NDArray[np.bool_]]:
        """The place of each id (or where it would be), and whether it is there."""
        places = []
        for each in wanted:
            low = max(0, bisect_left(self._fences, each) - 1) * _FENCE
            places.append(bisect_left(self, each, low, min(low + _FENCE, len(self))))
        there = [at < len(self) and self[at] == each for at, each in zip(places, wanted, strict=True)]
        return np.array(places, np.int64), np.array(there, np.bool_)


class Digests(Mapping[str, str]):
    """Digests by document id, read one by one; all at once after many reads."""

    def __init__(self, corpus: StoredCorpus) -> None:
        self._corpus = corpus
        self._asked = 0
        self._all: dict[str, str] | None = None

    def __getitem__(self, identity: str) -> str:
        self._asked += 1
        if self._all is None and 64 * self._asked > len(self):
            self._all = self._corpus.documents()
        if self._all is not None:
            return self._all[identity]
        number = self._corpus.document_number(identity)
        if number is None:
            raise KeyError(identity)
        return self._corpus.digest(number)

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpus.document_ids(range(len(self))))

    def __len__(self) -> int:
        return len(self._corpus.names)


class StoredCorpus:
    """Reads chunks by row, and documents by their place in the sorted ids. Safe to use from several threads.

    Results are in the order of the arguments. An unknown row is a `NoSuchRow`; a wrong record is `Damaged`.

    Attributes
    ----------
    path
        Of the generation, for errors.
    chunk_records, document_records, chunk_slots, document_slots
        The records, and the slot of each chunk and document.
    names
        The document ids.
    """

    def __init__(
        self,
        path: Path,
        chunk_records: Records,
        chunk_slots: NDArray[np.integer],
        document_records: Records,
        document_slots: NDArray[np.integer],
        chunk_documents: NDArray[np.integer],
    ) -> None:
        self.path = path
        self.chunk_records = chunk_records
        self.chunk_slots = chunk_slots
        self.document_records = document_records
        self.document_slots = document_slots
        self.names = DocumentIds(document_records, document_slots)
        self.size = len(chunk_slots)
        self._of = chunk_documents
        self._closed = False

    def close(self) -> None:
        """Read no more."""
        self._closed = True

    # Chunks

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Chunk ids by row."""
        slots = self._slots(rows)
        both = np.stack([self.chunk_records.values(name, slots) for name in ("ids", "tails")], axis=1)
        text = both.astype("<u8").tobytes().hex()
        return [text[start : start + 32] for start in range(0, len(text), 32)]

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Chunk texts by row."""
        return [leading(raw, self.chunk_records.name, 0) for raw in self.chunk_records.raw(self._slots(rows))]

    def chunks(self, rows: Sequence[int]) -> list[Chunk]:
        """Whole chunks by row; the document's metadata merged under their own."""
        ids = self.ids(rows)
        numbers = self._of[np.asarray(rows, np.int64)].tolist()
        distinct = sorted(set(numbers))
        found = zip(self.document_ids(distinct), self._documents(distinct), strict=True)
        documents = dict(zip(distinct, found, strict=True))
        made = []
        for identity, number, (text, ordinal, start, end, ref, own) in zip(
            ids, numbers, self.fields(rows), strict=True
        ):
            name, (_, metadata) = documents[number]
            made.append(Chunk(text, name, ordinal, start, end, {**metadata, **own}, identity, ref))
        return made

    def fields(self, rows: Sequence[int]) -> Iterator[ChunkFields]:
        """What the records of chunks hold, by row."""
        where = self.chunk_records.name
        return (chunk_fields(raw, where) for raw in self.chunk_records.raw(self._slots(rows)))

    def row_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Rows by chunk id; ids that are not there are left out."""
        self._require_open()
        wanted = [each for each in ids if _is_id(each)]
        rows = self.find(halves(wanted)).tolist()
        return {identity: row for identity, row in zip(wanted, rows, strict=True) if row >= 0}

    def find(self, wanted: IdHalves) -> Rows:
        """Rows by the halves of ids; -1 for those that are not there."""
        rows = self._by_id.find(wanted[0])
        there = np.flatnonzero(rows >= 0)
        tails = self.chunk_records.values("tails", self.chunk_slots[rows[there]])
        rows[there[tails != wanted[1][there]]] = -1
        return rows

    @cached_property
    def _by_id(self) -> KeyIndex:
        return KeyIndex(self.chunk_records.column("ids")[self.chunk_slots])

    def refs(self, refs: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the caller's own ids of passages, ascending; those not there are left out."""
        self._require_open()
        wanted = sorted({ref for ref in refs if ref})
        keys, rows = self._by_ref
        near = np.fromiter(map(ref_key, wanted), np.uint64, len(wanted))
        borders = zip(np.searchsorted(keys, near), np.searchsorted(keys, near, "right"), strict=True)
        found = {}
        for ref, (low, high) in zip(wanted, borders, strict=True):
            some = rows[low:high].tolist()
            own = [row for row, each in zip(some, self.fields(some), strict=True) if each[4] == ref]
            if own:
                found[ref] = sorted(own)
        return found

    @cached_property
    def _by_ref(self) -> tuple[Keys, Rows]:
        keys = self.chunk_records.column("refs")[self.chunk_slots]
        rows = np.flatnonzero(keys)
        order = np.argsort(keys[rows], kind="stable")
        return keys[rows][order], rows[order]

    def own_metadata(self) -> dict[int, Metadata]:
        """Metadata of chunks beyond their document's, by row; chunks without any are left out."""
        rows = np.flatnonzero(self.chunk_records.column("noted")[self.chunk_slots]).tolist()
        return {row: each[5] for row, each in zip(rows, self.fields(rows), strict=True)}

    # Documents

    def documents(self) -> dict[str, str]:
        """Digests by document id, in the order of the ids."""
        every = range(len(self.names))
        digests = (digest for digest, _ in self._documents(every))
        return dict(zip(self.document_ids(every), digests, strict=True))

    def digest(self, number: int) -> str:
        """The digest of a document by its place in the sorted ids."""
        return next(self._documents([number]))[0]

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """Document ids by their place in the sorted ids."""
        try:
            return [
                name.decode("utf-8")
                for name in self.names.at(self._within(numbers, len(self.names), "document"))
            ]
        except UnicodeDecodeError as error:
            raise Damaged(f"{self.document_records.name}: an id that is not text ({error})") from error

    def document_metadata(self, ids: Sequence[str] | None = None) -> dict[str, Metadata]:
        """Metadata by document id; of all documents if `ids` is None. Unknown ids are left out."""
        if ids is None:
            numbers: Sequence[int] = range(len(self.names))
            ids = self.document_ids(numbers)
        else:
            ids = list(dict.fromkeys(ids))
            places, there = self._found(ids)
            numbers = places[there].tolist()
            ids = [each for each, known in zip(ids, there.tolist(), strict=True) if known]
        return dict(zip(ids, (metadata for _, metadata in self._documents(numbers)), strict=True))

    def document_number(self, identity: str) -> int | None:
        """The place of a document in the sorted ids; None if there is no such document."""
        places, there = self._found([identity])
        return int(places[0]) if there[0] else None

    def _found(self, ids: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
        self._require_open()
        return self.names.search([each.encode("utf-8", "surrogatepass") for each in ids])

    def _documents(self, numbers: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        where = self.document_records.name
        raws = self.document_records.raw(
            self.document_slots[self._within(numbers, len(self.names), "document")]
        )
        return (document_fields(raw, where) for raw in raws)

    # Both

    def _slots(self, rows: Sequence[int]) -> NDArray[np.integer]:
        return self.chunk_slots[self._within(rows, self.size, "chunk")]

    def _within(self, rows: Sequence[int], size: int, kind: str) -> Rows:
        self._require_open()
        wanted = np.asarray(rows, np.int64)
        if len(wanted) and (int(wanted.min()) < 0 or int(wanted.max()) >= size):
            bad = int(wanted[(wanted < 0) | (wanted >= size)][0])
            raise NoSuchRow(f"{self.path}: {kind} {bad} does not exist; there are {size}{ADVICE}")
        return wanted

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedIndex(f"{self.path} was closed; open the index again")


def _is_id(text: str) -> bool:
    return len(text) == 32 and not text.strip("0123456789abcdef")
