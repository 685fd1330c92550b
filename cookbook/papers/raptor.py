"""A tree of summaries over Gaussian mixtures, as RAPTOR builds it (Sarthi et al. 2024), kept small.

Vectors are reduced by principal components instead of UMAP, the number of components is a share of the
vectors instead of the best one found, and covariances are diagonal: the paper's choices would take most of a
run's time (ERRATA H3). Passages are the run's, where the paper's have 100 tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np

from papers.corpus import Baseline, Corpus
from stratagraph import _sync
from stratagraph.eval import Passage
from stratagraph.ingest.summarize import Group, summarize
from stratagraph.kernels.topk import top_k
from stratagraph.models.prompts import load_prompt

PROMPT = load_prompt("papers", "summarize")
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
MOST_TOKENS = 3500
"""Maximum tokens of a cluster's texts; a larger one is split."""
DIMENSIONS = 10
ROUNDS = 5
Groups = list[list[int]]


class Raptor(Baseline):
    """RAPTOR: a tree of summaries over Gaussian mixtures, searched as one level.

    That is the better of the paper's two ways to search. No level is made of eleven nodes or fewer, as in the
    program. With `balanced`, groups are disjoint and of one size, by 2-means cut at the median, as
    RaptorBalanced does. Of passages alone, a summary stands for the nearest one below it that is not listed
    yet. Without a model, summaries are central sentences of the passages.
    """

    def __init__(self, name: str, corpus: Corpus, *, balanced: bool = False, passages: bool = False) -> None:
        super().__init__(name, corpus, passages=passages)
        self._balanced = balanced

    def ready(self) -> None:
        self._nodes = list(self.corpus.passages)
        self._below = [np.array([row]) for row in range(len(self._nodes))]
        self._vectors = self.corpus.vectors
        level = list(range(len(self._nodes)))
        for _ in range(MOST_LEVELS):
            groups = self._groups(level) if len(level) > DIMENSIONS + 1 else []
            if not groups or len(groups) >= len(level):
                break
            level = self._add(groups)

    def _groups(self, level: Sequence[int]) -> Groups:
        """Clusters of a level's nodes, none longer than one summary may be made of."""
        grouped = (halves if self._balanced else clusters)(self._vectors[level])
        parts = [part for group in grouped for part in self._parted([level[member] for member in group])]
        return list(map(list, dict.fromkeys(map(tuple, parts))))

    def _parted(self, group: list[int]) -> Iterator[list[int]]:
        """A cluster, or clusters of it as long as it is too long and falls apart."""
        tokens = sum(self.corpus.count_tokens(self._nodes[node].text) for node in group)
        parts: Groups = []
        if tokens > MOST_TOKENS and len(group) > 1:
            vectors, wanted = self._vectors[group], ceil(tokens / MOST_TOKENS)
            parts = (
                halves(vectors, ceil(len(group) / wanted))
                if self._balanced
                else mixture(reduced(vectors), wanted)
            )
        if not parts or max(map(len, parts)) == len(group):
            yield group
            return
        for part in parts:
            yield from self._parted([group[member] for member in part])

    def _add(self, groups: Groups) -> list[int]:
        first = len(self._nodes)
        texts = [
            Group(f"cluster {number}", [self._nodes[node].text for node in group], [])
            for number, group in enumerate(groups, first)
        ]
        summaries = _sync.run(summarize(texts, self.gate, prompt=PROMPT, max_tokens=SUMMARY_TOKENS))
        below = [np.unique(np.concatenate([self._below[node] for node in group])) for group in groups]
        self._nodes += [self.passage(each.text, rows) for each, rows in zip(summaries, below, strict=True)]
        self._below += below
        vectors = self.corpus.embedder.documents([node.text for node in self._nodes[first:]])
        self._vectors = np.concatenate([self._vectors, vectors])
        return list(range(first, len(self._nodes)))

    def rank(self, question: str, k: int) -> Sequence[Passage]:
        vector = self.corpus.embedder.question(question)
        if not self.passages:
            return [self._nodes[row] for row in top_k(self._vectors, vector, k)[0]]
        listed: dict[int, None] = {}
        for node in top_k(self._vectors, vector, 4 * k + 40)[0].tolist():
            rows = self._below[node]
            best = rows[np.argsort(-(self._vectors[rows] @ vector), kind="stable")]
            new = next((row for row in best.tolist() if row not in listed), None)
            if new is not None and (node == new or node >= len(self.corpus.chunks)):
                listed[new] = None
        return self.shown(list(listed)[:k])


def halves(vectors: np.ndarray, most: int = MOST_MEMBERS) -> Groups:
    """Groups of at most `most` rows, by repeated 2-means cut at the median."""
    rng = np.random.default_rng(0)
    waiting, done = [np.arange(len(vectors))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= most:
            done.append(rows.tolist())
            continue
        points = vectors[rows]
        centres = points[rng.choice(len(rows), 2, replace=False)]
        for _ in range(ROUNDS):
            right = points @ (centres[1] - centres[0])
            cut = right >= np.median(right)
            if cut.all():
                break
            centres = np.stack([points[~cut].mean(axis=0), points[cut].mean(axis=0)])
        order = np.argsort(right, kind="stable")
        waiting += [rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]]
    return done


def clusters(vectors: np.ndarray) -> Groups:
    """Groups of rows by a Gaussian mixture in the first ten principal components; they may overlap.

    The number of components is the number of rows over `TARGET`. If it exceeds `MOST_COMPONENTS`, a coarse
    mixture comes first, so that the time grows with the rows and not with their square.
    """
    points, wanted = reduced(vectors), ceil(len(vectors) / TARGET)
    if wanted <= MOST_COMPONENTS:
        return mixture(points, wanted)
    groups: Groups = []
    for part in mixture(points, ceil(wanted / MOST_COMPONENTS) + 1):
        inner = mixture(points[part], min(MOST_COMPONENTS, ceil(len(part) / TARGET)))
        groups += [[part[member] for member in group] for group in inner]
    return list(map(list, dict.fromkeys(map(tuple, groups))))


def reduced(vectors: np.ndarray) -> np.ndarray:
    """Vectors by their first principal components."""
    from sklearn.decomposition import PCA

    dimensions = min(DIMENSIONS, len(vectors) - 1, vectors.shape[1])
    with np.errstate(invalid="ignore"):  # equal vectors have no variance to explain
        return PCA(dimensions, random_state=0).fit_transform(vectors.astype(np.float64))


def mixture(points: np.ndarray, components: int) -> Groups:
    """Members of each component; every point is at least in its most likely one."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    components = min(components, len(points))
    if components < 2:
        return [list(range(len(points)))]
    fitted = GaussianMixture(components, covariance_type="diag", random_state=0, reg_covar=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough mixture will do
        posterior = fitted.fit(points).predict_proba(points)
    belongs = posterior >= SHARED
    belongs[np.arange(len(points)), posterior.argmax(axis=1)] = True
    return [members for column in belongs.T if (members := np.flatnonzero(column).tolist())]
