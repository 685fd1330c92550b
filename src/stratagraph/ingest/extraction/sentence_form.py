"""The form `sentences` of extraction: a model lists the names that each numbered sentence speaks of.

One prompt holds the sentences of several passages. A semantic unit is a sentence of the passage, with the
names that it leaves out put before it. The first name of a sentence is what it is about, and is related to
its other names. So each fact is stated once. The full form (`parsing`) states it three times: as a unit, in
descriptions of entities, and in those of relations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from pydantic import Field

from stratagraph.errors import ParseFailed
from stratagraph.ingest.extraction import by_rules
from stratagraph.ingest.extraction.parsing import ExtractionAnswer, Strict, Vocabulary, flat, read_name
from stratagraph.ingest.names.index import canonical, words
from stratagraph.models.structured import read_json
from stratagraph.text.sentences import middle, with_added
from stratagraph.text.statements import statements
from stratagraph.text.stopwords import FUNCTION
from stratagraph.types.records import EntityMention, RelationMention, SemanticUnit

JOINED = 120
"""Characters up to which neighbouring sentences of a line are numbered as one."""
LONGEST = 320
"""Characters of a numbered sentence; a longer one is cut at line breaks, clauses or words."""
MOST_NAMES = 24
"""Names of one sentence that are taken."""
EXPECTED_TYPE = "related to"
"""The type of the relations that an estimate expects."""
_MOST_SENTENCES = 10_000  # of a range of numbers in an answer
_WORD = re.compile(r"\w")
_NUMBERS = re.compile(r"\W*(\d{1,5})((?:\s*[-\u2013,]\s*\d{1,5})*)(?!\d)\s*[|:.)]*\s*")
_DATE = re.compile(r"[12]\d{3}(?:-\d\d){0,2}")

TypedRelation = tuple[int, str, str, str]
"""The number of a sentence, a type, the source and the target."""


class NamesSchema(Strict):
    """The JSON that a model is asked for."""

    sentences: list[str] = Field(description="A number and the names in the sentence: 3|Runa Vik|Soll")
    types: list[str] = Field(description="A type and the names of that type: person|Runa Vik|Ada Vik")


class TypedNamesSchema(NamesSchema):
    """The JSON with types of relations."""

    relations: list[str] = Field(
        description="A number, a type, source and target: 2|sold to|Runa Vik|Ada Vik"
    )


def cut(text: str) -> list[str]:
    """A passage as the sentences that are numbered, each on one line; joined, they have all its words.

    They are the statements of `text.statements`, the first row of a table with its header row. Short
    neighbouring sentences are joined. What is longer than `LONGEST` is cut where a line begins, or else at a
    clause or word.
    """
    spans: list[tuple[int, int]] = []
    last, begin = False, 0  # whether a record was the last, and where what is not numbered yet begins
    for each in statements(text):
        for start, end in _short_spans(text, begin, each.end):
            wordless = _WORD.search(text, start, end) is None
            joins = spans and not (last or each.record) and end - spans[-1][0] <= JOINED
            if spans and (wordless or (joins and "\n" not in text[spans[-1][1] : start])):
                start = spans.pop()[0]
            spans.append((start, end))
        last, begin = each.record, each.end
    return [" ".join(text[start:end].split()) for start, end in spans]


def _short_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cuts `text[start:end]` into stripped pieces of at most `LONGEST` characters."""
    piece = text[start:end]
    stripped = piece.strip()
    start += len(piece) - len(piece.lstrip())
    if len(stripped) <= LONGEST:
        if stripped:
            yield start, start + len(stripped)
    elif "\n" in stripped:
        for line in stripped.splitlines(keepends=True):
            yield from _short_spans(text, start, start + len(line))
            start += len(line)
    else:
        border = start + middle(stripped)
        yield from _short_spans(text, start, border)
        yield from _short_spans(text, border, start + len(stripped))


@dataclass(frozen=True, slots=True)
class NumberedSentences:
    """A chunk, its numbered sentences, and the title of its document."""

    id: str
    document: str
    sentences: Sequence[str]
    title: str = ""


def numbered(passages: Sequence[NumberedSentences]) -> str:
    """The sentences of passages for the prompt, one a line, numbered through.

    Neighbouring chunks of one document are one passage to the model.
    """
    lines: list[str] = []
    number, document = 0, None
    for passage in passages:
        if passage.document != document:
            document = passage.document
            lines.append("Passage")
        for sentence in passage.sentences:
            number += 1
            lines.append(f"{number} {sentence}")
    return "\n".join(lines)


