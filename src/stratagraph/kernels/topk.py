"""The k rows of largest inner product: exact by scanning, or through a sketch of sign bits."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stratagraph.errors import Damaged
from stratagraph.kernels import _native
from stratagraph.kernels.blas import one_thread
from stratagraph.kernels.float16 import blocks
from stratagraph.kernels.lsh import Codes, hyperplanes, pack

Matrix = NDArray[np.float32]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
TopK = tuple[Rows, NDArray[np.float32]]


def joined(parts: Iterable[TopK], k: int) -> TopK:
    """The best `k` of several results, best first; of equal scores the lower row comes first."""
    results = [(np.zeros(0, np.int64), np.zeros(0, np.float32)), *parts]
    rows, scores = (np.concatenate(column) for column in zip(*results, strict=True))
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


SCAN_LIMIT = 4_000
"""Up to this many rows a scan takes about a millisecond, and nothing has to be approximated."""

SKETCH_BITS = 512
"""Bits of a sketch per vector, whatever its dimension."""

SHORTLIST = 1024
"""Rows of a sketch's shortlist that are ranked exactly, at least."""

CENTRE = 256
"""Vectors of which a sketch's centre is the mean."""

_PER_RESULT = 16
_ODD = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 32
_BATCH = 8192  # vectors that are sketched at a time
_FEW = 1024  # vectors whose products take no longer in one thread
_SEED = 0
_ALL: Mask = np.zeros(0, np.bool_)
_EACH_BIT: Rows = np.arange(SKETCH_BITS)


def top_k(vectors: Matrix, query: Matrix, k: int, *, mask: Mask | None = None) -> TopK:
    """The rows of largest inner product with a query, exactly.

    Parameters
    ----------
    vectors
        Shape (n, dimension); may be memory-mapped.
    query
        Shape (dimension,).
    mask
        Admitted rows, shape (n,); None admits all.

    Returns
    -------
    Rows and their inner products, both of shape (min(k, admitted),), best first and of equals the lower row
    first. Equal vectors have equal scores.

    Raises
    ------
    ValueError
        If `k` is below 1, or shapes do not fit.
    Damaged
        If a vector that might be among the results, or the query, is not finite.
    """
    _check(vectors, query, k, mask)
    if hasattr(vectors, "top_k"):
        found: TopK = vectors.top_k(query, k, mask)  # an external store, which searches itself
        return found
    rows = np.arange(len(vectors)) if mask is None else np.flatnonzero(mask)
    return _best(vectors, query, k, rows)


def _check(vectors: Matrix, query: Matrix, k: int, mask: Mask | None) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if vectors.ndim != 2 or query.shape != vectors.shape[1:]:
        raise ValueError(f"a query of shape {query.shape} does not fit vectors of shape {vectors.shape}")
    if mask is not None and (mask.shape != vectors.shape[:1] or mask.dtype != np.bool_):
        raise ValueError(
            f"a mask has one boolean per row: shape {vectors.shape[:1]}, not {mask.dtype} {mask.shape}"
        )


def _best(vectors: Matrix, query: Matrix, k: int, rows: Rows) -> TopK:
    scores = products(vectors, query, rows)
    if len(rows) > k:
        best = ~(scores < kth_largest(scores, k))  # keeps NaN
        rows, scores = rows[best], scores[best]
    finite = np.isfinite(scores)
    if not finite.all():
        raise Damaged(f"row {rows[np.argmin(finite)]} of the vectors, or the query, is not of finite numbers")
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def kth_largest(scores: NDArray[np.floating], k: int) -> np.floating:
    """The `k`-th largest of some scores, shape (n,), `k <= n`; NaN counts as the largest.

    The `k`-th largest maximum of blocks bounds it from below, and few scores are above. `numpy.partition`
    takes ten times as long where most scores are equal.
    """
    blocks = len(scores) // _BLOCK
    if blocks > k:
        bound = np.sort(scores[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1))[-k]
        scores = scores[~(scores < bound)]
    kth: np.floating = np.sort(scores)[-k]
    return kth


class Segmented(Protocol):
    """Vectors in several arrays, which compute products themselves."""

    def products(self, query: Matrix, rows: Rows) -> NDArray[np.float32]:
        """Inner products of a query of shape (dimension,) with some rows."""
        ...


