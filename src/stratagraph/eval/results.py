"""What an evaluation measured of one ranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stratagraph.eval.metrics import Difference
from stratagraph.eval.rankers import Indexing
from stratagraph.eval.scoring import Scores
from stratagraph.types.records import Failure, Usage


@dataclass(frozen=True)
class Row:
    """Results of one ranker.

    Parameters
    ----------
    name, description
        The ranker's name, and a line on what it is.
    error
        Why there are no results, or not all.
    scores
        By metric, one value for each question; None where a metric does not apply.
    latency_ms, cpu_ms
        Wall and processor time of each search in milliseconds, without the embedding of the question.
    indexing
        Cost of making the ranker ready; None if there was none.
    differences
        By metric, the difference to the reference; empty in the reference's row.
    answers
        The model's answers, if any were asked for; None where the call failed.
    contexts
        The contexts of the answers.
    asking, usage, judging
        Model calls and tokens of the searches (each question once), of the answers, and of the judges.
    agreement
        Mean of Cohen's kappa over pairs of judges on correctness; None with one judge.
    failures
        What failed without ending the row: answers (they score 0), verdicts (left out), and calls of the
        build or of a search that were replaced by something else.
    """

    name: str
    description: str
    error: str = ""
    scores: Scores = field(default_factory=dict)
    latency_ms: tuple[float, ...] = ()
    cpu_ms: tuple[float, ...] = ()
    indexing: Indexing | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict)
    answers: tuple[str | None, ...] = ()
    contexts: tuple[str, ...] = ()
    asking: Usage = field(default_factory=Usage)
    usage: Usage = field(default_factory=Usage)
    judging: Usage = field(default_factory=Usage)
    agreement: float | None = None
    failures: tuple[Failure, ...] = ()

    def latency(self, percentile: float) -> float | None:
        """A percentile of `latency_ms`, such as 50 or 95."""
        return float(np.percentile(self.latency_ms, percentile)) if self.latency_ms else None
