"""When two spellings are one name: canonical names, dates, and the whole words of a text.

Names and questions are read the same way, so that a question contains a name exactly where it has its words
(NodeRAG's exact match, ERRATA N8: "star" is in "The Star" and not in "Stargazer").
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

# Marks that belong to a word although `\w` leaves them out: accents, Hebrew and Arabic points, Indic,
# Thai, Lao, Tibetan, Burmese and Khmer vowel signs, joiners, Japanese voicing marks.
MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0900-\u0903"
    "\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a51\u0a70-\u0a83\u0abc-\u0acd"
    "\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6"
    "\u0d00-\u0d03\u0d3b-\u0d57\u0d82\u0d83\u0dca-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ecd\u0f71-\u0f84\u0f90-\u0fbc\u102b-\u103e\u1056-\u1059\u135d-\u135f\u17b4-\u17d3\u200c\u200d"
    "\u3099\u309a\ufe20-\ufe2f"
)
# Written without spaces or, as Hangul is, with particles attached: two characters count as a word.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Articles that are no part of names. Those that are (El Salvador, Los Angeles, La Paz, Die Hard) stay.
_ARTICLES = "the an a der den dem das ein eine il gli het een ο η το οι τα τον την των του της"

_WORD = re.compile(rf"\w[\w{MARKS}]*(?:[+#]++(?!\w))?")
_RUN = re.compile(
    rf"(?=\w)(?:(?=[\w{MARKS}])[{UNSPACED}])+|\w(?:(?![{UNSPACED}])[\w{MARKS}])*(?:[+#]++(?!\w))?"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")

_APOSTROPHES = str.maketrans(dict.fromkeys("\u2019\u2018\u201b\u02bc\u02bb\u00b4\u2032\uff07", "'"))
_IGNORED = re.compile(
    "[\u00ad\u0591-\u05bd\u05bf\u05c1\u05c2\u0640\u064b-\u0652\u200b\u200e\u200f\u2060\ufe00-\ufe0f\ufeff]"
)
_POSSESSIVE = re.compile(r"(?<=\w)'s\b")
_INNER_APOSTROPHE = re.compile(r"(?<=\w)(?<!\b[cdjlmnst])(?<!\bqu)'(?=\w)")
# "j. r. r. tolkien" and "j.r.r. tolkien" become "jrr. tolkien", "u.s.a" becomes "usa".
_INITIALS = re.compile(r"(?<!\w)([^\W\d_])\.(?:[ -]?(?=[^\W\d_]\.)|(?=[^\W\d_](?!\w)))")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLE = re.compile(
    rf"\W*(?:\b({_ARTICLES.replace(' ', '|')})\b(?![+#]++(?!\w)|[{MARKS}])(\W+)(?!and\b)|\bl')(?=\w)"
)


def canonical(name: str) -> str:
    """The canonical form of a name: equal for two spellings of one name, and of itself.

    Compatibility forms are unified (NFKC), case is folded; punctuation, quotation marks, possessive 's and
    leading articles go; white space is one space. "&" is "and"; initials close up ("J. R. R. Tolkien" is
    `jrr tolkien`, "U.S." is `us`); an apostrophe inside a word vanishes (`obrien`), but separates after an
    elided article or preposition. An A that is no article stays: `a-milne`, `a-team`. Without a letter or
    digit it is empty.
    """
    initial, folded = _without_articles(_fold(name))
    return initial + " ".join(_WORD.findall(folded))


LONGEST_NAME = 200
"""Characters of the longest name; a longer text is taken for a passage and dropped."""


def canonical_name(name: str) -> str:
    """The canonical name under which a name is collected; empty without letter or digit, or if too long."""
    return canonical(name) if len(name) <= LONGEST_NAME else ""


def words(text: str) -> list[str]:
    """The words of a text as names are compared, in order.

    A run of unspaced writing (Chinese, Japanese, Korean, Thai ...) gives its character bigrams, so that a
    name is found inside a run.
    """
    folded = _fold(text)
    if not _UNSPACED.search(folded):
        return _WORD.findall(folded)
    parts: list[str] = []
    for run in _RUN.findall(folded):
        if len(run) > 2 and _UNSPACED.match(run):
            parts.extend(map("".join, pairwise(run)))
        else:
            parts.append(run)
    return parts


def is_unspaced(word: str) -> bool:
    """Whether a word of `words` is part of a run of unspaced writing, of which nobody knows the words."""
    return _UNSPACED.match(word) is not None


def name_words(name: str) -> list[str]:
    """The words of `canonical(name)`."""
    return words(canonical(name))


def _fold(text: str) -> str:
    """Case, compatibility forms and apostrophes unified; other punctuation still there."""
    folded = text.lower() if text.isascii() else _fold_unicode(text)
    folded = _INNER_APOSTROPHE.sub("", _POSSESSIVE.sub("", folded.replace("_", " ")))
    return _THOUSANDS.sub("", _INITIALS.sub(r"\1", folded)).replace("&", " and ")


def _fold_unicode(text: str) -> str:
    folded = text.translate(_APOSTROPHES)
    while True:  # folding can make characters that compose, and composing ones that fold: twice, rarely more
        again = _IGNORED.sub("", unicodedata.normalize("NFKC", folded.casefold()))
        if again == folded:
            return folded
        folded = again


def _without_articles(folded: str) -> tuple[str, str]:
    """The article that is part of a name ("A. Milne", "A-Team"), else "", and the text after articles."""
    while article := _ARTICLE.match(folded):
        word, gap = article.groups()
        folded = folded[article.end() :]
        if word and ("." in gap or not any(map(str.isspace, gap))):
            return f"{word}-", folded
    return "", folded


_MONTHS = "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep"
_MONTHS += "|october oct|november nov|december dec"
_NUMBERS = {name: number for number, names in enumerate(_MONTHS.split("|"), 1) for name in names.split()}
_MONTH = rf"(?P<month>{'|'.join(_NUMBERS)})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
_DATES = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}[-/.](?P<month>\d{{1,2}})(?:[-/.](?P<day>\d{{1,2}}))?",
        rf"(?:the )?{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_MONTH},? (?:of )?{_YEAR}",
    )
)


def iso_date(name: str) -> str | None:
    """A date in the form of ISO 8601, `2024-09-15` or `2024-09`, if the whole name is a date.

    Months are English names, or numbers after a year of four digits. The result is None for ambiguous forms
    such as 05/06/2024, and for a year alone, which has one spelling.
    """
    text = " ".join(name.split())
    for form in _DATES:
        if (match := form.fullmatch(text)) is not None:
            parts = match.groupdict()
            month = _NUMBERS.get(parts["month"].lower()) or int(parts["month"])
            year, day = int(parts["year"]), parts.get("day")
            try:
                date = datetime.date(year, month, int(day or 1))
            except ValueError:
                return None
            return date.isoformat() if day else f"{year}-{month:02}"
    return None


def telling(names: Iterable[str], count: int) -> list[str]:
    """At most `count` of some names, without those that repeat another.

    Capitalised names come before others ("Petrel" before "deep yellow"). A name is left out if an earlier one
    has all its words ("Ferrymen" after "Ferrymen's Company").
    """
    chosen: list[str] = []
    groups: list[set[str]] = []
    for name in sorted(dict.fromkeys(names), key=str.islower):
        own = set(words(name))
        if own and any(own <= each for each in groups):
            continue
        chosen.append(name)
        groups.append(own)
        if len(chosen) == count:
            break
    return chosen
