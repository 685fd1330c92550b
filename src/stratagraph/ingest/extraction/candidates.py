"""Candidates for entities, and which of them the corpus supports: doubtful names and lower-case phrases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from stratagraph.ingest.extraction.mentions import CAPITALS
from stratagraph.ingest.extraction.uncased import UNCASED
from stratagraph.ingest.graph.merge import Merge
from stratagraph.text.stopwords import ENGLISH, NO_THINGS

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
"""Words after which no noun phrase goes on; before an article or a pronoun stands a verb."""

_LONGEST = 80  # characters of a phrase
_COMMON = 0.01  # share of all chunks beyond which a phrase tells nothing
_ALWAYS = 3  # chunks that are never too many


def noun_phrases(text: str, stops: frozenset[str]) -> dict[str, None]:
    """Lower-case noun phrases that may be names, in order, as dictionary keys.

    In English a noun phrase ends at a preposition, a conjunction, an auxiliary, a verb in the past tense or a
    mark of punctuation: "the relief boat stopped" has one, "he stayed aboard until the" has none. Its last
    two and three words are taken, and the first two of these three (`parts_of`). In other languages all
    `neighbours` are taken.
    """
    if stops is not ENGLISH:
        return neighbours(text, stops)
    phrases: dict[str, None] = {}
    run: list[str] = []
    for word in text.split():
        bare = word if word.isalpha() else word.strip(_OPENING + _CLOSING)
        if not bare or bare in stops or "0" <= bare[0] <= "Z" or not _COMPOUND.fullmatch(bare):
            if run:
                _close(run, bare in _ENDS or not bare or word[0] in _OPENING, phrases)
                run = []
            continue
        if word[0] in _OPENING or _is_verb(bare):
            _close(run, True, phrases)
            run = []
        if not _is_verb(bare):
            run.append(bare)
        if word[-1] in _CLOSING:
            _close(run, True, phrases)
            run = []
    _close(run, True, phrases)
    return phrases


def _is_verb(word: str) -> bool:
    """Whether a word looks like a verb in the past tense ("shed" does not)."""
    return len(word) > 4 and word.endswith("ed") and word[-3] != "e"


def _close(run: list[str], ends: bool, phrases: dict[str, None]) -> None:
    if ends and len(run) > 1 and sum(map(len, run[-3:])) < _LONGEST:
        for part in (run[-3:], run[-3:-1], run[-2:]):
            if len(part) > 1:
                phrases[" ".join(part)] = None


def neighbours(text: str, stops: frozenset[str]) -> dict[str, None]:
    """Pairs and triples of neighbouring lower-case content words, in order, as keys."""
    phrases: dict[str, None] = {}
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
            phrases[both] = None
            if pair:
                phrases[f"{pair} {word}"] = None
            before, pair = word, both
        else:
            before, pair = word, ""
        if ends:
            before = pair = ""
    return phrases


def select_terms(document_frequency: Mapping[str, int], chunks: int) -> set[str]:
    """The phrases that become entities, by the number of chunks that have them among their terms.

    A phrase must join at least two chunks and still tell them from others: at most 1 % of them (three are
    never too many) have it. A phrase that is always part of the same longer one gives way to it, and one
    with a word that names no thing ("four minutes", "sent back") is none.
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
    """The maximum number of chunks that a term may occur in, of all `chunks`."""
    return max(_ALWAYS, int(chunks * _COMMON))


def is_thing(term: str) -> bool:
    """Whether each word of a term may name a thing."""
    return NO_THINGS.isdisjoint(term.split())


def parts_of(term: str) -> tuple[str, ...]:
    """A term without its first and without its last word (or character, in unspaced writing)."""
    if " " in term:
        return term.partition(" ")[2], term.rpartition(" ")[0]
    return (term[1:], term[:-1]) if not term.isascii() else ()


DOUBTFUL_SHARE = 1.0
"""Certain chunks of a name for each chunk that has it as a word in lower case, at least."""

_ADDRESSES = "aunt baron baroness count countess dame lady madame miss mistress uncle widow"
ADDRESSES = frozenset(_ADDRESSES.split())
"""Forms of address: "Miss Lettice Dunmore" is "Lettice Dunmore", and "Miss Dunmore" is she too, if no other
Miss Dunmore is named in full."""


def settle(collected: Merge, chunks: int) -> None:
    """Drop candidate names without support in the corpus, and promote terms that have it."""
    frequency = {term: len(rows) for term, rows in collected.terms.items()}
    lower: Counter[str] = Counter()  # in about how many chunks each word stands in lower case
    for term, count in frequency.items():
        first, _, second = term.partition(" ")
        if second and " " not in second:
            lower[first] += count
    entities = collected.entities
    collected.drop(
        [key for key, each in entities.items() if len(each.certain) < max(1, DOUBTFUL_SHARE * lower[key])]
    )
    full = by_short(entities)
    targets = {
        key: alias_of(key, entities.__contains__, lambda short: full.get(short, [])) for key in entities
    }
    if aliases := {key: target for key, target in targets.items() if target}:
        collected.rename(aliases)
    collected.promote_terms(sorted(select_terms(frequency, chunks)))


def alias_of(
    name: str, is_name: Callable[[str], bool], in_full: Callable[[str], Sequence[str]]
) -> str | None:
    """The name that one with a form of address stands for, or None.

    `is_name` tells whether the corpus supports a name; `in_full` gives the supported names of a `short_of`.
    """
    front, _, rest = name.partition(" ")
    if front not in ADDRESSES:
        return None
    if " " in rest:
        return rest if is_name(rest) else None
    named = in_full(name)
    return named[0] if len(named) == 1 else None


def short_of(name: str) -> str:
    """The form of address with the last name, of a person named in full under it; else ""."""
    front, _, rest = name.partition(" ")
    return f"{front} {rest.rpartition(' ')[2]}" if front in ADDRESSES and " " in rest else ""


def by_short(names: Iterable[str]) -> dict[str, list[str]]:
    """Names in full with a form of address, by their `short_of`."""
    names_of: dict[str, list[str]] = {}
    for name in names:
        if short := short_of(name):
            names_of.setdefault(short, []).append(name)
    return names_of
