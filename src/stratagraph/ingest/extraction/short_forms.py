"""Two short forms of extraction: names for numbered sentences, and facts with marked names.

Both say everything once. The full form (`parsing`) tells each fact three times: as a unit, in descriptions of
entities, and in those of relations. Here a statement describes all that it names, and its main name, which is
the first, is related to each other one. What is read becomes an `ExtractionAnswer`, as in the full form.

`sentences`: the model sees numbered sentences, of several passages at once, and gives the names that each
speaks of. The statements are the passage's own sentences, with the names that they leave out put before them.
`facts`: the model writes statements with names in double square brackets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic import Field

from stratagraph.errors import ParseFailed
from stratagraph.ingest.extraction import by_rules
from stratagraph.ingest.extraction.parsing import ExtractionAnswer, Strict, flat, read_name
from stratagraph.ingest.names.index import canonical, words
from stratagraph.models.structured import read_json
from stratagraph.text.sentences import middle, sentences, with_added
from stratagraph.text.stopwords import FUNCTION
from stratagraph.types.records import EntityMention, RelationMention, SemanticUnit

JOINED = 120
"""Characters up to which neighbouring sentences of a line are numbered as one."""
LONGEST = 320
"""Characters of a numbered sentence; a longer one is cut at line breaks, clauses or words."""
MOST_NAMES = 24
"""Names of one statement that are taken."""
_MOST_SENTENCES = 10_000  # a number beyond is none of ours
_WORD = re.compile(r"\w")
# A line that begins like a turn of a conversation, an item of a list, or a row of a table.
_TURN = re.compile(r"\n(?=[^\s:][^\n:]{0,40}: |\s*(?:[-*\u2022]\s|[#|]|\d{1,3}[.)]\s))")
_NUMBERS = re.compile(r"\W*(\d{1,5})((?:\s*[-\u2013,]\s*\d{1,5})*)(?!\d)\s*[|:.)]*\s*")
_DATE = re.compile(r"[12]\d{3}(?:-\d\d){0,2}")
_MARKED = re.compile(r"\[\[([^\[\]\n]+)\]\]")
_STRAY = re.compile(r"\[\[|\]\]")


class NamesSchema(Strict):
    """The JSON of the form `sentences`."""

    sentences: list[str] = Field(description="A number and the names in the sentence: 3|Runa Vik|Soll")
    types: list[str] = Field(description="A type and the names of that type: person|Runa Vik|Ada Vik")


class TypedNamesSchema(NamesSchema):
    """With types of relations."""

    relations: list[str] = Field(
        description="A number, a type, source and target: 2|sold to|Runa Vik|Ada Vik"
    )


class FactsSchema(Strict):
    """The JSON of the form `facts`."""

    facts: list[str] = Field(description="A sentence with [[names]] in double square brackets")
    types: list[str] = Field(description="A type and the names of that type: person|Runa Vik|Ada Vik")


class TypedFactsSchema(FactsSchema):
    """With types of relations."""

    relations: list[str] = Field(description="A type, source and target: sold to|Runa Vik|Ada Vik")


def cut(text: str) -> list[str]:
    """A passage as the sentences that are numbered, each on one line; joined, they have all its words.

    Sentences are those of `text.sentences`. Short neighbours are joined, and what has no full stops (a
    table, code, some languages) is cut where a line begins, or else at a clause or word.
    """
    spans: list[tuple[int, int]] = []
    for start, end in _pieces(text):
        wordless = _WORD.search(text, start, end) is None
        if spans and (wordless or (end - spans[-1][0] <= JOINED and "\n" not in text[spans[-1][1] : start])):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [" ".join(text[start:end].split()) for start, end in spans]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    for start, end in sentences(text):
        borders = [start, *(turn.end() for turn in _TURN.finditer(text, start, end)), end]
        for first, last in pairwise(borders):
            yield from _short(text, first, last)


def _short(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    stripped = piece.strip()
    start += len(piece) - len(piece.lstrip())
    if len(stripped) <= LONGEST:
        if stripped:
            yield start, start + len(stripped)
    elif "\n" in stripped:
        for line in stripped.splitlines(keepends=True):
            yield from _short(text, start, start + len(line))
            start += len(line)
    else:
        cut_at = start + middle(stripped)
        yield from _short(text, start, cut_at)
        yield from _short(text, cut_at, start + len(stripped))


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk and its numbered sentences."""

    id: str
    document: str
    sentences: Sequence[str]


