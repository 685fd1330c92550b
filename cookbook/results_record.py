"""Records: what RESULTS.md needs of each section, small enough to stand in the repository.

A record is what a run of `results.py` leaves. It holds no question and no score of a single one: of a corpus
the means that tables print, and the paired differences that sentences are made of; of a benchmark what it
printed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from results_margins import DEFAULT, NODES, PLAIN, VIEWS, rows_in
from results_tables import BY_TYPE, DIFFERENCES, budget_columns, passages_columns

from stratagraph.eval.bootstrap import paired_difference

Record = dict[str, Any]
MEANS = {*passages_columns().values(), *budget_columns().values(), *(metric for _, metric, _ in VIEWS)}
_LINE = 240
_DIGITS = 6


def reduced(scores: Mapping[str, Any], methods: Sequence[str]) -> Record:
    """Of an evaluation, as `stratagraph eval --out` writes it, what the page and its tables need."""
    types = Counter(question["type"] for question in scores["questions"])
    return {
        "settings": {
            key: scores["settings"][key]
            for key in ("questions", "documents", "passages", "extraction", "embedded_passages")
        },
        "notes": {what: ids if len(ids) < 3 else len(ids) for what, ids in scores["notes"].items()},
        "types": dict(sorted(types.items())),
        "rows": [_row(row) for row in scores["rows"]],
        "pairs": _pairs({row["name"]: row["scores"] for row in scores["rows"]}, methods),
    }


def _row(row: Mapping[str, Any]) -> Record:
    made = row["indexing"]
    return {
        "name": row["name"],
        "error": row["error"],
        "means": _kept(row["means"], MEANS),
        "by_type": {kind: _kept(means, {BY_TYPE}) for kind, means in row["by_type"].items()},
        "differences": _kept(row["differences"], DIFFERENCES.values()),
        "cpu_ms": row["cpu_ms"],
        "latency_ms": row["latency_ms"],
        "indexing": made and _kept(made, ("seconds", "cpu_seconds", "bytes", "peak_memory")),
    }


def _kept(values: Mapping[str, Any], wanted: Iterator[str] | Any) -> Record:
    names = set(wanted)
    return {name: value for name, value in values.items() if name in names}


def asked(methods: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The pairs of rows that the page compares, each with the metric."""
    for view, metric, _ in VIEWS:
        rivals = PLAIN if view == NODES else others
        yield from ((row, rival, metric) for row in rows_in(view, methods).values() for rival in rivals)
    for metric in dict.fromkeys(metric for view, metric, _ in VIEWS if view == DEFAULT):
        yield from ((one, two, metric) for one, two in combinations(rows_in(DEFAULT, methods).values(), 2))


def _pairs(scores: Mapping[str, Mapping[str, Any]], methods: Sequence[str]) -> Record:
    """What `Gain` holds, by metric, by the row that is better if it is positive, and by the other."""
    own = {row for view, _, _ in VIEWS for row in rows_in(view, methods).values()}
    found: Record = {}
    for one, two, metric in asked(methods, [name for name in scores if name not in own]):
        ours, theirs = (scores.get(name, {}).get(metric) for name in (one, two))
        if ours and theirs and (difference := paired_difference(ours, theirs)):
            gain = [difference.mean, difference.low, difference.high, difference.is_noise]
            found.setdefault(metric, {}).setdefault(one, {})[two] = gain
    return found


def save(record: Record, path: Path) -> None:
    """Write a record as JSON, a row of a table to a line or a few."""
    path.write_text(f"{_laid_out(_rounded(record))}\n", "utf-8")


def load(path: Path) -> Record | None:
    """A record; None if there is none."""
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def newest(name: str, *folders: Path) -> Record | None:
    """The latest of a section's records in some folders; of one date the first."""
    found = [record for folder in folders if (record := load(folder / f"{name}.json"))]
    return max(found, key=lambda record: record["date"], default=None)


def _rounded(value: Any) -> Any:
    """With figures of as many digits as any table could want."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON in which only what is longer than a line is broken into lines."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LINE or not isinstance(value, dict | list):
        return text
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(each, inner)}" for key, each in value.items()
        ]
    else:
        parts = [_laid_out(each, inner) for each in value]
    opens, closes = "{}" if isinstance(value, dict) else "[]"
    lines = f",\n{inner}".join(parts)
    return f"{opens}\n{inner}{lines}\n{indent}{closes}"