@dataclass(frozen=True)
class NamedSentences:
    """An answer: names by number of the sentence, types by canonical name, and typed relations.

    `unread` counts what could not be read, by what it should be.
    """

    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    relations: Sequence[TypedRelation] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as `NamesSchema` asks for it."""
        kinds = dict.fromkeys(self.types.values())
        answer = {
            "sentences": ["|".join((str(number), *names)) for number, names in self.names.items()],
            "types": [
                "|".join((kind, *(name for name, own in self.types.items() if own == kind))) for kind in kinds
            ],
        }
        if self.relations:
            answer["relations"] = ["|".join(map(str, relation)) for relation in self.relations]
        return answer

    def of_passages(self, passages: Sequence[NumberedSentences]) -> list[ExtractionAnswer | None]:
        """The answer for each passage; None for a passage that the model left out.

        A name none of whose words stands in the passages of its document, or in their title, is dropped:
        neither another document nor the example of the prompt must speak for it. Faults of the whole answer
        are counted with the first passage.
        """
        texts: dict[str, list[str]] = {}
        for passage in passages:
            texts.setdefault(passage.document, [passage.title]).extend(passage.sentences)
        vocabularies = {document: Vocabulary(*own) for document, own in texts.items()}
        answers: list[ExtractionAnswer | None] = []
        first = 1
        for passage in passages:
            count = len(passage.sentences)
            unread = Counter[str]()
            listed = [self.names.get(first + at, ()) for at in range(count)]
            known = {name: vocabularies[passage.document].has(name) for name in chain(*listed)}
            names = []
            for own in listed:
                spellings: dict[str, str] = {}  # each name once in its first spelling
                for name in own:
                    if known[name] and (key := canonical(name)):
                        spellings.setdefault(key, name)
                names.append([*spellings.values()][:MOST_NAMES])
                if beyond := len(spellings) - len(names[-1]):
                    unread["names beyond the limit of a sentence"] += beyond
            relations = [
                (number - first, kind, source, target)
                for number, kind, source, target in self.relations
                if 0 <= number - first < count
            ]
            first += count
            if any(listed) or not count:
                answer = _answer(passage.sentences, names, self.types, unread, relations)
                answers.append(replace(answer, foreign=list(known.values()).count(False)))
            else:
                answers.append(None)
        numbers = [*self.names, *(number for number, *_ in self.relations)]
        strange = sum(number < 1 or number >= first for number in numbers)
        faults = Counter({**self.unread, "numbers of unknown sentences": strange})
        for at, one in enumerate(answers):
            if one is not None:
                answers[at] = replace(one, unread=Counter(one.unread) + faults)
                break
        return answers


def _answer(
    statements: Sequence[str],
    names: Sequence[Sequence[str]],
    types: Mapping[str, str],
    unread: Counter[str],
    typed: Sequence[TypedRelation],
) -> ExtractionAnswer:
    """Units, entities and relations of the sentences of a passage.

    A relation in `typed`, whose number is the place of its sentence here, replaces the one without a type. It
    may join names of any sentences.
    """
    units = []
    for sentence, listed in zip(statements, names, strict=True):
        spellings = [read_name(name) or name for name in listed]
        spoken = set(words(sentence))
        added = [name for name, raw in zip(spellings, listed, strict=True) if _left_out(raw, spoken)]
        units.append(SemanticUnit(with_added(added, sentence), tuple(spellings)))
    entities = {canonical(name): name for unit in units for name in unit.entities}
    of_sentence: dict[int, list[RelationMention]] = {}
    for place, kind, *ends in typed:
        source, target = (entities.get(canonical(read_name(end) or end), "") for end in ends)
        if source and target and source != target:
            relation = RelationMention(source, target, units[place].text, type=kind)
            of_sentence.setdefault(place, []).append(relation)
        else:
            unread["relations"] += 1
    relations: list[RelationMention] = []
    for place, unit in enumerate(units):
        own = of_sentence.get(place, [])
        joined = {frozenset((canonical(each.source), canonical(each.target))) for each in own}
        subject, *others = unit.entities or ("",)
        for name in others:
            pair = frozenset((canonical(subject), canonical(name)))
            if len(pair) == 2 and pair not in joined:
                relations.append(RelationMention(subject, name, unit.text))
        relations += own
    mentions = [
        EntityMention(name, "date" if _DATE.fullmatch(name) else types.get(key, ""))
        for key, name in entities.items()
    ]
    return ExtractionAnswer(tuple(units), tuple(mentions), tuple(relations), unread)


def _left_out(name: str, spoken: set[str]) -> bool:
    """Whether a sentence has less than half of a name's words; "sisters" has the word "sister"."""
    name_words = [word for word in words(name) if word not in FUNCTION] or words(name)
    heard = [
        word in spoken or (len(word) > 3 and any(each.startswith(word) for each in spoken))
        for word in name_words
    ]
    return 2 * sum(heard) < len(name_words)


def parse_named_sentences(answer: str) -> NamedSentences:
    """The names of sentences, and relations if there are any, from JSON.

    `ParseFailed` if it has another shape, or half of the sentences cannot be read.
    """
    return read_json(answer, _read_answer)


