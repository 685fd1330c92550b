"""What the corpus makes of the candidates of its chunks: which words are names, which phrases are things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from stratagraph.pipeline.extraction.terms import select_terms
from stratagraph.pipeline.merge import Merge

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


def alias_of(
    name: str, is_name: Callable[[str], bool], in_full: Callable[[str], Sequence[str]]
) -> str | None:
    """The name that one under a form of address stands for, if there is one.

    Parameters
    ----------
    is_name
        Whether the corpus supports a name.
    in_full
        The names of `short_of` that form which the corpus supports.
    """
    front, _, rest = name.partition(" ")
    if front not in ADDRESSES:
        return None
    if " " in rest:
        return rest if is_name(rest) else None
    named = in_full(name)
    return named[0] if len(named) == 1 else None


def short_of(name: str) -> str:
    """The form of address with the last word, of a person named in full under it; else nothing."""
    front, _, rest = name.partition(" ")
    return f"{front} {rest.rpartition(' ')[2]}" if front in ADDRESSES and " " in rest else ""


def by_short(names: Iterable[str]) -> dict[str, list[str]]:
    """Names in full under a form of address, by their `short_of`."""
    found: dict[str, list[str]] = {}
    for name in names:
        if short := short_of(name):
            found.setdefault(short, []).append(name)
    return found


def _addressed(keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Persons under a form of address, each with the name that it stands for."""
    full = by_short(keys)
    for key in keys:
        if target := alias_of(key, keys.__contains__, lambda short: full.get(short, [])):
            yield key, target


def _lower_case(frequency: Mapping[str, int]) -> Counter[str]:
    """In about how many chunks each word stands in lower case, by the phrases that have it."""
    counts: Counter[str] = Counter()
    for term, count in frequency.items():
        first, _, second = term.partition(" ")
        if second and " " not in second:
            counts[first] += count
    return counts
