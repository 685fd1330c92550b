"""Which of two dated hits is newer: statements that say the same with another value.

Two statements are versions of one if they name the same things and share most of their other words, in
whatever order, and differ in one value: a number, or a name in a place that has one holder at a time, as
beside `director` or behind `based in`. A number that tells things apart, as in `Room 4`, is no value. Rules
prefer silence: a wrong mark would make a true passage look outdated. English only, for other languages have
other words of this kind.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from stratagraph.text.statements import statements, title_line
from stratagraph.text.stopwords import GRAMMAR
from stratagraph.types.dates import day_of
from stratagraph.types.results import CHUNK, Hit

_SMALL = GRAMMAR["english"]
_MOST = 40  # statements of a hit that are compared
_LONGEST = 40  # words of such a statement
_SHARED = 0.5  # of the words of the shorter statement, besides values
_ALIKE = 0.6  # of the words in one order: then nothing but the value may take the place of something else
_STEM = 4  # letters by which words are one: head and headed, direct and director
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_TIME = (
    rf"(?:(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?|(?:{_MONTH}|spring|summer|autumn|winter|year|month|week)"
    r"(?:\s+(?:19|20)\d\d)?)"
)
_DAY = re.compile(rf"(\d\d?)\s+({_MONTH})\b(?:\s+((?:19|20)\d\d))?", re.IGNORECASE)
_WHEN = re.compile(  # what tells only since when a statement holds
    rf"\b(?:(?:as of|as at|since|from|effective(?: from)?|starting|beginning)\s+(?:last\s+)?{_TIME}|"
    rf"last\s+{_TIME}|currently|now|today|presently|at present|still|newly|recently)\b\s*,?",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[\u20ac$\u00a3]?[^\W_]+(?:[.,:/][^\W_]+)*%?|:")
_STATES = re.compile(r"\b(?:is|are|be|been|being|was|were|has|have|had|now)\s+(?:\w+ly\s+)?\w+ed\b")
_HAPPENED = re.compile(
    r"\b(?:\w{2,}(?<!e)ed|bought|met|built|gave|lost|went|came|saw|spent|paid)\s+(?:\w+\s+)?[\u20ac$\u00a3]?\d"
)
_PRICE = re.compile(r"[\u20ac$\u00a3]\d|\b(?:dollars?|pounds?|euros?|cents?)\b", re.IGNORECASE)
_NO_HOLDER = frozenset(("of", "for", "are", "were"))
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[\u20ac$\u00a3]?\d")
_CHANGES, _LABELS, _EVENTS, _ENDS, _HOLDERS, _ONE_OF_MANY = (
    frozenset(words.split())
    for words in (
        "moved move raised raise lowered lower increased extended reduced grown grew risen rose fallen fell "
        "cut additions following review change changed new taken over transferred instead latest reform",
        "room gate platform line bus tram train route version chapter level class form invoice contract "
        "number no flight unit article section act grade phase part volume season stage group team track "
        "step order lot page question item model series round hall wing floor building district highway road",
        "sold scored won received delivered produced shipped recruited visited attended hired attracted",
        "until end ends expire expires due deadline opens scheduled planned closes by",
        "head chie dire pres mayo chai mana coac capt edit prin mini ceo chan lead led publ owne loca base "
        "hous venu cont hold live resi cura dean gove trea secr rect comm run runs char spon host sole capi "
        "addr held stan kept",
        "a an another one some several also among includes include including deputy",
    )
)
"""Verbs of change, which say nothing of what changed; what a number tells apart; events, which leave no
state; what makes a year a value; beginnings of words that name a place with one holder; what says that there
are others."""
_COUNTED = "two three four five six seven eight nine ten eleven twelve"
_COUNTS = {word: str(count) for count, word in enumerate(_COUNTED.split(), 2)}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a statement says: its names, its numbers, and the beginnings of its other words."""

    words: tuple[str, ...]
    names: frozenset[str]
    numbers: frozenset[str]
    rest: frozenset[str]

    @property
    def meaning(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What it says, however it is worded."""
        return self.names, self.numbers, self.rest

    @property
    def first(self) -> str:
        """The first word, whose capital does not tell whether it is a name."""
        return self.words[0].lower() if self.words else ""

    def knowing(self, other: Claim) -> Claim:
        """The same with the first word as a name, if another statement tells that it is one."""
        both = self.first == other.first and not self.first.endswith("s") and self.words[1:2] != (":",)
        if self.first not in other.names and (not both or self.first in _SMALL):
            return self
        rest = self.rest - {self.first[:_STEM]}
        return replace(self, names=self.names | {self.first}, rest=rest)

    @classmethod
    def of(cls, text: str, title: str = "") -> Claim:
        """Read a statement, without what tells only since when it holds; the title names what it is about."""
        words = tuple(_TOKEN.findall(_DAY.sub(r"\1/\2/\3", _WHEN.sub(" ", text))))
        names, numbers, rest = {word.lower() for word in _TOKEN.findall(title)}, set[str](), set[str]()
        for at, word in enumerate(words):
            low = word.lower()
            if _NUMBER.match(word) or low in _COUNTS:
                label = at and (words[at - 1].lower() in _LABELS or words[at - 1][0].isupper())
                (names if label else numbers).add(_value(low))
            elif low in _SMALL or low in _CHANGES or word == ":":
                continue
            elif at and word.isupper() and _NUMBER.match(words[at - 1]):
                rest.add(low)  # a unit
            elif word[0].isupper() and (at or (words[1:2] and words[1][0].isupper())):
                names.add(low)
            else:
                rest.add(low[:_STEM])
        return cls(words, frozenset(names), frozenset(numbers), frozenset(rest))

    @property
    def is_price(self) -> bool:
        """Whether it tells a price, which all things of a kind have."""
        return bool(_PRICE.search(" ".join(self.words)))

    def is_one_of_many(self, places: Sequence[int]) -> bool:
        """Whether words around the names at some places say that there may be others."""
        around = self.words[max(0, places[0] - 4) : places[0]] + self.words[places[-1] + 1 : places[-1] + 4]
        before = self.words[
            max(0, places[0] - 1)
        ].lower()  # `of Spain` tells which, `are` that there are several
        return bool(_ONE_OF_MANY & {word.lower() for word in around}) or before in _NO_HOLDER


def marked(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each with what an older one states instead (`Hit.before`), where there is such a one."""
    days = {
        at: day.last for at, hit in enumerate(hits) if hit.kind == CHUNK and (day := day_of(hit.date))
    }  # a node is as new as its newest passage, and may quote older ones
    if len({*days.values()}) < 2:
        return tuple(hits)
    before: dict[int, tuple[int, str]] = {}
    about: defaultdict[str, list[tuple[int, Claim]]] = defaultdict(list)
    for at in sorted(days, key=days.__getitem__):
        own = list(_said(hits[at].text))
        stated = {said.meaning for said in own}
        for said in own:
            keys = {*said.names, said.first}
            others = {id(other): (older, other) for key in keys for older, other in about[key]}
            for older, other in others.values():
                if days[older] == days[at] or other.meaning in stated:  # which then still holds
                    continue
                if value := changed(other, said):
                    before[at] = older, value
            for key in keys:
                about[key].append((at, said))
    return tuple(
        replace(hit, before=f"{before[at][1]}, {hits[before[at][0]].date}") if at in before else hit
        for at, hit in enumerate(hits)
    )


def _said(text: str) -> Iterator[Claim]:
    title, begin = title_line(text)
    title = re.sub(r"[\d\W_]+", " ", title)
    for statement in statements(text, begin)[:_MOST]:
        said = Claim.of(text[statement.start : statement.end], title)
        if 3 <= len(said.words) <= _LONGEST:
            yield said


def changed(old: Claim, new: Claim) -> str:
    """The older value of two statements that differ in a value alone; empty if they do not."""
    old, new = old.knowing(new), new.knowing(old)
    if {old.first, new.first} & _ONE_OF_MANY and not (old.is_price and new.is_price):
        return ""
    shared, common = old.rest & new.rest, old.names & new.names
    if not common or len(shared) < max(1, _SHARED * min(len(old.rest), len(new.rest))):
        return ""
    numbers = old.numbers - new.numbers, new.numbers - old.numbers
    names = old.names - new.names, new.names - old.names
    alike = _alike(old, new, {*numbers[0], *numbers[1], *names[0], *names[1]})
    if alike is False or (alike is None and len(common) + len(shared) < 3):
        return ""
    if any(numbers):
        one = all(len(own) == 1 for own in numbers) and not any(names)
        return _as_written(old, numbers[0]) if one and _lasts(old, *numbers[0]) else ""
    holders = shared if alike else old.rest | new.rest
    if not all(names) or not holders & _HOLDERS:
        return ""
    for said, own in ((old, names[0]), (new, names[1])):
        places = [at for at, word in enumerate(said.words) if word.lower() in own]
        if not places or places[-1] - places[0] > len(places) or said.is_one_of_many(places):
            return ""
        if min(map(len, own)) < 2:  # an initial, of the same name perhaps
            return ""
    return _as_written(old, names[0])


def _lasts(said: Claim, value: str) -> bool:
    """Whether a number is of something that lasts, and not of one event among many."""
    words = {word.lower() for word in said.words}
    if words & _EVENTS or _HAPPENED.search(_STATES.sub(" ", " ".join(said.words).lower())):
        return False
    return not (_YEAR.fullmatch(value) or "/" in value) or bool(words & _ENDS)


def _alike(old: Claim, new: Claim, values: Set[str]) -> bool | None:
    """Whether two statements have the same words but for values; None if they are worded otherwise."""
    words = [[*map(_value, said.words)] for said in (old, new)]
    matcher = SequenceMatcher(None, words[0], words[1], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return None
    for kind, a, b, c, d in matcher.get_opcodes():
        sides = [{*words[0][a:b]} - _SMALL - _CHANGES - values, {*words[1][c:d]} - _SMALL - _CHANGES - values]
        if kind == "replace" and all(sides):
            return False
    return True


def _value(word: str) -> str:
    """A number as others write it: without commas, in digits."""
    low = _COUNTS.get(word.lower(), word.lower())
    try:
        return f"{float(low.replace(',', '')):g}"
    except ValueError:
        return low


def _as_written(said: Claim, keys: frozenset[str]) -> str:
    return " ".join(word for word in said.words if keys & {word.lower(), _value(word)})
