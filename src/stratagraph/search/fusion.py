"""How much words count beside names and vectors, and reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.types.protocols import Rows

RRF_CONSTANT = 60
"""Of reciprocal rank fusion, as its authors chose it (Cormack, Clarke and Büttcher 2009)."""

LEXICAL_SHARE = 0.1
"""Restart mass of the passage with the best words, without names; a name of one passage has 1."""
SHARE_NAMES = 0.03
"""Mass of names, in a question of `USUAL_WORDS`, at which that share is halved."""
LEXICAL_BOOST = 6.0
"""Factor that the mass of that passage gains at the end, in a question without names."""
BOOST_NAMES = 0.3
"""Mass of names, in a question of `USUAL_WORDS`, at which that gain is halved."""
USUAL_WORDS = 8
LENGTH_POWER = 3
"""Power of a question's length by which names count less in it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """How much a question's words count, by the rarity of its names and its number of words.

    Rare names lead a walk to the subject and to the next hop; names that are everywhere (the two people of a
    chat) do not, and then the words must. The same holds for a long question, which says more by its words.

    Parameters
    ----------
    names
        Restart mass of the names in the question: the sum of 1 / (passages that have it).
    words
        Number of its different words without those of grammar.
    """

    names: float
    words: int

    @property
    def share(self) -> float:
        """Restart mass of the passage with the best words."""
        return LEXICAL_SHARE / (1 + self._led / SHARE_NAMES)

    @property
    def boost(self) -> float:
        """Factor that the mass of the passage with the best words gains at the end."""
        return LEXICAL_BOOST / (1 + self._led / BOOST_NAMES)

    @property
    def told(self) -> dict[str, float]:
        """What it decided, for a trace."""
        values = {"names": self.names, "words": self.words, "share": self.share, "boost": self.boost}
        return {name: round(value, 4) for name, value in values.items()}

    @property
    def _led(self) -> float:
        return self.names * (USUAL_WORDS / max(self.words, 1)) ** LENGTH_POWER


def repeats_damped(
    documents: NDArray[np.integer], rows: Rows, scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Scores of passages: that of the n-th best one of a document is divided by n.

    So one long document does not take all places. Within a document the order stays; of equal scores the
    lower row comes first. `documents` holds the document of each passage; all arrays have shape (n,).
    """
    order = np.lexsort((rows, -scores, documents))
    ordered = documents[order]
    first = np.searchsorted(ordered, ordered)
    damped = scores.copy()
    damped[order] /= (np.arange(len(order)) - first + 1).astype(np.float32)
    return damped


def reciprocal_ranks(
    rankings: Sequence[Rows], constant: float = RRF_CONSTANT
) -> tuple[Rows, NDArray[np.float64]]:
    """Reciprocal rank fusion: a row's score is the sum of 1 / (constant + place) over rankings that have it.

    Returns
    -------
    Rows and scores, best first; of equals, the row that stands earlier in an earlier ranking.
    """
    everywhere = np.concatenate([np.zeros(0, np.int64), *rankings])
    parts = [1 / (constant + np.arange(1, len(ranking) + 1)) for ranking in rankings]
    rows, first, place = np.unique(everywhere, return_index=True, return_inverse=True)
    sums = np.bincount(place, np.concatenate([np.zeros(0), *parts]), minlength=len(rows))
    scores = np.asarray(sums, np.float64)
    order = np.lexsort((first, -scores))
    return rows[order], scores[order]
