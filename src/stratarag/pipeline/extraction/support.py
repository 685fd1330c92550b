"""What the corpus makes of the candidates of its chunks: which words are names, which phrases are things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from stratarag.pipeline.extraction.terms import select_terms
from stratarag.pipeline.merge import Merge

COMMON = 1.0
"""A word is a name if it is in capitals, where they tell, in at least so many chunks for one in lower case."""


def settle(collected: Merge, chunks: int) -> None:
    """Drop the candidates that the corpus of so many chunks does not support, and promote terms that it does."""
    frequency = {term: len(rows) for term, rows in collected.terms.items()}
    lower = _lower_case(frequency)
    collected.drop(
        [key for key, each in collected.entities.items() if len(each.certain) < max(1, COMMON * lower[key])]
    )
    collected.promote_terms(sorted(select_terms(frequency, chunks)))


def _lower_case(frequency: Mapping[str, int]) -> Counter[str]:
    """In about how many chunks each word stands in lower case, by the phrases that have it."""
    counts: Counter[str] = Counter()
    for term, count in frequency.items():
        first, _, second = term.partition(" ")
        if second and " " not in second:
            counts[first] += count
    return counts
