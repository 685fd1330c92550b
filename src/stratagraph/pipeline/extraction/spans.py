"""Where a sentence may name something: capitalised spans, titles in quotes, dates, quantities.

One compiled expression does nearly all the work of extraction; what it finds is judged in `naming.py`. It
begins with one plain character set, which `re` can look for quickly, and goes on behind that character.
Repetitions are possessive or bounded, so that any text takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise


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
JUNCTION = re.compile(rf" ({_JUNCTION}) ")

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
_MONTH = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    "|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|M\u00e4rz|Mai|Juni|Juli|Oktober|Dezember)"
)
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

_MONTH_REST = (
    "(?:(?<=J)(?:an(?:uary?)?|u(?:n[ei]?|l[yi]?))|(?<=F)eb(?:ruary?)?|(?<=M)(?:a(?:r(?:ch)?|y|i)|\u00e4rz)"
    "|(?<=A)(?:pr(?:il)?|ug(?:ust)?)|(?<=S)ept?(?:ember)?|(?<=O)(?:ct(?:ober)?|ktober)|(?<=N)ov(?:ember)?"
    "|(?<=D)e[cz](?:ember)?)"
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

_COUNT_REST = r"\d*+(?:,\d{3})*+(?:\.\d++)?"
_MAGNITUDE = r"(?:\s?(?:thousand|million|billion|trillion|bn|mn|Mio\.?|Mrd\.?)\b)"
_UNIT = (
    r"%|\u00b0\s?[CFK]?(?!\w)|(?:per\s?cent|[kM]?g|[kcmd\u00b5]?m[23\u00b2\u00b3]?|km/h|m/s|mi|ft|ha|mph|lbs?"
    r"|USD|EUR|GBP|[kMGT]?(?:Wh?|Hz|B|bit|J|V|eV|Pa)|(?:(?:square|sq\.?|cubic|nautical)\s)?"
    r"(?:(?:kilo|centi|milli|micro|nano|mega|giga)?(?:met(?:re|er)|gram|lit(?:re|er)|watt|hertz|byte|joule|volt)"
    r"|mile|foot|feet|inche?|yard|acre|hectare|pound|ounce|ton(?:ne)?|knot|dollar|euro|rupee|yen|km|mi|m|ft)s?)(?!\w)"
)
_QUANTITY_REST = rf"{_COUNT_REST}(?:{_MAGNITUDE}?[\s-]?(?:{_UNIT})|{_MAGNITUDE})"
_MONEY_REST = rf"\s?\d{_COUNT_REST}{_MAGNITUDE}?"

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
_MONEY = "$\u20ac\u00a3\u00a5\u20b9"

_SPAN = (
    rf"[{_U}\d{_QUOTES}{_MONEY}](?:"
    rf"(?<=[{_U}])(?:(?<!\w\w)|(?<=\b[a-z][{_U}]))(?:(?P<date>{_MONTH_FIRST})|(?P<name>{_REST}{_MORE}))"
    rf"|(?<=\d)(?<![\w.]\d)(?<!\d,\d)(?:(?P<day>{_DAY_FIRST})|(?P<quantity>{_QUANTITY_REST})"
    rf"|(?P<numbered>\d*+(?:st|nd|rd|th)?{_SPACE}{_TOKEN}{_MORE})|(?P<year>{_YEARS}))"
    rf"|(?<=[{_QUOTES}]){_QUOTE_REST}"
    rf"|(?<=[{_MONEY}])(?P<money>{_MONEY_REST}))"
)
_ANY = re.compile(_SPAN)
_ASCII = re.compile(_SPAN.replace(_U, "A-Z"), re.ASCII)  # the same for ASCII text, a third faster


def spans(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The spans in `text[start:end]`; a match's `lastgroup` says what it is.

    `name` (begins with a capital), `numbered` (a name behind a number), `date`, `day`, `year`, `quantity`,
    `money`, `title` and `phrase` (these two groups are what stands between the quotes).
    """
    return (_ASCII if text.isascii() else _ANY).finditer(text, start, end)
