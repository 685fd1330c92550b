"""Values exchanged between stages: frozen and plain."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from html import escape
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

Metadata = Mapping[str, Any]


def content_id(*parts: str) -> str:
    """A stable id of 128 bits in hexadecimal, of the parts and their borders."""
    return _digest(parts).hex()


def content_key(*parts: str | bytes) -> int:
    """64 bits that stand for a text or id in arrays: the first half of its `content_id`."""
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
    """The content hash of a text that arrives in blocks."""
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(block.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


_EXACT = frozenset({str, int, bool, type(None)})
_AS_TEXT = (UUID, Enum, Decimal, PurePath, timedelta)
_MISSING = ("NAType", "NaTType")  # the types of pandas' missing values, of which the latter is a date
_NOTES = 12  # that a report shows


def json_native(value: Any, missing: list[str] | None = None, key: str = "") -> Any:
    """Convert a value to JSON types, the same for metadata that is stored and for the values of filters.

    Dates and times become text in ISO 8601. UUIDs, enums, decimals, paths and time spans become their `str`,
    bytes the text that they encode in UTF-8. Arrays and sets become lists. NaN, and what pandas has in its
    place, becomes None, and its key is added to `missing`. Any other object, or a key that is no string, is a
    `TypeError` that names key and type.
    """
    if type(value) in _EXACT:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float) or type(value).__name__ in _MISSING:
        if isinstance(value, float) and not math.isnan(value):
            return float(value)
        if missing is not None:
            missing.append(key)
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        if (wrong := next((each for each in value if not isinstance(each, str)), None)) is not None:
            place = f"the mapping under {key!r}" if key else "it"
            raise TypeError(f"{place} has the key {wrong!r} of type {type(wrong).__name__}; keys are strings")
        return {str(name): json_native(item, missing, name) for name, item in value.items()}
    if isinstance(value, Set):
        return sorted((json_native(item, missing, key) for item in value), key=str)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, Sequence):
        return [json_native(item, missing, key) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if hasattr(value, "tolist"):
        return json_native(value.tolist(), missing, key)
    kind = type(value)
    raise TypeError(
        f"the value of {key!r} is of type {kind.__module__}.{kind.__qualname__}; give strings, numbers, "
        "lists and dicts, or dates, times, UUIDs, enums, decimals, paths and bytes, which become text"
    )


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document, such as a page: the character where it starts, and its metadata."""

    start: int
    metadata: Metadata


def sections_in(metadata: Metadata) -> list[tuple[int, Metadata]]:
    """Where the sections of a chunk begin, and their metadata; none for a chunk of one section."""
    sections = metadata.get("sections")
    items = sections if isinstance(sections, list) else []
    pairs = [item for item in items if isinstance(item, list | tuple) and len(item) == 2]
    return [(start, own) for start, own in pairs if isinstance(start, int) and isinstance(own, Mapping)]


def at_place(metadata: Metadata, place: int) -> Metadata:
    """The metadata of a chunk as of a character of its text: that of the section which contains it."""
    before = [own for start, own in sections_in(metadata) if start <= place]
    return {**metadata, **before[-1]} if before else metadata


