"""Titles, bylines and headings, which stand above a text and state no fact.

A title is a short first line without a full stop; a byline names a source, a place, a writer or a day ("The
Hathe Courant, 9 July 1888."). They are left out of summaries and answers, as are headings and fenced code of
Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from stratagraph.ingest.extraction.mentions import mentions
from stratagraph.text.sentences import sentences, title_line, without_added
from stratagraph.text.stopwords import MONTHS_AND_WEEKDAYS

_MARKS = ("#", "```", "~~~", "|-", "|:", "| -", "| :")
_ATX = re.compile(r" {0,3}#{1,6}\s+\S")
_RULE = re.compile(r"\s*(?:\|\s*:?-+:?\s*)+\|?\s*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# A fence, at most 40 lines that are no fence, and a fence.
_BLOCK = re.compile(r"^(`{3,}|~{3,})[^\n`]*\n(?:(?!\1)[^\n]*\n){1,40}?\1[ \t]*$", re.MULTILINE)
_HTML = (
    "a|abbr|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|hr|i|iframe"
    "|img|ins|kbd|li|mark|ol|p|picture|pre|s|small|source|span|strong|sub|summary|sup|table|tbody|td|th|thead"
    "|tr|u|ul|video"
)
# Repeats are bounded, so that a long text of opening marks takes linear time.
_MARKS_OF_A_LINE = re.compile(
    r"<!--.{0,500}?-->|\{\*.{0,500}?\*\}|\{#.{0,500}?#\}|\{%.{0,500}?%\}"  # comments and tags of templates
    rf"|</?(?:{_HTML})(?:\s[^<>]{{0,500}})?/?>"
    r"|^[ \t]*(?:/{3,}|!{3}|\?{3}|:{3,}|\.\. [\w-]+::)[^\n]*"  # the line that opens or closes an admonition
    r"|^[ \t]*(?:(?:>|[-*+\u2022]|\d{1,3}[.)]|#{1,6})[ \t]+)+(?:\[(?:![A-Z]+|[ xX])\])?"
    r"|[\U0001f000-\U0001faff\u2600-\u2712\u2719-\u27bf\u200d\ufe0f\u20e3]",  # emoji, but no check marks
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\n]{0,500}\)")
_SPAN = re.compile(
    r"(?P<code>`{1,3})([^`]{1,300})(?P=code)"
    r"|(?<!\w)(?P<mark>\*{1,3}|_)(?=[^\s*_])(.{1,300}?)(?<=[^\s*_])(?P=mark)(?!\w)"
)
_ROW = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
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


def quotable(text: str, *, code: bool = False) -> str:
    """A sentence in one line without markup and emoji; empty if no letter or digit is left.

    With `code`, the marks of code stay.
    """
    text = _MARKS_OF_A_LINE.sub(" ", without_added(text))
    text = _ROW.sub(lambda row: row[0].replace("|", " "), text)
    text = _unmarked(_LINK.sub(r"\1", " ".join(text.split())), code).strip("* ")
    return text if any(map(str.isalnum, text)) else ""


def _unmarked(text: str, code: bool) -> str:
    """The text without marks of emphasis and, unless `code`, of code; what stands in code stays."""
    return _SPAN.sub(
        lambda span: (span[0] if code else span[2]) if span[2] else _unmarked(span[4], code), text
    )


def fenced(text: str) -> list[tuple[int, int]]:
    """The blocks of fenced code in a text of Markdown, with their fences, as offsets; short ones only."""
    return [block.span() for block in _BLOCK.finditer(text)] if "```" in text or "~~~" in text else []


def statements(
    text: str, wanted: Callable[[str], bool] = lambda _: False, *, most: int | None = None
) -> list[tuple[int, int]]:
    """The sentences of a text as offsets, without its title and the bylines not wanted; at most `most`.

    Headings and fenced code of Markdown are no sentences. A text of nothing else has all its sentences.
    """
    begin = title_line(text)[1]
    spans = ((start + begin, end + begin) for start, end in sentences(_prose(text)[begin:]))
    bodies = (
        (start, end) for start, end in spans if not is_byline(text, start, end) or wanted(text[start:end])
    )
    return list(islice(bodies, most)) or list(islice(sentences(text), most))


def _prose(text: str) -> str:
    """The text with blanks in place of Markdown's headings (also of tables) and fenced code."""
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
        elif _RULE.fullmatch(line) and not (at > 1 and lines[at - 2].lstrip().startswith("|")):
            silent |= {at - 1, at}
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
