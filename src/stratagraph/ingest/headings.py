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

_MARKS = ("#", "```", "~~~")
_ATX = re.compile(r" {0,3}#{1,6}\s+\S")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
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
    found = divide(_prose(text), title_line(text)[1])
    bodies = (each for each in found if not is_byline(text, each.start, each.end))
    return list(islice(bodies, most)) or divide(text)[:most]


def _prose(text: str) -> str:
    """The text with blanks in place of Markdown's headings and fenced code."""
    if not any(mark in text for mark in _MARKS):
        return text
    lines = text.split("\n")
    fences = [(at, match[1]) for at, line in enumerate(lines) if (match := _FENCE.match(line))]
    fence = ""
    if fences:
        # A text may have been cut out of fenced code. Its first fence then ends the code: such a fence has
        # nothing behind it, and a blank line, or the end, below it.
        first, mark = fences[0]
        is_last_line = first + 1 == len(lines) or not lines[first + 1].strip()
        fence = mark if lines[first].strip() == mark and is_last_line else ""
    marks = dict(fences)
    silent: set[int] = set()
    for at, line in enumerate(lines):
        mark = marks.get(at)
        ends = mark is not None and (not fence or mark.startswith(fence))
        if fence or ends or _ATX.match(line):
            silent.add(at)
        if ends and mark is not None:
            fence = "" if fence else mark
    return "\n".join(" " * len(line) if at in silent else line for at, line in enumerate(lines))


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
