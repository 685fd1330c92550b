"""An evaluation: its rows, files of it, and its tables for a terminal."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stratagraph.eval.datasets import BENCH_METRICS, FROM_EXTRACTION, Question
from stratagraph.eval.judging import Duel
from stratagraph.eval.metrics import METRICS, Difference, mean
from stratagraph.eval.results import Row
from stratagraph.eval.scoring import Cutoffs
from stratagraph.types.records import Failure, Usage

NOISE = "~"
_ANSWER_METRICS = (
    *METRICS,
    *("strrec", "strem", "strhit", "correctness", "coverage", "faithfulness", "judged"),
)
_DUELS = "wins/ties/losses, share won (a tie half) [interval]"
_NAMED = 3  # ids shown in a note
_SHOWN = 0.05  # seconds of a stage that is shown

Table = list[list[str]]
Cell = Callable[[Row], str]
StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Evaluation:
    """Result of `evaluate`. `str()` returns its tables for a terminal.

    Parameters
    ----------
    dataset
        Name of the dataset.
    questions
        The questions, in the order of all scores.
    rows
        One row for each ranker, in the order in which they were named.
    reference
        Name of the row that the others are compared with; empty if there is none.
    settings
        What the figures depend on: documents, passages, embedder, view, cutoffs, budgets, seed, versions.
    notes
        Faults of the data, with the ids concerned.
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
        found = asdict(row)
        for internal in ("contexts", "latency_ms", "cpu_ms"):
            del found[internal]
        found["means"] = {metric: self.mean(row.name, metric) for metric in row.scores}
        found["by_type"] = {
            type_: {metric: self.mean(row.name, metric, type_) for metric in row.scores}
            for type_ in (self.types if row.scores else ())
        }
        for metric, each in row.differences.items():
            found["differences"][metric]["is_noise"] = each.is_noise
        found["latency_ms"] = {"p50": row.latency(50), "p95": row.latency(95)}
        found["cpu_ms"] = {"mean": row.cpu}
        for kind, duels in (("duels", row.duels), ("gold_duels", row.gold_duels)):
            for criterion, duel in duels.items():
                found[kind][criterion]["win_rate"] = duel.win_rate
        return found

    def save_json(self, path: StrPath) -> None:
        """Write `to_dict()` to a file."""
        save_json(self.to_dict(), path)

    def save_csv(self, path: StrPath) -> None:
        """Write a CSV file with a line for each ranker and type of question, `all` first."""
        save_csv([self], path)

    def save_answers(self, folder: StrPath) -> None:
        """Write the answers of each row to a file of the form that GraphRAG-Bench's own scripts read.

        `ValueError` where the questions are not of its types.
        """
        if not any(each.type in BENCH_METRICS for each in self.questions):
            raise ValueError(
                f"the questions of {self.dataset!r} have none of GraphRAG-Bench's types "
                f"({', '.join(BENCH_METRICS)}), so that its scripts read no answers to them"
            )
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for row in self.rows:
            written = [
                {
                    "id": question.id,
                    "question": question.question,
                    "source": question.source,
                    "context": [context],
                    "evidence": question.evidence,
                    "question_type": question.type,
                    "generated_answer": answer or "",
                    "ground_truth": question.answers[0] if question.answers else "",
                }
                for question, answer, context in zip(self.questions, row.answers, row.contexts, strict=False)
            ]
            if written:
                name = re.sub(r"[^\w.=-]+", "_", f"{self.dataset}-{row.name}")
                text = json.dumps(written, ensure_ascii=False, indent=1)
                (target / f"{name}.json").write_text(text + "\n", "utf-8")

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines of `save_csv`."""
        for row in self.rows:
            for type_ in (None, *(self.types if row.scores else ())):
                asked = [each for each in self.questions if type_ is None or each.type == type_]
                line: dict[str, Any] = {"dataset": self.dataset, "name": row.name, "type": type_ or "all"}
                line |= {"questions": len(asked), "error": row.error}
                line |= {metric: self.mean(row.name, metric, type_) for metric in row.scores}
                if type_ is None:
                    line |= {"p50_ms": row.latency(50), "p95_ms": row.latency(95), "cpu_ms": row.cpu}
                if type_ is None and (made := row.indexing):
                    line |= {"index_seconds": made.seconds, "index_cpu_seconds": made.cpu_seconds}
                    line |= {"index_calls": made.usage.calls + made.usage.cached_calls}
                    line |= {"index_tokens": made.usage.input_tokens + made.usage.output_tokens}
                    line |= {"index_bytes": made.bytes, "index_peak_memory": made.peak_memory}
                yield {key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in line.items()}


_COSTS = (
    *("p50_ms", "p95_ms", "cpu_ms", "index_seconds", "index_cpu_seconds"),
    *("index_calls", "index_tokens", "index_bytes", "index_peak_memory"),
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
            writer.writerows(each.lines())


def tables(evaluation: Evaluation) -> str:
    """All tables that are not empty, the failures and the notes."""
    share = 100 * evaluation.settings["confidence"]
    compared = f"difference to {evaluation.reference}, with {share:.0f} % interval ({NOISE}: within noise)"
    answers, recall = "answers", f"recall@{evaluation.cutoffs.middle}"
    if not evaluation.settings.get("meteor_synonyms", True):
        answers += " (METEOR without synonyms: nltk has no WordNet here)"
    parts = [
        "\n".join(_heading(evaluation)),
        _drawn(_retrieval(evaluation)),
        titled(compared, _differences(evaluation)),
        titled(
            f"{recall} by type of question", _by_type(evaluation, {t: [recall] for t in evaluation.types}, 2)
        ),
        titled(answers, _answers(evaluation)),
        titled("answers by type of question (GraphRAG-Bench)", _by_type(evaluation, BENCH_METRICS, 1)),
        titled(f"answers against {evaluation.reference}: {_DUELS}", _duels(evaluation, "duels")),
        titled(f"answers against the gold answers: {_DUELS}", _duels(evaluation, "gold_duels")),
        titled("making ready (passages' vectors apart)", _indexing(evaluation)),
        "\n".join([*_failures(evaluation), *_notes(evaluation)]),
    ]
    return "\n\n".join(part for part in parts if part)


def _heading(evaluation: Evaluation) -> Iterator[str]:
    about = evaluation.settings
    yield (
        f"{evaluation.dataset}: {about['questions']} questions, {about['documents']} documents, "
        f"{about['passages']} passages; view {about['view']}"
    )
    yield (
        f"embedder {about['embedder']}: {about['embedded_passages']} passages embedded in "
        f"{about['embedding_seconds']:.1f} s, a question in {about['question_embedding_ms']:.1f} ms "
        f"(not in the latencies); extraction: {about['extraction']}"
    )


def summary_metrics(evaluation: Evaluation) -> dict[str, str]:
    """Metrics of the main table by their short headings."""
    cutoffs = evaluation.cutoffs
    middle, deepest = cutoffs.middle, cutoffs.k[-1]
    columns = {f"R@{k}": f"recall@{k}" for k in cutoffs.k}
    columns |= {f"all@{middle}": f"all_recall@{middle}", f"nDCG@{deepest}": f"ndcg@{deepest}"}
    columns |= {"MRR": f"mrr@{deepest}"}
    columns |= {
        f"ans@{budget // 1000}k" if budget % 1000 == 0 else f"ans@{budget}": f"answer@{budget}"
        for budget in cutoffs.budgets
    }
    return columns | {f"tok@{middle}": f"tokens@{middle}"}


def _means(
    evaluation: Evaluation, columns: Mapping[str, tuple[str, str | None]], *more: Mapping[str, Cell]
) -> Table:
    """Means of metrics, each of all questions or of one type, without columns that no row has; and `more`."""
    means = {
        heading: [evaluation.mean(row.name, *each) for row in evaluation.rows if row.scores]
        for heading, each in columns.items()
    }
    means = {heading: each for heading, each in means.items() if any(mean is not None for mean in each)}
    if not means:
        return []
    digits = {heading: 0 if columns[heading][0].startswith("tokens") else 3 for heading in means}
    cells = {heading: cell for each in more for heading, cell in each.items()}
    measured = [row for row in evaluation.rows if row.scores]
    return [["", *means, *cells]] + [
        [
            row.name,
            *(number(each[place], digits[heading]) for heading, each in means.items()),
            *(cell(row) for cell in cells.values()),
        ]
        for place, row in enumerate(measured)
    ]


def _retrieval(evaluation: Evaluation) -> Table:
    columns = {heading: (metric, None) for heading, metric in summary_metrics(evaluation).items()}
    times: dict[str, Cell] = {
        "p50 ms": lambda row: number(row.latency(50), 1),
        "p95 ms": lambda row: number(row.latency(95), 1),
        "CPU ms": lambda row: number(row.cpu, 1),
    }
    return _means(evaluation, columns, times)


def _differences(evaluation: Evaluation) -> Table:
    cutoffs = evaluation.cutoffs
    metrics = [f"recall@{k}" for k in cutoffs.k] + [f"answer@{budget}" for budget in cutoffs.budgets[:1]]
    metrics = [metric for metric in metrics if any(metric in row.differences for row in evaluation.rows)]
    headings = {metric: heading for heading, metric in summary_metrics(evaluation).items()}
    compared = [row for row in evaluation.rows if row.differences]
    if not compared or not metrics:
        return []
    table = [["", *(headings[metric] for metric in metrics)]]
    return table + [
        [row.name, *(difference(row.differences.get(metric)) for metric in metrics)] for row in compared
    ]


def difference(each: Difference | None) -> str:
    """A difference with its interval, marked where it is within noise."""
    if each is None:
        return ""
    mark = NOISE if each.is_noise else " "
    return f"{_signed(each.mean)} [{_signed(each.low)}, {_signed(each.high)}] {mark}"


def _by_type(evaluation: Evaluation, metrics: Mapping[str, Sequence[str]], least: int) -> Table:
    """Means of some metrics for each type of question, of at least so many types."""
    asked = [question.type for question in evaluation.questions]
    columns = {
        " ".join((f"{type_} ({asked.count(type_)})", *([metric] if len(named) > 1 else []))): (metric, type_)
        for type_, named in metrics.items()
        for metric in named
    }
    table = _means(evaluation, columns)
    return table if table and len(table[0]) > least else []


def _answers(evaluation: Evaluation) -> Table:
    rows, more = evaluation.rows, dict[str, Cell]()
    if any(row.agreement is not None for row in rows):
        more["kappa of judges"] = lambda row: number(row.agreement, 2)
    for heading, kind in (("search: ", "asking"), ("", "usage"), ("judges: ", "judging")):
        if kind == "usage" or any(getattr(row, kind) != Usage() for row in rows):
            for place, count in enumerate(("calls", "tokens in", "out")):
                more[f"{heading}{count}"] = partial(_count, kind, place)
    return _means(evaluation, {metric: (metric, None) for metric in _ANSWER_METRICS}, more)


def _count(kind: str, place: int, row: Row) -> str:
    return _counts(getattr(row, kind))[place]


def _counts(usage: Usage) -> list[str]:
    calls = usage.calls + usage.cached_calls
    return [str(calls), str(usage.input_tokens), str(usage.output_tokens)]


def _duels(evaluation: Evaluation, kind: str) -> Table:
    rows = [(row.name, getattr(row, kind)) for row in evaluation.rows if getattr(row, kind)]
    if not rows:
        return []
    several = any(duels["overall"].agreement is not None for _, duels in rows)
    table = [["", *rows[0][1], "same in both orders", *(["kappa of judges"] if several else [])]]
    for name, duels in rows:
        overall = duels["overall"]
        agreed = [number(overall.consistency, 2), *([number(overall.agreement, 2)] if several else [])]
        table.append([name, *map(_duel, duels.values()), *agreed])
    return table


def _duel(duel: Duel) -> str:
    if duel.win_rate is None:
        return ""
    within = "" if duel.interval is None else f" [{duel.interval.low:.2f}, {duel.interval.high:.2f}]"
    return f"{duel.wins}/{duel.ties}/{duel.losses} {duel.win_rate:.2f}{within}"


def _indexing(evaluation: Evaluation) -> Table:
    table = [["", "seconds", "CPU s", "calls", "tokens in", "out", "MB on disk", "peak MB", "stages"]]
    for row in evaluation.rows:
        made = row.indexing
        if made is None:
            continue
        usage = made.usage
        stages = ", ".join(
            f"{stage} {each.seconds:.1f} s"
            for stage, each in made.stages.items()
            if each.seconds >= _SHOWN or each.calls
        )
        sizes = [_megabytes(made.bytes), _megabytes(made.peak_memory)]
        spent = [number(made.seconds, 1), number(made.cpu_seconds, 1)]
        table.append([row.name, *spent, *_counts(usage), *sizes, stages])
    return table if len(table) > 1 else []


def _failures(evaluation: Evaluation) -> Iterator[str]:
    for row in evaluation.rows:
        if row.error:
            yield f"failed: {row.name}: {' '.join(row.error.split())}"
        for stage in dict.fromkeys(failure.stage for failure in row.failures):
            failures = [failure for failure in row.failures if failure.stage == stage]
            reason = " ".join(failures[0].reason.split())
            named = stage if row.name in stage else f"{row.name}: {stage}"
            yield f"failed: {named}: {_units(evaluation, failures)}, as {failures[0].about!r}: {reason}"


def _units(evaluation: Evaluation, failures: Sequence[Failure]) -> str:
    asked = {text for question in evaluation.questions for text in (question.id, question.question)}
    items = {failure.item for failure in failures}
    if items & asked:
        return f"{len(items)} of {len(evaluation.questions)} questions"
    return f"{len(failures)} unit{'s' * (len(failures) > 1)}"


def _notes(evaluation: Evaluation) -> Iterator[str]:
    for what, ids in evaluation.notes.items():
        shown = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        yield f"note: {what}: {shown if what.startswith(FROM_EXTRACTION) else f'{len(ids)} ({shown})'}"


def number(value: float | None, digits: int) -> str:
    """A number as a cell, without the zero before the point if it has three digits."""
    if value is None:
        return ""
    text = f"{value:.{digits}f}"
    return text[1:] if digits > 2 and text.startswith("0.") else text


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:.1f}"


def titled(title: str, table: Table) -> str:
    """A table under its title; empty if it has no rows."""
    return f"{title}\n{_drawn(table)}" if len(table) > 1 else ""


def _drawn(table: Sequence[Sequence[str]]) -> str:
    """The table in columns: the first aligned left, the others right, a column of stages not at all."""
    if len(table) < 2:
        return ""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    last_is_text = table[0][-1] == "stages"
    lines = []
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].ljust(widths[0])
        if last_is_text:
            cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
