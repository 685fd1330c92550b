"""Several corpora at once: the margin of each method over plain rankings, and where it is smallest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stratagraph.eval.bootstrap import Difference, paired_difference
from stratagraph.eval.report import Evaluation, difference, number, titled
from stratagraph.eval.results import mean
from stratagraph.methods import WAYS

PLAIN = ("bm25", "dense", "hybrid")
"""Rankings without a graph."""

Scores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Fold:
    """Margin of a method over the best plain ranking, on some questions of a corpus.

    Parameters
    ----------
    dataset, part
        The corpus, and its questions: `all`, or `half 1`, `half 2` ... of random splits.
    method, plain
        The method, and the plain ranking with the best mean on these questions.
    difference
        Method minus plain ranking.
    """

    dataset: str
    part: str
    method: str
    plain: str
    difference: Difference


@dataclass(frozen=True)
class Overview:
    """Evaluations of the same rankers on several corpora. `str()` returns tables for a terminal.

    Parameters
    ----------
    evaluations
        One for each corpus.
    metric
        Metric that is compared, such as `doc_recall@5`.
    halvings
        Number of random splits of each corpus' questions in two, which show whether a margin holds on parts.
    """

    evaluations: tuple[Evaluation, ...]
    metric: str
    halvings: int = 2

    @property
    def methods(self) -> tuple[str, ...]:
        """The package's methods that were measured on every corpus, also in views of their own."""
        named = [row.name for row in self.evaluations[0].rows]
        return tuple(name for name in named if name.partition("/")[0] in WAYS and self._is_everywhere(name))

    @property
    def plain(self) -> tuple[str, ...]:
        """The plain rankings that were measured on every corpus."""
        return tuple(name for name in PLAIN if self._is_everywhere(name))

    def mean(self, name: str) -> float:
        """Mean over the corpora, each counting the same."""
        return math.fsum(evaluation.mean(name, self.metric) or 0.0 for evaluation in self.evaluations) / len(
            self.evaluations
        )

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """Every method on every corpus and every half of its questions."""
        return tuple(
            fold
            for evaluation in self.evaluations
            for part, questions in self._parts(evaluation)
            for method in self.methods
            if (fold := self._fold(evaluation, part, questions, method)) is not None
        )

    def worst(self, method: str) -> Fold | None:
        """The corpus with a method's smallest margin; None without a plain ranking."""
        whole = [fold for fold in self.folds if fold.method == method and fold.part == "all"]
        return min(whole, key=lambda fold: fold.difference.mean, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The overview as JSON-native values."""
        return {
            "metric": self.metric,
            "means": {name: self.mean(name) for name in (*self.methods, *self.plain)},
            "worst": {
                method: asdict(fold) for method in self.methods if (fold := self.worst(method)) is not None
            },
            "folds": [asdict(fold) for fold in self.folds],
        }

    def __str__(self) -> str:
        return _tables(self)

    def _is_everywhere(self, name: str) -> bool:
        return all(
            any(row.name == name and self.metric in row.scores for row in evaluation.rows)
            and evaluation.mean(name, self.metric) is not None
            for evaluation in self.evaluations
        )

    def _parts(self, evaluation: Evaluation) -> Iterator[tuple[str, list[int]]]:
        count = len(evaluation.questions)
        yield "all", list(range(count))
        for split in range(self.halvings):
            order = np.random.default_rng(split).permutation(count).tolist()
            yield f"half {2 * split + 1}", sorted(order[: count // 2])
            yield f"half {2 * split + 2}", sorted(order[count // 2 :])

    def _fold(self, evaluation: Evaluation, part: str, questions: list[int], method: str) -> Fold | None:
        def scores(name: str) -> Scores:
            every = evaluation.row(name).scores[self.metric]
            return [every[number] for number in questions]

        plain = {name: scores(name) for name in self.plain}
        known = {name: mean(each) or 0.0 for name, each in plain.items()}
        if not known:
            return None
        best = max(known, key=known.__getitem__)
        settings = evaluation.settings
        margin = paired_difference(
            scores(method),
            plain[best],
            resamples=settings["resamples"],
            confidence=settings["confidence"],
            seed=settings["seed"],
        )
        return None if margin is None else Fold(evaluation.dataset, part, method, best, margin)


def _tables(overview: Overview) -> str:
    """Means by corpus, the worst margin of each method, and its margins on all folds."""
    names = [each.dataset for each in overview.evaluations]
    means = [["", *names, "mean"]]
    for ranker in (*overview.methods, *overview.plain):
        each = [number(one.mean(ranker, overview.metric), 3) for one in overview.evaluations]
        means.append([ranker, *each, number(overview.mean(ranker), 3)])
    worst = [["", "margin", "on", "against"]]
    for method in overview.methods:
        if (fold := overview.worst(method)) is not None:
            worst.append([method, difference(fold.difference), fold.dataset, fold.plain])
    parts = list(dict.fromkeys(fold.part for fold in overview.folds))
    folds = [["", *parts]]
    for name in names:
        for method in overview.methods:
            known = {f.part: f for f in overview.folds if (f.dataset, f.method) == (name, method)}
            cells = [difference(known[part].difference) if part in known else "" for part in parts]
            folds.append([f"{name}: {method}", *cells])
    best = f"the best of {', '.join(overview.plain)}"
    return "\n\n".join(
        table
        for table in (
            titled(f"{overview.metric} on {len(names)} corpora", means),
            titled(f"worst margin over {best}", worst),
            titled(f"margin over {best} on these questions, by corpus and random halves of it", folds),
        )
        if table
    )
