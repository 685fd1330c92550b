"""Names and dates of a sentence.

One regular expression finds spans that may be names: capitalised words, titles in quotes, dates. Rules then
judge each span. The expression begins with a plain character set, which `re` finds quickly, and its
repetitions are possessive or bounded, so that any text takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Set
from itertools import pairwise
from re import Match

from stratagraph.text.stopwords import ENGLISH, MONTHS_AND_WEEKDAYS, OPENERS, STEPS


def _capitals() -> str:
    """The capitals of the scripts that have them, as ranges for a character set."""
    blocks = [(0x41, 0x588), (0x1E00, 0x2000), (0x2C00, 0x2D00), (0xA640, 0xA7F0), (0xFF21, 0xFF3B)]
    codes = [code for block in blocks for code in range(*block) if chr(code).isupper() or chr(code).istitle()]
    borders = [(before, after) for before, after in pairwise(codes) if after != before + 1]
    starts = [codes[0], *(after for _, after in borders)]
    ends = [*(before for before, _ in borders), codes[-1]]
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


_U = CAPITALS = _capitals()
_SPACE = r"(?:[ \u00a0]\s?|\n[ \t]{0,8}(?=\S))"

# Small words that a name may contain; those of the second kind join two names ("Paris and London") as often
# as they belong to one ("Council for Small Business").
_LINK = (
    "of(?: the)?|the|de(?: l[ao]s?| l['\u2019]|r|n|l|lla|i|gli|lle|s|m)?|du|d[aio]s?|van(?: de[rn]?)?"
    "|von(?: de[rm])?|zu[mr]?|te[rn]?|[ae]l|bin|ibn|bint|af|av|upon|sur|f\u00fcr|la|le"
    "|\u0438\u043c\u0435\u043d\u0438"
)
_JUNCTION = "and|&|for|in|on|with|to|und|et|y|e|och|og|en|\u0438"
_JUNCTIONS = re.compile(rf" ({_JUNCTION}) ")

_ABBREVIATIONS = (
    "St Mt Ft Mr Mrs Ms Dr Prof Gen Col Capt Cpl Lt Sgt Gov Sen Rep Rev Hon Jr Sr Bros Vol Inc Ltd"
)
_ABBREVIATED = "|".join(rf"(?<=\b{word}\.)" for word in _ABBREVIATIONS.split())
# What follows a name's first capital: of initials ("J.", "U.S.", "J.-P."), of a word ("O'Brien", "AT&T",
# "C++", "St."). A possessive 's is inside a name only if the name goes on.
_REST = (
    rf"(?:\.(?:-?[{_U}]\.)*+(?:[{_U}](?!\w))?(?![^\W\d_{_U}])"
    rf"|\w*+(?:(?:[-\u2010\u2011&+]|['\u2019](?![sS]\b(?!{_SPACE}[{_U}])))\w++)*+"
    rf"(?:[+#]++|\.(?=\s[^\W_])(?:{_ABBREVIATED}))?)"
)
_TOKEN = rf"[{_U}]{_REST}"
# The longest first, since the first alternative that matches is taken.
_MONTH_NAMES = """
    September February November December January October Oktober Dezember Februar August Januar March April
    M\u00e4rz Sept July June Juli Juni Jan Feb Mar Apr May Mai Jun Jul Aug Sep Oct Nov Dec