def place_in_words(metadata: Metadata) -> str:
    """The place of a passage in its document, if its metadata has it: "page 3", "sheet Fares"."""
    places = [f"{name} {metadata[name]}" for name in ("page", "slide", "sheet") if name in metadata]
    headings = metadata.get("headings")
    if isinstance(headings, list):
        places.append(" > ".join(map(str, headings)))
    return ", ".join(places)


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id, by which it is updated and deleted.

    Parameters
    ----------
    id
        Unique in the corpus.
    text
        The whole text.
    metadata
        JSON values for filters and for the caller. Not part of the text.
    sections
        Parts of the text in order, each ending where the next starts. A chunk has the metadata of the
        section that contains its middle; of one that reaches over several, `metadata["sections"]` has the
        place where each begins, and its metadata (`at_place`).
    file
        Id of the file that the document was read from; empty if it is from none. See `Index.insert`.
    root
        Key of the folder of that file among those of the index.
    """

    id: str
    text: str
    metadata: Metadata = field(default_factory=dict)
    sections: Sequence[Section] = ()
    file: str = field(default="", compare=False)
    root: str = field(default="", compare=False)

    def blocks(self) -> Iterator[str]:
        """The text as one block."""
        yield self.text

    @property
    def digest(self) -> str:
        """Content hash of the text."""
        return digest_blocks(self.blocks())


class DocumentState(NamedTuple):
    """By what a document is recognised when it is given again.

    `digest` is a hash of its text and metadata; `file` and `root` are those of `Document`.
    """

    digest: str
    file: str = ""
    root: str = ""


@dataclass(frozen=True, slots=True)
class StreamedDocument:
    """A document too large for memory; its text is read in blocks whenever it is needed.

    `read` returns a new iterator over the text; all else is as for `Document`.
    """

    id: str
    read: Callable[[], Iterator[str]]
    metadata: Metadata = field(default_factory=dict)
    file: str = field(default="", compare=False)
    root: str = field(default="", compare=False)

    def blocks(self) -> Iterator[str]:
        """The text in blocks."""
        return self.read()

    @property
    def digest(self) -> str:
        """Content hash of the text, which is read once."""
        return digest_blocks(self.blocks())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: the unit that everything is traced to.

    Parameters
    ----------
    text
        The passage.
    document_id
        Id of its document.
    ordinal
        Its place in the document, from 0.
    start, end
        Character offsets in the document's text; -1 if unknown. `text` ends with what is there, and may have
        lines before it (`repeated`).
    metadata
        The document's metadata and the chunk's own.
    id
        Content id of document, text, prefix and repetition. Leave it empty; it is computed.
    ref
        The caller's id, such as a framework's node id; may be empty.
    prefix
        What the passage is found by besides its text, such as a title or a summary. It is embedded and
        indexed by words before the text, on lines of its own. It is not shown, cited or extracted from.
    """

    text: str
    document_id: str
    ordinal: int = 0
    start: int = -1
    end: int = -1
    metadata: Metadata = field(default_factory=dict)
    id: str = ""
    ref: str = ""
    prefix: str = ""

    @property
    def searched_text(self) -> str:
        """The text under the prefix; a blank line is between them unless that ends with white space."""
        between = "\n\n" if self.prefix and not self.prefix[-1].isspace() else ""
        return f"{self.prefix}{between}{self.text}"

    @property
    def repeated(self) -> int:
        """Characters at the front that stand before `start` in the document.

        They are the header row of a table, the first field of a record, or the line that leads to a list,
        where the chunk begins inside of it.
        """
        extra = len(self.text) - (self.end - self.start) if self.start >= 0 else 0
        return extra if extra > 0 and self.text[extra - 1] == "\n" else 0


def chunk_id(chunk: Chunk, repeats: int) -> str:
    """The id of a chunk before which `repeats` equal ones stand in its document."""
    prefix = [chunk.prefix] if chunk.prefix else []
    return content_id(chunk.document_id, chunk.text, str(repeats), *prefix)


@dataclass(frozen=True, slots=True)
class EntityMention:
    """An entity as one chunk describes it. `type` and `description` may be empty.

    A `doubtful` mention rests only on the capital letter of a sentence start or title; it counts if other
    chunks have the name.
    """

    name: str
    type: str = ""
    description: str = ""
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class RelationMention:
    """A relation between two entities as one chunk states it, with the extractor's strength.

    `type` is one of `ExtractionConfig.relation_types`, or empty.
    """

    source: str
    target: str
    description: str = ""
    strength: float = 1.0
    type: str = ""


@dataclass(frozen=True, slots=True)
class SemanticUnit:
    """One event or fact of a chunk, and the names of its entities."""

    text: str
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one chunk states, in the schema shared by all methods.

    `terms` are lower-case phrases that become entities if enough chunks have them.
    """

    units: tuple[SemanticUnit, ...] = ()
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A derived node of a method: a summary, a community, an attribute.

    `id` is stable, derived from what the node is made of; `kind` is `summary`, `entity`, `community` and so
    on, see the method; `level` 0 is closest to the text. `text` is what is embedded, shown and cited,
    `sources` are the rows of the contributing chunks, ascending, and `extra` JSON values of the method
    (`built.VALUES`).
    """

    id: str
    kind: str
    level: int
    text: str
    sources: Sequence[int]
    extra: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphEntity:
    """An entity of the graph. `id` is its normalised name; `sources` are chunk ids."""

    id: str
    name: str
    type: str
    description: str
    sources: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphRelation:
    """A relation of the graph. `source` and `target` are entity ids.

    `types` are its types from source to target, `opposite_types` those from target to source, such as
    `employs` and `works for`; the type that most chunks state comes first. Both may be empty.
    """

    id: str
    source: str
    target: str
    text: str
    weight: float
    sources: tuple[str, ...]
    documents: tuple[str, ...]
    types: tuple[str, ...] = ()
    opposite_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphUnit:
    """A semantic unit of the graph: a fact, and the ids of its entities."""

    id: str
    text: str
    entities: tuple[str, ...]
    sources: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A model's answer to a call of a build, as it was written.

    `key` is a hash of the task, the prompt and the model's name and settings; `sources` are ids of the chunks
    that the prompt quotes.
    """

    key: str
    task: str
    model: str
    answer: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MethodNode:
    """A node of a method: a summary, a community, an attribute.

    `members` are the ids of the nodes, entities or chunks it was made of, `sources` those of all contributing
    chunks, and `documents` those of their documents.
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
    """Number of nodes of a kind on a level of a method."""

    level: int
    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A document, passage, entity or node in a listing.

    `members` counts what it was made of (for a document, its chunks) and `sources` the chunks behind it.
    `documents` and `passages` are the ids of the first few.
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
    """A page of a list: its items, the length of the whole list, and the number of items before the page."""

    items: tuple[Listed, ...]
    total: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A unit of work that a model failed, with the reason, its chunks and their documents."""

    stage: str
    item: str
    reason: str
    sources: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The first few documents, or chunks if it has no document."""
        names = self.documents or self.sources
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        return f"{', '.join(names[:3])}{more}"

    @property
    def about(self) -> str:
        """What failed: a chunk by its document, a group also by its name."""
        if not self.documents:
            return self.item
        return self.place if self.item in self.sources else f"{self.item} ({self.place})"


