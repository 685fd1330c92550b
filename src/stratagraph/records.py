"""The values that cross stages. Frozen, plain, and free of behaviour beyond their own consistency."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Metadata = Mapping[str, Any]


def content_id(*parts: str) -> str:
    """A stable id of 128 bits in hexadecimal, from the parts and the borders between them."""
    return _digest(parts).hex()


def content_key(*parts: str | bytes) -> int:
    """64 bits that stand for a text or an id in arrays: the first half of its `content_id`."""
    return int.from_bytes(_digest(parts)[:8], "big")


def _digest(parts: Iterable[str | bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()


def content_keys(values: Iterable[str | bytes]) -> NDArray[np.uint64]:
    """The `content_key` of each value, shape (values,)."""
    return np.fromiter(map(content_key, values), np.uint64)


def digest_blocks(blocks: Iterable[str]) -> str:
    """The content hash of a text, whatever blocks it arrives in."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(block.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


_PLAIN = frozenset({str, int, float, bool, type(None)})


def json_native(value: Any) -> Any:
    """The value in JSON's own types; numpy scalars and dates are converted, the rest becomes its text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, Mapping):
        return {str(key): item if type(item) in _PLAIN else json_native(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((json_native(item) for item in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [json_native(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return json_native(value.tolist())
    return str(value)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document, such as a page: where it begins (in characters), and its own metadata."""

    start: int
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Document:
    """A text with the id by which it is updated and deleted.

    Parameters
    ----------
    id
        Unique in the corpus, chosen by the caller.
    text
        The whole text.
    metadata
        JSON-native values, for filters and for the caller; not part of the text.
    sections
        Parts of the text in their order; each reaches to the next. A passage has the metadata of the one that
        its middle is in.
    """

    id: str
    text: str
    metadata: Metadata = field(default_factory=dict)
    sections: Sequence[Section] = ()

    def blocks(self) -> Iterator[str]:
        """The text in pieces; here in one."""
        yield self.text

    @property
    def digest(self) -> str:
        """Content hash of the text."""
        return digest_blocks(self.blocks())


