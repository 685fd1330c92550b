"""Variants and namesakes: one thing under several names, and several things under one name.

Entities are collected by the spelling of their names. What one document says under a name is an entry.
Entries of a name are joined if their documents also name something else in common: they speak of the same
thing.

Entries are compared if their names are alike (`entity_resolution`), if a sentence says that two names
belong to one thing, or if documents seem to mean different things by one name. Titles show the last
("Mercury (planet)"), and so do different types. A model decides which entries are the same, many groups in
one call. Without a model only titles tell namesakes apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from stratagraph.ingest.extraction.stored import extractions
from stratagraph.ingest.names.spelling import canonical_name
from stratagraph.models.gate import CallItem, Gate, Task
from stratagraph.models.prompts import load_prompt
from stratagraph.models.structured import read_json
from stratagraph.text.statements import title_line
from stratagraph.types.protocols import Corpus, Stored
from stratagraph.types.records import Extraction

MOST_ENTRIES = 12
"""Entries of a group that are compared: those with the most documents."""
TOGETHER = 40
"""Entries of one call."""
MOST_CALLS = 25
"""Calls of a build. The groups with the fewest documents are left out beyond it."""
_STATEMENTS, _LONGEST = 2, 240  # statements of an entry, and characters of one, or of a title
_BATCH = 1024  # documents whose titles are read at a time
Pair = tuple[str, str]
"""Two canonical names."""
_BRACKET = re.compile(r"(?P<name>[^()\[\],]+?)\s*(?:\((?P<kind>[^()]+)\)|,\s*(?P<place>[^,()]+))\s*")


class SameSchema(BaseModel):
    """The JSON that is asked for."""

    model_config = ConfigDict(extra="forbid")

    things: list[str] = Field(description="The numbers of the entries of one thing: 2|3")


TASK = Task(
    name="same_things",
    prompt=load_prompt("stratagraph.ingest", "same_things"),
    parse=lambda answer: read_json(answer, _read),
    schema=SameSchema,
    expected_output_tokens=TOGETHER * 3,
    placeholder=lambda values: _Same([re.findall(r"(?m)^\d+(?= )", values["entries"])]),
)


@dataclass(frozen=True)
class _Same:
    """The groups of an answer, each as entry numbers; `unread` counts values that are no numbers."""

    things: Sequence[Sequence[str | int]]
    unread: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"things": ["|".join(map(str, each)) for each in self.things]}


def _read(value: Any, repaired: bool) -> _Same | None:
    given = value.get("things") if isinstance(value, dict) else value
    if not isinstance(given, list):
        return None
    things, unread = [], 0
    for each in given:
        parts = each if isinstance(each, list) else str(each).split("|")
        numbers = [int(text) for part in parts if (text := str(part).strip()).isdecimal() and len(text) < 7]
        unread += len(parts) - len(numbers)
        things.append(numbers)
    return _Same(things, unread)


@dataclass(slots=True)
class Entry:
    """The statements of some documents under one name."""

    key: str
    documents: list[int]
    chunks: list[int] = field(default_factory=list)
    types: Counter[str] = field(default_factory=Counter)
    company: Counter[str] = field(default_factory=Counter)
    statements: list[str] = field(default_factory=list)

    def __add__(self, other: Entry) -> Entry:
        """Both as one entry of the name."""
        return Entry(
            self.key,
            self.documents + other.documents,
            self.chunks + other.chunks,
            self.types + other.types,
            self.company + other.company,
            self.statements + other.statements,
        )


class Identity(NamedTuple):
    """What to collect under another name: `apart` by chunk and canonical name, and `aliases` everywhere."""

    apart: Mapping[int, Mapping[str, str]]
    aliases: Mapping[str, str]
    judged: frozenset[Pair]
    notes: Mapping[str, int]


class Identities:
    """Finds variants and namesakes in a corpus; `names` are the shown names by canonical ones."""

    def __init__(self, corpus: Corpus, extracted: Stored, names: Mapping[str, str]) -> None:
        self._documents = corpus.chunk_documents()
        self._extracted = extracted
        self._names = names
        self._titles = _titles(corpus, self._documents)
        # The longer names that titles give, as "Mercury (planet)" for "Mercury", by key and document.
        self._senses: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for document, title in self._titles.items():
            if (parts := _BRACKET.fullmatch(title)) and (key := canonical_name(parts["name"])) in names:
                self._senses[key][document] = f"{parts['name']} ({parts['kind'] or parts['place']})"

    def _read(self) -> Iterator[tuple[int, int, Extraction]]:
        """All extractions, with their chunks and documents."""
        for chunk, extraction in extractions(self._extracted, len(self._documents)):
            yield chunk, int(self._documents[chunk]), extraction

    def by_titles(self) -> Identity:
        """Namesakes that titles of two documents or more tell apart."""
        several = {key for key, senses in self._senses.items() if len(set(senses.values())) > 1}
        apart: defaultdict[int, dict[str, str]] = defaultdict(dict)
        notes = {}
        names_of = {
            (document, canonical_name(each.name))
            for _, document, extraction in (self._read() if several else ())
            for each in extraction.entities
        }
        spread, every = Counter(key for _, key in names_of), len(self._titles)
        for key, entries in self._entries(several).items():
            senses = self._senses[key]
            owners = {name: Counter[str]() for name in senses.values()}
            for entry in entries:
                if entry.documents[0] in senses:
                    owners[senses[entry.documents[0]]] += entry.company
            for entry in entries:
                name = senses.get(entry.documents[0]) or _nearest(entry, owners, spread, every)
                for chunk in entry.chunks if name else ():
                    apart[chunk][key] = name
            notes[f"told apart: {', '.join(map(repr, owners))}"] = 1
        return Identity(apart, {}, frozenset(), notes)

    async def by_model(self, pairs: Sequence[Pair], gate: Gate) -> Identity:
        """Variants among pairs of names, and namesakes, as a model tells them."""
        doubtful = set(self._senses) | self._of_several_types()
        keys = doubtful | {key for pair in pairs for key in pair}
        entries = {
            key: _bundled(answers, self._senses.get(key, {})) for key, answers in self._entries(keys).items()
        }
        groups = []
        for group in _groups(keys, pairs):  # of each the entries with the most documents
            every = [entry for key in group for entry in entries[key]]
            every.sort(key=lambda each: (-len(each.documents), each.key, each.documents))
            groups += [every[:MOST_ENTRIES]] if len(every) > 1 else []
        groups.sort(key=lambda group: (-sum(len(entry.documents) for entry in group), group[0].key))
        calls: list[list[list[Entry]]] = []
        for own in groups:
            if not calls or sum(map(len, calls[-1])) + len(own) > TOGETHER:
                calls.append([])
            calls[-1].append(own)
        answers = await gate.map(TASK, [self._item(each) for each in calls[:MOST_CALLS]], required=False)
        notes = Counter({"groups of names not asked about": sum(map(len, calls[MOST_CALLS:]))})
        things: list[tuple[Sequence[Entry], list[list[Entry]]]] = []
        for call, answer in zip(calls, answers, strict=False):
            if answer is None:
                notes["groups of names about which the model failed"] += len(call)
            else:
                things += _things_of(call, answer, notes)
        return self._applied(things, notes)

    def _of_several_types(self) -> set[str]:
        """The names whose documents give them different types."""
        types: defaultdict[str, dict[int, set[str]]] = defaultdict(dict)
        for _, document, extraction in self._read():
            for each in extraction.entities:
                if each.type and each.type != "date":
                    types[canonical_name(each.name)].setdefault(document, set()).add(each.type.casefold())
        return {
            key
            for key, by_document in types.items()
            if key in self._names and len(by_document) > 1 and not set.intersection(*by_document.values())
        }

    def _entries(self, keys: set[str]) -> dict[str, list[Entry]]:
        """The entries of each of these names, one for each document."""
        by_place: dict[tuple[str, int], Entry] = {}
        for chunk, document, extraction in self._read() if keys else ():
            types: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for each in extraction.entities:
                types[canonical_name(each.name)][each.type] += bool(each.type)
            for unit in extraction.units:
                for name in unit.entities:
                    types[canonical_name(name)]
            named = keys & types.keys()
            for key in named:
                entry = by_place.setdefault((key, document), Entry(key, [document]))
                entry.chunks.append(chunk)
                entry.types += types[key]
                entry.company.update(
                    other
                    for other, kinds in types.items()
                    if other not in (key, "") and "date" not in kinds and not other[0].isdigit()
                )
            for text, names in _statements(extraction):
                for key in named.intersection(map(canonical_name, names)):
                    statements = by_place[key, document].statements
                    if len(statements) < _STATEMENTS and text not in statements:
                        statements.append(text)
        by_key: dict[str, list[Entry]] = {key: [] for key in sorted(keys)}
        for (key, _), entry in sorted(by_place.items(), key=lambda item: item[0]):
            by_key[key].append(entry)
        return by_key

    def _item(self, call: Sequence[Sequence[Entry]]) -> CallItem:
        lines, number = [], 0
        for at, group in enumerate(call, 1):
            lines.append(f"Group {at}")
            for entry in group:
                number += 1
                kind = f" ({kinds[0][0]})" if (kinds := entry.types.most_common(1)) else ""
                title = self._titles[entry.documents[0]]
                place = f', in "{" ".join(title.split())}"' if title else ""
                statements = " ".join(
                    " ".join(text.split())[:_LONGEST] for text in entry.statements[:_STATEMENTS]
                )
                lines.append(f"{number} {self._names[entry.key]}{kind}{place}: {statements}")
        names = dict.fromkeys(self._names[entry.key] for group in call for entry in group)
        return CallItem({"entries": "\n".join(lines)}, f"the names {', '.join(names)}"[:_LONGEST])

    def _applied(
        self, groups: Iterable[tuple[Sequence[Entry], list[list[Entry]]]], notes: Counter[str]
    ) -> Identity:
        apart: defaultdict[int, dict[str, str]] = defaultdict(dict)
        renamed: dict[str, str] = {}
        judged: set[Pair] = set()
        for group, things in groups:
            in_things = Counter(key for thing in things for key in {entry.key for entry in thing})
            keys_of_group = sorted({entry.key for entry in group})
            judged.update((one, two) for one in keys_of_group for two in keys_of_group if one != two)
            for thing in things:
                keys = []
                for key in sorted({entry.key for entry in thing}):
                    if in_things[key] == 1:
                        keys.append(key)
                        continue
                    name = self._told_apart(key, thing, [each for each in things if each is not thing])
                    keys.append(canonical_name(name))
                    notes[f"told apart: {name!r}"] += 1
                    for entry in thing:
                        for chunk in entry.chunks if entry.key == key else ():
                            apart[chunk][key] = name
                target = min(keys, key=lambda key: (-len(key), key))
                for key in keys:
                    if key != target:
                        renamed[key] = target
                        notes[f"resolved: {key!r} is {target!r} (by the model)"] += 1
        return Identity(apart, renamed, frozenset(judged), +notes)

    def _told_apart(self, key: str, thing: Sequence[Entry], others: Sequence[Sequence[Entry]]) -> str:
        """A name followed by its distinction from namesakes in brackets."""
        own = [entry for entry in thing if entry.key == key]
        rest = [entry for each in others for entry in each if entry.key == key]
        for document in (document for entry in own for document in entry.documents):
            if name := self._senses.get(key, {}).get(document):
                return name
        kinds = Counter(kind for entry in own for kind in entry.types.elements())
        company = Counter(name for entry in own for name in entry.company.elements())
        for each in rest:
            kinds = Counter({kind: n for kind, n in kinds.items() if kind not in each.types})
            company = Counter({name: n for name, n in company.items() if name not in each.company})
        best = [kind for kind, _ in kinds.most_common(1)] or [
            self._names.get(name, name)
            for name in sorted(company, key=lambda name: (-company[name], name))[:1]
        ]
        title = best[0] if best else self._titles[own[0].documents[0]] or str(own[0].documents[0])
        return f"{self._names[key]} ({title})"


def collected_as(extraction: Extraction, names: Mapping[str, str]) -> Extraction:
    """An extraction with some names, by canonical name, replaced."""

    def other(name: str) -> str:
        return names.get(canonical_name(name), name)

    return Extraction(
        units=tuple(replace(unit, entities=tuple(map(other, unit.entities))) for unit in extraction.units),
        entities=tuple(replace(each, name=other(each.name)) for each in extraction.entities),
        relations=tuple(
            replace(each, source=other(each.source), target=other(each.target))
            for each in extraction.relations
        ),
        terms=extraction.terms,
    )


def _titles(corpus: Corpus, documents: NDArray[np.int32]) -> dict[int, str]:
    """The title of each document: that of its metadata, else its first line if it looks like one."""
    numbers, rows = np.unique(documents, return_index=True)
    titles: dict[int, str] = {}
    for start in range(0, len(rows), _BATCH):
        part = slice(start, start + _BATCH)
        for number, chunk in zip(numbers[part].tolist(), corpus.chunks(rows[part].tolist()), strict=True):
            titles[number] = str(chunk.metadata.get("title") or title_line(chunk.text)[0])[:_LONGEST]
    return titles


def _statements(extraction: Extraction) -> Iterator[tuple[str, Sequence[str]]]:
    """The descriptions of entities and the units of an extraction, each with the names it is about."""
    for each in extraction.entities:
        if each.description:
            yield each.description, (each.name,)
    for unit in extraction.units:
        yield unit.text, unit.entities


def _nearest(entry: Entry, owners: Mapping[str, Counter[str]], spread: Counter[str], every: int) -> str:
    """The namesake whose documents share most names with an entry; "" if none does."""
    weight = {name: math.log(1 + every / spread[name]) for name in entry.company if spread[name]}
    scores = {name: sum(weight[key] for key in weight.keys() & own) for name, own in owners.items()}
    best, *rest = sorted(scores.values(), reverse=True)
    return max(scores, key=lambda name: scores[name]) if best > max(rest, default=0.0) else ""


def _bundled(entries: Sequence[Entry], senses: Mapping[int, str]) -> list[Entry]:
    """Join entries of one name that also share another name, unless titles give them two senses."""
    bundles: list[tuple[str, Entry]] = []
    for entry in sorted(entries, key=lambda each: each.documents[0] not in senses):
        sense, new, rest = senses.get(entry.documents[0], ""), entry, []
        for other, bundle in bundles:
            if (sense and other and sense != other) or bundle.company.keys().isdisjoint(entry.company):
                rest.append((other, bundle))
            else:
                sense = sense or other
                new += bundle
        bundles = [*rest, (sense, new)]
    joined = [bundle for _, bundle in bundles]
    return sorted(joined, key=lambda each: (-len(each.documents), min(each.documents)))


def _groups(keys: Set[str], pairs: Iterable[Pair]) -> list[list[str]]:
    """Names that pairs connect."""
    group = {key: [key] for key in sorted(keys)}
    for alias, kept in pairs:
        one, two = group[alias], group[kept]
        if one is not two:
            one += two
            group.update(dict.fromkeys(two, one))
    return list({id(each): each for each in group.values()}.values())


def _things_of(
    call: Sequence[Sequence[Entry]], answer: _Same, notes: Counter[str]
) -> Iterator[tuple[Sequence[Entry], list[list[Entry]]]]:
    """The entities of each group; unknown, repeated and foreign numbers are counted."""
    place = [(at, entry) for at, group in enumerate(call) for entry in group]
    things: list[list[list[Entry]]] = [[] for _ in call]
    unread, used = answer.unread, set[int]()
    for numbers in answer.things:
        own = [int(number) for number in numbers if 0 < int(number) <= len(place)]
        same_name = [
            n for n in dict.fromkeys(own) if n not in used and place[n - 1][0] == place[own[0] - 1][0]
        ]
        unread += len(numbers) - len(same_name)
        used.update(same_name)
        if same_name:
            things[place[same_name[0] - 1][0]].append([place[n - 1][1] for n in same_name])
    notes["numbers of unknown entries"] += unread
    return zip(call, things, strict=True)