@dataclass(frozen=True, slots=True)
class Usage:
    """Model usage of an operation or stage. `seconds` are wall-clock seconds."""

    calls: int = 0
    cached_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedded_texts: int = 0
    seconds: float = 0.0
    embedded_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*[getattr(self, name) + getattr(other, name) for name in self.__slots__])

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*[getattr(self, name) - getattr(other, name) for name in self.__slots__])

    def __repr__(self) -> str:
        counts = [f"{name}={count:,}" for name in self.__slots__ if (count := round(getattr(self, name), 2))]
        return f"Usage({', '.join(counts)})"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build or update did.

    `skipped` lists blank and duplicate documents, `failures` the units that a model failed, `notes` counts
    repaired or dropped input, and `vanished` lists files of the given folders that are gone, and whose
    documents stay without `prune`. `stages` and `models` divide the usage. `cost` uses the prices of the
    `Budget`, or of genai-prices; it is None if a price is unknown.
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
    vanished: tuple[str, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, Usage] = field(default_factory=dict)
    models: Mapping[str, Usage] = field(default_factory=dict)
    cost: float | None = 0.0

    @property
    def usage(self) -> Usage:
        """The sum over all stages."""
        return sum(self.stages.values(), Usage())

    def _counts(self) -> dict[str, str]:
        """What is worth a line, by its name."""
        changes = {
            name: len(getattr(self, name))
            for name in ("added", "updated", "deleted", "unchanged", "skipped", "failures", "vanished")
        }
        used = self.usage
        cost = "unknown" if self.cost is None else f"{self.cost:,.4f}".rstrip("0").rstrip(".")
        calls = f"{used.calls:,} ({used.input_tokens:,} tokens in, {used.output_tokens:,} out; cost {cost})"
        notes, others = self.shown_notes()
        more = [f"and {others:,} other notes"] if others else []
        lines = {
            "documents": f"{self.documents:,} in {self.chunks:,} chunks",
            "nodes": ", ".join(f"{kind} {count:,}" for kind, count in self.nodes.items() if count),
            "changes": ", ".join(f"{count:,} {name}" for name, count in changes.items() if count),
            "model calls": calls if used.calls else "",
            "cached calls": f"{used.cached_calls:,}" if used.cached_calls else "",
            "seconds": f"{used.seconds:,.1f}",
            "notes": "; ".join([*(f"{count:,} {note}" for note, count in notes.items()), *more]),
            "first failure": f"{self.failures[0].stage}: {self.failures[0].reason}" if self.failures else "",
        }
        return {name: text for name, text in lines.items() if text}

    def shown_notes(self) -> tuple[dict[str, int], int]:
        """The notes with the highest counts, which are worth a line, and how many others there are."""
        counts = {note: count for note, count in self.notes.items() if count}
        shown = set(sorted(counts, key=lambda note: -counts[note])[:_NOTES])
        return {note: count for note, count in counts.items() if note in shown}, len(counts) - len(shown)

    def __repr__(self) -> str:
        lines = "".join(f"\n  {name}: {text}" for name, text in self._counts().items())
        return f"BuildReport of {self.operation}, generation {self.generation}{lines}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._counts().items()
        )
        return (
            f"<table><caption>{escape(self.operation)}, generation {self.generation}</caption>{rows}</table>"
        )
