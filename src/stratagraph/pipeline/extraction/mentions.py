"""Which of the spans of a sentence are names, and what of each."""

from __future__ import annotations

import re
from collections.abc import Set
from re import Match

from stratagraph.pipeline.extraction.spans import JUNCTION, spans
from stratagraph.stopwords import ENGLISH, MONTHS_AND_WEEKDAYS, OPENERS

# Name, start, end and kind: empty for a name. A plain tuple: one is made for every name.
Mention = tuple[str, int, int, str]
DATE, QUANTITY = "date", "quantity"
DOUBTFUL = "doubtful"
"""A word that has its capital because a sentence begins with it, and may be a name."""

_ALONE = ENGLISH | MONTHS_AND_WEEKDAYS  # no name by themselves
_NOTHING = frozenset(word.capitalize() for word in _ALONE)
_BEFORE = " \t\"'([\u201c\u2018\u00ab*_#\u2022\u2013\u2014.)0123456789-"  # before a sentence's first word
_ELIDED = re.compile(r"(?<!\w)(?:[dD]['\u2019]|[aAeE]l-|[aA][dnrs]-)\Z")
# "President Nelson Mandela" and "Nelson Mandela" are one; "President Lincoln" stays.
_TITLES = """
    Mr Mrs Ms Dr Prof Capt Col Lt Sgt Cpl Gov Sen Rep Rev Hon Gen Mr. Mrs. Ms. Dr. Prof. Capt. Col. Lt. Sgt.
    Cpl. Gov. Sen. Rep. Rev. Hon. Gen. Sir President Chancellor Senator Governor Professor Congressman
    Congresswoman Ambassador Judge Captain Colonel Lieutenant Sergeant Corporal Reverend
"""
_HONORIFICS = frozenset(_TITLES.split())
_OFFICE = re.compile(r"(?:Prime Minister|Vice President) (?=\S+ \S)")
_IN_FRONT = _HONORIFICS | {"The", "A", "An", "I", "THE", "AN", "Prime", "Vice"}
# Bodies, prizes and the like, whose names go on after a preposition: "Council for Small Business".
_BODY = re.compile(
    r"\b(?:Academy|Act|Administration|Agency|Agreement|Alliance|Association|Authority|Award|Bachelor|Board"
    r"|Bureau|Cent(?:er|re)|Charter|Coalition|College|Commission|Committee|Conference|Congress|Convention|Council|Court|Degree|Department"
    r"|Directorate|Division|Doctor|Faculty|Federation|Festival|Forum|Foundation|Fund|Handbook|Hospital"
    r"|Initiative|Institut(?:e|ion)?|Journal|Laboratory|League|Library|Master|Medal|Minist(?:er|ry)|Movement"
    r"|Museum|Network|Office|Organi[sz]ation|Panel|Party|Prize|Program(?:me)?|Project|Review|School|Secretary"
    r"|Section|Service|Society|Summit|Symposium|Transactions|Treaty|Trust|Union)s?\b(?P<last>\Z)?"
)
_ANDS = frozenset({"and", "und", "et", "y", "e", "och", "og", "en", "\u0438"})
_TOPIC = re.compile(r" (?:of|for|on) ")
_DEFINITE = re.compile(r"(?:\b[Tt]he|['\u2019]s) \Z")
_FIRST_PERSON = re.compile(r"(?:^|[,.;:!?] |\n|\b[a-z]+ )I [a-z]")
_SHOUTED = re.compile(r" (?:AND|BY|IN|ON|AT|TO|FOR|FROM|WITH|A|AN|IS|ARE|WAS|&) ")
_NEAR = 20_000  # characters on either side in which a word is looked for in lower case
_APOSTROPHE = re.compile("['\u2019]")
_POSSESSIVE = re.compile(r"['\u2019]s ")
# Sentence openers that no list can hold: "Launched in", "Following the", "Additionally".
_PARTICIPLE = re.compile(r"\w{3,}(?:ed|ing)\Z")
_AFTER_PARTICIPLE = re.compile(
    r",? (?:an?|the|this|that|these|his|her|its|their|in|on|at|from|to|by|as|for|with|up|out|into|of|about"
    r"|over)\b"
)
_ADVERB = re.compile(r"\w{2,}(?:al|ed|ous|ent|ant|ive|[ai]b|[aei]r|at|ic|ful|less|ri)ly\Z")


