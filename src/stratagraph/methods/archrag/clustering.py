"""Any augmentation with any clustering (Alg. 1, lines 3 to 6; ERRATA A1, A2, A4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stratagraph.methods.settings import Choices
from stratagraph.types.protocols import Rows, Vectors

Weights = NDArray[np.float64]
Augmentation = Callable[[Vectors, Rows, Weights], tuple[Rows, Weights]]
"""Vectors (n, d), ends (m, 2) and weights (m,) of a graph to the ends and weights of another on its nodes."""
Clustering = Callable[[Vectors, Rows, Weights, int], NDArray[np.integer]]
"""Vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes to a label for each node, shape (n,)."""

AUGMENTATIONS = Choices("augmentation", ("knn", "none"))
CLUSTERINGS = Choices("clustering", ("leiden", "leidenalg"))


def register_augmentation(name: str, function: Augmentation) -> str:
    """Register a function as the augmentation `custom:<name>`, for `ArchRAGConfig.augmentation`.

    A process that builds or updates the index must register it first. The command line knows no functions, so
    that such an index is built and updated from Python; it is searched from anywhere.

    Parameters
    ----------
    name
        Its name in this process; a function that had it is replaced.
    function
        Called once per level with vectors (n, d), ends (m, 2) and weights (m,) of a graph; gives the ends and
        the weights, none negative, of the graph to cluster. For equal input it must give equal output.

    Returns
    -------
    `custom:<name>`.

    Raises
    ------
    TypeError
        If the name is no text, or the function cannot be called.
    ValueError
        If the name is empty.

    Examples
    --------
    >>> register_augmentation("as it is", lambda vectors, ends, weights: (ends, weights))
    'custom:as it is'
    """
    return AUGMENTATIONS.register(name, function)


def register_clustering(name: str, function: Clustering) -> str:
    """Register a function as the clustering `custom:<name>`, for `ArchRAGConfig.clustering`.

    What is returned and raised is as for `register_augmentation`.

    Parameters
    ----------
    name
        Likewise.
    function
        Called once per level with vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes; gives a
        whole number for each node, equal for the members of one community. Communities may have any size:
        what is too large is split afterwards. For equal input it must give equal output.

    Examples
    --------
    >>> register_clustering("pairs", lambda vectors, ends, weights, bound: np.arange(len(vectors)) // 2)
    'custom:pairs'
    """
    return CLUSTERINGS.register(name, function)
