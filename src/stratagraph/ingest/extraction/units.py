"""Relations and semantic units of the sentences of a passage, and the acronyms that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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


def relations(
    text: str, prose: str, sentences: Sequence[Sentence], add: Callable[[str], str]
) -> list[RelationMention]:
    """Join each name of a sentence to the next and to the first, its likely subject; acronyms to long forms.

    So n names give at most 2n - 3 relations and never more than 40. The strength is 1 / (1 + gap / 60
    characters). `prose` is the text in which acronyms are looked for; `add` gives the spelling of a name.
    """
    related: list[RelationMention] = []
    for sentence in sentences:
        if len(sentence.named) > 1:
            _join(text, sentence, related)
    for short, full, stated in dict.fromkeys(acronyms(prose)):
        related.append(RelationMention(add(full), add(short), stated))
    return related


def _join(text: str, sentence: Sentence, related: list[RelationMention]) -> None:
    named = sentence.named
    description = passage(text, sentence.start, sentence.end)
    long = len(description) > _DESCRIPTION
    subject, _, subject_end = before, _, before_end = named[0]
    for at, (name, start, end) in enumerate(named[1:_PER_SENTENCE]):
        stated = _around(text, sentence, before_end, end) if long else description
        if start >= before_end:
            strength = _HALF / (_HALF + start - before_end)
            related.append(RelationMention(before, name, stated, strength))
        if 0 < at < _FROM_SUBJECT and start >= subject_end:
            strength = _HALF / (_HALF + start - subject_end)
            related.append(RelationMention(subject, name, stated, strength))
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


_LONG_FIRST = re.compile(r"\((?P<short>[^\W\d_][\w&.-]{1,9})[);,]")
_SHORT_FIRST = re.compile(r"\((?P<long>[^()\n]{5,90})\)")
_SHORT_BEFORE = re.compile(r"(?<!\w)[^\W\d_][\w&.-]{1,9} \Z")
_SENTENCE_END = re.compile(r"[.;:!?()\n]")
_SMALL_WORDS = "of the and for in on to a an de la le les du des et y und der die das für del di"
_SMALL = frozenset(_SMALL_WORDS.split())
_LETTERS = re.compile(r"[^\W_]+")


def acronyms(text: str) -> Iterator[tuple[str, str, str]]:
    """(acronym, what it stands for, the text that says so) for every one that a text explains."""
    for explained in _LONG_FIRST.finditer(text):
        short = explained["short"]
        if _shouted(short):
            at = explained.start()
            full = _expansion(text[max(0, at - 120) : at], short)
            if full:
                yield short, full, f"{full} ({short})"
    for explained in _SHORT_FIRST.finditer(text):
        before = _SHORT_BEFORE.search(text, max(0, explained.start() - 12), explained.start())
        if before and _shouted(before[0].strip()):
            short, full = before[0].strip(), explained["long"].strip()
            if _expansion(full, short) == full:
                yield short, full, f"{short} ({full})"


def _shouted(short: str) -> bool:
    """Whether most of its letters are capitals: "IMF", "PhD", "NGOs"."""
    return 2 * sum(map(str.isupper, short)) > len(short.rstrip("s"))


def _expansion(before: str, short: str) -> str:
    """The words at the end of `before` whose initials spell `short`; empty if none do."""
    letters = [letter for letter in short.rstrip("s").lower() if letter.isalnum()]
    tail = _SENTENCE_END.split(before)[-1].rstrip(" \"'\u201d\u2019")
    parts = list(_LETTERS.finditer(tail))
    initials = [part[0].lower()[0] for part in parts]
    small = [part[0].lower() in _SMALL for part in parts]
    for first in range(len(parts) - 2, max(-1, len(parts) - 2 * len(letters) - 3), -1):
        if initials[first] != letters[0] or (first and tail[parts[first].start() - 1] == "-"):
            continue
        every = initials[first:]
        significant = [each for each, minor in zip(every, small[first:], strict=True) if not minor]
        if letters in (every, significant) and not small[first]:
            return tail[parts[first].start() :]
    return ""
