"""Lower-case phrases that may be things, and the rule by which a corpus decides which of them are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from stratarag.pipeline.scripts import UNCASED
from stratarag.pipeline.spans import CAPITALS
from stratarag.pipeline.stopwords import ENGLISH, FUNCTION

# Lower-case words with only blanks between them: a phrase ends at punctuation, a capital or a digit.
_STRETCH = r"{lower}(?<![\w'\u2019-].)[\w'\u2019-]*+(?: {lower}[\w'\u2019-]*+)*+"
_ANY = re.compile(_STRETCH.format(lower=rf"[^\W\d_{CAPITALS}{UNCASED}]"))
_ASCII = re.compile(_STRETCH.format(lower="[a-z]"), re.ASCII)

_LONGEST = 80  # characters of a phrase
_COMMON = 0.01  # share of all chunks beyond which a phrase tells nothing
_ALWAYS = 3  # chunks that are never too many


def lower_case(text: str) -> list[str]:
    """The words of a text that are in lower case, in order, with "," where a stretch of them ends."""
    stretches = (_ASCII if text.isascii() else _ANY).findall(text)
    return " , ".join(stretches).split(" ")


def stop_words(text: str, lower: list[str]) -> frozenset[str]:
    """The words of grammar for a text with these words: the English ones if it seems to be English."""
    if " the " in text:
        return ENGLISH
    used = set(lower)
    english = len(used & ENGLISH)
    return ENGLISH if english and 2 * english >= len(used & FUNCTION) else FUNCTION


def phrases(lower: list[str], stops: frozenset[str]) -> dict[str, None]:
    """Pairs and triples of neighbouring content words, in order, as keys."""
    found: dict[str, None] = {}
    before = ""
    for first, second in pairwise(lower):
        if first in stops or second in stops or first == "," or second == ",":
            before = ""
            continue
        pair = f"{first} {second}"
        if len(pair) > _LONGEST:
            before = ""
            continue
        found[pair] = None
        if before:
            found[f"{before} {second}"] = None
        before = pair
    return found


def select_terms(document_frequency: Mapping[str, int], chunks: int) -> set[str]:
    """The phrases that become entities.

    A phrase must join at least two chunks and still tell them from others: it is in at most 1 % of them
    (three are never too many). A phrase that is always part of the same longer one gives way to it.

    Parameters
    ----------
    document_frequency
        In how many chunks each phrase is among `Extraction.terms`.
    chunks
        How many chunks there are.
    """
    most = max(_ALWAYS, int(chunks * _COMMON))
    chosen = {term for term, count in document_frequency.items() if 2 <= count <= most}
    contained: set[str] = set()
    for term in chosen:
        for part in _parts(term):
            if part in chosen and document_frequency[part] == document_frequency[term]:
                contained.add(part)
    return chosen - contained


def _parts(term: str) -> tuple[str, ...]:
    """The term without its first and without its last word (or character, in unspaced writing)."""
    if " " in term:
        return term.partition(" ")[2], term.rpartition(" ")[0]
    return (term[1:], term[:-1]) if not term.isascii() else ()
