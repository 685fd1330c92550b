"""Any augmentation with any clustering (Alg. 1, lines 3 to 6; ERRATA A1, A2, A4).

A configuration names both. A user registers a function under a name and configures `custom:<name>`. Builds
and updates need the function, searches do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels import augment as augmenting
from stratagraph.kernels.partition import Method, cluster
from stratagraph.pipeline.carryover import Labels
from stratagraph.protocols import Rows, Vectors
from stratagraph.records import content_key

if TYPE_CHECKING:
    from stratagraph.methods.archrag.config import ArchRAGConfig

F = TypeVar("F", bound=Callable[..., Any])
Weights = NDArray[np.float64]
Augmentation = Callable[[Vectors, Rows, Weights], tuple[Rows, Weights]]
"""Vectors (n, d), ends (m, 2) and weights (m,) of a graph to the ends and weights of another on its nodes."""
Clustering = Callable[[Vectors, Rows, Weights, int], NDArray[np.integer]]
"""Vectors (n, d), ends (m, 2), weights (m,) and the bound on sizes to a label for each node, shape (n,)."""
CUSTOM = "custom:"


class _Choices(Generic[F]):
    """The functions that a setting may name: built-in ones, and those that users register."""

    def __init__(self, setting: str, built_in: tuple[str, ...]) -> None:
        self._setting = setting
        self._built_in = built_in
        self._registered: dict[str, F] = {}

    def register(self, name: str, function: F) -> str:
        """Add a user's function; returns the name by which a configuration asks for it."""
        setting = self._setting
        if not isinstance(name, str) or not callable(function):
            raise TypeError(f"register_{setting} takes a name and a function, not {name!r} and {function!r}")
        if not name:
            raise ValueError(f"register_{setting} needs a name that is not empty")
        self._registered[name] = function
        return CUSTOM + name

    def check(self, name: str) -> None:
        """`ValueError` unless the name is built in or has the form of a registered one."""
        if name not in self._built_in and not (name.startswith(CUSTOM) and name != CUSTOM):
            raise ValueError(
                f"there is no {self._setting} {name!r}; choose from {', '.join(self._built_in)}, or register "
                f"your own and name it '{CUSTOM}<name>'"
            )

    def custom(self, name: str) -> F | None:
        """The user's function of a name that a configuration gives; None if the name is built in."""
        if not name.startswith(CUSTOM):
            return None
        own = name.removeprefix(CUSTOM)
        if own not in self._registered:
            raise ValueError(
                f"{self._setting} {name!r} is not registered in this process; call "
                f"register_{self._setting}({own!r}, function) before building"
            )
        return self._registered[own]


_augmentations = _Choices[Augmentation]("augmentation", get_args(augmenting.Augmentation))
_clusterings = _Choices[Clustering]("clustering", get_args(Method))
check_augmentation, check_clustering = _augmentations.check, _clusterings.check


def register_augmentation(name: str, function: Augmentation) -> str:
    """Register a function as the augmentation `custom:<name>`, for `ArchRAGConfig.augmentation`.

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
    return _augmentations.register(name, function)


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
    return _clusterings.register(name, function)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one level is augmented and clustered."""

    config: ArchRAGConfig
    threads: int = 1

    @property
    def fingerprint(self) -> int:
        """64 bits of the settings that decide the communities, among them the names of a user's functions."""
        of = self.config
        found = (
            of.augmentation,
            of.clustering,
            of.neighbours,
            of.quantile,
            of.resolution,
            of.max_community,
            of.seed,
        )
        return content_key("recipe", *map(repr, found))

    def augmented(
        self, vectors: Vectors, ends: Rows, weights: Weights, known: augmenting.Known | None = None
    ) -> tuple[Rows, Weights]:
        """The edges of the graph and those that similarity adds, each weighted (lines 3 to 5)."""
        custom = _augmentations.custom(self.config.augmentation)
        if custom is not None:
            found, weighed = custom(np.asarray(vectors), ends, weights)
            return np.asarray(found, np.int64).reshape(-1, 2), np.asarray(weighed, np.float64)
        return augmenting.augment(
            vectors,
            ends,
            weights,
            mode=self.config.augmentation,  # type: ignore[arg-type]  # checked when the configuration was made
            neighbours=self.config.neighbours,
            quantile=self.config.quantile,
            seed=self.config.seed,
            threads=self.threads,
            known=known,
        )

    def clustered(self, vectors: Vectors, ends: Rows, weights: Weights) -> Labels:
        """A community for each node, none larger than the bound (line 6)."""
        method: Any = self.config.clustering
        custom = _clusterings.custom(self.config.clustering)
        if custom is not None:

            def method(ends: Rows, weights: Weights, nodes: int) -> NDArray[np.integer]:
                return custom(np.asarray(vectors), ends, weights, self.config.max_community)

        return cluster(
            ends,
            weights,
            len(vectors),
            method=method,
            max_size=self.config.max_community,
            resolution=self.config.resolution,
            seed=self.config.seed,
        )

    def moved(self, ends: Rows, weights: Weights, initial: Labels, movable: NDArray[np.bool_]) -> Labels:
        """The partition `initial` updated by Leiden's local moving, whichever clustering made it.

        New nodes (label -1) and movable ones join the community in which they gain most modularity.
        """
        return cluster(
            ends,
            weights,
            len(initial),
            max_size=self.config.max_community,
            resolution=self.config.resolution,
            initial=initial,
            movable=movable,
            seed=self.config.seed,
        )
