"""Relations, descriptions and semantic units of the sentences of a passage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stratagraph.types.records import RelationMention, SemanticUnit

# A name and where a sentence has it; an implied one (start = end) stands where the sentence begins.
Named = tuple[str, int, int]


class Sentence(NamedTuple):
    """A sentence `text[start:end]` and the names in it, in order, each once."""

    start: int
    end: int
    named: list[Named]


_LONG = 320  # characters; a longer sentence is several units
_CLAUSE = 80  # the least that is worth a unit of its own
_SHORT = 240  # sentences about the same are joined up to here
_DESCRIPTION = 400
_HALF = 60.0  # characters between two names at which their relation is half as strong
_FROM_SUBJECT = 8  # names of a sentence that are related to its first one
_PER_SENTENCE = 32
_BORDER = re.compile(
    r"[;\u061b\uff1b]\s*|\s[\u2013\u2014]\s|[,\uff0c\u060c]\s*(?:(?:and|but|while|whereas|although|because|so"
    r"|which|who|whom|whose|where|when|with|including|und|aber|wobei|et|mais|qui|y|pero|que|e|ma|che)\s)?"
)


def relations(text: str, sentence: Sentence) -> Iterator[RelationMention]:
    """Join each name of a sentence to the next and to the first, its likely subject.

    So n names give at most 2n - 3 relations and never more than 40. The strength is 1 / (1 + gap / 60
    characters).
    """
    named = sentence.named
    if len(named) < 2:
        return
    description = passage(text, sentence.start, sentence.end)
    long = len(description) > _DESCRIPTION
    subject, _, subject_end = before, _, before_end = named[0]
    for at, (name, start, end) in enumerate(named[1:_PER_SENTENCE]):
        stated = _around(text, sentence, before_end, end) if long else description
        if start >= before_end:
            strength = _HALF / (_HALF + start - before_end)
            yield RelationMention(before, name, stated, strength)
        if 0 < at < _FROM_SUBJECT and start >= subject_end:
            strength = _HALF / (_HALF + start - subject_end)
            yield RelationMention(subject, name, stated, strength)
        before, before_end = name, end


def descriptions(text: str, sentences: Sequence[Sentence]) -> dict[str, str]:
    """The first sentence that begins with each name, in one line, cut at a blank if it is very long."""
    described: dict[str, str] = {}
    for start, end, named in sentences:
        if named and named[0][0] not in described:
            stated = passage(text, start, min(end, start + 2 * _DESCRIPTION))
            if len(stated) > _DESCRIPTION:
                stated = stated[: max(stated.rfind(" ", 0, _DESCRIPTION), _DESCRIPTION // 2)]
            described[named[0][0]] = stated
    return described


def passage(text: str, start: int, end: int) -> str:
    """`text[start:end]` with single spaces."""
    part = text[start:end]
    return " ".join(part.split()) if "\n" in part or "  " in part else part


def _around(text: str, sentence: Sentence, first: int, last: int) -> str:
    """The part of a very long sentence around `text[first:last]` for a description, cut at blanks."""
    margin = max(_DESCRIPTION - (last - first), _DESCRIPTION // 4) // 2
    start, end = (
        max(sentence.start, first - margin),
        min(sentence.end, last + margin, first + 2 * _DESCRIPTION),
    )
    if start > sentence.start:
        start = max(start, text.find(" ", start, first) + 1)
    if end < sentence.end:
        end = max(text.rfind(" ", first + _DESCRIPTION // 4, end), first + _DESCRIPTION // 4)
    return passage(text, start, end)


def units(text: str, sentences: list[Sentence]) -> Iterator[SemanticUnit]:
    """Sentences, or the clauses of long ones, as semantic units.

    Short neighbours with the same names (or the names of one among the other's) become one unit.
    """
    start, end = -1, -1
    names: dict[str, int] = {}
    for first, last, named in _pieces(text, sentences):
        own = {name: at for name, at, _ in named}
        if start >= 0:
            if last - start <= _SHORT and (own.keys() <= names.keys() or names.keys() <= own.keys()):
                end = last
                names |= own
                continue
            yield SemanticUnit(passage(text, start, end), tuple(names))
        start, end, names = first, last, own
    if start >= 0:
        yield SemanticUnit(passage(text, start, end), tuple(names))


def _pieces(text: str, sentences: list[Sentence]) -> Iterator[Sentence]:
    for sentence in sentences:
        if sentence.end - sentence.start > _LONG and len(sentence.named) > 1:
            yield from _clauses(text, sentence)
        else:
            yield sentence


def _clauses(text: str, sentence: Sentence) -> Iterator[Sentence]:
    """Cut where a clause ends, if both sides are long enough and have a name."""
    start, end, named = sentence
    for border in _BORDER.finditer(text, start + _CLAUSE, end - _CLAUSE):
        cut = border.start() + 1
        if cut - start < _CLAUSE or any(first < cut < last for _, first, last in named):
            continue
        here = [name for name in named if name[1] < cut]
        if here and len(here) < len(named):
            yield Sentence(start, cut, here)
            start, named = cut + text[cut : cut + 1].isspace(), named[len(here) :]
    yield Sentence(start, end, named)
