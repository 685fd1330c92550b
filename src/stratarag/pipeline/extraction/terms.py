"""Lower-case phrases that may be things, and the rule by which a corpus decides which of them are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stratarag.pipeline.extraction.spans import CAPITALS
from stratarag.pipeline.extraction.uncased import UNCASED
from stratarag.stopwords import ENGLISH, FUNCTION, NO_THINGS

# A lower-case word with a hyphen or an apostrophe, and what may stand around it.
_COMPOUND = re.compile(rf"[^\W\d_{CAPITALS}{UNCASED}]+(?:[-'\u2019][^\W\d_{CAPITALS}{UNCASED}]+)*")
_OPENING = "([{\"'\u201c\u2018\u00ab"
_CLOSING = ".,;:!?)]}\"'\u201d\u2019\u00bb\u2026"

_LONGEST = 80  # characters of a phrase
_COMMON = 0.01  # share of all chunks beyond which a phrase tells nothing
_ALWAYS = 3  # chunks that are never too many


def stop_words(text: str) -> frozenset[str]:
    """The words of grammar for a text: the English ones if it seems to be English, else those of all."""
    if " the " in text:
        return ENGLISH
    used = {word for word in text.split() if word.islower()}
    english = len(used & ENGLISH)
    return ENGLISH if english and 2 * english >= len(used & FUNCTION) else FUNCTION


def phrases(text: str, stops: frozenset[str]) -> dict[str, None]:
    """Pairs and triples of neighbouring lower-case content words, in order, as keys."""
    found: dict[str, None] = {}
    before = pair = ""  # the content word before this one, and the two before
    for word in text.split():
        if word in stops or "0" <= word[0] <= "Z":  # a digit or a capital
            before = pair = ""
            continue
        ends = False
        if not (word.isalpha() and word.islower()):
            bare = word.strip(_OPENING + _CLOSING)
            if bare in stops or not _COMPOUND.fullmatch(bare):
                before = pair = ""
                continue
            if word[0] in _OPENING:
                before = pair = ""
            ends = word[-1] in _CLOSING
            word = bare
        if before and len(before) + len(word) < _LONGEST:
            both = f"{before} {word}"
            found[both] = None
            if pair:
                found[f"{pair} {word}"] = None
            before, pair = word, both
        else:
            before, pair = word, ""
        if ends:
            before = pair = ""
    return found


def select_terms(document_frequency: Mapping[str, int], chunks: int) -> set[str]:
    """The phrases that become entities.

    A phrase must join at least two chunks and still tell them from others: it is in at most 1 % of them
    (three are never too many). A phrase that is always part of the same longer one gives way to it, and one
    with a word that names no thing ("four minutes", "sent back") is none.

    Parameters
    ----------
    document_frequency
        In how many chunks each phrase is among `Extraction.terms`.
    chunks
        How many chunks there are.
    """
    most = most_common(chunks)
    chosen = {term for term, count in document_frequency.items() if 2 <= count <= most and is_thing(term)}
    contained: set[str] = set()
    for term in chosen:
        for part in parts_of(term):
            if part in chosen and document_frequency[part] == document_frequency[term]:
                contained.add(part)
    return chosen - contained


def most_common(chunks: int) -> int:
    """In how many of so many chunks a phrase may be that tells them from others."""
    return max(_ALWAYS, int(chunks * _COMMON))


def is_thing(term: str) -> bool:
    """Whether each of its words may name a thing."""
    return NO_THINGS.isdisjoint(term.split())


def parts_of(term: str) -> tuple[str, ...]:
    """The term without its first and without its last word (or character, in unspaced writing)."""
    if " " in term:
        return term.partition(" ")[2], term.rpartition(" ")[0]
    return (term[1:], term[:-1]) if not term.isascii() else ()
