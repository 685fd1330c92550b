"""Several corpora at once: where a method is best, and where it loses most against what costs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stratagraph.eval.bootstrap import Difference, paired_difference
from stratagraph.eval.results import Evaluation
from stratagraph.methods import NAMES

PLAIN = ("bm25", "dense", "hybrid")
"""What a user has without a graph."""

Scores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Fold:
    """One method on some questions of a corpus, against the best of the plain rankings there.

    Parameters
    ----------
    dataset, part
        The corpus, and which of its questions: `all`, or `half 1`, `half 2` of a random split.
    method, plain
        The method, and the plain ranking with the best mean on these questions.
    difference
        Method minus plain ranking, with its interval.
    """

    dataset: str
    part: str
    method: str
    plain: str
    difference: Difference


@dataclass(frozen=True)
class Overview:
    """Evaluations of the same rankers on several corpora. `str()` gives the tables for a terminal.

    Parameters
    ----------
    evaluations
        One per corpus.
    metric
        What is compared, such as `doc_recall@5`.
    halvings
        Random splits of each corpus' questions in two, so that a margin which holds on a whole corpus can be
        seen not to hold on a part.
    """

    evaluations: tuple[Evaluation, ...]
    metric: str
    halvings: int = 2

    @property
    def methods(self) -> tuple[str, ...]:
        """The package's methods that were measured on every corpus, a view of its own among the names."""
        named = [row.name for row in self.evaluations[0].rows]
        return tuple(name for name in named if name.partition("/")[0] in NAMES and self._is_everywhere(name))

    @property
    def plain(self) -> tuple[str, ...]:
        """The plain rankings that were measured on every corpus."""
        return tuple(name for name in PLAIN if self._is_everywhere(name))

    def mean(self, name: str) -> float:
        """A ranker's mean over the corpora, each counting the same."""
        return math.fsum(found.mean(name, self.metric) or 0.0 for found in self.evaluations) / len(
            self.evaluations
        )

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """Every method on every corpus and on every half of its questions."""
        return tuple(
            fold
            for found in self.evaluations
            for part, questions in self._parts(found)
            for method in self.methods
            if (fold := self._fold(found, part, questions, method)) is not None
        )

    def worst(self, method: str) -> Fold | None:
        """The corpus on which a method has the smallest margin; None where no plain ranking was measured."""
        whole = [fold for fold in self.folds if fold.method == method and fold.part == "all"]
        return min(whole, key=lambda fold: fold.difference.mean, default=None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-native values."""
        return {
            "metric": self.metric,
            "means": {name: self.mean(name) for name in (*self.methods, *self.plain)},
            "worst": {
                method: asdict(fold) for method in self.methods if (fold := self.worst(method)) is not None
            },
            "folds": [asdict(fold) for fold in self.folds],
        }

    def __str__(self) -> str:
        from stratagraph.eval.report import overview_tables

        return overview_tables(self)

    def _is_everywhere(self, name: str) -> bool:
        return all(
            any(row.name == name and self.metric in row.scores for row in found.rows)
            and found.mean(name, self.metric) is not None
            for found in self.evaluations
        )

    def _parts(self, found: Evaluation) -> Iterator[tuple[str, list[int]]]:
        count = len(found.questions)
        yield "all", list(range(count))
        for split in range(self.halvings):
            order = np.random.default_rng(split).permutation(count).tolist()
            yield f"half {2 * split + 1}", sorted(order[: count // 2])
            yield f"half {2 * split + 2}", sorted(order[count // 2 :])

    def _fold(self, found: Evaluation, part: str, questions: list[int], method: str) -> Fold | None:
        def scores(name: str) -> Scores:
            every = found.row(name).scores[self.metric]
            return [every[number] for number in questions]

        plain = {name: scores(name) for name in self.plain}
        known = {name: _mean(each) for name, each in plain.items()}
        if not known:
            return None
        best = max(known, key=known.__getitem__)
        settings = found.settings
        difference = paired_difference(
            scores(method),
            plain[best],
            resamples=settings["resamples"],
            confidence=settings["confidence"],
            seed=settings["seed"],
        )
        return None if difference is None else Fold(found.dataset, part, method, best, difference)


def _mean(scores: Scores) -> float:
    present = [score for score in scores if score is not None]
    return math.fsum(present) / len(present) if present else 0.0
