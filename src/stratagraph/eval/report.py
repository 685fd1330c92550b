"""An evaluation: what was measured of each ranker, files of it, and its tables for a terminal."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stratagraph.eval.datasets import FROM_EXTRACTION, Question, StrPath
from stratagraph.eval.metrics import Difference, mean
from stratagraph.eval.rankers import Cutoffs, Indexing, Scores
from stratagraph.types.records import Failure, Usage

NOISE = "~"
_NAMED = 3  # ids shown in a note
_SHOWN = 0.05  # seconds of a stage that is shown


@dataclass(frozen=True)
class Row:
    """Results of one ranker.

    Parameters
    ----------
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
    answers, contexts
        The model's answers, None where the call failed, and what they were made from.
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


Table = list[list[str]]
Cell = Callable[[Row], str]
Columns = Mapping[str, tuple[str, str | None]]
"""A metric, and a type of question or None for all, by heading."""


@dataclass(frozen=True)
class Evaluation:
    """Result of `evaluate`. `str()` returns its tables for a terminal.

    `rows` are in the order in which they were named, `questions` in that of all scores. `reference` names
    the row that the others are compared with, if any. `settings` are what the figures depend on: documents,
    passages, embedder, view, cutoffs, budgets, seed, versions. `notes` are faults of the data, with the ids
    concerned.
    """

    dataset: str
    questions: tuple[Question, ...]
    rows: tuple[Row, ...]
    reference: str
    settings: Mapping[str, Any]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return tables(self)

    def row(self, name: str) -> Row:
        """The row of a ranker; `KeyError` if there is none of that name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")

    @property
    def cutoffs(self) -> Cutoffs:
        """The cutoffs of the run."""
        return Cutoffs(tuple(self.settings["k"]), tuple(self.settings["budgets"]))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics, such as `recall@5`."""
        return tuple(dict.fromkeys(metric for row in self.rows for metric in row.scores))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of questions, sorted."""
        return tuple(sorted({question.type for question in self.questions if question.type}))

    def mean(self, name: str, metric: str, type_: str | None = None) -> float | None:
        """Mean of a metric over the questions it applies to, or those of one type."""
        scores = self.row(name).scores.get(metric, ())
        return mean(
            [
                score
                for score, question in zip(scores, self.questions, strict=False)
                if type_ is None or question.type == type_
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON-native values; a metric that does not apply is null."""
        return {
            "dataset": self.dataset,
            "settings": dict(self.settings),
            "notes": {what: list(ids) for what, ids in self.notes.items()},
            "reference": self.reference,
            "questions": [{"id": each.id, "type": each.type} for each in self.questions],
            "rows": [self._row_dict(row) for row in self.rows],
        }

    def _row_dict(self, row: Row) -> dict[str, Any]:
        fields = asdict(row)
        for internal in ("contexts", "latency_ms", "cpu_ms"):
            del fields[internal]
        fields["means"] = {metric: self.mean(row.name, metric) for metric in row.scores}
        fields["by_type"] = {
            type_: {metric: self.mean(row.name, metric, type_) for metric in row.scores}
            for type_ in (self.types if row.scores else ())
        }
        for metric, difference in row.differences.items():
            fields["differences"][metric]["is_noise"] = difference.is_noise
        fields["latency_ms"] = {"p50": row.latency(50), "p95": row.latency(95)}
        fields["cpu_ms"] = {"mean": mean(row.cpu_ms)}
        return fields

    def save_json(self, path: StrPath) -> None:
        """Write `to_dict()` to a file."""
        save_json(self.to_dict(), path)

    def save_csv(self, path: StrPath) -> None:
        """Write a CSV file with a line for each ranker and type of question, `all` first."""
        save_csv([self], path)


_COSTS = (
    *("p50_ms", "p95_ms", "cpu_ms", "index_seconds", "index_cpu_seconds"),
    *("index_calls", "index_tokens", "index_bytes"),
)