def mentions(text: str, start: int, end: int, stops: Set[str]) -> list[Mention]:
    """The names, dates and quantities in the sentence `text[start:end]`, in order.

    `stops` are the words of grammar of the text's language.
    """
    found: list[Mention] = []
    for match in spans(text, start, end):
        kind = match.lastgroup
        if kind == "name":
            name = match[0]
            if name not in _NOTHING:
                _name(text, start, name, match.start(), match.end(), stops, found)
        elif kind == "numbered":
            _numbered(text, *match.span(), stops, found)
        elif kind == "title" or kind == "phrase":
            _quoted(match, kind, stops, found)
        else:
            what = QUANTITY if kind == "quantity" or kind == "money" else DATE
            found.append((_squeezed(match[0]), *match.span(), what))
    return found


def _squeezed(name: str) -> str:
    return " ".join(name.split()) if "\n" in name or "  " in name or "\u00a0" in name else name


def _quoted(match: Match[str], kind: str, stops: Set[str], found: list[Mention]) -> None:
    inside = match[kind]
    name = _squeezed(inside.rstrip(" .,;:!?'\u2019"))
    folded = name.lower()
    is_speech = kind == "phrase" and name != inside
    if name and not is_speech and folded not in stops and folded not in _ALONE:
        found.append((name, *match.span(kind), ""))


def _numbered(text: str, at: int, end: int, stops: Set[str], found: list[Mention]) -> None:
    """Part "in 1998 Bill Clinton" and "a 1998 American film" but not "the 1998 World Cup"."""
    name = _squeezed(text[at:end])
    number, _, rest = name.partition(" ")
    year = len(number) == 4 and number.isdigit()
    if year and (" " not in rest or (at and not _DEFINITE.search(text, max(0, at - 5), at))):
        found.append((number, at, at + 4, DATE))
        if rest and rest not in _NOTHING:
            _name(text, at, rest, end - len(rest), end, stops, found)
    elif rest and rest not in _NOTHING:
        found.append((name, at, end, ""))


def _name(text: str, start: int, name: str, at: int, end: int, stops: Set[str], found: list[Mention]) -> None:
    """Judge one capitalised span: cut what does not belong to the name, part what is several."""
    opens = (
        (at - start < 12 and not text[start:at].strip(_BEFORE))
        or text[at - 1] in '"\u201c'
        or text[at - 2 : at] == ": "
    )
    if at and text[at - 1] not in " \n(":
        name, at = _extended(text, name, at)
    if not opens and name.isalpha():
        if len(name) > 1:
            found.append((name, at, end, ""))
        return
    if " " not in name and "\n" not in name:
        _word(text, name, at, end, opens, stops, found)
        return
    if "\n" in name or "  " in name or "\u00a0" in name:
        name = " ".join(name.split())
    if name.endswith(" I") and text[end : end + 2].strip().islower() and _FIRST_PERSON.search(text):
        name, end = name[:-2], end - 2  # "to my nephew Caspar I leave"
    if name[:4] == "The " and name[4:] in _NOTHING and not opens:  # "a song by The Who"
        found.append((name, at, end, ""))
        return
    if opens or name[: name.find(" ")] in _IN_FRONT:
        name, opens = _beheaded(name, opens, stops)
        at = end - len(name)
        if name[0].isdigit():
            _numbered(text, at, end, stops, found)
            return
        if " " not in name:
            _word(text, name, at, end, opens, stops, found)
            return
    if name.isupper() and len(name) > 8:
        for part in _SHOUTED.split(name):
            _part(part, at, end, found)
    elif "'s " in name or "\u2019s " in name:
        _possessive(name, at, found)
    elif JUNCTION.search(name):
        _parted(text, name, at, opens, stops, found)
    else:
        found.append((name, at, end, ""))


