"""Any augmentation with any clustering, the users' own among them (Alg. 1, lines 3 to 6; ERRATA A1, A2, A4).

A configuration names both, so that it can be stored. A function of a user's is registered under a name
first and then asked for as `custom:<name>`. A build needs it and so may an insert or a delete; a search
does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stratarag.kernels import augment as augmenting
from stratarag.kernels.partition import Method, cluster
from stratarag.protocols import Rows, Vectors
from stratarag.records import content_id

F = TypeVar("F", bound=Callable[..., Any])
Labels = NDArray[np.int64]
Weights = NDArray[np.float64]
Augmentation = Callable[[Vectors, Rows, Weights], tuple[Rows, Weights]]
"""Vectors (n, d), ends (m, 2) and weights (m,) of a graph to the ends and weights of another on its nodes."""
Clustering = Callable[[Vectors, Rows, Weights, int], NDArray[np.integer]]
"""Vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes to a label for each node, shape (n,)."""

AUGMENTATIONS: tuple[str, ...] = get_args(augmenting.Augmentation)
CLUSTERINGS: tuple[str, ...] = get_args(Method)
CUSTOM = "custom:"

_augmentations: dict[str, Augmentation] = {}
_clusterings: dict[str, Clustering] = {}


def register_augmentation(name: str, function: Augmentation) -> str:
    """Make an augmentation of one's own known as `custom:<name>`, for `ArchRAGConfig.augmentation`.

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
    return _register("augmentation", name, function, _augmentations)


def register_clustering(name: str, function: Clustering) -> str:
    """Make a clustering of one's own known as `custom:<name>`, for `ArchRAGConfig.clustering`.

    Parameters
    ----------
    name
        Its name in this process; a function that had it is replaced.
    function
        Called once per level with vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes; gives a
        whole number for each node, equal for the members of one community. Communities may have any size:
        what is too large is split afterwards. For equal input it must give equal output.

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
    >>> register_clustering("pairs", lambda vectors, ends, weights, bound: np.arange(len(vectors)) // 2)
    'custom:pairs'
    """
    return _register("clustering", name, function, _clusterings)


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

    @property
    def fingerprint(self) -> int:
        """64 bits of all that decides which communities are found; of a user's functions, their names."""
        settings = (repr(getattr(self, item.name)) for item in fields(self) if item.name != "threads")
        return int(content_id("recipe", *settings)[:16], 16)

    def augmented(self, vectors: Vectors, ends: Rows, weights: Weights) -> tuple[Rows, Weights]:
        """The edges of the graph and those that similarity adds, each weighted (lines 3 to 5)."""
        if self.augmentation.startswith(CUSTOM):
            found, weighed = _custom("augmentation", self.augmentation, _augmentations)(
                vectors, ends, weights
            )
            return np.asarray(found, np.int64).reshape(-1, 2), np.asarray(weighed, np.float64)
        return augmenting.augment(
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
        method: Any = self.clustering
        if self.clustering.startswith(CUSTOM):
            function = _custom("clustering", self.clustering, _clusterings)

            def method(ends: Rows, weights: Weights, nodes: int) -> NDArray[np.integer]:
                return function(vectors, ends, weights, self.max_size)

        return cluster(
            ends,
            weights,
            len(vectors),
            method=method,
            max_size=self.max_size,
            resolution=self.resolution,
            seed=self.seed,
        )

    def moved(self, ends: Rows, weights: Weights, initial: Labels, movable: NDArray[np.bool_]) -> Labels:
        """The partition `initial` brought up to date, whichever clustering made it.

        Leiden's local moving: new nodes (label -1) and those that may move join the community in which
        they gain most modularity; the others stay.
        """
        return cluster(
            ends,
            weights,
            len(initial),
            max_size=self.max_size,
            resolution=self.resolution,
            initial=initial,
            movable=movable,
            seed=self.seed,
        )


def _register(what: str, name: str, function: F, functions: dict[str, F]) -> str:
    if not isinstance(name, str) or not callable(function):
        raise TypeError(f"register_{what} takes a name and a function, not {name!r} and {function!r}")
    if not name:
        raise ValueError(f"register_{what} needs a name that is not empty")
    functions[name] = function
    return CUSTOM + name


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
