"""Acronyms and what they stand for: "International Monetary Fund (IMF)", "PPR (personalised PageRank)"."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONG_FIRST = re.compile(r"\((?P<short>[^\W\d_][\w&.-]{1,9})[);,]")
_SHORT_FIRST = re.compile(r"\((?P<long>[^()\n]{5,90})\)")
_SHORT_BEFORE = re.compile(r"(?<!\w)[^\W\d_][\w&.-]{1,9} \Z")
_SENTENCE = re.compile(r"[.;:!?()\n]")
_SMALL_WORDS = "of the and for in on to a an de la le les du des et y und der die das für del di"
_SMALL = frozenset(_SMALL_WORDS.split())
_PART = re.compile(r"[^\W_]+")


def acronyms(text: str) -> Iterator[tuple[str, str, str]]:
    """(acronym, what it stands for, the text that says so) for every one that a text explains."""
    if "(" not in text:
        return
    for found in _LONG_FIRST.finditer(text):
        short = found["short"]
        if _shouted(short):
            at = found.start()
            full = _expansion(text[max(0, at - 120) : at], short)
            if full:
                yield short, full, f"{full} ({short})"
    for found in _SHORT_FIRST.finditer(text):
        before = _SHORT_BEFORE.search(text, max(0, found.start() - 12), found.start())
        if before and _shouted(before[0].strip()):
            short, full = before[0].strip(), found["long"].strip()
            if _expansion(full, short) == full:
                yield short, full, f"{short} ({full})"


def _shouted(short: str) -> bool:
    """Whether most of its letters are capitals: "IMF", "PhD", "NGOs"."""
    return 2 * sum(map(str.isupper, short)) > len(short.rstrip("s"))


def _expansion(before: str, short: str) -> str:
    """The words at the end of `before` whose initials spell `short`; empty if none do."""
    letters = [letter for letter in short.rstrip("s").lower() if letter.isalnum()]
    tail = _SENTENCE.split(before)[-1].rstrip(" \"'\u201d\u2019")
    parts = list(_PART.finditer(tail))
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
