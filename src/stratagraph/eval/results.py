"""What an evaluation found: one row per ranker, with its scores question by question."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stratagraph.eval.bootstrap import Difference
from stratagraph.eval.datasets import Question
from stratagraph.eval.duels import Duel
from stratagraph.records import Failure, Usage

Scores = Mapping[str, tuple[float | None, ...]]
StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Indexing:
    """What making a ranker ready took.

    Parameters
    ----------
    seconds
        Wall time, without the embedding of passages, which the rankers share.
    stages
        Calls, tokens and seconds by stage of a build. What several methods of the package share, such as the
        extraction, stands in the row of the first.
    bytes
        What the method takes on disk; None for baselines, which are in memory only.
    peak_memory
        Bytes of resident memory above what the process had before, at the highest; None where the system does
        not tell. What an earlier ranker has let go may be used again without being seen here.
    cpu_seconds
        What the processor spent, all threads together: other than `seconds`, it does not grow where
        something else runs on the machine.
    """

    seconds: float
    stages: Mapping[str, Usage] = field(default_factory=dict)
    bytes: int | None = None
    peak_memory: int | None = None
    cpu_seconds: float | None = None

    @property
    def usage(self) -> Usage:
        """The sum over all stages."""
        return sum(self.stages.values(), Usage())


@dataclass(frozen=True)
class Row:
    """One ranker's results.

    Parameters
    ----------
    name, description
        The ranker, and what it is.
    error
        Why there are no results, if there are none.
    scores
        By metric, one value per question in their order; None where a metric does not apply.
    latency_ms
        Milliseconds of each search, without the embedding of the question.
    cpu_ms
        Milliseconds of processor time of each search.
    indexing
        What making it ready took.
    differences
        By metric, the difference to the reference; empty in the reference's own row.
    answers
        What the model answered from this ranker's context, if one was asked; None where the call failed.
    asking
        What the searches asked the model themselves, such as for the names in a question; a question counts
        once.
    usage
        What answering cost.
    judging
        What verdicts and comparisons cost.
    failures
        Answers that failed, which score 0, verdicts that could not be read, which are left out, and what
        failed in making the ranker ready and in its searches, where something else took its place.
    duels, gold_duels
        By criterion, how this ranker's answers fared against the reference's, and against the gold answers,
        if they were compared.
    agreement
        The mean of Cohen's kappa over pairs of judges on which answers are right, if there were several.
    measured
        When, in UTC: a row may be of an earlier run that was stopped.
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
    asking: Usage = field(default_factory=Usage)
    usage: Usage = field(default_factory=Usage)
    judging: Usage = field(default_factory=Usage)
    duels: Mapping[str, Duel] = field(default_factory=dict)
    gold_duels: Mapping[str, Duel] = field(default_factory=dict)
    agreement: float | None = None
    failures: tuple[Failure, ...] = ()
    measured: str = ""

    def latency(self, percentile: float) -> float | None:
        """A percentile of `latency_ms`, such as 50 or 95."""
        return float(np.percentile(self.latency_ms, percentile)) if self.latency_ms else None

    @property
    def cpu(self) -> float | None:
        """Mean of `cpu_ms`."""
        return _mean(self.cpu_ms)


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`. `str()` gives the tables for a terminal.

    Parameters
    ----------
    dataset
        Its name.
    questions
        What was asked, in the order of all scores.
    rows
        One per ranker, in the order in which they were named.
    reference
        The row that the others are compared with; empty if there is none.
    settings
        What the numbers depend on: documents, passages, embedder, view, cutoffs, budgets, seed, versions.
    notes
        What was wrong with the data, with the ids that it concerns.
    """

    dataset: str
    questions: tuple[Question, ...]
    rows: tuple[Row, ...]
    reference: str
    settings: Mapping[str, Any]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        from stratagraph.eval.report import tables

        return tables(self)

    def row(self, name: str) -> Row:
        """The row of a ranker.

        Raises
        ------
        KeyError
            If there is none of that name.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics, such as `recall@5`."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.scores))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of questions, sorted."""
        return tuple(sorted({question.type for question in self.questions if question.type}))

    def mean(self, name: str, metric: str, type_: str | None = None) -> float | None:
        """A ranker's mean over the questions, or those of one type, that the metric applies to."""
        scores = self.row(name).scores.get(metric, ())
        return _mean(
            [
                score
                for score, question in zip(scores, self.questions, strict=False)
                if type_ is None or question.type == type_
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-native values; a metric that does not apply is null."""
        return {
            "dataset": self.dataset,
            "settings": dict(self.settings),
            "notes": {what: list(ids) for what, ids in self.notes.items()},
            "reference": self.reference,
            "questions": [{"id": each.id, "type": each.type} for each in self.questions],
            "rows": [self._row_dict(row) for row in self.rows],
        }

    def _row_dict(self, row: Row) -> dict[str, Any]:
        return {
            "name": row.name,
            "description": row.description,
            "measured": row.measured,
            "error": row.error,
            "means": {metric: self.mean(row.name, metric) for metric in row.scores},
            "by_type": {
                type_: {metric: self.mean(row.name, metric, type_) for metric in row.scores}
                for type_ in (self.types if row.scores else ())
            },
            "differences": {
                metric: {**asdict(each), "is_noise": each.is_noise}
                for metric, each in row.differences.items()
            },
            "latency_ms": {"p50": row.latency(50), "p95": row.latency(95)},
            "cpu_ms": {"mean": row.cpu},
            "indexing": None if row.indexing is None else asdict(row.indexing),
            "asking": asdict(row.asking),
            "usage": asdict(row.usage),
            "judging": asdict(row.judging),
            "failures": [asdict(failure) for failure in row.failures],
            "duels": _duels(row.duels),
            "gold_duels": _duels(row.gold_duels),
            "agreement": row.agreement,
            "scores": {metric: list(scores) for metric, scores in row.scores.items()},
            "answers": list(row.answers),
        }

    def save_json(self, path: StrPath) -> None:
        """Write `to_dict()` to a file."""
        save_json(self.to_dict(), path)

    def save_plot(self, path: StrPath, metric: str | None = None) -> None:
        """Draw quality against tokens and latency; see `plot.plot`. Needs the extra `viz`."""
        from stratagraph.eval.plot import plot

        plot(self, path, metric)

    def save_csv(self, path: StrPath) -> None:
        """Write one line per ranker and type of question (`all` first) to a file, one column per metric."""
        save_csv([self], path)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What `save_csv` writes."""
        for row in self.rows:
            for type_ in (None, *(self.types if row.scores else ())):
                asked = [each for each in self.questions if type_ is None or each.type == type_]
                line: dict[str, Any] = {"dataset": self.dataset, "name": row.name, "type": type_ or "all"}
                line |= {"questions": len(asked), "error": row.error}
                line |= {metric: _cell(self.mean(row.name, metric, type_)) for metric in row.scores}
                if type_ is None:
                    line |= {"p50_ms": _cell(row.latency(50)), "p95_ms": _cell(row.latency(95))}
                    line |= {"cpu_ms": _cell(row.cpu)}
                    line |= _indexing_cells(row.indexing)
                yield line


_LATENCIES = ("p50_ms", "p95_ms", "cpu_ms")
_INDEXING = (
    "index_seconds",
    "index_cpu_seconds",
    "index_calls",
    "index_tokens",
    "index_bytes",
    "index_peak_memory",
)


def save_json(value: Mapping[str, Any], path: StrPath) -> None:
    """Write JSON-native values to a file."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    Path(path).write_text(text + "\n", "utf-8")


def save_csv(found: Sequence[Evaluation], path: StrPath) -> None:
    """Write the lines of several evaluations to one file; see `Evaluation.save_csv`."""
    metrics = tuple(dict.fromkeys(metric for each in found for metric in each.metrics))
    columns = ("dataset", "name", "type", "questions", *metrics, *_LATENCIES, *_INDEXING, "error")
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        for each in found:
            writer.writerows(each.lines())


def _duels(duels: Mapping[str, Duel]) -> dict[str, Any]:
    return {criterion: {**asdict(duel), "win_rate": duel.win_rate} for criterion, duel in duels.items()}


def _indexing_cells(indexing: Indexing | None) -> dict[str, Any]:
    if indexing is None:
        return {}
    usage = indexing.usage
    values = (
        _cell(indexing.seconds),
        _cell(indexing.cpu_seconds),
        usage.calls + usage.cached_calls,
        usage.input_tokens + usage.output_tokens,
        _cell(indexing.bytes),
        _cell(indexing.peak_memory),
    )
    return dict(zip(_INDEXING, values, strict=True))


def _mean(scores: Sequence[float | None]) -> float | None:
    present = [score for score in scores if score is not None]
    return math.fsum(present) / len(present) if present else None


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