def numbered(passages: Sequence[Passage]) -> str:
    """The sentences of passages for the prompt, numbered through; each has a line, which it cannot leave.

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
    """The names of each sentence, by number, the types of names, by canonical name, and typed relations.

    A relation is a number, the type, the source and the target. `unread` counts what could not be read, by
    what it should be.
    """

    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    relations: Sequence[tuple[int, str, str, str]] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as `NamesSchema` asks for it."""
        entries = ["|".join((str(number), *names)) for number, names in self.names.items()]
        related = ["|".join(map(str, each)) for each in self.relations]
        more = {"relations": related} if related else {}
        return {"sentences": entries, "types": _types_as_json(self.types), **more}

    def of_passages(self, passages: Sequence[Passage]) -> list[ExtractionAnswer | None]:
        """The answer for each passage; None for a passage that the model left out.

        A name whose words stand in another document and not in the sentence's own is dropped: one document
        must not speak for another. What is wrong with the whole answer is counted with the first passage.
        """
        vocabulary: dict[str, set[str]] = {}
        for passage in passages:
            own_words = vocabulary.setdefault(passage.document, set())
            own_words.update(word for sentence in passage.sentences for word in words(sentence))
        answers: list[ExtractionAnswer | None] = []
        first = 1
        for passage in passages:
            own = passage.sentences
            others = [each for document, each in vocabulary.items() if document != passage.document]
            unread = Counter[str]()
            given = [self.names.get(first + at, ()) for at in range(len(own))]
            kept = [_own_names(names, vocabulary[passage.document], others, unread) for names in given]
            typed = [
                (each[0] - first, *each[1:]) for each in self.relations if 0 <= each[0] - first < len(own)
            ]
            first += len(own)
            answers.append(_answer(own, kept, self.types, unread, typed) if any(kept) or not own else None)
        numbers = [*self.names, *(number for number, *_ in self.relations)]
        strange = sum(number < 1 or number >= first for number in numbers)
        wrong = Counter({**self.unread, "numbers of unknown sentences": strange})
        at = next((at for at, answer in enumerate(answers) if answer is not None), None)
        if at is not None and (answer := answers[at]) is not None:
            answers[at] = ExtractionAnswer(
                answer.units, answer.entities, answer.relations, Counter(answer.unread) + wrong
            )
        return answers


def _own_names(
    given: Sequence[str], own: set[str], others: Sequence[set[str]], unread: Counter[str]
) -> list[str]:
    kept = []
    for name in _each_once(given):
        letters = [word for word in words(name) if not word.isdigit()]
        if letters and own.isdisjoint(letters) and any(each.issuperset(letters) for each in others):
            unread["names from another document"] += 1
        else:
            kept.append(name)
    if len(kept) > MOST_NAMES:
        unread["names beyond the limit of a sentence"] += len(kept) - MOST_NAMES
    return kept[:MOST_NAMES]


def _answer(
    statements: Sequence[str],
    named: Sequence[Sequence[str]],
    types: Mapping[str, str],
    unread: Counter[str],
    typed: Sequence[tuple[int, str, str, str]],
) -> ExtractionAnswer:
    """Units of sentences, with the names that they leave out before them."""
    units = []
    for sentence, given in zip(statements, named, strict=True):
        names = [read_name(name) or name for name in given]
        spoken = set(words(sentence))
        added = [name for name, raw in zip(names, given, strict=True) if _left_out(raw, spoken)]
        units.append(SemanticUnit(with_added(added, sentence), tuple(names)))
    return _related(units, types, unread, typed)


