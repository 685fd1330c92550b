"""Which of the spans of a sentence are names, and what of each."""

from __future__ import annotations

import re
from collections.abc import Set
from re import Match
from typing import NamedTuple

from stratarag.pipeline.spans import JUNCTION, SPAN
from stratarag.pipeline.stopwords import ENGLISH, MONTHS, OPENERS, WEEKDAYS


class Mention(NamedTuple):
    """A name, date or quantity, and where it stands in the text."""

    name: str
    start: int
    end: int
    type: str = ""


class Language(NamedTuple):
    """What a chunk's lower-case words tell of its capitals.

    `lower` are those words themselves, `stops` the words of grammar of the chunk's language.
    """

    lower: Set[str]
    stops: Set[str]


_ALONE = ENGLISH | MONTHS | WEEKDAYS  # no name by themselves
_BEFORE = " \t\"'([\u201c\u2018\u00ab*_#\u2022\u2013\u2014.)0123456789-"  # before a sentence's first word
_ARTICLE_PREFIXES = frozenset({"al-", "el-", "as-", "an-", "ar-", "ad-"})
# "President Nelson Mandela" and "Nelson Mandela" are one; "President Lincoln" stays.
_HONORIFIC = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof|Capt|Col|Lt|Sgt|Cpl|Gov|Sen|Rep|Rev|Hon|Gen)\.?|Sir|(?:Vice )?President"
    r"|Prime Minister|Chancellor|Senator|Governor|Professor|Congress(?:wo)?man|Ambassador|Judge|Captain|Colonel"
    r"|Lieutenant|Sergeant|Corporal|Reverend) (?=\S+ [^\W\d_])"
)
# Bodies, prizes and the like, whose names go on after a preposition: "Council for Small Business".
_BODY = re.compile(
    r"\b(?:Academy|Act|Agency|Agreement|Alliance|Association|Award|Bachelor|Board|Bureau|Cent(?:er|re)|Charter"
    r"|Coalition|College|Commission|Committee|Conference|Congress|Convention|Council|Court|Degree|Department"
    r"|Directorate|Division|Doctor|Faculty|Federation|Festival|Forum|Foundation|Fund|Handbook|Hospital"
    r"|Initiative|Institut(?:e|ion)?|Journal|Laboratory|League|Library|Master|Medal|Minist(?:er|ry)|Movement"
    r"|Museum|Network|Office|Organi[sz]ation|Panel|Party|Prize|Program(?:me)?|Project|Review|School|Secretary"
    r"|Section|Service|Society|Summit|Symposium|Transactions|Treaty|Trust|Union)s?\b(?P<last>\Z)?"
)
_ANDS = frozenset({"and", "und", "et", "y", "e", "och", "og", "en", "\u0438"})
_TOPIC = re.compile(r" (?:of|for|on) ")
_WHEN = re.compile(r"\b(?:in|since|by|un?til|till|during|from|of|after|before|to|between|and|around|or) \Z", re.I)
_SHOUTED = re.compile(r" (?:AND|BY|IN|ON|AT|TO|FOR|FROM|WITH|A|AN|IS|ARE|WAS|&) ")
_POSSESSIVE = re.compile(r"['\u2019]s ")
# Sentence openers that no list can hold: "Launched in", "Following the", "Additionally".
_PARTICIPLE = re.compile(r"\w{3,}(?:ed|ing)\Z")
_AFTER_PARTICIPLE = re.compile(
    r",? (?:an?|the|this|that|these|his|her|its|their|in|on|at|from|to|by|as|for|with|up|out|into|of|about|over)\b"
)
_ADVERB = re.compile(r"\w{2,}(?:al|ed|ous|ent|ant|ive|[ai]b|[aei]r|at|ic|ful|less|ri)ly\Z")


def mentions(text: str, start: int, end: int, language: Language) -> list[Mention]:
    """The names, dates and quantities in the sentence `text[start:end]`, in order."""
    found: list[Mention] = []
    for match in SPAN.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "name" or kind == "numbered":
            _name(text, start, match, language, found)
        elif kind == "title" or kind == "phrase":
            _quoted(match, kind, language, found)
        elif kind == "date" or kind == "day":
            found.append(Mention(_squeezed(match[0]), match.start(), match.end(), "date"))
        else:
            found.append(Mention(_squeezed(match[0]), match.start(), match.end(), "quantity"))
    return found


def _squeezed(name: str) -> str:
    return " ".join(name.split()) if "\n" in name or "  " in name or "\u00a0" in name else name


def _quoted(match: Match[str], kind: str, language: Language, found: list[Mention]) -> None:
    inside = match[kind]
    name = _squeezed(inside.rstrip(" .,;:!?'\u2019"))
    folded = name.lower()
    spoken = kind == "phrase" and name != inside
    if name and not spoken and folded not in language.stops and folded not in _ALONE:
        found.append(Mention(name, match.start(kind), match.end(kind)))


