"""The output folder of Microsoft GraphRAG: its tables, and what was extracted from which text units."""

from __future__ import annotations

import ast
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from stratagraph.errors import require
from stratagraph.importing.draft import (
    CommunityReport,
    Imported,
    PassageDraft,
    clean_name,
    finish,
    is_name,
    key_of,
    statement,
    strength_of,
)
from stratagraph.importing.lines import json_lines
from stratagraph.types.records import Chunk, EntityMention, RelationMention

Row = Mapping[str, Any]

TABLES = {
    "entities": ("entities", "create_final_entities"),
    "relationships": ("relationships", "create_final_relationships"),
    "text_units": ("text_units", "create_final_text_units", "create_base_text_units", "corpus"),
    "documents": ("documents", "create_final_documents"),
    "communities": ("communities", "create_final_communities"),
    "community_reports": ("community_reports", "create_final_community_reports"),
    "nodes": ("create_final_nodes",),
    "covariates": ("covariates", "create_final_covariates"),
}
_SUFFIXES = (".parquet", ".jsonl", ".json")
_FOLDERS = ("", "output", "artifacts", "output/artifacts")
_UNREAD = ("embedding", "findings", "full_content_json", "raw_content")  # large, and of no use here


class Tables:
    """The tables of a folder: parquet or JSON lines, under the names and columns of all GraphRAG versions."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"no such folder: {str(folder)!r}")
        self._files: dict[str, Path] = {}
        for place in (folder / name for name in _FOLDERS):
            for table, names in TABLES.items():
                paths = (place / f"{name}{suffix}" for name in names for suffix in _SUFFIXES)
                if path := next((path for path in paths if path.is_file()), None):
                    self._files[table] = path
            if "entities" in self._files:
                break
            self._files.clear()
        if missing := [name for name in ("entities", "text_units") if name not in self._files]:
            files = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
            wanted = ", ".join(f"{name}.parquet" for name in missing)
            raise ValueError(
                f"no table of {' and '.join(missing)} in {str(folder)!r}: looked for {wanted} (or .jsonl, or "
                f"older names), found {files}. Give the folder with the outputs of one GraphRAG run"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def rows(self, name: str) -> Iterator[Row]:
        """Rows of a table; none if the folder does not have it."""
        path = self._files.get(name)
        if path is None:
            return iter(())
        return _parquet(path) if path.suffix == ".parquet" else (row for _, row in json_lines(path))


def _parquet(path: Path) -> Iterator[Row]:
    require("parquet", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if not name.endswith(_UNREAD)]
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: not readable as parquet: {error}") from error


def text_of(row: Row, *names: str) -> str:
    """The first non-empty column, as stripped text."""
    for name in names:
        value = row.get(name)
        if isinstance(value, float):  # data frames leave a text out as NaN, and make floats of such numbers
            value = int(value) if value.is_integer() else value if value == value else None
        if value is not None and not isinstance(value, bool) and (text := str(value).strip()):
            return text
    return ""


def list_of(row: Row, *names: str) -> list[str]:
    """The first non-empty column, as a list of strings.

    A list written as text is read as JSON, as Python prints it, or separated by commas.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, str):
            value = _split(value.strip())
        elif isinstance(value, int) and not isinstance(value, bool):
            value = [value]
        if isinstance(value, list | tuple) and value:
            return [text for item in value if item is not None and (text := str(item).strip())]
    return []


def _split(text: str) -> list[Any]:
    if text.startswith("["):
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                if isinstance(value := read(text), list):
                    return value
        text = text.strip("[]")
    return [part.strip(" '\"\n") for part in text.split(",")]


_ID = ("id", "human_readable_id")
_UNLISTED = "ends of relations and claims that their text unit does not list: added as entities"


def read_graphrag(folder: str | os.PathLike[str]) -> Imported:
    """Read a GraphRAG index: text units as chunks, with their entities, relations, claims and reports.

    Tables are `entities`, `relationships`, `text_units`, `documents`, `communities`, `community_reports` and
    `covariates`, or `create_final_*` of older versions, as parquet or JSON lines. Entities and text units are
    required. Each text unit becomes a `Chunk` with its id as `ref`.

    GraphRAG keeps one description of an entity or relation for all its text units, so each of these gets the
    whole description; merging counts equal descriptions once. A relation's weight is divided among its text
    units.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such folder, or it lacks a required table.
    MissingExtra
        If the tables are parquet and pyarrow is not installed.
    """
    tables = Tables(Path(folder))
    notes: Counter[str] = Counter()
    units = _TextUnits(tables, notes)
    entities = _Entities(tables, units, notes)
    for row in tables.rows("relationships"):
        source, target = clean_name(text_of(row, "source")), clean_name(text_of(row, "target"))
        drafts = units.of(row)
        if not drafts:
            notes["relations of no text unit: left out, nothing says where they are from"] += 1
            continue
        if source not in entities or target not in entities:
            notes["relations naming an entity that is not there: kept, both ends as entities"] += 1
        description = text_of(row, "description")
        strength = strength_of(row.get("weight"), len(drafts))
        relation = RelationMention(source, target, description, strength)
        for draft in drafts:
            draft.relation(relation, description or statement(source, "", target), added=_UNLISTED)
    for row in tables.rows("covariates"):  # claims: facts of one text unit about a subject and an object
        drafts, claim = units.of(row), text_of(row, "description")
        if not drafts or not claim:
            notes["claims without text or text unit: left out"] += 1
        ends = [clean_name(text_of(row, column)) for column in ("subject_id", "object_id")]
        for draft in drafts:
            for end in ends:
                if end in entities and end not in draft:
                    notes[_UNLISTED] += 1
                    draft.entity(EntityMention(end))
            draft.fact(claim, ends)
    for name in ("relationships", "community_reports"):
        if name not in tables:
            notes[f"table of {name} not found: imported without"] = 1
    reports = tuple(_reports(tables, entities, notes))
    return Imported(list(units.chunks.values()), finish(units.drafts, notes), dict(notes), reports)