def _each_once(names: Sequence[str]) -> list[str]:
    """Names that have a letter or digit, each in the spelling met first."""
    spellings: dict[str, str] = {}
    for name in names:
        spellings.setdefault(canonical(name), name)
    spellings.pop("", None)
    return list(spellings.values())


def _left_out(name: str, spoken: Collection[str]) -> bool:
    """Whether a sentence has less than half of a name's words; "sisters" has the word "sister"."""
    own = [word for word in words(name) if word not in FUNCTION] or words(name)
    heard = [
        word in spoken or (len(word) > 3 and any(each.startswith(word) for each in spoken)) for word in own
    ]
    return 2 * sum(heard) < len(own)


def _related(
    units: Sequence[SemanticUnit],
    types: Mapping[str, str],
    unread: Counter[str],
    typed: Sequence[tuple[int, str, str, str]] = (),
) -> ExtractionAnswer:
    """Entities and relations of statements: the first name of each is related to its other names.

    A relation in `typed`, which begins with the place of its unit, takes the place of one without a type. It
    joins names of any units.
    """
    entities = {canonical(name): name for unit in units for name in unit.entities}
    told: dict[int, list[RelationMention]] = {}
    for place, kind, *ends in typed:
        source, target = (entities.get(canonical(read_name(end) or end), "") for end in ends)
        if source and target and source != target:
            told.setdefault(place, []).append(RelationMention(source, target, units[place].text, type=kind))
        else:
            unread["relations"] += 1
    apart = {
        (place, *sorted((canonical(each.source), canonical(each.target))))
        for place, own in told.items()
        for each in own
    }
    return ExtractionAnswer(
        tuple(units),
        tuple(EntityMention(name, _type(name, key, types)) for key, name in entities.items()),
        tuple(
            relation
            for place, unit in enumerate(units)
            for relation in (
                *(
                    RelationMention(unit.entities[0], other, unit.text)
                    for other in unit.entities[1:]
                    if canonical(other) != canonical(unit.entities[0])
                    and (place, *sorted((canonical(other), canonical(unit.entities[0])))) not in apart
                ),
                *told.get(place, ()),
            )
        ),
        unread,
    )


def _type(name: str, key: str, types: Mapping[str, str]) -> str:
    return "date" if _DATE.fullmatch(name) else types.get(key, "")


def parse_named_sentences(answer: str, *, typed: bool = False) -> NamedSentences:
    """The names of sentences from JSON, with `typed` also relations.

    Raises
    ------
    ParseFailed
        If it has another shape, or half of the sentences cannot be read.
    """
    return read_json(answer, partial(_read_named, typed=typed))


def _read_named(value: Any, repaired: bool, *, typed: bool) -> NamedSentences | None:
    given = _sections(value, ("sentences", "sentence", "names"))
    if given is None:
        return None
    names: dict[int, list[str]] = {}
    unread = 0
    for entry in given.elements:
        numbers, own = _read_entry(entry)
        unread += not numbers
        for number in numbers:
            names.setdefault(number, []).extend(own)
    if 2 * unread > len(given.elements):
        raise ParseFailed(
            f"the JSON does not fit: {unread} of {len(given.elements)} sentences cannot be read; give each "
            'as a text that begins with its number, as in "3|Runa Vik|Soll"'
        )
    relations = []
    wrong = Counter({"entries of sentences": unread})
    for parts in _read_relations(given.relations, 4, wrong) if typed else ():
        if numbers := _read_entry(parts[0])[0]:
            relations.append((numbers[0], parts[1], parts[2], parts[3]))
        else:
            wrong["relations"] += 1
    return NamedSentences(names, given.types, wrong, relations)


class _Given(NamedTuple):
    """The lists of an answer; types by canonical name."""

    elements: list[Any]
    types: dict[str, str]
    relations: list[Any]