def save_json(value: Mapping[str, Any], path: StrPath) -> None:
    """Write JSON-native values to a file."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    Path(path).write_text(text + "\n", "utf-8")


def save_csv(evaluations: Sequence[Evaluation], path: StrPath) -> None:
    """Write several evaluations to one CSV file; see `Evaluation.save_csv`."""
    metrics = tuple(dict.fromkeys(metric for each in evaluations for metric in each.metrics))
    columns = ("dataset", "name", "type", "questions", *metrics, *_COSTS, "error")
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        for each in evaluations:
            for row in each.rows:
                for type_ in (None, *(each.types if row.scores else ())):
                    writer.writerow(_line(each, row, type_))


def _line(evaluation: Evaluation, row: Row, type_: str | None) -> dict[str, Any]:
    questions = [each for each in evaluation.questions if type_ is None or each.type == type_]
    line: dict[str, Any] = {"dataset": evaluation.dataset, "name": row.name, "type": type_ or "all"}
    line |= {"questions": len(questions), "error": row.error}
    line |= {metric: evaluation.mean(row.name, metric, type_) for metric in row.scores}
    if type_ is None:
        line |= {"p50_ms": row.latency(50), "p95_ms": row.latency(95), "cpu_ms": mean(row.cpu_ms)}
    if type_ is None and (cost := row.indexing):
        line |= {"index_seconds": cost.seconds, "index_cpu_seconds": cost.cpu_seconds}
        line |= {"index_calls": cost.usage.calls + cost.usage.cached_calls}
        line |= {"index_tokens": cost.usage.input_tokens + cost.usage.output_tokens}
        line |= {"index_bytes": cost.bytes}
    return {key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in line.items()}


def tables(evaluation: Evaluation) -> str:
    """All tables that are not empty, the failures and the notes."""
    about, reference, middle = evaluation.settings, evaluation.reference, evaluation.cutoffs.middle
    heading = (
        f"{evaluation.dataset}: {about['questions']} questions, {about['documents']} documents, "
        f"{about['passages']} passages; view {about['view']}\n"
        f"embedder {about['embedder']}: {about['embedded_passages']} passages embedded in "
        f"{about['embedding_seconds']:.1f} s, a question in {about['question_embedding_ms']:.1f} ms "
        f"(not in the latencies); extraction: {about['extraction']}"
    )
    times: dict[str, Cell] = {
        "p50 ms": lambda row: _number(row.latency(50), 1),
        "p95 ms": lambda row: _number(row.latency(95), 1),
        "CPU ms": lambda row: _number(mean(row.cpu_ms), 1),
    }
    retrieval = {title: (metric, None) for title, metric in _headings(evaluation.cutoffs).items()}
    by_type: Columns = {
        f"{type_} ({[each.type for each in evaluation.questions].count(type_)})": (f"recall@{middle}", type_)
        for type_ in evaluation.types
    }
    interval = f"{100 * about['confidence']:.0f} % interval ({NOISE}: within noise)"
    titled = {
        "": means(evaluation, retrieval, times),
        f"difference to {reference}, with {interval}": _differences(evaluation),
        f"recall@{middle} by type of question": means(evaluation, by_type if len(by_type) > 1 else {}, {}),
        "answers": _answers(evaluation),
        "making ready (passages' vectors apart)": _indexing(evaluation),
    }
    shown = [f"{title}\n" * bool(title) + drawn(table) for title, table in titled.items() if len(table) > 1]
    remarks = "\n".join([*_failures(evaluation), *_notes(evaluation)])
    return "\n\n".join([heading, *shown, *([remarks] if remarks else [])])


def _headings(cutoffs: Cutoffs) -> dict[str, str]:
    """Metrics of the main table by their short headings."""
    middle, deepest = cutoffs.middle, cutoffs.k[-1]
    return {
        **{f"R@{k}": f"recall@{k}" for k in cutoffs.k},
        f"all@{middle}": f"all_recall@{middle}",
        f"nDCG@{deepest}": f"ndcg@{deepest}",
        "MRR": f"mrr@{deepest}",
        **{
            f"ans@{budget // 1000}k" if budget % 1000 == 0 else f"ans@{budget}": f"answer@{budget}"
            for budget in cutoffs.budgets
        },
        f"tok@{middle}": f"tokens@{middle}",
    }


def means(evaluation: Evaluation, columns: Columns, more: Mapping[str, Cell]) -> Table:
    """Means of a metric and a type of question by heading, without columns that no row has; and `more`."""
    measured = [row for row in evaluation.rows if row.scores]
    by_heading = {
        heading: [evaluation.mean(row.name, *column) for row in measured]
        for heading, column in columns.items()
    }
    shown = {key: each for key, each in by_heading.items() if any(value is not None for value in each)}
    if not shown:
        return []
    digits = {key: 0 if columns[key][0].startswith("tokens") else 3 for key in shown}
    table = [["", *shown, *more]]
    for place, row in enumerate(measured):
        values = (_number(each[place], digits[key]) for key, each in shown.items())
        table.append([row.name, *values, *(cell(row) for cell in more.values())])
    return table


def _differences(evaluation: Evaluation) -> Table:
    cutoffs = evaluation.cutoffs
    shown = {f"recall@{k}" for k in cutoffs.k} | {f"answer@{budget}" for budget in cutoffs.budgets[:1]}
    columns = {
        heading: metric
        for heading, metric in _headings(cutoffs).items()
        if metric in shown and any(metric in row.differences for row in evaluation.rows)
    }
    if not columns:
        return []
    return [["", *columns]] + [
        [row.name, *(_difference(row.differences.get(metric)) for metric in columns.values())]
        for row in evaluation.rows
        if row.differences
    ]


def _difference(each: Difference | None) -> str:
    """A difference with its interval, marked where it is within noise."""
    if each is None:
        return ""
    mean, low, high = (f"{value:+.3f}".replace("0.", ".", 1) for value in (each.mean, each.low, each.high))
    return f"{mean} [{low}, {high}] {NOISE if each.is_noise else ' '}"


def _answers(evaluation: Evaluation) -> Table:
    rows, more = evaluation.rows, dict[str, Cell]()
    if any(row.agreement is not None for row in rows):
        more["kappa of judges"] = lambda row: _number(row.agreement, 2)
    for heading, kind in (("search: ", "asking"), ("", "usage"), ("judges: ", "judging")):
        if kind == "usage" or any(getattr(row, kind) != Usage() for row in rows):
            for place, count in enumerate(("calls", "tokens in", "out")):
                more[f"{heading}{count}"] = partial(
                    lambda kind, place, row: _counts(getattr(row, kind))[place], kind, place
                )
    of_answers = [metric for metric in evaluation.metrics if "@" not in metric]
    return means(evaluation, {metric: (metric, None) for metric in of_answers}, more)


def _counts(usage: Usage) -> list[str]:
    return [str(usage.calls + usage.cached_calls), str(usage.input_tokens), str(usage.output_tokens)]


def _indexing(evaluation: Evaluation) -> Table:
    table = [["", "seconds", "CPU s", "calls", "tokens in", "out", "MB on disk", "stages"]]
    for row in evaluation.rows:
        if (cost := row.indexing) is None:
            continue
        stages = ", ".join(
            f"{stage} {each.seconds:.1f} s"
            for stage, each in cost.stages.items()
            if each.seconds >= _SHOWN or each.calls
        )
        size = "" if cost.bytes is None else f"{cost.bytes / 1e6:.1f}"
        spent = [_number(cost.seconds, 1), _number(cost.cpu_seconds, 1)]
        table.append([row.name, *spent, *_counts(cost.usage), size, stages])
    return table


def _failures(evaluation: Evaluation) -> Iterator[str]:
    questions = {text for question in evaluation.questions for text in (question.id, question.question)}
    for row in evaluation.rows:
        if row.error:
            yield f"failed: {row.name}: {' '.join(row.error.split())}"
        for stage in dict.fromkeys(failure.stage for failure in row.failures):
            failures = [failure for failure in row.failures if failure.stage == stage]
            items = {failure.item for failure in failures}
            count = f"{len(failures)} unit{'s' * (len(failures) > 1)}"
            if items & questions:
                count = f"{len(items)} of {len(evaluation.questions)} questions"
            named = stage if row.name in stage else f"{row.name}: {stage}"
            reason = " ".join(failures[0].reason.split())
            yield f"failed: {named}: {count}, as {failures[0].about!r}: {reason}"


def _notes(evaluation: Evaluation) -> Iterator[str]:
    for what, ids in evaluation.notes.items():
        shown = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        yield f"note: {what}: {shown if what.startswith(FROM_EXTRACTION) else f'{len(ids)} ({shown})'}"


def _number(value: float | None, digits: int) -> str:
    """A number as a cell, without the zero before the point if it has three digits."""
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text[1:] if digits > 2 and text.startswith("0.") else text


def drawn(table: Table) -> str:
    """The table in columns: the first aligned left, the others right, a column of stages not at all."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for name, *cells in table:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        if table[0][-1] == "stages":
            aligned[-1] = cells[-1]
        lines.append("  ".join([name.ljust(widths[0]), *aligned]).rstrip())
    return "\n".join(lines)
