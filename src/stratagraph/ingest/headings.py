"""Titles, bylines and headings, which stand above a text and state no fact.

A title is a short first line without a full stop; a byline names a source, a place, a writer or a day ("The
Hathe Courant, 9 July 1888."). They are left out of summaries, as are headings and fenced code of Markdown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from stratagraph.ingest.extraction.mentions import mentions
from stratagraph.text.statements import Statement, title_line
from stratagraph.text.statements import statements as divide
from stratagraph.text.stopwords import MONTHS_AND_WEEKDAYS

_ATX = re.compile(r"^ {0,3}#{1,6}\s+\S[^\n]*$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*([^\n]*)$", re.MULTILINE)
_VISIBLE = re.compile(r"[^\s]")
_LONGEST_BYLINE = 120  # characters
_BYLINES = 4096  # answers that are remembered: a text is asked about as a whole, then by sentence
_PLACED = re.compile(
    r"(?:(?:\w{3,}ed|held|made|sent|written|taken)(?: down)?(?= \w))?"
    r"(?:(?:^| )(?:by|from|at|in|on|off|to|for|aged)(?: [\w-]+){0,2})+|by order of(?: the)?",
    re.IGNORECASE,
)
_TELLING = re.compile(
    r" (?:is|was|are|were|be|been|has|had|have|do|does|did|will|would|can|could|not|also|but|than|he|she|it"
    r"|they|who|which|that|his|her|its|their) "
)
_SMALL = (
    frozenset(
        ["the", "a", "an", "by", "of", "at", "in", "on", "off", "from", "to", "for", "and", "near", "aged"]
    )
    | MONTHS_AND_WEEKDAYS
)


def statements(text: str, *, most: int | None = None) -> list[Statement]:
    """The statements of a text without its title and bylines; at most `most`.

    Headings and fenced code of Markdown state nothing. A text of nothing else has all its statements.
    """
    found = divide(_ATX.sub(blank, unfenced(text)), title_line(text)[1])
    bodies = (each for each in found if not is_byline(text, each.start, each.end))
    return list(islice(bodies, most)) or divide(text)[:most]


def unfenced(text: str) -> str:
    """A text of the same length with spaces in place of fenced code.

    Code of a passage may have lost a fence to the passage before or after it: of an odd number, or with a
    blank line below, a first fence without a language ends code that begins the passage. Code without an end
    goes on to the end.
    """
    fences = list(_FENCE.finditer(text))
    if not fences:
        return text
    parts, place, opened = [], 0, None
    first = fences[0]
    is_odd = sum(each[1][0] == first[1][0] for each in fences) % 2
    ends = text.startswith("\n\n", first.end()) and text[: first.start()].strip()
    if not first[2].strip() and (is_odd or ends):
        opened = first[1]  # the end of code that began before the passage
    for fence in fences:
        if opened is None:
            parts.append(text[place : fence.start()])
            place, opened = fence.start(), fence[1]
        elif not fence[2].strip() and fence[1].startswith(opened):
            parts.append(_VISIBLE.sub(" ", text[place : fence.end()]))
            place, opened = fence.end(), None
    rest = text[place:]
    parts.append(rest if opened is None else _VISIBLE.sub(" ", rest))
    return "".join(parts)


def blank(match: re.Match[str]) -> str:
    """Spaces in place of a match."""
    return _VISIBLE.sub(" ", match[0])


@lru_cache(_BYLINES)
def is_byline(text: str, start: int, end: int) -> bool:
    """Whether a sentence is a list of names, days and places; one with a common verb or pronoun is not."""
    if end - start > _LONGEST_BYLINE or _TELLING.search(text, start, end):
        return False
    bare = list(text[start:end])
    named = mentions(text, start, end, frozenset())
    for _, first, last, _ in named:
        bare[first - start : last - start] = " " * (last - first)
    if not named:
        return False
    for part in "".join(bare).strip(" .").split(","):  # beside its names: small words, or "on board"
        words = " ".join(part.lower().split()).strip(" .;:()'\u2019").split()
        if not _SMALL.issuperset(words) and _PLACED.fullmatch(" ".join(words)) is None:
            return False
    return True


def forget_bylines() -> None:
    """Forget all texts: a deleted text must not stay in memory."""
    is_byline.cache_clear()
