"""Words beside names and vectors: how much they count for a question, and fusing rankings by their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratagraph.protocols import Rows

RRF_CONSTANT = 60
"""Of reciprocal rank fusion, as its authors chose it (Cormack, Clarke and Büttcher 2009)."""

LEXICAL_SHARE = 0.1
"""Restart mass of the passage that has the question's words best, where a name found in one passage has 1 and
the question has no names."""
SHARE_NAMES = 0.03
"""Mass of names, in a question of `USUAL_WORDS`, at which that share is halved."""
LEXICAL_BOOST = 6.0
"""How many times its mass that passage gains at the end, where the question has no names."""
BOOST_NAMES = 0.3
"""Mass of names, in a question of `USUAL_WORDS`, at which that gain is halved."""
USUAL_WORDS = 8
LENGTH_POWER = 3
"""How much less names count in a longer question: as this power of its length."""

REPEAT = 0.5
"""What a passage keeps of its mass for each better passage of its document."""
MOST_REPEATS = 10
"""Better passages that are counted for that: the mass of a book that is alone in its corpus stays above 0."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a question's words count, decided by how rare its names are, and how many words there are.

    Names that few passages have lead a walk to what the question is about, and to the next hop. Names that
    are everywhere (the two people of a chat, a company in the news) lead it nowhere, and the words must. So
    they must in a long question, which says more by its words than by the names among them.

    Parameters
    ----------
    names
        Restart mass of the names in the question: the sum of 1 / (passages that have it).
    words
        How many different words it has, those of grammar apart.
    """

    names: float
    words: int

    @property
    def share(self) -> float:
        """Restart mass of the passage that has the words best."""
        return LEXICAL_SHARE / (1 + self._led / SHARE_NAMES)

    @property
    def boost(self) -> float:
        """How many times its mass the passage that has the words best gains at the end."""
        return LEXICAL_BOOST / (1 + self._led / BOOST_NAMES)

    @property
    def _led(self) -> float:
        """How much the question is led by its names."""
        return self.names * (USUAL_WORDS / max(self.words, 1)) ** LENGTH_POWER


def repeats_damped(
    documents: NDArray[np.integer], rows: Rows, scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Scores of passages, each further one of a document keeping half of what the one before it keeps.

    So that one long document does not take all places. Within a document the order stays.

    Parameters
    ----------
    documents
        The document of each passage.
    rows, scores
        The passages; of equal scores the lower row comes first. All of shape (n,).
    """
    order = np.lexsort((rows, -scores, documents))
    ordered = documents[order]
    first = np.searchsorted(ordered, ordered)
    place = np.minimum(np.arange(len(order)) - first, MOST_REPEATS)
    damped = scores.copy()
    damped[order] *= np.float32(REPEAT) ** place.astype(np.float32)
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
