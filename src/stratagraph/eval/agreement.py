"""Whether judges agree, beyond what chance alone would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

Verdicts = Sequence[Hashable | None]


def cohen_kappa(one: Verdicts, other: Verdicts) -> float | None:
    """Cohen's kappa of two judges (Cohen 1960): 1 if they agree always, 0 if as often as by chance.

    Parameters
    ----------
    one, other
        Verdicts by question, in the same order; None where there is none. Only questions with both count.

    Returns
    -------
    (p - q) / (1 - q), with p the share of equal verdicts and q what shuffled verdicts would have; 1 where
    both always gave one and the same verdict, None without a question that both judged.
    """
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    agreed = sum(a == b for a, b in pairs) / len(pairs)
    ours, theirs = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(ours[verdict] * theirs[verdict] for verdict in ours) / len(pairs) ** 2
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def mean_kappa(judges: Sequence[Verdicts]) -> float | None:
    """The mean of Cohen's kappa over all pairs of judges (Light 1971); None with fewer than two."""
    found = [cohen_kappa(one, other) for one, other in combinations(judges, 2)]
    known = [each for each in found if each is not None]
    return sum(known) / len(known) if known else None