def _read_answer(value: Any, repaired: bool) -> NamedSentences | None:
    sections = _sections(value)
    if sections is None:
        return None
    entries = sections["sentences"]
    names: dict[int, list[str]] = {}
    unread = 0
    for entry in entries:
        numbers, own = _read_entry(entry)
        unread += not numbers
        for number in numbers:
            names.setdefault(number, []).extend(own)
    if 2 * unread > len(entries):
        raise ParseFailed(
            f"the JSON does not fit: {unread} of {len(entries)} sentences cannot be read; give each "
            'as a text that begins with its number, as in "3|Runa Vik|Soll"'
        )
    faults = Counter({"entries of sentences": unread})
    relations: list[TypedRelation] = []
    for each in sections["relations"]:
        head, *parts = [part.strip() for part in _bars(each, str | int).split("|")]
        numbers, _ = _read_entry(head)
        if numbers and len(parts) == 3 and all(parts):
            relations.append((numbers[0], parts[0], parts[1], parts[2]))
        else:
            faults["relations"] += 1
    return NamedSentences(names, _read_types(sections["types"]), faults, relations)


def _sections(value: Any) -> dict[str, list[Any]] | None:
    """The lists `sentences`, `types` and `relations`: of an object, one around it, or a list of either."""
    if isinstance(value, list):
        wholes = [inner for each in value if isinstance(each, dict) and (inner := _sections(each))]
        if wholes:
            return {key: [each for whole in wholes for each in whole[key]] for key in wholes[0]}
        return _lists(value) if any(isinstance(each, str | list) for each in value) else None
    if not isinstance(value, dict):
        return None
    plain = {"".join(filter(str.isalpha, str(key).casefold())): each for key, each in value.items()}
    keys = ("sentences", "sentence", "names")
    entries = next((plain[key] for key in keys if plain.get(key) is not None), None)
    if entries is not None or "types" in plain:
        return _lists(entries, plain.get("types"), plain.get("relations"))
    if value and all(str(key).strip().isdigit() for key in value):
        return _lists(value)
    inner = next(iter(value.values())) if len(value) == 1 else None
    return _sections(inner) if isinstance(inner, dict) else None


def _lists(entries: Any, types: Any = None, relations: Any = None) -> dict[str, list[Any]]:
    """Each value as a list: the items of an object as lists of two, another value alone."""
    lists = {}
    for key, value in (("sentences", entries), ("types", types), ("relations", relations)):
        if isinstance(value, dict):
            value = [list(item) for item in value.items()]
        lists[key] = value if isinstance(value, list) else [] if value is None else [value]
    return lists


def _read_entry(value: Any) -> tuple[Sequence[int], list[str]]:
    """The numbers that an entry begins with, and its names; no number if it cannot be read."""
    if isinstance(value, dict):
        keyed = {str(key).casefold(): each for key, each in value.items()}
        number = next((keyed[key] for key in ("number", "sentence", "id", "no", "n") if key in keyed), None)
        value = [number, next((keyed[key] for key in ("names", "things", "entities") if key in keyed), None)]
    head, *rest = [str(each) for each in flat(value) if isinstance(each, str | int)] or [""]
    match = _NUMBERS.match(head)
    if match is None:
        return (), []
    numbers = [int(match[1])]
    for joint, number in re.findall(r"([-\u2013,])\s*(\d+)", match[2]):
        if joint != "," and not 0 < int(number) - numbers[-1] < _MOST_SENTENCES:
            return (), []
        numbers += [int(number)] if joint == "," else range(numbers[-1] + 1, int(number) + 1)
    texts = "|".join((head[match.end() :], *rest)).split("|")
    return numbers, [name for text in texts if (name := text.strip())]


def _read_types(entries: Sequence[Any]) -> dict[str, str]:
    """Types by canonical name, from entries such as `person|Runa Vik|Ada`."""
    types: dict[str, str] = {}
    for each in entries:
        kind, names = [*re.split("[|:]", _bars(each, str), maxsplit=1), ""][:2]
        for name in names.split("|"):
            if kind.strip() and (key := canonical(read_name(name) or "")):
                types.setdefault(key, kind.strip())
    return types


def _bars(entry: Any, kinds: Any) -> str:
    """An entry as one text with bars: a text, or a list or object of its parts, which are of some `kinds`."""
    parts = flat(list(entry.values()) if isinstance(entry, dict) else entry)
    return "|".join(str(part) for part in parts if isinstance(part, kinds))


def expected_names(shown: str, relation_types: str) -> NamedSentences:
    """What an estimate expects a model to answer: names and dates by rules.

    The first name of a passage is expected with all its sentences, which are mostly about it. With types of
    relations, every second sentence of several names has one relation.
    """
    names: dict[int, list[str]] = {}
    main = ""
    for line in shown.splitlines():
        number, _, sentence = line.partition(" ")
        if not number.isdigit():
            main = ""
            continue
        own = by_rules.question_entities(sentence)
        main = main or next(iter(own), " ".join(sentence.split()[:2]))
        names[int(number)] = list(dict.fromkeys([main, *own]))
    every = {canonical(name): name for own in names.values() for name in own}
    types = dict.fromkeys(filter(None, every.values()), "concept")
    several = [(number, own) for number, own in names.items() if len(own) > 1] if relation_types else []
    relations = [(number, EXPECTED_TYPE, own[0], own[1]) for number, own in several[::2]]
    return NamedSentences(names, types, relations=relations)