"""
_MONTHS = _MONTH_NAMES.split()
_MONTH = rf"(?:{'|'.join(_MONTHS)})"
_MONTH_REST = rf"(?:{'|'.join(f'(?<={month[0]}){month[1:]}' for month in _MONTHS)})"  # behind its capital
# A number belongs to the name before it ("Apollo 11 landed") unless it counts what follows ("Paris 300 men").
_ANYTHING = "and|or|is|was|are|were|has|had|by|in|on|at|to|of|as|from|for|with|which|that|who|when|until"
_NUMBER = (
    rf"(?:of )?\d{{1,4}}(?![\w%\u00b0]|[.,:/]\d|{_SPACE}(?!(?:{_ANYTHING}|\w+ed)\b)[^\W\d_{_U}]"
    rf"|{_SPACE}[{_U}]\w++{_SPACE}\d)"
)
_MORE = (
    rf"(?:{_SPACE}(?:(?:{_LINK}|{_JUNCTION}){_SPACE})?(?:[dl]['\u2019]|[ae][lsnrd]-)?(?!{_MONTH}\s\d){_TOKEN}"
    rf"|{_SPACE}{_NUMBER}){{0,11}}+"
)

_YEAR = r"(?:,?\s(?:of\s)?[12]\d{3}(?!\d))"
_ERA = r"(?:BCE?|AD|CE)\b"
_MONTH_FIRST = rf"{_MONTH_REST}\b\.?(?:\s\d{{1,2}}(?:st|nd|rd|th)?(?![\d:]){_YEAR}?|{_YEAR})"
_DAY_FIRST = (
    rf"\d?(?:st|nd|rd|th|\.)?\s(?:of\s)?{_MONTH}\b\.?{_YEAR}?"
    rf"|\d{{0,3}}(?:\s?[-\u2013]\s?\d{{1,4}})?\s{_ERA}"
    r"|(?<=[12])\d{3}-[01]\d-[0-3]\d(?!\d)"
    rf"|\d?[./][0-3]?\d[./][12]\d{{3}}(?!\d)|\d?(?:st|nd|rd|th)[\s-]century(?:\s{_ERA})?"
)

_YEARS = r"(?<=[12])\d{3}(?:s|[-\u2013/]\d\d(?:\d\d)?)?(?![\w%\u00b0]|[.,]\d)"

# In quotes: a title, whose words have capitals but for the small ones, or a phrase of one to three words.
_SMALL = (
    "of|the|an?|and|or|nor|but|in|on|at|to|for|from|by|with|as|is|into|de|du|des|l[aeo]s?|et|el|y|del|d[aio]|il"
    "|von|van|der|die|das|und|vs"
)
_INSIDE = r"[^\s\"\u201c\u201d\u00bb\u00ab]*+"
_TITLE = rf"[{_U}\d]{_INSIDE}(?:[\s-]+(?:[{_U}\d&]{_INSIDE}|(?:{_SMALL})(?=[\s,]))){{0,11}}+"
_PHRASE = rf"[^\W\d_{_U}][\w-]*+(?: [\w-]++){{0,2}}"
_QUOTE_REST = (
    rf"(?:(?<=`)`|(?<!`))(?:(?<![\w.,;!?].)[ \u00a0]?|(?<=\w\")\s)"
    rf"(?:(?P<title>{_TITLE})|(?P<phrase>{_PHRASE}))"
    r"[ \u00a0]?(?:[\"\u201d\u201c\u00bb\u2019]|'')"
)
_QUOTES = '"\u201c\u201e\u00ab\u2018`'

_SPAN = (
    rf"[{_U}\d{_QUOTES}](?:"
    rf"(?<=[{_U}])(?:(?<!\w\w)|(?<=\b[a-z][{_U}]))(?:(?P<date>{_MONTH_FIRST})|(?P<name>{_REST}{_MORE}))"
    rf"|(?<=\d)(?<![\w.]\d)(?<!\d,\d)(?:(?P<day>{_DAY_FIRST})"
    rf"|(?P<numbered>\d*+(?:st|nd|rd|th)?{_SPACE}{_TOKEN}{_MORE})|(?P<year>{_YEARS}))"
    rf"|(?<=[{_QUOTES}]){_QUOTE_REST})"
)
# `lastgroup` of a match is its kind: `name`, `numbered` (a name behind a number), `date`, `day`, `year`,
# `title` and `phrase` (these two groups are the text between the quotes).
_ANY = re.compile(_SPAN)

# Name, start, end and kind: empty for a name. A plain tuple: one is made for every name.
Mention = tuple[str, int, int, str]
DATE = "date"
DOUBTFUL = "doubtful"
"""A word that may owe its capital to the beginning of a sentence."""

_ALONE = ENGLISH | MONTHS_AND_WEEKDAYS  # words that are no name by themselves
_NOTHING = frozenset(word.capitalize() for word in _ALONE)
_BEFORE = " \t\n\"'([\u201c\u2018\u00ab*_#|`\u2022\u2013\u2014.)0123456789-"  # before a sentence's first word
_MARKS = 200  # characters before that word, at most
_ITEM = "*-+#\u2022"  # how a line of a list, or a heading, begins
_ELIDED = re.compile(r"(?<!\w)(?:[dD]['\u2019]|[aAeE]l-|[aA][dnrs]-)\Z")
# "President Nelson Mandela" and "Nelson Mandela" are one; "President Lincoln" stays.
_HONORIFIC_WORDS = """
    Mr Mrs Ms Dr Prof Capt Col Lt Sgt Cpl Gov Sen Rep Rev Hon Gen Mr. Mrs. Ms. Dr. Prof. Capt. Col. Lt. Sgt.
    Cpl. Gov. Sen. Rep. Rev. Hon. Gen. Sir President Chancellor Senator Governor Professor Congressman
    Congresswoman Ambassador Judge Captain Colonel Lieutenant Sergeant Corporal Reverend