@dataclass(frozen=True, slots=True)
class StreamedDocument:
    """A document too large to hold: its text is read in blocks each time it is needed.

    `read` returns a fresh iterator over the text from its start.
    """

    id: str
    read: Callable[[], Iterator[str]]
    metadata: Metadata = field(default_factory=dict)

    def blocks(self) -> Iterator[str]:
        """The text in pieces."""
        return self.read()

    @property
    def digest(self) -> str:
        """Content hash of the text (reads it once)."""
        return digest_blocks(self.blocks())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document, the unit of provenance.

    Made by the chunker, or by the caller (then nothing splits it again).

    Parameters
    ----------
    text
        The passage.
    document_id
        The document it is from.
    ordinal
        Its place in the document, from 0.
    start, end
        Character offsets in the document's text; -1 where a caller's own split has none.
    metadata
        The document's metadata, and the passage's own.
    id
        Content id (document, text and the how-manieth repetition of that text in it).
        Left empty by callers: it is computed when the corpus is assembled.
    ref
        The caller's own id of this passage (a framework's node id); empty if there is none.
    """

    text: str
    document_id: str
    ordinal: int = 0
    start: int = -1
    end: int = -1
    metadata: Metadata = field(default_factory=dict)
    id: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class EntityMention:
    """An entity as one chunk speaks of it. `type` and `description` may be empty.

    `doubtful` says that here only a sentence's or a title's capital speaks for a name: such a mention counts
    only if the corpus has the name elsewhere, which is decided when extractions are merged.
    """

    name: str
    type: str = ""
    description: str = ""
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class RelationMention:
    """A relation between two entities as one chunk states it, with the strength the extractor gives it."""

    source: str
    target: str
    description: str = ""
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class SemanticUnit:
    """One independent event or fact of a chunk, and the names of the entities in it."""

    text: str
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one chunk says, in the schema that all methods share.

    `terms` are candidates: lower-case phrases that become entities only if the whole corpus supports
    them, which is decided when extractions are merged.
    """

    units: tuple[SemanticUnit, ...] = ()
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A derived thing of a method's index: a summary, a community, an attribute.

    Parameters
    ----------
    id
        Stable: derived from what the node is made of.
    kind
        `summary`, `entity`, `community`, ... as the method's documentation lists them.
    level
        0 for what is closest to the text.
    text
        What is embedded, shown and cited.
    sources
        Rows of the chunks that contributed, ascending.
    extra
        JSON-native values of the method's own.
    """

    id: str
    kind: str
    level: int
    text: str
    sources: Sequence[int]
    extra: Metadata = field(default_factory=dict)


class MadeLate(Sequence[Node]):
    """Nodes that are made each time that they are asked for: all at once take more than what they say."""

    @abstractmethod
    def made(self, row: int) -> Node:
        """The node at a row."""

    @abstractmethod
    def ids(self) -> Iterator[str]:
        """The ids of all nodes, in order."""

    @overload
    def __getitem__(self, row: int) -> Node: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Node]: ...
    def __getitem__(self, row: int | slice) -> Node | Sequence[Node]:
        places = range(len(self))[row]
        return self.made(places) if isinstance(places, int) else [self.made(place) for place in places]


@dataclass(frozen=True, slots=True)
class Item:
    """A node, or a chunk, as a search reads it.

    Parameters
    ----------
    id, kind, level, text
        As of a `Node`; the kind of a chunk is `chunk`.
    sources
        Rows of the chunks that it came from, ascending, shape (n,); of a chunk its own.
    extra
        A node's values; of a chunk its metadata.
    document, ref
        Of a chunk the document's id, and the caller's own id of it.
    """

    id: str
    kind: str
    level: int
    text: str
    sources: NDArray[np.integer]
    extra: Metadata = field(default_factory=dict)
    document: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """The nodes of a part of which most are as they were in the previous generation, but for their sources.

    Attributes
    ----------
    before
        The row that each node had there, or -1 for one that is new or was made anew, shape (nodes,).
    fresh
        Those, in order.
    indptr, indices
        The sources of node i are `indices[indptr[i]:indptr[i + 1]]`.
    """

    before: NDArray[np.int64]
    fresh: Sequence[Node]
    indptr: NDArray[np.int64]
    indices: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.before)


@dataclass(frozen=True, slots=True)
class CarriedVectors:
    """Vectors of which most are as they were in an array of the previous generation.

    Attributes
    ----------
    before
        That array.
    origin
        The row there of each vector, or -1, shape (rows,).
    fresh
        The vectors without one, in order; a row of these can be assigned to.
    """

    before: Any
    origin: NDArray[np.int64]
    fresh: NDArray[np.floating]
    _places: NDArray[np.int64] = field(init=False, repr=False)

    ndim = 2
    dtype = np.dtype(np.float32)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", np.cumsum(self.origin < 0) - 1)

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return len(self.origin), self.fresh.shape[1]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        if isinstance(rows, tuple):
            found: NDArray[np.float32] = self[rows[0]][(..., *rows[1:])]
            return found
        origin = self.origin[rows]
        known = origin >= 0
        if known.all():
            return np.asarray(self.before[origin], np.float32)
        found = np.zeros((*origin.shape, self.fresh.shape[1]), np.float32)
        found[known] = self.before[origin[known]]
        found[~known] = self.fresh[self._places[rows][~known]]
        return found

    def __setitem__(self, rows: Any, vectors: NDArray[np.floating]) -> None:
        if (self.origin[rows] >= 0).any():
            raise ValueError("only vectors that the previous generation lacks can be assigned")
        self.fresh[self._places[rows]] = vectors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self[np.arange(len(self))]
        return found if dtype is None else found.astype(dtype, copy=False)


INDEX_FIELD, KIND_FIELD, DOCUMENT_FIELD, VECTOR_FIELD = (
    f"stratagraph_{name}" for name in ("index", "kind", "document", "vector")
)
"""Fields of a row in a vector store: whose it is, what the vector is of, a key of the one document that it
comes from, and the vector itself as it was written (float16, base64), since stores round and rescale."""


@dataclass(frozen=True, slots=True)
class VectorRow:
    """A vector of an index, as it is put in a vector store.

    Attributes
    ----------
    id
        A UUID, made of the index's identity and a hash of all else.
    vector
        Of unit length.
    fields
        Short texts without any of the documents' own.
    """

    id: str
    vector: Sequence[float]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Built:
    """What a stage or a method makes of a corpus. `nodes[i]` and row i of per-node arrays belong together.

    `notes` counts what could not be taken as it came, in phrases for people. `complete` tells whether a
    model made all that a model can make of it: what is not will be tried again when there is a model.
    `origins` gives the chunk of each vector in those arrays of vectors whose rows are not those of `nodes`.
    """

    nodes: Sequence[Node] | Carried
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    origins: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def made(self) -> Sequence[Node]:
        """The nodes that were made, which are all where there was no previous generation."""
        return self.nodes.fresh if isinstance(self.nodes, Carried) else self.nodes


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of an index's graph. `id` is its normalised name; `sources` are chunk ids."""

    id: str
    name: str
    type: str
    description: str
    sources: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphRelation:
    """A relation of an index's graph. `source` and `target` are ids of entities."""

    id: str
    source: str
    target: str
    text: str
    weight: float
    sources: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphUnit:
    """A semantic unit of an index's graph: a fact, and the ids of the entities in it."""

    id: str
    text: str
    entities: tuple[str, ...]
    sources: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MethodNode:
    """A node of a method's index: a summary, a community, an attribute.

    `members` are the ids of what it was made of: nodes of the level below, entities, or chunks. `sources`
    are ids of all chunks that contributed, `documents` those of their documents.
    """

    id: str
    kind: str
    level: int
    text: str
    members: tuple[str, ...]
    sources: tuple[str, ...]
    documents: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Level:
    """How many nodes of a kind a method has on a level."""

    level: int
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A thing in a list: a document, a passage, an entity, or a node of a method.

    `members` counts what it was made of (of a document: its passages), `sources` the passages behind it.
    `documents` and `passages` are ids of the first few of those.
    """

    id: str
    kind: str
    level: int
    title: str
    text: str
    members: int
    sources: int
    documents: tuple[str, ...]
    passages: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list, how long the whole list is, and how many are before the page."""

    items: tuple[Listed, ...]
    total: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A unit of work that a model could not do, and why; the chunks that it is about, and their documents."""

    stage: str
    item: str
    reason: str
    sources: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The first few documents; of what has none the chunks."""
        known = self.documents or self.sources
        more = f" and {len(known) - 3:,} more" if len(known) > 3 else ""
        return f"{', '.join(known[:3])}{more}"

    @property
    def about(self) -> str:
        """What failed, as a person knows it: a passage by its document, a group by its name too."""
        if not self.documents:
            return self.item
        return self.place if self.item in self.sources else f"{self.item} ({self.place})"


@dataclass(frozen=True, slots=True)
class Usage:
    """What an operation cost, in total or for one stage."""

    calls: int = 0
    cached_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedded_texts: int = 0
    seconds: float = 0.0
    embedded_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.cached_calls + other.cached_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.embedded_texts + other.embedded_texts,
            self.seconds + other.seconds,
            self.embedded_tokens + other.embedded_tokens,
        )


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build, insert or delete did.

    `skipped` names blank documents and duplicates, `failures` the units a model could not do; `notes`
    counts what was repaired or could not be kept. `models` is what each chat model was asked, and `cost` what
    that costs (at the prices of the `Budget`, or of the table of genai-prices): None if a price is not known.
    """

    operation: str
    generation: int
    documents: int
    chunks: int
    nodes: Mapping[str, int]
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, Usage] = field(default_factory=dict)
    models: Mapping[str, Usage] = field(default_factory=dict)
    cost: float | None = 0.0

    @property
    def usage(self) -> Usage:
        """The sum over all stages."""
        return sum(self.stages.values(), Usage())
