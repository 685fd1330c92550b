"""BM25 over postings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import _native

Mask = NDArray[np.bool_]

_ALL: Mask = np.zeros(0, np.bool_)


class TermPostings(NamedTuple):
    """The passages of each term, one term after the other.

    Parameters
    ----------
    rows
        Passages, shape (p,), int32; ascending within a term.
    counts
        Occurrences of the term in the passage, shape (p,), uint8, at least 1.
    norms
        Length normalisation of each passage, shape (passages,), float32, at least 0.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]
    norms: NDArray[np.float32]


def bm25(
    postings: TermPostings,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    mask: Mask | None = None,
    *,
    rarity: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Scores of the admitted passages that hold one of the terms.

    score(p) = sum over terms of idf * tf / (tf + norm(p)), with idf = ln(1 + (n - df + 0.5) / (df + 0.5)):
    Robertson et al. (1994), in the form that Lucene computes.

    Parameters
    ----------
    starts, lengths
        The first posting of each of the question's terms and their number, int64.
    mask
        Admitted passages, shape (passages,); None admits all.
    rarity
        The idf of each term, if the passages are only a part of the corpus.

    Returns
    -------
    Rows, ascending, and their scores, float32, above 0.

    Raises
    ------
    ValueError
        If postings are out of bounds.
    """
    if rarity is None:
        rarity = idf(len(postings.norms), lengths)
    return _native.bm25(
        np.ascontiguousarray(postings.rows, np.int32),
        np.ascontiguousarray(postings.counts, np.uint8),
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(lengths, np.int64),
        rarity,
        np.ascontiguousarray(postings.norms, np.float32),
        _ALL if mask is None else np.ascontiguousarray(mask, np.bool_),
    )


def idf(passages: int, frequencies: NDArray[np.integer]) -> NDArray[np.float32]:
    """Inverse document frequency of terms that occur in `frequencies` of the passages, float32."""
    return np.log1p((passages - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