"""
_HONORIFICS = frozenset(_HONORIFIC_WORDS.split())
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
# Where "the" may begin another name: "On Monday the European Commission", not "Bank of the West".
_THE = re.compile(r"(?<! of) the ")
_PERSONS = frozenset({"Bachelor", "Doctor", "Master", "Minister", "Secretary"})  # of `_BODY`
_WHERE = frozenset({"in", "on", "at", "during", "near"})
_PREPOSITIONS = _WHERE | {"after", "before", "by", "despite", "from", "since", "through", "until"}
_PRECEDING = re.compile(
    r"(?P<opens>(?:Because|According|Thanks|Due|Prior|Contrary|Instead) )?(?P<last>\w+) (?:the )?\Z"
)
# The next word may be a verb, so the name may be its subject.
_VERB = re.compile(r" (?!(?:and|or|the|an?|one|you|he|she|it|they|we|there|his|her|its|their)\b)[a-z]")
_FIRST_PERSON = re.compile(r"(?:^|[,.;:!?] |\n|\b[a-z]+ )I [a-z]")
_NEAR = 20_000  # characters on either side in which a word is looked for in lower case
_APOSTROPHE = re.compile("['\u2019]")
_POSSESSIVE = re.compile(r"['\u2019]s ")
# Sentence openers that no list can hold: "Launched in", "Following the", "Additionally".
_PARTICIPLE = re.compile(r"\w{3,}(?:ed|ing)\Z")
_AFTER_PARTICIPLE = re.compile(
    r",? (?:an?|the|this|that|these|his|her|its|their|in|on|at|from|to|by|as|for|with|up|out|into|of|about"
    r"|over)\b"
)


def mentions(text: str, start: int, end: int, stops: Set[str]) -> list[Mention]:
    """The names and dates in the sentence `text[start:end]`, in order.

    `stops` are the words of grammar of the text's language.
    """
    mentioned: list[Mention] = []
    for match in _ANY.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "name":
            if match[0] not in _NOTHING:
                _name(text, start, match[0], *match.span(), stops, mentioned)
        elif kind == "numbered":
            _numbered(text, *match.span(), stops, mentioned)
        elif kind == "title" or kind == "phrase":
            name = " ".join(match[kind].rstrip(" .,;:!?'\u2019").split())
            is_speech = kind == "phrase" and name != match[kind]
            if name and not is_speech and name.lower() not in stops | _ALONE:
                mentioned.append((name, *match.span(kind), ""))
        else:
            mentioned.append((" ".join(match[0].split()), *match.span(), DATE))
    if text[start] == "#":  # in a heading a capital tells nothing
        return [(name, at, last, kind or DOUBTFUL) for name, at, last, kind in mentioned]
    return mentioned


def _numbered(text: str, at: int, end: int, stops: Set[str], mentioned: list[Mention]) -> None:
    """Part "in 1998 Bill Clinton" and "a 1998 American film" but not "the 1998 World Cup"."""
    name = " ".join(text[at:end].split())
    number, _, rest = name.partition(" ")
    year = len(number) == 4 and number.isdigit()
    if year and (" " not in rest or (at and not _DEFINITE.search(text, max(0, at - 5), at))):
        mentioned.append((number, at, at + 4, DATE))
        if rest and rest not in _NOTHING:
            _name(text, at, rest, end - len(rest), end, stops, mentioned)
    elif rest and rest not in _NOTHING:
        mentioned.append((name, at, end, ""))


def _name(
    text: str, start: int, name: str, at: int, end: int, stops: Set[str], mentioned: list[Mention]
) -> None:
    """Judge one capitalised span: cut what does not belong to the name, split what is several names."""
    opens = (
        text[at - 1] in '"\u201c['
        or text[at - 2 : at] in (": ", "| ")
        or not text[max(start, at - _MARKS) : at].strip(_BEFORE)
    )
    if at and text[at - 1] not in " \n(":
        name, at = _extended(text, name, at)
    name = " ".join(name.split())
    if name.endswith(" I") and text[end : end + 2].strip().islower() and _FIRST_PERSON.search(text):
        name, end = name[:-2], end - 2  # "to my nephew Caspar I leave"
    opener = name.partition(" ")[0].lower() if opens else ""
    if opens or name[: name.find(" ")] in _IN_FRONT:
        name, opens = _beheaded(name, opens, stops, item=text[start] in _ITEM)
        at = end - len(name)
    if " the " in name and (article := _second_article(text, name, at, end, opener)):
        left, right = name[: article.start()], name[article.end() :]
        if left not in _NOTHING:
            _name(text, start, left, at, at + len(left), stops, mentioned)
        _name(text, start, right, end - len(right), end, stops, mentioned)
        return
    if name.partition(" ")[0].isdigit():
        _numbered(text, at, end, stops, mentioned)
        return
    if " " not in name:
        _word(text, name, at, end, opens, stops, mentioned)
        return
    if "'s " in name or "\u2019s " in name:
        _possessive(name, at, mentioned)
    elif _JUNCTIONS.search(name):
        _parted(text, name, at, opens, stops, mentioned)
    else:
        mentioned.append((name, at, end, ""))


def _second_article(text: str, name: str, at: int, end: int, opener: str) -> Match[str] | None:
    """The "the" that begins another name, if there is one.

    It does after a month or weekday, before a body ("in Norway the Watch Tower Society"), and before the
    subject of a sentence that opens with a preposition ("After Waterloo the Duke of Wellington went"); a
    subject of one word only after a place ("In Paris the Louvre opened"), since "After Alexander the Great
    died" has another. Others belong to the name: "Into the Wild". `opener` is the sentence's first word if
    the name stands behind it.
    """
    before = _PRECEDING.search(text, max(0, at - 20), at)
    preposition = before["last"].lower() if before else ""
    opens = bool(before and before["opens"])  # such a sentence opens with two words
    place = preposition == opener and preposition in _WHERE
    other = opens or (preposition == opener and preposition in _PREPOSITIONS)
    for article in _THE.finditer(name):
        last = name[: article.start()].rpartition(" ")[2].lower()
        if last in MONTHS_AND_WEEKDAYS:
            return article
        if last in ENGLISH:
            continue
        right = name[article.end() :]
        several = " " in right
        body = _BODY.search(right.partition(" of ")[0]) if several else None
        if body and body[0] not in _PERSONS:
            return article
        if (place or (other and several)) and _VERB.match(text, end):
            return article
    return None


def _extended(text: str, name: str, at: int) -> tuple[str, int]:
    """The name with what belongs to it before the capital: iPhone, d'Artagnan, al-Assad."""
    before = text[at - 1]
    if before.isalnum():
        return before + name, at - 1
    elided = _ELIDED.search(text, max(0, at - 4), at) if before in "'\u2019-" else None
    return (elided[0] + name, elided.start()) if elided else (name, at)