@dataclass(frozen=True, slots=True)
class Sketch:
    """Signs of centred vectors under random projections; a shortlist by them is ranked exactly.

    The share of bits in which two codes differ estimates the angle between the centred vectors (ERRATA L1).
    Centring removes what all vectors of an embedding model have in common. The centre is the mean of a few
    vectors, chosen by their values, so that most updates do not change it.

    Parameters
    ----------
    mean
        Of `CENTRE` of the vectors, shape (dimension,).
    codes
        Packed bits, shape (n, SKETCH_BITS / 64).
    """

    mean: Matrix
    codes: Codes

    @classmethod
    def build(
        cls, vectors: Matrix, *, previous: tuple[Sketch, Rows] | None = None, steady: bool = False
    ) -> Sketch:
        """Sketch vectors of shape (n, dimension).

        `previous` is a previous sketch and the row there of each vector, or -1; codes are reused if the
        centre is the same. If `steady`, the previous centre stays as long as it is as near as that of another
        sample would be; else the sketch is that of a build without a previous one.
        """
        mean = _centre(vectors)
        if steady and previous is not None and _near(previous[0].mean, mean):
            mean = np.array(previous[0].mean)
        codes: Codes = np.zeros((len(vectors), SKETCH_BITS // 64), np.uint64)
        todo = np.arange(len(vectors))
        if previous is not None and np.array_equal(previous[0].mean, mean):
            sketch, rows_before = previous
            unchanged = rows_before >= 0
            codes[unchanged] = sketch.codes[rows_before[unchanged]]
            todo = np.flatnonzero(~unchanged)
        for start in range(0, len(todo), _BATCH):
            rows = todo[start : start + _BATCH]
            centred = vectors[rows] - mean
            with one_thread() if len(centred) < _FEW else nullcontext():
                codes[rows] = pack(centred @ hyperplanes(SKETCH_BITS, len(mean), _SEED).T > 0)
        return cls(mean, codes)

    def search(self, query: Matrix, k: int, *, vectors: Matrix, mask: Mask | None = None) -> TopK:
        """As `top_k(vectors, query, k, mask=mask)`, up to what the shortlist misses.

        The shortlist grows with `k`. A mask that admits few rows is scanned exactly.
        """
        admitted = len(vectors) if mask is None else int(np.count_nonzero(mask))
        size = max(SHORTLIST, _PER_RESULT * k)
        if admitted <= max(SCAN_LIMIT, size) or hasattr(vectors, "top_k"):
            return top_k(vectors, query, k, mask=mask)
        _check(vectors, query, k, mask)
        planes = hyperplanes(SKETCH_BITS, len(self.mean), _SEED)
        code = pack(products(planes, query - self.mean, _EACH_BIT)[None] > 0)[0]
        return _best(vectors, query, k, shortlist(code, self.codes, size, mask=mask))


def _centre(vectors: Matrix) -> Matrix:
    """The mean of the `CENTRE` vectors of lowest hashes of their first values, of equals the first."""
    head = np.zeros((len(vectors), 4), np.float16)
    for start, block in blocks(vectors):
        head[start : start + len(block), : min(4, vectors.shape[1])] = block[:, :4]
    keys = head.view(np.uint64)[:, 0]
    mixed = (keys ^ (keys >> np.uint64(31))) * _ODD
    mixed[keys == 0] = np.iinfo(np.uint64).max  # zero vectors last
    rows = np.arange(len(mixed))
    if len(mixed) > CENTRE:
        rows = np.flatnonzero(mixed <= np.partition(mixed, CENTRE)[CENTRE])
    chosen = rows[np.argsort(mixed[rows], kind="stable")][:CENTRE]
    halves = np.asarray(vectors[chosen]).astype(np.float16)  # as they are stored
    mean: Matrix = (halves.sum(axis=0, dtype=np.float64) / max(len(chosen), 1)).astype(np.float32)
    return mean


def _near(mean: Matrix, other: Matrix) -> bool:
    """Whether two centres differ by no more than the means of two samples of `CENTRE` unit vectors do."""
    spread = max(0.0, 1 - float(other @ other))
    return mean.shape == other.shape and float(np.sum((mean - other) ** 2)) <= 2 * spread / CENTRE


def shortlist(code: Codes, codes: Codes, size: int, *, mask: Mask | None = None) -> Rows:
    """The `size` rows whose codes differ in the fewest bits from a code, of equals the lower rows, ascending.

    `code` has shape (words,), `codes` (n, words), and `mask`, the admitted rows, (n,).
    """
    return _native.shortlist(code, np.ascontiguousarray(codes), _ALL if mask is None else mask, size)


def products(vectors: Matrix | Segmented, query: Matrix, rows: Rows) -> NDArray[np.float32]:
    """Inner products of some rows with a query, in one thread: many questions may be asked at once."""
    if not isinstance(vectors, np.ndarray):
        return vectors.products(query, rows)
    vectors = np.ascontiguousarray(vectors, np.float32)
    return _native.products(vectors, np.ascontiguousarray(query, np.float32), rows)
