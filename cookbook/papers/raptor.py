"""A tree of summaries over Gaussian mixtures, as RAPTOR builds it (Sarthi et al. 2024), kept small.

Vectors are reduced by principal components instead of UMAP, the number of components is a share of the
vectors instead of the best one found, and covariances are diagonal: the paper's choices would take most of a
run's time (ERRATA H3). Passages are the run's, where the paper's have 100 tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stratagraph import _sync
from stratagraph.eval.workbench import Passage, Workbench
from stratagraph.ingest.summarize import Group, summarize
from stratagraph.kernels.topk import top_k
from stratagraph.models.prompts import load_prompt
from stratagraph.types.protocols import Rows, Vectors

PROMPT = load_prompt("stratagraph.eval", "summarize")
TARGET = 10
"""Members of a cluster, on average."""
MOST_COMPONENTS = 50
"""Maximum components of one mixture; more are made by a coarse mixture and one in each part."""
SHARED = 0.1
"""Posterior probability from which a vector belongs to a cluster; it may belong to several."""
SUMMARY_TOKENS = 100
MOST_LEVELS = 5
MOST_MEMBERS = 12
"""Maximum members of a balanced cluster."""
Clusters = Literal["mixture", "balanced"]
MOST_TOKENS = 3500
"""Maximum tokens of a cluster's texts; a larger one is split."""
_DIMENSIONS = 10
_ROUNDS = 5
_SEED = 0


class GmmTree:
    """Clusters of passages are summarised, and clusters of summaries again.

    All nodes are searched together, the better of the paper's two ways. No level is made of eleven nodes or
    fewer, as in the program.

    `clusters="balanced"` makes disjoint groups of one size by 2-means cut at the median, as RaptorBalanced
    does.

    In view `chunks` a summary stands for the nearest passage below it that is not listed yet. Without a
    language model, summaries are central sentences of the passages.
    """

    name = "raptor"
    description = "RAPTOR: tree of summaries over Gaussian mixtures, searched as one level"

    def __init__(self, bench: Workbench, *, clusters: Clusters = "mixture") -> None:
        self._bench = bench
        self._balanced = clusters == "balanced"
        self._nodes = list(bench.passages)
        self._below: list[Rows] = [np.array([row]) for row in range(len(self._nodes))]
        level: list[int] = list(range(len(self._nodes)))
        self._vectors = bench.vectors
        for _ in range(MOST_LEVELS):
            groups = self._groups(level) if len(level) > _DIMENSIONS + 1 else []
            if not groups or len(groups) >= len(level):
                break
            level = self._add(groups)

    def _groups(self, level: Sequence[int]) -> list[list[int]]:
        """Clusters of a level's nodes, none longer than one summary may be made of."""
        grouped = (halves if self._balanced else clusters)(self._vectors[level])
        by_node = [[level[member] for member in group] for group in grouped]
        parts = [part for group in by_node for part in self._parted(group)]
        return list(map(list, dict.fromkeys(map(tuple, parts))))

    def _parted(self, group: list[int]) -> Iterator[list[int]]:
        """A cluster, or clusters of it as long as it is too long and falls apart."""
        tokens = sum(self._bench.count_tokens(self._nodes[node].text) for node in group)
        parts = []
        if tokens > MOST_TOKENS and len(group) > 1:
            parts = self._parts(self._vectors[group], ceil(tokens / MOST_TOKENS))
        if not parts or max(map(len, parts)) == len(group):
            yield group
            return
        for part in parts:
            yield from self._parted([group[member] for member in part])

    def _parts(self, vectors: Vectors, wanted: int) -> list[list[int]]:
        if self._balanced:
            return halves(vectors, ceil(len(vectors) / wanted))
        return _mixture(_reduced(vectors), wanted)

    def _add(self, groups: Sequence[Sequence[int]]) -> list[int]:
        below = [np.unique(np.concatenate([self._below[node] for node in group])) for group in groups]
        clusters = [
            Group(f"cluster {number}", [self._nodes[node].text for node in group], [])
            for number, group in enumerate(groups, len(self._nodes))
        ]
        summaries = _sync.run(summarize(clusters, self._bench.gate, prompt=PROMPT, max_tokens=SUMMARY_TOKENS))
        first = len(self._nodes)
        for summary, rows in zip(summaries, below, strict=True):
            documents = dict.fromkeys(self._bench.chunks[row].document_id for row in rows)
            self._nodes.append(Passage(summary.text, tuple(documents)))
        self._below += below
        vectors = self._bench.embedder.documents([node.text for node in self._nodes[first:]])
        self._vectors = np.concatenate([self._vectors, vectors])
        return list(range(first, len(self._nodes)))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        """At most `k` nodes, or passages, best first."""
        vector = self._bench.embedder.question(question)
        if self._bench.view == "nodes":
            return [self._nodes[row] for row in top_k(self._vectors, vector, k)[0]]
        nearest = top_k(self._vectors, vector, 4 * k + 40)[0]
        listed: dict[int, None] = {}
        for row in self._passages(nearest, vector, listed):
            listed[row] = None
            if len(listed) == k:
                break
        return [self._nodes[row] for row in listed]

    def _passages(self, nodes: Rows, vector: Vectors, listed: dict[int, None]) -> Iterator[int]:
        for node in nodes.tolist():
            rows = self._below[node]
            best = rows[np.argsort(-(self._vectors[rows] @ vector), kind="stable")]
            new = next((row for row in best.tolist() if row not in listed), None)
            if new is not None and (node == new or node >= len(self._bench.chunks)):
                yield new