def _extended(text: str, name: str, at: int) -> tuple[str, int]:
    """With what stands before the capital: the i of iPhone, the d' of d'Artagnan, the al- of al-Assad."""
    before = text[at - 1]
    if before.isalnum():
        return before + name, at - 1
    elided = _ELIDED.search(text, max(0, at - 4), at) if before in "'\u2019-" else None
    return (elided[0] + name, elided.start()) if elided else (name, at)


def _beheaded(name: str, opens: bool, stops: Set[str]) -> tuple[str, bool]:
    """Without articles and honorifics in front and, where a sentence begins, without other small words."""
    while " " in name:
        name = _OFFICE.sub("", name, count=1)
        first, _, rest = name.partition(" ")
        folded = first.lower()
        if first in _HONORIFICS:
            if " " not in rest:  # "President Lincoln"
                break
        elif opens and (folded in stops or (folded in OPENERS and rest.startswith("the "))):
            pass
        elif folded not in ("the", "a", "an", "i") and not (first == folded and first.isalpha()):
            break
        name, opens = rest, False
    return name, opens


def _word(
    text: str, word: str, at: int, end: int, opens: bool, stops: Set[str], found: list[Mention]
) -> None:
    if len(word) < 2 or (len(word) < 3 and word[-1] == "."):
        return
    folded = word.lower()
    if "'" in word or "\u2019" in word:
        head, tail = _APOSTROPHE.split(word, maxsplit=1)
        if tail[:1].islower():  # "I'd", "That's"
            folded = head.lower()
        elif opens and len(head) < 3 and head.lower() in stops:  # "L'Assemblée"
            word, at, folded = tail, end - len(tail), tail.lower()
    acronym = word.isupper()
    if folded in _ALONE and (opens or not acronym):
        return
    if opens and not acronym:
        # A capital tells nothing here: the word must not be a common one, nor be in lower case elsewhere.
        if folded in stops or folded in OPENERS or _ADVERB.match(folded):
            return
        if text.find(f" {folded}", max(0, at - _NEAR), at + _NEAR) >= 0:
            return
        if _PARTICIPLE.match(folded) and _AFTER_PARTICIPLE.match(text, end):
            return
    found.append((word, at, end, DOUBTFUL if opens and not acronym else ""))


def _part(name: str, at: int, end: int, found: list[Mention]) -> None:
    if name[:4] in ("the ", "The ", "THE "):
        name, at = name[4:], at + 4
    if len(name) > 1 and (name.lower() not in _ALONE or (name.isupper() and len(name) < 4)):
        found.append((name, at, end, ""))


def _possessive(name: str, at: int, found: list[Mention]) -> None:
    """Of "Britain's Prime Minister" the two parts; of "Schindler's List" the whole and the owner."""
    owner, owned = _POSSESSIVE.split(name, maxsplit=1)
    cut, end = at + len(owner), at + len(name)
    if " " in owned and owner.lower() not in OPENERS:
        _part(owner, at, cut, found)
        _part(owned, end - len(owned), end, found)
        return
    _part(name, at, end, found)
    if owner.lower() not in OPENERS:
        _part(owner, at, cut, found)


def _parted(text: str, name: str, at: int, opens: bool, stops: Set[str], found: list[Mention]) -> None:
    """Part the names in "Paris and London", not in "Department of Trade and Industry"."""
    begin = 0
    for junction in JUNCTION.finditer(name):
        if not _joins(name[begin : junction.start()], junction[1], name[junction.end() :]):
            part, place = name[begin : junction.start()], (at + begin, at + junction.start())
            if opens and not begin and " " not in part:  # "Given to Greta Coil"
                _word(text, part, *place, True, stops, found)
            else:
                _part(part, *place, found)
            begin = junction.end()
    _part(name[begin:], at + begin, at + len(name), found)


def _joins(left: str, junction: str, right: str) -> bool:
    if junction == "&":
        return True
    body = _BODY.search(left)
    if junction not in _ANDS:
        return body is not None and junction != "to" and junction != "with"
    right = JUNCTION.split(right, maxsplit=1)[0]
    if any(found["last"] is not None for found in _BODY.finditer(right)):
        return " " not in left and " " in right  # "Food and Drug Administration"; not "A School and B School"
    return body is not None and _TOPIC.search(left, body.end() - 1) is not None
