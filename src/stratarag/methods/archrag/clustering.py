"""Any augmentation with any clustering, the users' own among them (Alg. 1, lines 3 to 6; ERRATA A1, A2, A4).

A configuration names both, so that it can be stored. A function of a user's is registered under a name
first and then asked for as `custom:<name>`; only a build needs it, an opened index does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels.augment import augment
from stratarag.kernels.bounded import bound_sizes
from stratarag.kernels.leiden import leiden
from stratarag.kernels.node2vec import node2vec
from stratarag.kernels.scan import scan
from stratarag.kernels.spectral import spectral
from stratarag.protocols import Rows, Vectors

F = TypeVar("F")
Labels = NDArray[np.int64]
Weights = NDArray[np.float64]
Augmentation = Callable[[Vectors, Rows, Weights], tuple[Rows, Weights]]
"""Vectors (n, d), ends (m, 2) and weights (m,) of a graph to the ends and weights of another on its nodes."""
Clustering = Callable[[Vectors, Rows, Weights, int], NDArray[np.integer]]
"""Vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes to a label for each node, shape (n,)."""

AUGMENTATIONS = ("knn", "codicil", "none")
CLUSTERINGS = ("leiden", "spectral", "scan", "node2vec")
CUSTOM = "custom:"

_augmentations: dict[str, Augmentation] = {}
_clusterings: dict[str, Clustering] = {}


def register_augmentation(name: str, function: Augmentation) -> str:
    """Make a function known as `custom:<name>`, which is returned; one of that name is replaced."""
    _augmentations[name] = function
    return CUSTOM + name


def register_clustering(name: str, function: Clustering) -> str:
    """Make a function known as `custom:<name>`, which is returned; one of that name is replaced.

    Its communities may have any size: what is too large is split afterwards.
    """
    _clusterings[name] = function
    return CUSTOM + name


def check_augmentation(name: str) -> None:
    """`ValueError` unless the name is one of ours or has the form of a custom one."""
    _check("augmentation", name, AUGMENTATIONS)


def check_clustering(name: str) -> None:
    """`ValueError` unless the name is one of ours or has the form of a custom one."""
    _check("clustering", name, CLUSTERINGS)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one level is augmented and clustered; see `config.ArchRAGConfig`."""

    augmentation: str
    clustering: str
    neighbours: int | None
    quantile: float
    resolution: float
    max_size: int
    seed: int
    threads: int = 1

    def augmented(self, vectors: Vectors, ends: Rows, weights: Weights) -> tuple[Rows, Weights]:
        """The edges of the graph and those that similarity adds, each weighted (lines 3 to 5)."""
        if self.augmentation.startswith(CUSTOM):
            found, weighed = _custom("augmentation", self.augmentation, _augmentations)(
                vectors, ends, weights
            )
            return np.asarray(found, np.int64).reshape(-1, 2), np.asarray(weighed, np.float64)
        return augment(
            vectors,
            ends,
            weights,
            mode=self.augmentation,  # type: ignore[arg-type]  # checked when the configuration was made
            neighbours=self.neighbours,
            quantile=self.quantile,
            seed=self.seed,
            threads=self.threads,
        )

    def clustered(self, vectors: Vectors, ends: Rows, weights: Weights) -> Labels:
        """A community for each node, none larger than the bound (line 6)."""
        nodes, size, seed = len(vectors), self.max_size, self.seed
        if self.clustering == "leiden":
            return leiden(ends, weights, nodes, resolution=self.resolution, max_size=size, seed=seed)
        if self.clustering == "spectral":
            labels = spectral(ends, weights, nodes, max_size=size, seed=seed)
        elif self.clustering == "node2vec":
            labels = node2vec(ends, weights, nodes, max_size=size, seed=seed)
        elif self.clustering == "scan":
            labels = scan(ends, weights, nodes)
        else:
            function = _custom("clustering", self.clustering, _clusterings)
            labels = _checked(function(vectors, ends, weights, size), nodes, self.clustering)
        return bound_sizes(ends, weights, labels, size, seed=seed)

    def moved(self, ends: Rows, weights: Weights, initial: Labels, movable: NDArray[np.bool_]) -> Labels:
        """The partition `initial` brought up to date, whichever clustering made it.

        Leiden's local moving: new nodes (label -1) and those that may move join the community in which
        they gain most modularity; the others stay.
        """
        return leiden(
            ends,
            weights,
            len(initial),
            resolution=self.resolution,
            max_size=self.max_size,
            initial=initial,
            movable=movable,
            seed=self.seed,
        )


def _check(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known and not (name.startswith(CUSTOM) and name != CUSTOM):
        raise ValueError(
            f"there is no {what} {name!r}; choose from {', '.join(known)}, or register your own and name it "
            f"'{CUSTOM}<name>'"
        )


def _custom(what: str, name: str, functions: dict[str, F]) -> F:
    function = functions.get(name.removeprefix(CUSTOM))
    if function is None:
        raise ValueError(
            f"{what} {name!r} is not registered in this process; call register_{what}"
            f"({name.removeprefix(CUSTOM)!r}, function) before building"
        )
    return function


def _checked(labels: NDArray[np.integer], nodes: int, name: str) -> Labels:
    found = np.asarray(labels)
    if found.shape != (nodes,) or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"{name} must give {nodes} whole numbers, not {found.dtype} of shape {found.shape}")
    return found.astype(np.int64)