def halves(vectors: Vectors, most: int = MOST_MEMBERS) -> list[list[int]]:
    """Groups of at most `most` rows, by repeated 2-means cut at the median."""
    rng = np.random.default_rng(_SEED)
    waiting, done = [np.arange(len(vectors))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= most:
            done.append(rows.tolist())
            continue
        points = vectors[rows]
        centres = points[rng.choice(len(rows), 2, replace=False)]
        for _ in range(_ROUNDS):
            right = points @ (centres[1] - centres[0])
            cut = right >= np.median(right)
            if cut.all():
                break
            centres = np.stack([points[~cut].mean(axis=0), points[cut].mean(axis=0)])
        order = np.argsort(right, kind="stable")
        waiting += [rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]]
    return done


def clusters(vectors: Vectors) -> list[list[int]]:
    """Groups of rows by a Gaussian mixture in the first ten principal components; they may overlap.

    The number of components is the number of rows over `TARGET`. If it exceeds `MOST_COMPONENTS`, a coarse
    mixture comes first, so that the time grows with the rows and not with their square.
    """
    reduced = _reduced(vectors)
    wanted = ceil(len(vectors) / TARGET)
    if wanted <= MOST_COMPONENTS:
        return _mixture(reduced, wanted)
    groups: list[list[int]] = []
    for part in _mixture(reduced, ceil(wanted / MOST_COMPONENTS) + 1):
        inner = _mixture(reduced[part], min(MOST_COMPONENTS, ceil(len(part) / TARGET)))
        groups += [[part[member] for member in group] for group in inner]
    return list(map(list, dict.fromkeys(map(tuple, groups))))


def _reduced(vectors: Vectors) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    dimensions = min(_DIMENSIONS, len(vectors) - 1, vectors.shape[1])
    with np.errstate(invalid="ignore"):  # equal vectors have no variance to explain
        points = PCA(dimensions, random_state=_SEED).fit_transform(vectors.astype(np.float64))
    return np.asarray(points, dtype=np.float64)


def _mixture(points: NDArray[np.float64], components: int) -> list[list[int]]:
    """Members of each component; every point is at least in its most likely one."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    components = min(components, len(points))
    if components < 2:
        return [list(range(len(points)))]
    mixture = GaussianMixture(components, covariance_type="diag", random_state=_SEED, reg_covar=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough mixture will do
        posterior = mixture.fit(points).predict_proba(points)
    belongs = posterior >= SHARED
    belongs[np.arange(len(points)), posterior.argmax(axis=1)] = True
    return [members for column in belongs.T if (members := np.flatnonzero(column).tolist())]
