"""Open information extraction: entities and triples of passages, also as models write them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from stratagraph.importing.draft import Imported, PassageDraft, clean_name, finish, statement
from stratagraph.importing.lines import json_lines, json_object
from stratagraph.types.records import (
    Chunk,
    Document,
    EntityMention,
    RelationMention,
    StreamedDocument,
    content_id,
)

_ROLES = (("subject", "head", "source"), ("predicate", "relation", "label"), ("object", "tail", "target"))
_DEPTH = 3  # a list of triples in a list of triples; what is deeper is no triple


def read_triple(value: Any, notes: Counter[str]) -> list[tuple[str, ...]]:
    """Read the triples of a value, usually one.

    A triple has three non-blank parts (the middle one may be empty), or two for a statement with unknown
    roles. `notes` counts repairs and what is neither.
    """
    parts = value
    if isinstance(value, Mapping):
        parts = [next((value[key] for key in keys if key in value), "") for keys in _ROLES]
    flat: list[list[Any]] = []
    if isinstance(parts, list | tuple):
        if any(isinstance(part, list | tuple) for part in parts):
            notes["triples with lists inside: taken apart"] += 1
        flat = _flat(parts, _DEPTH)
    read: list[tuple[str, ...]] = []
    for one in flat or [[]]:
        texts = [clean_name(part) for part in one]
        full = [text for text in texts if text]
        if len(full) < 2:
            notes["triples that are no triples: left out"] += 1
            continue
        if len(full) < len(texts):
            notes["triples with an empty part: read without it"] += 1
        if len(texts) > 2 and texts[0] and texts[-1]:
            if len(texts) > 3:
                notes["triples of more than three parts: middle parts joined"] += 1
            read.append((texts[0], " ".join(full[1:-1]), texts[-1]))
        else:
            notes["triples without two ends: kept as facts"] += 1
            read.append((full[0], " ".join(full[1:])))
    return read


def _flat(parts: list[Any] | tuple[Any, ...], depth: int) -> list[list[Any]]:
    """Lists of lists as their members; a list in place of a part as one triple for each member."""
    if not parts or not depth:
        return []
    if all(isinstance(part, list | tuple) for part in parts):
        return [flat for part in parts for flat in _flat(part, depth - 1)]
    choices = [(list(part) or [""]) if isinstance(part, list | tuple) else [part] for part in parts]
    if sum(len(choice) > 1 for choice in choices) > 1:  # several lists: which goes with which is not known
        return [[", ".join(map(clean_name, choice)) for choice in choices]]
    return [list(choice) for choice in product(*choices)]


Item = Document | StreamedDocument | Chunk

_IDS = ("passage_id", "idx", "id")
_TEXTS = ("passage", "text")
_ENTITIES = ("entities", "extracted_entities")
_TRIPLES = ("triples", "extracted_triples")


def read_openie(path: str | os.PathLike[str], *, documents: Iterable[Item] | None = None) -> Imported:
    """Read entities and triples of passages, from JSON lines or HippoRAG's JSON file.

    A line is `{"passage_id": ..., "entities": [name, ...], "triples": [[subject, predicate, object], ...]}`;
    HippoRAG's file is `{"docs": [{"idx": ..., "passage": ..., "extracted_entities": [...],
    "extracted_triples": [...]}, ...]}`, with the texts. A triple becomes a relation and a semantic unit; ends
    that are not listed become entities. Middle parts of a longer triple are joined; a triple of two parts
    becomes a semantic unit only.

    Parameters
    ----------
    path
        The file.
    documents
        Texts of the passages, for a file without them: documents whose ids are the passages' ids (or whose
        text is the passage), or chunks with those ids as `ref`. Each becomes one chunk. Documents without an
        extraction are returned unchanged.

    Raises
    ------
    ValueError
        If a line is not JSON or holds no extraction; the message names file and line.
    """
    notes: Counter[str] = Counter()
    passages = _Passages(documents, notes)
    drafts: dict[str, PassageDraft] = {}
    for place, record in _records(Path(path)):
        key = passages.key(record, place)
        if key in drafts:
            notes["passages listed twice: extractions joined"] += 1
        if not any(name in record for name in (*_ENTITIES, *_TRIPLES)):
            keys = ", ".join(record) or "none"
            raise ValueError(f"{place}: neither entities nor triples; the keys are {keys}")
        draft = drafts.setdefault(key, PassageDraft(notes))
        entities, triples = _listed(record, _ENTITIES, notes), _listed(record, _TRIPLES, notes)
        for entity in entities:
            name = clean_name(entity.get("name") if isinstance(entity, dict) else entity)
            if name in draft:
                notes["entities listed twice in a passage: taken once"] += 1
            draft.entity(EntityMention(name))
        if not triples:
            notes["passages without triples: kept with their entities"] += 1
        read = [parts for triple in triples for parts in read_triple(triple, notes)]
        for parts in read:
            if len(parts) == 3:
                relation = RelationMention(parts[0], parts[2], statement(*parts))
                draft.relation(relation, added="ends of triples that are not listed: added as entities")
        for parts in read:  # only now is it known which part of what is no triple is an entity
            if len(parts) == 2:
                draft.fact(" ".join(parts), parts)
    return Imported(passages.items(drafts), finish(drafts, notes), dict(notes))


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of the passages with their places, in either form of the file."""
    with path.open("rb") as file:
        indented = file.readline(16).removeprefix(b"\xef\xbb\xbf").strip() == b"{"
    objects = [(str(path), json_object(path.read_bytes(), str(path)))] if indented else json_lines(path)
    for place, record in objects:
        docs = record.get("docs")
        if not isinstance(docs, list):
            yield place, record
            continue
        for number, passage in enumerate(docs):
            if not isinstance(passage, dict):
                raise ValueError(f"{place}: docs[{number}] is a {type(passage).__name__}, not an object")
            yield f"{place}: docs[{number}]", passage


class _Passages:
    """Texts of the passages: the caller's documents, or those in the file."""

    def __init__(self, documents: Iterable[Item] | None, notes: Counter[str]) -> None:
        self._given = None if documents is None else list(documents)
        self._texts = {
            _key(item): item.text if isinstance(item, Chunk) else "".join(item.blocks())
            for item in self._given or ()
        }
        self._by_text = {text.strip(): key for key, text in self._texts.items()}
        self._own: dict[str, Chunk] = {}
        self._notes = notes

    def key(self, record: Mapping[str, Any], place: str) -> str:
        """Key of a record's passage."""
        text = _first(record, _TEXTS)
        identity = clean_name(_first(record, _IDS))
        if not isinstance(text, str) or not text.strip():
            if not identity:
                raise ValueError(f"{place}: no passage id ({' or '.join(_IDS)}) and no text of the passage")
            if self._given is not None and identity not in self._texts:
                self._notes["passages that are not among the documents: extraction kept, without text"] += 1
            return identity
        if (key := self._by_text.get(text.strip())) is not None:
            return key
        if identity in self._texts:
            self._notes["passages with another text than their document: the document's text taken"] += 1
            return identity
        identity, title = identity or content_id(text), record.get("title")
        metadata = {"title": title} if isinstance(title, str) else {}
        self._own.setdefault(identity, Chunk(text, identity, 0, 0, len(text), metadata, ref=identity))
        return identity

    def items(self, extracted: Mapping[str, PassageDraft]) -> list[Item]:
        """The caller's documents, those with an extraction as one chunk each, and the file's."""
        result: list[Item] = []
        for item in self._given or ():
            key = _key(item)
            if key not in extracted:
                self._notes["documents without an extraction: returned as they are"] += 1
            elif not isinstance(item, Chunk):
                text = self._texts[key]
                item = Chunk(text, item.id, 0, 0, len(text), item.metadata, ref=key)
            result.append(item)
        return [*result, *self._own.values()]


def _key(item: Item) -> str:
    return (item.ref or item.document_id) if isinstance(item, Chunk) else item.id


def _first(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _listed(record: Mapping[str, Any], names: Iterable[str], notes: Counter[str]) -> list[Any]:
    value = _first(record, names)
    if value is None or isinstance(value, list):
        return value or []
    notes["entities or triples that are no list: taken as a list of one"] += 1
    return [value]