def _sections(value: Any, keys: Collection[str]) -> _Given | None:
    """The lists of an answer: of an object, one around it, or a list of the elements."""
    if isinstance(value, list):
        wholes = [inner for each in value if isinstance(each, dict) and (inner := _sections(each, keys))]
        if wholes:
            return _Given(
                [each for whole in wholes for each in whole.elements],
                {name: kind for whole in wholes for name, kind in whole.types.items()},
                [each for whole in wholes for each in whole.relations],
            )
        return _Given(value, {}, []) if any(isinstance(each, str | list) for each in value) else None
    if not isinstance(value, dict):
        return None
    plain = {"".join(filter(str.isalpha, str(key).casefold())): each for key, each in value.items()}
    elements = next((plain[key] for key in keys if plain.get(key) is not None), None)
    if elements is not None or "types" in plain:
        return _Given(_listed(elements), _read_types(plain.get("types")), _listed(plain.get("relations")))
    if value and all(str(key).strip().isdigit() for key in value):
        return _Given(_listed(value), {}, [])
    inner = next(iter(value.values())) if len(value) == 1 else None
    return _sections(inner, keys) if isinstance(inner, dict) else None


def _listed(value: Any) -> list[Any]:
    """A list; of an object its items as lists of two, another value alone."""
    if isinstance(value, dict):
        return [list(item) for item in value.items()]
    return value if isinstance(value, list) else [] if value is None else [value]


def _read_entry(value: Any) -> tuple[Sequence[int], list[str]]:
    """The numbers that an entry begins with, and its names; no number if it cannot be read."""
    if isinstance(value, dict):
        keyed = {str(key).casefold(): each for key, each in value.items()}
        number = next((keyed[key] for key in ("number", "sentence", "id", "no", "n") if key in keyed), None)
        value = [number, next((keyed[key] for key in ("names", "things", "entities") if key in keyed), None)]
    head, *rest = [str(each) for each in flat(value) if isinstance(each, str | int)] or [""]
    numbered = _NUMBERS.match(head)
    if numbered is None:
        return (), []
    parts = re.findall(r"([-\u2013,])\s*(\d+)", numbered[2])
    numbers = [int(numbered[1])]
    for joint, number in parts:
        if joint != "," and not 0 < int(number) - numbers[-1] < _MOST_SENTENCES:
            return (), []
        numbers += [int(number)] if joint == "," else range(numbers[-1] + 1, int(number) + 1)
    texts = "|".join((head[numbered.end() :], *rest)).split("|")
    return numbers, [name for text in texts if (name := text.strip())]


def _read_types(value: Any) -> dict[str, str]:
    """Types by canonical name, from texts such as `person|Runa Vik|Ada`, or an object of types."""
    kinds: dict[str, str] = {}
    for each in _listed(value):
        if isinstance(each, dict):
            each = list(each.values())
        text = "|".join(str(part) for part in flat(each) if isinstance(part, str))
        kind, names = [*re.split("[|:]", text, maxsplit=1), ""][:2]
        for name in names.split("|"):
            if kind.strip() and (key := canonical(read_name(name) or "")):
                kinds.setdefault(key, kind.strip())
    return kinds


def _read_relations(given: Iterable[Any], size: int, unread: Counter[str]) -> list[list[str]]:
    """The parts of relations, from texts such as `sold to|Runa Vik|Ada`, or lists or objects of the parts."""
    relations = []
    for each in given:
        if isinstance(each, dict):
            each = list(each.values())
        text = "|".join(str(part) for part in flat(each) if isinstance(part, str | int))
        parts = [part.strip() for part in text.split("|")]
        if len(parts) == size and all(parts):
            relations.append(parts)
        else:
            unread["relations"] += 1
    return relations


def _types_as_json(types: Mapping[str, str]) -> list[str]:
    return [
        "|".join((kind, *(name for name, own in types.items() if own == kind)))
        for kind in dict.fromkeys(types.values())
    ]


