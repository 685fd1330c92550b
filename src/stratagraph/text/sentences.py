"""Where sentences end, in Latin, Chinese, Japanese, Arabic and Devanagari writing.

Rules, not a model: a full stop ends a sentence if blank space and something other than a lower-case
letter follow and no abbreviation, initial or list number precedes; `。` and its kin end one anywhere.
A blank line ends a sentence, and so does a line break after a colon or a short line (a heading, a list item).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Set

from stratagraph.text import CountTokens

_STOPS = ".!?\u2026"
# Ideographic and full-width stops, Arabic question mark and full stop, danda and double danda,
# Armenian, Ethiopic, Khmer and Burmese full stops.
_FULL = "\u3002\uff01\uff1f\uff61\u061f\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b"
_CLOSERS = "\"'\u2019\u201d\u00bb)\\]\uff09\u300d\u300f\u3011"
_SHORT = 60  # characters; a shorter line was not broken because it was full

# Begins with one plain character set, which `re` can look for quickly. Possessive, so that a megabyte of
# full stops or of spaces takes linear time.
_BREAK = re.compile(
    rf"[{_STOPS}{_FULL}\n](?:"
    rf"(?<=\n)(?P<paragraph>[^\S\n]*+\n\s*+)"
    rf"|(?<=\n)(?:(?<=:\n)|(?<!,\n)(?<![^\n]{{{_SHORT}}}\n)|(?=\s*+(?:[-*\u2022]\s|[#|]|\d{{1,3}}[.)]\s)))(?P<line>\s*+)"
    rf"|(?<=[{_FULL}])(?P<full>[{_STOPS}{_FULL}]*+[{_CLOSERS}]*+\s*+)"
    rf"|(?<=[{_STOPS}])(?<![{_STOPS}]{{2}})(?P<stop>[{_STOPS}{_FULL}]*+[{_CLOSERS}]*+\s++)"
    rf")"
)
_ADDED = re.compile(r"\[([^\[\]\n]+):\] ")
_CLAUSE = re.compile(
    rf"[,;:)\u2013\u2014{_STOPS}]['\"\u201d\u2019]?\s+|[\uff0c\u3001\uff1b\uff1a\u060c\u061b]\s*|\n\s*"
)
_WORD = re.compile(r"\s+")
_JOINERS = "\u200d\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_SURROGATE = re.compile("[\ud800-\udfff]")

# Abbreviations after which a full stop ends no sentence; the second kind only where a number follows.
_NAMES = """
    mr mrs ms mx dr prof rev hon capt col gen lt sgt gov sen rep pres st mt ft jr sr messrs mme mlle sra dra
    hr fr inc ltd vs cf viz ca al e.g i.e z.b d.h u.a bzw ggf
"""
_NUMBERS = """
    no nos nr fig figs vol vols art arts ch chap sec p pp eq tab approx
    jan feb mar apr jun jul aug sep sept oct nov dec
"""
_BEFORE_A_NAME = frozenset(_NAMES.split())
_BEFORE_A_NUMBER = frozenset(_NUMBERS.split())

_PIECE = 1 << 16  # characters looked at together; a longer sentence is cut


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Character offsets (start, end) of the sentences of a text, without the blank space around them.

    They are looked for one after the other, so the first few of a long text cost little.
    """
    start = len(text) - len(text.lstrip())
    for match in _BREAK.finditer(text):
        end = match.end()
        if end >= len(text):
            break
        kind = match.lastgroup
        if (
            (kind == "stop" or kind == "line")
            and (text[end].islower() or (kind == "stop" and _abbreviated(text, start, match.start(), end)))
            and match[0].count("\n") < 2
        ):
            continue
        if end > start:
            yield start, start + len(text[start:end].rstrip())
            start = end
    if start < len(text):
        yield start, len(text.rstrip())


def with_added(names: Sequence[str], text: str) -> str:
    """A sentence with names that it leaves out before it, as in `[Runa Vik, Soll:] She sold the mill`."""
    plain = [name.replace("[", "(").replace("]", ")") for name in names]
    return f"[{', '.join(plain)}:] {text}" if plain else text


def without_added(text: str) -> str:
    """A text without the names that `with_added` added, for comparing and quoting."""
    return _ADDED.sub("", text) if ":] " in text else text


def without_names(text: str, names: Set[str]) -> str:
    """A text whose added names are not these, as in the description of one of them."""

    def others(added: re.Match[str]) -> str:
        left = [name for name in added[1].split(", ") if name not in names]
        return f"[{', '.join(left)}:] " if left else ""

    return _ADDED.sub(others, text) if ":] " in text else text


def added_as_text(text: str) -> str:
    """A text with the added names but without their brackets, for embedding."""
    return _ADDED.sub(r"\1: ", text) if ":] " in text else text


def recut(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The same text in pieces of `_PIECE` characters, the last one marked, whatever the blocks were."""
    buffer = ""
    for block in blocks:
        for at in range(0, len(block), _PIECE):
            buffer += block[at : at + _PIECE]
            if len(buffer) > _PIECE:
                yield _SURROGATE.sub("\ufffd", buffer[:_PIECE]), False
                buffer = buffer[_PIECE:]
    if buffer:
        yield _SURROGATE.sub("\ufffd", buffer), True


def middle(text: str) -> int:
    """Where to cut a text of two or more characters: after a clause, else a word, else anywhere.

    Within the middle half. A letter stays with its accents, and a composed emoji stays whole.
    """
    low, centre, high = max(1, len(text) // 4), len(text) // 2, len(text) - len(text) // 4
    for border in (_CLAUSE, _WORD):
        match = border.search(text, centre, high) or border.search(text, low, centre)
        if match and match.end() < len(text):
            return match.end()
    for cut in range(centre, max(low, centre - 16), -1):
        after = text[cut]
        accent = unicodedata.category(after).startswith("M")
        if not (accent or after in _JOINERS or text[cut - 1] == "\u200d"):
            return cut
    return centre


def _abbreviated(text: str, start: int, stop: int, end: int) -> bool:
    """Whether the full stop at `stop`, in the sentence that begins at `start`, does not end it."""
    if text[stop] != "." or not text[stop + 1].isspace():
        return False
    words = text[max(start, stop - 16) : stop].split()
    if not words:
        return False
    word = words[-1].lstrip("(['\"\u201c\u2018")
    if len(word) == 1 and word.isupper():  # an initial
        return True
    if word.isdigit():  # the number of a list item
        return len(word) <= 3 and not text[start : stop - len(word)].strip()
    if len(word) > 7:
        return False
    lowered = word.lower()
    if lowered in _BEFORE_A_NAME:
        return True
    if lowered in _BEFORE_A_NUMBER:
        return text[end].isdigit()
    return "." in word and all(len(part) == 1 and part.isupper() for part in word.split("."))  # U.S.


def clip(text: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """The longest beginning of a text of at most `max_tokens`, cut at a space if possible."""
    if count_tokens(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    border = text.rfind(" ", 0, low + 1)
    return text[: border if border > low // 2 else low].rstrip()
