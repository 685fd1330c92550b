"""How alike the members of communities are, by their vectors (ArchRAG, formulas 5 to 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def calinski_harabasz(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """Dispersion between communities over dispersion within, each per degree of freedom (formula 5).

    (sum of n_i |c_i - c|^2 / (C - 1)) / (sum of |x - c_i|^2 / (N - C)), where c_i are the C communities'
    means and c is that of all N vectors. Larger is better.

    Parameters
    ----------
    vectors
        Shape (nodes, dimension).
    labels
        Community of each node, shape (nodes,).

    Raises
    ------
    ValueError
        If there are not at least two communities and fewer communities than vectors, or a vector is not
        finite.
    """
    from sklearn.metrics import calinski_harabasz_score

    return float(calinski_harabasz_score(vectors, labels))


def cosine_similarity(vectors: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """The mean cosine of each vector to the mean of its community (formulas 6 and 7); larger is better.

    Parameters are those of `calinski_harabasz`. A zero vector, or one whose community's mean is zero, counts
    as 0.

    Raises
    ------
    ValueError
        If there are no vectors.
    """
    if not len(vectors):
        raise ValueError("there are no vectors")
    _, own = np.unique(labels, return_inverse=True)
    means = np.zeros((int(own.max()) + 1, vectors.shape[1]))
    np.add.at(means, own, vectors)
    scale = np.linalg.norm(vectors.astype(np.float64), axis=1) * np.linalg.norm(means, axis=1)[own]
    products = np.einsum("ij,ij->i", vectors, means[own])
    return float(np.divide(products, scale, out=np.zeros_like(scale), where=scale > 0).mean())