def parse_facts(answer: str, *, typed: bool = False) -> ExtractionAnswer:
    """Statements with marked names from JSON; see `parse_named_sentences`."""
    return read_json(answer, partial(_read_facts, typed=typed))


def _read_facts(value: Any, repaired: bool, *, typed: bool) -> ExtractionAnswer | None:
    given = _sections(value, ("facts", "fact", "units", "sentences"))
    if given is None:
        return None
    units: list[SemanticUnit] = []
    unread = Counter[str]()
    for each in given.elements:
        if isinstance(each, dict):
            each = next((own for own in each.values() if isinstance(own, str)), None)
        if not isinstance(each, str) or not each.strip():
            unread["facts"] += 1
            continue
        names = _each_once([read_name(raw) or "" for raw in _MARKED.findall(each)])
        text = _MARKED.sub(r"\1", each)
        if stray := len(_STRAY.findall(text)):
            unread["marks without their other half"] += stray
            text = _STRAY.sub("", text)
        units.append(SemanticUnit(" ".join(text.split()), tuple(names[:MOST_NAMES])))
    if 2 * unread["facts"] > len(given.elements):
        raise ParseFailed(
            f"the JSON does not fit: {unread['facts']} of {len(given.elements)} facts are no text; give "
            "each as a sentence"
        )
    relations: list[tuple[int, str, str, str]] = []
    named = [frozenset(map(canonical, unit.entities)) for unit in units]
    for kind, source, target in _read_relations(given.relations, 3, unread) if typed else ():
        ends = {canonical(read_name(end) or end) for end in (source, target)}
        place = next((place for place, names in enumerate(named) if ends <= names), None)
        if place is None:
            unread["relations"] += 1
        else:
            relations.append((place, kind, source, target))
    return _related(units, given.types, unread, relations)


@dataclass(frozen=True)
class _ExpectedFacts(ExtractionAnswer):
    def as_json(self) -> dict[str, Any]:
        facts = []
        for unit in self.units:
            text = unit.text
            for name in unit.entities:
                text = text.replace(name, f"[[{name}]]", 1)
            facts.append(text)
        related = [f"{each.type}|{each.source}|{each.target}" for each in self.relations if each.type]
        more = {"relations": related} if related else {}
        return {"facts": facts, "types": [f"concept|{'|'.join(each.name for each in self.entities)}"], **more}


def expected_facts(passage: str, relation_types: str) -> ExtractionAnswer:
    """What an estimate expects a model to answer in the form `facts`: sentences, each with the first name."""
    units: list[SemanticUnit] = []
    main = ""
    for text in cut(passage):
        names = by_rules.question_entities(text)
        main = main or next(iter(names), " ".join(text.split()[:2]))
        said = text if main in names else f"{main} {text}"
        units.append(SemanticUnit(said, tuple(dict.fromkeys((main, *names)))))
    related = _expected_relations([unit.entities for unit in units]) if relation_types else []
    answer = _related(units, {}, Counter(), related)
    return _ExpectedFacts(answer.units, answer.entities, answer.relations)


EXPECTED_TYPE = "related to"


def _expected_relations(named: Iterable[Sequence[str]]) -> list[tuple[int, str, str, str]]:
    """The relations with types that an estimate expects: one in every second statement of several names."""
    several = [(place, names) for place, names in enumerate(named) if len(names) > 1]
    return [(place, EXPECTED_TYPE, names[0], names[1]) for place, names in several[::2]]


def expected_names(shown: str, relation_types: str) -> NamedSentences:
    """What an estimate expects a model to answer in the form `sentences`: names and dates by rules.

    The first name of a passage is expected with all its sentences, which are mostly about it.
    """
    names: dict[int, Sequence[str]] = {}
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
    numbers = list(names)
    related = _expected_relations(names.values()) if relation_types else []
    return NamedSentences(
        names, types, relations=[(numbers[place], kind, one, other) for place, kind, one, other in related]
    )