def _name(text: str, start: int, match: Match[str], language: Language, found: list[Mention]) -> None:
    """Judge one capitalised span: cut what does not belong to the name, part what is several."""
    at, end = match.span()
    name = _squeezed(match[0])
    opens = at == start or text[at - 1] in "\"\u201c" or (at - start < 12 and not text[start:at].strip(_BEFORE))
    if at and text[at - 1] not in " \n(":
        name, at = _extended(text, name, at)
    if name[0].isdigit():
        name, at = _dated(text, name, at, end, found)
    else:
        name, at, opens = _beheaded(name, at, end, opens, language)
    if not name:
        return
    if " " not in name:
        _word(text, name, at, end, opens, language, found)
    elif len(name) > 8 and name.isupper():
        for part in _SHOUTED.split(name):
            _part(part, at, end, found)
    elif "'s " in name or "\u2019s " in name:
        _possessive(name, at, found)
    elif JUNCTION.search(name):
        _parted(name, at, found)
    else:
        found.append(Mention(name, at, end))


def _extended(text: str, name: str, at: int) -> tuple[str, int]:
    """With what stands before the capital: the i of iPhone, the d' of d'Artagnan, the al- of al-Assad."""
    before = text[at - 1]
    if before.isalnum():
        return before + name, at - 1
    if before in "'\u2019" and text[max(0, at - 2) : at - 1] in ("d", "D") and not text[at - 3 : at - 2].isalnum():
        return text[at - 2 : at] + name, at - 2
    if before == "-" and text[max(0, at - 3) : at].lower() in _ARTICLE_PREFIXES:
        return text[at - 3 : at] + name, at - 3
    return name, at


def _dated(text: str, name: str, at: int, end: int, found: list[Mention]) -> tuple[str, int]:
    """Part "in 1998 Bill Clinton" but not "the 1998 World Cup"."""
    number, _, rest = name.partition(" ")
    if len(number) == 4 and number.isdigit() and (not rest or _WHEN.search(text, max(0, at - 9), at)):
        found.append(Mention(number, at, at + 4, "date"))
        return rest, end - len(rest)
    return (name, at) if number.isalnum() else (rest, end - len(rest))


def _beheaded(name: str, at: int, end: int, opens: bool, language: Language) -> tuple[str, int, bool]:
    """Without the articles and, where a sentence begins, the other small words in front, and honorifics."""
    while " " in name:
        first, _, rest = name.partition(" ")
        folded = first.lower()
        if not (folded in ("the", "a", "an", "i") or (opens and folded in language.stops) or first == folded):
            break
        name, opens = rest, False
    if name[0].isdigit():
        return name, end - len(name), opens
    honorific = _HONORIFIC.match(name)
    if honorific:
        name, opens = name[honorific.end() :], False
    return name, end - len(name), opens


def _word(
    text: str, word: str, at: int, end: int, opens: bool, language: Language, found: list[Mention]
) -> None:
    folded = word.lower()
    if word.isdigit():
        if len(word) == 4:
            found.append(Mention(word, at, end, "date"))
        return
    if len(word) < 2 or word[-1] == "." and len(word) < 3:
        return
    acronym = word.isupper()
    if folded in _ALONE and (opens or not acronym):
        return
    if opens and not acronym:
        if folded in language.stops or folded in OPENERS or folded in language.lower or _ADVERB.match(folded):
            return
        if _PARTICIPLE.match(folded) and _AFTER_PARTICIPLE.match(text, end):
            return
    found.append(Mention(word, at, end))


def _part(name: str, at: int, end: int, found: list[Mention]) -> None:
    if name[:4] in ("the ", "The ", "THE "):
        name, at = name[4:], at + 4
    if len(name) > 1 and name.lower() not in _ALONE:
        found.append(Mention(name, at, end))


def _possessive(name: str, at: int, found: list[Mention]) -> None:
    """Of "Britain's Prime Minister" the whole and its parts; of "Schindler's List" not the list."""
    cut = _POSSESSIVE.search(name)
    assert cut
    owner, owned = name[: cut.start()], name[cut.end() :]
    _part(owner, at, at + cut.start(), found)
    _part(name, at, at + len(name), found)
    if " " in owned:
        _part(owned, at + cut.end(), at + len(name), found)


def _parted(name: str, at: int, found: list[Mention]) -> None:
    """Part the names in "Paris and London", not in "Department of Trade and Industry"."""
    begin = 0
    for junction in JUNCTION.finditer(name):
        if not _joins(name[begin : junction.start()], junction[1], name[junction.end() :]):
            _part(name[begin : junction.start()], at + begin, at + junction.start(), found)
            begin = junction.end()
    _part(name[begin:], at + begin, at + len(name), found)


def _joins(left: str, junction: str, right: str) -> bool:
    if junction == "&":
        return True
    body = _BODY.search(left)
    if junction not in _ANDS:
        return bool(body) and junction != "to" and junction != "with"
    last = next((b for b in _BODY.finditer(JUNCTION.split(right, 1)[0]) if b["last"] is not None), None)
    if last:  # "Food and Drug Administration", but not "A University and B College"
        return " " not in left and " " in right
    return bool(body and _TOPIC.search(left, body.end() - 1))
