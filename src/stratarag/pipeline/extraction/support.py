"""What the corpus makes of the candidates of its chunks: which words are names, which phrases are things."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from stratarag.pipeline.extraction.terms import select_terms
from stratarag.pipeline.merge import Merge

COMMON = 1.0
"""Chunks in which a name must be one beyond doubt, for each that has it as a word in lower case."""

_ADDRESSES = "aunt baron baroness count countess dame lady madame miss mistress uncle widow"
ADDRESSES = frozenset(_ADDRESSES.split())
"""Words before a person's name: "Miss Lettice Dunmore" is who is called "Lettice Dunmore" elsewhere, and she
is "Miss Dunmore", if no other Miss Dunmore is named in full."""


def settle(collected: Merge, chunks: int) -> None:
    """Drop the names that a corpus of so many chunks does not support, promote the terms that it does."""
    frequency = {term: len(rows) for term, rows in collected.terms.items()}
    lower = _lower_case(frequency)
    collected.drop(
        [key for key, each in collected.entities.items() if len(each.certain) < max(1, COMMON * lower[key])]
    )
    if aliases := dict(_addressed(collected.entities)):
        collected.rename(aliases)
    collected.promote_terms(sorted(select_terms(frequency, chunks)))


def _addressed(keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Persons under a form of address, each with the name in full."""
    addressed = [
        (front, rest) for key in keys for front, _, rest in [key.partition(" ")] if front in ADDRESSES
    ]
    full: dict[tuple[str, str], list[str]] = defaultdict(list)
    for front, rest in addressed:
        if " " in rest:
            full[front, rest.rpartition(" ")[2]].append(rest)
    for front, rest in addressed:
        if " " in rest and rest in keys:
            yield f"{front} {rest}", rest
        elif len(named := full.get((front, rest), [])) == 1:
            yield f"{front} {rest}", f"{front} {named[0]}"


def _lower_case(frequency: Mapping[str, int]) -> Counter[str]:
    """In about how many chunks each word stands in lower case, by the phrases that have it."""
    counts: Counter[str] = Counter()
    for term, count in frequency.items():
        first, _, second = term.partition(" ")
        if second and " " not in second:
            counts[first] += count
    return counts