class _TextUnits:
    """Chunks in the order of their documents, their drafts, and the text units of each row."""

    def __init__(self, tables: Tables, notes: Counter[str]) -> None:
        self._notes = notes
        self._back: dict[str, list[str]] = defaultdict(list)  # from entities and relations to their units
        metadata: dict[str, dict[str, Any]] = {}
        places: dict[str, dict[str, int]] = {}  # document id -> its text units with their places
        for row in tables.rows("documents"):
            identity, title, own = text_of(row, *_ID), text_of(row, "title"), row.get("metadata")
            native = json.loads(json.dumps(own, default=str)) if isinstance(own, dict) else {}
            metadata[identity] = {**({"title": title} if title else {}), **native}
            units = list_of(row, "text_unit_ids")
            places[identity] = {unit: place for place, unit in enumerate(units)}
        owners = {unit: identity for identity, units in places.items() for unit in units}
        chunks: dict[str, Chunk] = {}
        for row in tables.rows("text_units"):
            identity = text_of(row, *_ID, "chunk_id")
            text = row.get("text") or row.get("chunk")
            if not identity or not isinstance(text, str) or not text.strip():
                notes["text units without id or text: left out"] += 1
                continue
            if identity in chunks:
                notes["text units whose id came before: left out"] += 1
                continue
            named, title = list_of(row, "document_ids", "document_id"), text_of(row, "title")
            if len(named) > 1:
                notes["text units of several documents: given to the first"] += 1
            document = named[0] if named else owners.get(identity, "")
            if not document:
                taken = "their title taken as one" if title else "each taken as one"
                notes[f"text units that name no document: {taken}"] += 1
            own_metadata = metadata.get(document) or ({"title": title} if title else {})
            chunks[identity] = Chunk(text, document or title or identity, metadata=own_metadata, ref=identity)
            for owner in (*list_of(row, "entity_ids"), *list_of(row, "relationship_ids")):
                self._back[owner].append(identity)
        members: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks.values():
            members[chunk.document_id].append(chunk)
        self.chunks: dict[str, Chunk] = {}
        for document, own_chunks in members.items():
            order = places.get(document, {})
            ranks = [order.get(chunk.ref, len(order)) for chunk in own_chunks]
            ranked = sorted(zip(ranks, own_chunks, strict=True), key=itemgetter(0))
            for ordinal, (_, chunk) in enumerate(ranked):
                self.chunks[chunk.ref] = replace(chunk, ordinal=ordinal)
        self.drafts = {identity: PassageDraft(notes) for identity in self.chunks}

    def of(self, row: Row) -> list[PassageDraft]:
        """Drafts of the text units that a row was extracted from."""
        listed = list_of(row, "text_unit_ids", "text_unit_id") or self._back.get(text_of(row, *_ID), [])
        identities = [identity for identity in dict.fromkeys(listed) if identity in self.drafts]
        if lost := len(set(listed)) - len(identities):
            self._notes["references to text units that are not there: left out"] += lost
        return [self.drafts[identity] for identity in identities]


class _Entities:
    """Names in the table of entities, each added to its text units."""

    def __init__(self, tables: Tables, units: _TextUnits, notes: Counter[str]) -> None:
        self.names: dict[str, str] = {}  # by canonical name
        self.ids: dict[str, str] = {}
        for row in tables.rows("entities"):
            name = clean_name(text_of(row, "title", "name"))
            if not is_name(name):
                notes["entities whose name is too long, or no word: left out"] += 1
                continue
            mention = EntityMention(name, text_of(row, "type"), text_of(row, "description"))
            self.names.setdefault(key_of(name), name)
            self.ids[text_of(row, *_ID)] = name
            drafts = units.of(row)
            if not drafts:
                notes["entities of no text unit: left out, nothing says where they are from"] += 1
            for draft in drafts:
                draft.entity(mention)

    def __contains__(self, name: str) -> bool:
        return key_of(name) in self.names


def _reports(tables: Tables, entities: _Entities, notes: Counter[str]) -> Iterator[CommunityReport]:
    communities = {text_of(row, "community", *_ID): row for row in tables.rows("communities")}
    by_node: dict[str, list[str]] = defaultdict(list)
    for row in tables.rows("nodes"):
        by_node[text_of(row, "community")].append(text_of(row, "title"))
    for row in tables.rows("community_reports"):
        identity = text_of(row, "community", *_ID)
        community = communities.pop(identity, {})
        listed = list_of(row, "members", "entities") or list_of(community, "entity_ids") or by_node[identity]
        members = [
            entities.ids.get(each) or entities.names.get(key_of(each)) for each in dict.fromkeys(listed)
        ]
        if lost := members.count(None):
            notes["members of communities that are no entities: left out"] += lost
        numbers: list[float | None] = []
        for number in (text_of(row, "rank", "rating"), text_of(row, "level") or text_of(community, "level")):
            try:
                numbers.append(float(number))
            except ValueError:
                numbers.append(None)
        yield CommunityReport(
            id=identity,
            title=text_of(row, "title"),
            summary=text_of(row, "summary"),
            text=text_of(row, "full_content"),
            rating=numbers[0],
            level=int(numbers[1] or 0),
            parent=(text_of(row, "parent") or text_of(community, "parent")).removeprefix("-1"),  # at the top
            members=tuple(dict.fromkeys(filter(None, members))),
        )
    if communities:
        notes["communities without a report: left out"] = len(communities)
