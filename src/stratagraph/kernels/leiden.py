"""Weighted Leiden communities: bounded in size, repeatable, and cheap to bring up to date."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph.kernels._edges import Edges, Labels, Weights, check_size, number, parts
from stratagraph.kernels._leiden import optimise
from stratagraph.kernels._moving import move
from stratagraph.kernels.bounded import split_large, split_once

Quality = Literal["modularity", "cpm"]


def leiden(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    resolution: float = 1.0,
    quality: Quality = "modularity",
    max_size: int | None = None,
    initial: NDArray[np.integer] | None = None,
    movable: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Labels:
    """Communities of an undirected weighted graph (ArchRAG 3.1.2; Traag, Waltman and van Eck, 2019).

    Parameters
    ----------
    ends
        The two ends of each edge, shape (edges, 2). The weights of an edge that is given several times add
        up; an edge from a node to itself is left out.
    weights
        Shape (edges,), none negative; None: 1 each. An edge of weight 0 is left out.
    nodes
        Number of nodes.
    resolution
        More of it makes more and smaller communities.
    quality
        "modularity", or the constant Potts model, where `resolution` is the least density of weight
        inside a community.
    max_size
        No community is larger; see `bound_sizes` for how larger ones are split.
    initial
        Labels to start from, shape (nodes,); a node of label -1 is new and starts alone.
    movable
        The nodes that may change community, shape (nodes,); None: all. New nodes always may. The others
        of one community stay together, and an update costs what the movable nodes' surroundings cost.
        A community whose fixed nodes alone exceed `max_size` is split nevertheless.

    Returns
    -------
    Labels, shape (nodes,), numbered from 0 by each community's smallest member. The members of a community
    are connected, but for nodes kept together by `movable` and the pieces of a star or the like that
    `max_size` cuts.

    Raises
    ------
    ValueError
        If edges, shapes, `resolution` or `max_size` are not valid, or `movable` comes without `initial`.
    """
    edges = Edges.of(ends, weights, nodes)
    _check(resolution, quality, max_size)
    start = None if initial is None else _start(initial, nodes)
    masses = _masses(edges, quality)
    if movable is None:
        labels = optimise(edges, masses, resolution, start, seed)
        labels = parts(edges, labels)
    else:
        if initial is None or start is None:
            raise ValueError("movable nodes move among communities: give their labels as initial")
        labels = move(edges, masses, resolution, start, _mask(movable, nodes) | (initial < 0), max_size)
    return number(labels) if max_size is None else split_large(edges, number(labels), max_size, seed)


def hierarchical_leiden(
    ends: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    nodes: int,
    *,
    max_size: int,
    max_levels: int,
    resolution: float = 1.0,
    quality: Quality = "modularity",
    seed: int = 0,
) -> list[Labels]:
    """Nested communities from coarse to fine: each level splits those that are still too large.

    The first level is Leiden's partition of the whole graph. Each further level splits the communities of
    more than `max_size` nodes by Leiden on their own subgraphs and takes over the others as they are; one
    that Leiden does not split is cut as in `bound_sizes`. It ends when none is too large, or after
    `max_levels` levels, when some may still be.

    Returns
    -------
    One array of labels per level, each of shape (nodes,) and numbered as those of `leiden`; at least one
    level. A community of one level lies in one community of the level before it.

    Raises
    ------
    ValueError
        As for `leiden`, or if `max_levels` is below 1.
    """
    if max_levels < 1:
        raise ValueError(f"max_levels must be at least 1, not {max_levels}")
    edges = Edges.of(ends, weights, nodes)
    _check(resolution, quality, max_size)
    labels = number(parts(edges, optimise(edges, _masses(edges, quality), resolution, None, seed)))
    levels = [labels]
    while len(levels) < max_levels:
        labels = split_once(edges, levels[-1], max_size, seed + len(levels))
        if labels.max(initial=-1) == levels[-1].max(initial=-1):
            break
        levels.append(labels)
    return levels


def _masses(edges: Edges, quality: Quality) -> Weights:
    """What makes the engine's quality modularity, or the constant Potts model."""
    if quality == "cpm":
        return np.ones(edges.nodes)
    strengths = edges.strengths()
    return strengths / np.sqrt(strengths.sum()) if len(edges) else strengths


def _start(initial: NDArray[np.integer], nodes: int) -> Labels:
    """The labels to start from, with one of its own for each new node."""
    initial = np.asarray(initial, dtype=np.int64)
    if initial.shape != (nodes,):
        raise ValueError(f"initial has one label per node: shape ({nodes},), not {initial.shape}")
    return number(np.where(initial < 0, initial.max(initial=0) + 1 + np.arange(nodes), initial))


def _mask(movable: NDArray[np.bool_], nodes: int) -> NDArray[np.bool_]:
    if movable.shape != (nodes,) or movable.dtype != np.bool_:
        raise ValueError(f"movable is {nodes} booleans, not {movable.dtype} of shape {movable.shape}")
    return movable


def _check(resolution: float, quality: str, max_size: int | None) -> None:
    if not (np.isfinite(resolution) and resolution > 0):
        raise ValueError(f"resolution must be above 0, not {resolution}")
    if quality not in ("modularity", "cpm"):
        raise ValueError(f"quality is 'modularity' or 'cpm', not {quality!r}")
    if max_size is not None:
        check_size(max_size)
