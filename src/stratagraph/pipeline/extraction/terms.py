"""Lower-case phrases that may be things, and the rule by which a corpus decides which of them are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stratagraph.pipeline.extraction.spans import CAPITALS
from stratagraph.pipeline.extraction.uncased import UNCASED
from stratagraph.stopwords import ENGLISH, FUNCTION, NO_THINGS

# A lower-case word with a hyphen or an apostrophe, and what may stand around it.
_COMPOUND = re.compile(rf"[^\W\d_{CAPITALS}{UNCASED}]+(?:[-'\u2019][^\W\d_{CAPITALS}{UNCASED}]+)*")
_OPENING = "([{\"'\u201c\u2018\u00ab"
_CLOSING = ".,;:!?)]}\"'\u201d\u2019\u00bb\u2026"
_GRAMMAR = """
    of in on at by for from with without within into onto upon over under above below between among amongst
    through throughout during before after about against along across around behind beside beyond despite
    near past per toward towards via like unlike except including to and or but nor than as that which who
    whom whose where when while because since if until is are was were be been being has have had do does did
    can could will would shall should may might must
"""
_ENDS = frozenset(_GRAMMAR.split())
"""Words of grammar before which a noun phrase may end; before an article or a pronoun stands a verb."""

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


def noun_phrases(text: str, stops: frozenset[str]) -> dict[str, None]:
    """Lower-case phrases that what follows them tells for names of things, in order, as keys.

    In English a noun phrase ends at a preposition, a conjunction, an auxiliary, a verb in the past tense or a
    mark of punctuation: "the relief boat stopped" has one, "he stayed aboard until the" has none. Of a phrase
    the last two and three words are taken (the head is last), and the first two of these three, so that the
    parts of each are there (`parts_of`). In other languages all `neighbours` are taken.
    """
    if stops is not ENGLISH:
        return neighbours(text, stops)
    found: dict[str, None] = {}
    run: list[str] = []
    for word in text.split():
        bare = word if word.isalpha() else word.strip(_OPENING + _CLOSING)
        if not bare or bare in stops or "0" <= bare[0] <= "Z" or not _COMPOUND.fullmatch(bare):
            if run:
                _close(run, bare in _ENDS or not bare or word[0] in _OPENING, found)
                run = []
            continue
        if word[0] in _OPENING or _is_verb(bare):
            _close(run, True, found)
            run = []
        if not _is_verb(bare):
            run.append(bare)
        if word[-1] in _CLOSING:
            _close(run, True, found)
            run = []
    _close(run, True, found)
    return found


def _is_verb(word: str) -> bool:
    """Whether a word has the form of a verb in the past tense ("shed" has not)."""
    return len(word) > 4 and word.endswith("ed") and word[-3] != "e"


def _close(run: list[str], ends: bool, found: dict[str, None]) -> None:
    """Take the end of a noun phrase, if it `ends` here."""
    if ends and len(run) > 1 and sum(map(len, run[-3:])) < _LONGEST:
        for part in (run[-3:], run[-3:-1], run[-2:]):
            if len(part) > 1:
                found[" ".join(part)] = None


def neighbours(text: str, stops: frozenset[str]) -> dict[str, None]:
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