def _beheaded(name: str, opens: bool, stops: Set[str], *, item: bool) -> tuple[str, bool]:
    """The name without articles and honorifics in front and, where a sentence begins, small words.

    A line of a list may begin with a verb: "Drop Python 3.9".
    """
    while " " in name:
        name = _OFFICE.sub("", name, count=1)
        first, _, rest = name.partition(" ")
        folded = first.lower()
        if first in _HONORIFICS:
            if " " not in rest:  # "President Lincoln"
                break
        elif opens and (
            folded in stops or (folded in OPENERS and rest.startswith("the ")) or (item and folded in STEPS)
        ):
            pass
        elif folded not in ("the", "a", "an", "i") and not (first == folded and first.isalpha()):
            break
        name, opens = rest, False
    return name, opens


def _word(
    text: str, word: str, at: int, end: int, opens: bool, stops: Set[str], mentioned: list[Mention]
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
        if folded in stops or folded in OPENERS:
            return
        if text.find(f" {folded}", max(0, at - _NEAR), at + _NEAR) >= 0:
            return
        if _PARTICIPLE.match(folded) and _AFTER_PARTICIPLE.match(text, end):
            return
    mentioned.append((word, at, end, DOUBTFUL if opens and not acronym else ""))


def _possessive(name: str, at: int, mentioned: list[Mention]) -> None:
    """Of "Britain's Prime Minister" both parts; of "Schindler's List" the whole and the owner."""
    owner, owned = _POSSESSIVE.split(name, maxsplit=1)
    owners = [] if owner.lower() in OPENERS else [(owner, at)]
    if owners and " " in owned:
        parts = [*owners, (owned, at + len(name) - len(owned))]
    else:
        parts = [(name, at), *owners]
    for part, start in parts:
        _part(part, start, mentioned)


def _part(name: str, at: int, mentioned: list[Mention]) -> None:
    if name[:4].lower() == "the ":
        name, at = name[4:], at + 4
    if len(name) > 1 and (name.lower() not in _ALONE or (name.isupper() and len(name) < 4)):
        mentioned.append((name, at, at + len(name), ""))


def _parted(text: str, name: str, at: int, opens: bool, stops: Set[str], mentioned: list[Mention]) -> None:
    """Split the names in "Paris and London", not in "Department of Trade and Industry"."""
    begin = 0
    for junction in _JUNCTIONS.finditer(name):
        if not _joins(name[begin : junction.start()], junction[1], name[junction.end() :]):
            part = name[begin : junction.start()]
            if opens and not begin and " " not in part:  # "Given to Greta Coil"
                _word(text, part, at + begin, at + junction.start(), True, stops, mentioned)
            else:
                _part(part, at + begin, mentioned)
            begin = junction.end()
    _part(name[begin:], at + begin, mentioned)


def _joins(left: str, junction: str, right: str) -> bool:
    if junction == "&":
        return True
    body = _BODY.search(left)
    if junction not in _ANDS:
        return body is not None and junction != "to" and junction != "with"
    right = _JUNCTIONS.split(right, maxsplit=1)[0]
    if any(kind["last"] is not None for kind in _BODY.finditer(right)):
        return " " not in left and " " in right  # "Food and Drug Administration"; not "A School and B School"
    return body is not None and _TOPIC.search(left, body.end() - 1) is not None
