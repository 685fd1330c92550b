"""Extraction by a spaCy pipeline that the caller has installed, in place of `by_rules`.

The pipeline says where sentences and names are; relations, semantic units and candidate terms come from the
same functions as without it. A pipeline is never downloaded.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from stratagraph.errors import require
from stratagraph.ingest.extraction.by_rules import (
    LONGEST_NAME,
    QUALIFIER,
    Named,
    Sentence,
    descriptions,
    extract,
    relations,
    units,
)
from stratagraph.ingest.extraction.candidates import noun_phrases, uncased
from stratagraph.ingest.extraction.mentions import DATE
from stratagraph.ingest.names.index import canonical
from stratagraph.text.statements import Statement, statements
from stratagraph.text.stopwords import stop_words
from stratagraph.types.records import EntityMention, Extraction

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_PLACE, _QUANTITY = "place", "quantity"
# Labels of the published pipelines, in our words; another label is taken as it is, in lower case.
_TYPES = {
    "PER": "person",
    "ORG": "organization",
    "GPE": _PLACE,
    "LOC": _PLACE,
    "FAC": _PLACE,
    "WORK_OF_ART": "work",
    "NORP": "group",
    "TIME": DATE,
    "MONEY": _QUANTITY,
    "PERCENT": _QUANTITY,
    "MISC": "",
}
_NUMBERS = frozenset({"CARDINAL", "ORDINAL"})  # "two" and "first" are no entities
_AROUND = " \t\n\"'\u2018\u2019\u201c\u201d\u00ab\u00bb.,;:()[]"
_POSSESSIVE = re.compile(r"['\u2019]s\Z")

# Name, start, end and type of what the pipeline found.
_Mention = tuple[str, int, int, str]


@cache
def load(pipeline: str) -> Language:
    """The installed pipeline of this name, or in this folder; loaded once.

    `MissingExtra` if spaCy is not installed. `ValueError` if there is no such pipeline on this machine.
    """
    require("nlp", "spacy")
    import spacy

    try:
        return spacy.load(pipeline)
    except OSError as error:
        raise ValueError(
            f"there is no spaCy pipeline {pipeline!r} here; install it (python -m spacy download ...) or "
            f"give the folder of one that was saved ({error})"
        ) from error


def extract_all(passages: Sequence[tuple[str, str]], pipeline: str) -> list[Extraction]:
    """What each passage (text, title) says, by a pipeline; one too long for it is read by rules.

    Entities are the pipeline's, without bare numbers, and runs of proper nouns beside them. Sentences are its
    own or, where it sets none, ours. See `by_rules.extract` for the rest of the result.
    """
    nlp = load(pipeline)
    composed = [(unicodedata.normalize("NFC", text), " ".join(title.split())) for text, title in passages]
    docs = nlp.pipe(text for text, _ in composed if len(text) <= nlp.max_length)
    return [
        _extraction(next(docs), title) if len(text) <= nlp.max_length else extract(text, title=title)
        for text, title in composed
    ]


class _TypedNames:
    """The names of a chunk, each in the spelling met first, with its type."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self._spelling: dict[str, str] = {}
        self._persons: dict[str, str] = {}

    def add(self, name: str, type_: str = "") -> str:
        """Add a name, and return its spelling here; a surname returns the only person who bears it."""
        key = canonical(name)
        if type_ == "person" and key not in self._spelling and self._persons.get(key):
            return self._persons[key]
        spelling = self._spelling.setdefault(key, name)
        if spelling not in self.types and type_ == "person" and " " in key:
            last = key.rpartition(" ")[2]
            self._persons[last] = "" if last in self._persons else spelling
        self.types[spelling] = self.types.get(spelling) or type_
        return spelling


def _extraction(doc: Doc, title: str) -> Extraction:
    text: str = doc.text
    names = _TypedNames()
    topic = ""  # the subject of the passage: the title without its qualifier
    if canonical(title) and len(title) <= LONGEST_NAME:
        topic = names.add(QUALIFIER.sub("", title))
        names.add(title)
    coming = deque(sorted(_mentions(doc), key=itemgetter(1)))
    begin = len(title) if text.startswith(f"{title}\n") else 0
    while coming and coming[0][1] < begin:
        name, _, _, type_ = coming.popleft()
        if type_ not in (DATE, _QUANTITY):
            names.add(name, type_)
    parsed = []
    for start, end, line in _sentences(doc, begin):
        named: dict[str, Named] = {}
        if topic and _goes_on(doc, start):
            named[topic] = (topic, start, start)
        while coming and coming[0][1] < end:
            name, first, last, type_ = coming.popleft()
            if type_ not in (DATE, _QUANTITY):
                spelling = names.add(name, type_)
                named.setdefault(spelling, (spelling, first, min(last, end)))
        parsed.append(Sentence(start, end, list(named.values()), line))

    described = descriptions(text, parsed)
    return Extraction(
        units=tuple(units(text, parsed)),
        entities=tuple(
            EntityMention(name, type_, described.get(name, "")) for name, type_ in names.types.items()
        ),
        relations=tuple(relation for sentence in parsed for relation in relations(text, sentence)),
        terms=tuple(noun_phrases(text, stop_words(text)) | uncased(text).terms),
    )


def _mentions(doc: Doc) -> Iterator[_Mention]:
    taken: set[int] = set()
    for entity in doc.ents:
        taken.update(range(entity.start, entity.end))
        if entity.label_ not in _NUMBERS:
            type_ = _TYPES.get(entity.label_, entity.label_.lower())
            yield from _mention(doc.text, entity.start_char, entity.end_char, type_)
    for proper, run in groupby(doc, lambda token: token.pos_ == "PROPN" and token.i not in taken):
        if proper:
            tokens = list(run)
            yield from _mention(doc.text, tokens[0].idx, tokens[-1].idx + len(tokens[-1]), "")


def _mention(text: str, start: int, end: int, type_: str) -> Iterator[_Mention]:
    """The name in `text[start:end]` without the punctuation around it, if there is one."""
    part = text[start:end]
    start += len(part) - len(part.lstrip(_AROUND))
    part = _POSSESSIVE.sub("", part.rstrip()).strip(_AROUND)
    if part and len(part) <= LONGEST_NAME and canonical(part):
        yield " ".join(part.split()), start, start + len(part), type_


def _sentences(doc: Doc, begin: int) -> Iterator[tuple[int, int, str]]:
    """Offsets of the statements, and records in one line: those of the pipeline where it sets sentences."""
    text: str = doc.text
    own = [(each.start_char, each.end_char) for each in doc.sents] if doc.has_annotation("SENT_START") else []
    done = begin
    for each in [*statements(text, begin), Statement(len(text), len(text), record=True)]:
        if own and not each.record:
            continue
        for start, end in own:  # up to this record
            start, end = max(start, done), min(end, each.start)
            if part := text[start:end].strip():
                start = text.index(part, start)
                yield start, start + len(part), ""
        if each.start < each.end:
            yield each.start, each.end, each.line(text) if each.record else ""
        done = each.end


def _goes_on(doc: Doc, start: int) -> bool:
    """Whether a sentence begins with "She" or "Their", and so is about the passage's subject."""
    first = doc.char_span(start, start + 1, alignment_mode="expand")
    return first is not None and first[0].pos_ in ("PRON", "DET") and "3" in first[0].morph.get("Person", [])
