"""Which of two dated hits is newer: statements that say the same with another value.

Two statements are versions of one if they differ in one place, and hold there two names or two numbers that
something can have only one of at a time: what follows `is`, `costs`, `led by`, `based in`. What stands before
must name what it is about. Rules prefer silence: a wrong mark would make a true passage look outdated.
English only, for other languages have other words of this kind.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from stratagraph.text.statements import statements, title_line
from stratagraph.types.dates import day_of
from stratagraph.types.results import Hit

_MOST = 40  # statements of a hit that are compared
_LONGEST = 40  # words of such a statement
_LONGEST_VALUE = 8  # words
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DATE = rf"(?:{_MONTH}\s+)?(?:\d{{1,2}},?\s+)?(?:{_MONTH}\s+)?(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?"
_WHEN = re.compile(  # what tells only since when a statement holds
    rf"\b(?:(?:as of|as at|since|from|effective|starting|beginning|until)\s+{_DATE}|"
    r"currently|now|today|presently|at present|still|newly)\b\s*,?",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W_]+(?:[.,:/'\u2019-][^\W_]+)*|:")
_VALUE = re.compile(r"\d|[^\W\d_a-z]")  # a number, or a name
_SMALL, _ONE_OF_MANY, _FLOWS = (
    frozenset(words.split())
    for words in (
        "the a an of in at on to by for and is was are were be been has have had its their",
        "a an another one some also including include includes every each",
        "sold scored won received delivered produced shipped published made took ran wrote",
    )
)
_BEFORE_NAME = re.compile(
    r"(?:\b(?:is|was|are|were|be|became|becomes|remains|named|called|"
    r"(?:led|headed|run|owned|chaired|managed|directed|edited|governed|supplied|hosted|maintained) by|"
    r"(?:based|located|headquartered|held|stored|kept|housed|lives?|resides?|sits|takes place) (?:in|at|on)|"
    r"(?:reports|belongs|assigned|moved|moves|relocated|addressed) to)(?: the)?|:)$"
)
_AFTER_NAME = re.compile(
    r"^(?:is|was|became|serves as|remains|acts as) (?:the|\w+['\u2019]s) |"
    r"^(?:leads|heads|runs|chairs|owns|manages|directs|edits|governs) "
)


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement of a dated hit: its words as written, and in lower case without a plural's ending."""

    at: int
    title: str
    words: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def named(self) -> frozenset[str]:
        return frozenset(key for word, key in zip(self.words, self.keys, strict=True) if _VALUE.match(word))


def marked(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each with what an older one states instead (`Hit.before`), where there is such a one."""
    days = {at: day.last for at, hit in enumerate(hits) if (day := day_of(hit.date))}
    if len({*days.values()}) < 2:
        return tuple(hits)
    before: dict[int, tuple[int, str]] = {}
    about: defaultdict[str, list[_Said]] = defaultdict(list)
    for at in sorted(days, key=days.__getitem__):
        for said in _said(at, hits[at].text):
            others = {id(other): other for key in said.named for other in about[key]}
            for other in others.values():
                of_one = said.title == other.title != ""
                if days[other.at] < days[at] and (value := changed(other.words, said.words, of_one)):
                    before[at] = other.at, value
            for key in said.named:
                about[key].append(said)
    return tuple(
        replace(hit, before=f"{before[at][1]}, {hits[before[at][0]].date}") if at in before else hit
        for at, hit in enumerate(hits)
    )


def _said(at: int, text: str) -> Iterator[_Said]:
    title, begin = title_line(text)
    title = re.sub(r"[\d\W_]+", " ", title).casefold().strip()
    for statement in statements(text, begin)[:_MOST]:
        words = words_of(text[statement.start : statement.end])
        if 3 <= len(words) <= _LONGEST:
            yield _Said(at, title, words, tuple(map(_key, words)))


def words_of(statement: str) -> tuple[str, ...]:
    """The words of a statement, without what only tells since when it holds."""
    return tuple(_TOKEN.findall(_WHEN.sub(" ", statement)))


def _key(word: str) -> str:
    low = word.lower()
    return low[:-1] if len(low) > 3 and low.endswith("s") and not low.endswith("ss") else low


def changed(old: Sequence[str], new: Sequence[str], of_one: bool = False) -> str:
    """The older value of two statements that differ in a value alone; empty if they do not.

    `of_one`: they stand under the same title, so that the name of a field tells what they are about.
    """
    blocks = SequenceMatcher(None, [*map(_key, old)], [*map(_key, new)], autojunk=False).get_opcodes()
    places = [
        (old[a:b], new[c:d], a, b)
        for kind, a, b, c, d in blocks
        if kind != "equal" and not {*map(str.lower, (*old[a:b], *new[c:d]))} <= _SMALL
    ]
    if len(places) != 1:
        return ""
    value, other, start, end = places[0]
    left, right = old[:start], old[end:]
    common = [word for word in (*left, *right) if word.lower() not in _SMALL and word != ":"]
    field = old[1:2] == (":",) and not of_one  # whose name alone does not tell what it is of
    named = [word for word in (left[1:] if field else (*left, *right)) if _VALUE.match(word)]
    named = [word for word in named if word in common]
    if not (value and other and len(common) >= 2 and named and len(other) <= _LONGEST_VALUE):
        return ""
    return " ".join(value) if _one_value(value, other, left, right) else ""


def _one_value(value: Sequence[str], other: Sequence[str], left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether two values exclude each other where they stand."""
    numbers = [bool(re.match(r"\d", words[0])) for words in (value, other)]
    names = [bool(_VALUE.match(words[0])) for words in (value, other)]
    plain = [{word.lower() for word in words if not _VALUE.match(word)} - _SMALL for words in (value, other)]
    if not all(names) or numbers[0] != numbers[1] or plain[0] - plain[1]:
        return False
    before = " ".join(left).lower()
    if numbers[0]:
        return bool(left) and not _FLOWS & {*before.split()[-3:]} and left[-1].lower() != "no"
    if not left or (len(left) == 1 and left[0].lower() == "the"):
        return bool(_AFTER_NAME.match(" ".join(right).lower() + " "))
    return bool(_BEFORE_NAME.search(before)) and not _ONE_OF_MANY & {*before.split()[-4:]}
