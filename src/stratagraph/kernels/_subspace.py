"""Leading eigenvectors of sparse symmetric matrices, independent of the number of threads.

scipy multiplies with the sparse matrix in one thread. einsum multiplies thin matrices, because BLAS adds up
in an order that depends on its threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Matrix = NDArray[np.float64]

_RANK = 1e-12
_WIDEST = 0.999


def orthonormal(basis: Matrix) -> Matrix:
    """Orthonormal columns with the same span; fewer if columns are linearly dependent."""
    lengths = np.sqrt(np.einsum("ij,ij->j", basis, basis))
    basis = basis[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):
        values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", basis, basis))
        kept = values > _RANK * values.max(initial=0)
        basis = np.einsum("ij,jk->ik", basis, vectors[:, kept] / np.sqrt(values[kept]))
    return basis


def unit_rows(vectors: Matrix, least: float = 0.0) -> Matrix:
    """Rows divided in place by their lengths; rows of length `least` or less stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, lengths, out=vectors, where=lengths > least)
    return vectors


def ritz(matrix: csr_array, basis: Matrix) -> tuple[Matrix, Matrix]:
    """The best approximations of eigenvalues and eigenvectors within an orthonormal basis, ascending."""
    values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", basis, matrix @ basis))
    return values, np.einsum("ij,jk->ik", basis, vectors)


def leading(matrix: csr_array, start: Matrix, *, rounds: int, degree: int) -> tuple[Matrix, Matrix]:
    """Eigenvectors of the largest eigenvalues of a matrix whose eigenvalues lie between -1 and 1.

    Subspace iteration from `start`, shape (n, k), filtered by Chebyshev polynomials that are small from -1 to
    the smallest value found so far and grow fastest above it (Zhou and Saad, 2007). Returns at most k
    eigenvalues, ascending, and eigenvectors as columns.
    """
    values, vectors = ritz(matrix, orthonormal(start))
    for _ in range(rounds):
        cut = min(float(values[0]), _WIDEST)
        values, vectors = ritz(matrix, orthonormal(_filtered(matrix, vectors, cut, degree)))
    return values, vectors


def _filtered(matrix: csr_array, basis: Matrix, cut: float, degree: int) -> Matrix:
    """A Chebyshev polynomial of the matrix, for -1 to `cut` mapped to -1 to 1, times the basis."""
    half, middle = (cut + 1) / 2, (cut - 1) / 2
    before, now = basis, (matrix @ basis - middle * basis) / half
    for _ in range(degree - 1):
        before, now = now, 2 * (matrix @ now - middle * now) / half - before
        scale = np.abs(now).max(initial=1)
        before, now = before / scale, now / scale
    return np.asarray(now)
