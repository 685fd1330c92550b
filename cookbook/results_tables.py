"""Tables of one data set, and what all pages of results share, from what `results.py` collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Ranking = Mapping[str, Any]
BY_TYPE = "recall@5"
DIFFERENCES = {"R@2": "recall@2", "R@5": "recall@5", "R@10": "recall@10", "answer@1k": "answer@1000"}
"""What is told of each type of questions, and of differences to dense."""


def machines(found: Mapping[str, Ranking]) -> Iterator[str]:
    distinct: dict[str, list[str]] = {}
    known = {name: each for name, each in found.items() if each["machine"]}
    for name, each in known.items():
        about = each["machine"]
        versions = ", ".join(f"{key} {value}" for key, value in about["versions"].items())
        line = (
            f"{about['processor']}, {about['cpus']} CPUs, {about['memory_gib']} GiB, {about['system']}; "
            f"Python {about['python']}, {versions}"
        )
        distinct.setdefault(line, []).append(name)
    for line, names in distinct.items():
        which = "" if len(distinct) == 1 else f" ({', '.join(names)})"
        yield f"Machine{which}: {line}.\n"
    loads = [load for each in known.values() for load in each["load"]]
    if loads:
        yield (
            f"The machine was shared: its load was {min(loads):.0f} to {max(loads):.0f} during these runs, "
            "so wall times are several times what they would be alone. CPU times are the ones to compare.\n"
        )


def dataset(title: str, each: Ranking, methods: Sequence[str], baselines: Sequence[str]) -> Iterator[str]:
    """The page of a data set: everything that was measured on it."""
    yield f"# {title}\n"
    scores, passages, names = each["scores"], ("walk", *baselines), ("walk", *methods, *baselines)
    about = scores["settings"]
    yield (
        f"`{each['command']}`, {day(each)}: {about['questions']} questions, {about['documents']} "
        f"documents, {about['passages']} passages; extraction: {about['extraction']}.\n"
    )
    yield table(scores, passages, passages_columns())
    yield "At equal token budgets: recall of what fits, and how often a gold answer stands there.\n"
    nodes = [f"{method}/nodes" for method in methods]
    yield table(scores, [*names, *nodes], budget_columns())
    yield differences(scores, names)
    yield by_type(scores, passages)
    yield "Time of a search, and of making ready (a method's graph stands in the row of the first):\n"
    yield times(scores, [*names, *nodes])
    for row in scores["rows"]:
        if row["error"]:
            yield f"Failed: {row['name']}: {' '.join(row['error'].split())}\n"
    for what, ids in scores["notes"].items():
        yield f"Note on the data: {what}: {ids if isinstance(ids, int) else ', '.join(ids)}.\n"


def passages_columns() -> dict[str, str]:
    columns = {f"R@{k}": f"recall@{k}" for k in (2, 5, 10)} | {"all@5": "all_recall@5"}
    return columns | {"nDCG@10": "ndcg@10", "MRR": "mrr@10", "tokens@5": "tokens@5"}


def budget_columns() -> dict[str, str]:
    columns = {f"R@{size}k": f"recall@{size}000t" for size in (1, 2, 5)}
    columns |= {f"answer@{size}k": f"answer@{size}000" for size in (1, 2, 5)}
    return columns | {"tokens of 10 hits": "tokens@10"}


def table(scores: Ranking, names: Sequence[str], columns: Mapping[str, str]) -> str:
    rows = [["", *columns]]
    for name in names:
        row = row_of(scores, name)
        means = row["means"] if row else {}
        cells = [number(metric, means.get(metric)) for metric in columns.values()]
        rows.append([name, *(cells if means else ["missing", *([""] * (len(columns) - 1))])])
    return markdown(rows)


def differences(scores: Ranking, names: Sequence[str]) -> str:
    rows = [["difference to dense, 95 % interval", *DIFFERENCES]]
    for name in names:
        row = row_of(scores, name)
        if row and row["differences"]:
            rows.append(
                [name, *(interval(row["differences"].get(metric)) for metric in DIFFERENCES.values())]
            )
    return markdown(rows)


def interval(each: Ranking | None) -> str:
    if each is None:
        return ""
    return f"{each['mean']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]{' ~' if each['is_noise'] else ''}"


def by_type(scores: Ranking, names: Sequence[str]) -> str:
    types: Mapping[str, int] = scores["types"]
    known = [
        kind
        for kind in sorted(types)
        if kind and any_mean(scores, kind) and types[kind] < sum(types.values())
    ]
    if len(known) < 2:
        return ""
    rows = [[f"{BY_TYPE} by type", *(f"{kind} ({types[kind]})" for kind in known)]]
    for name in names:
        row = row_of(scores, name)
        if row and row["by_type"]:
            rows.append([name, *(number("", row["by_type"][kind].get(BY_TYPE)) for kind in known)])
    return markdown(rows)


def any_mean(scores: Ranking, kind: str) -> bool:
    return any(row["by_type"][kind].get(BY_TYPE) is not None for row in scores["rows"] if row["by_type"])


def times(scores: Ranking, names: Sequence[str]) -> str:
    rows = [["", "CPU ms", "p50 ms", "p95 ms", "build s", "build CPU s", "MB on disk", "peak MB"]]
    for name in names:
        row = row_of(scores, name)
        if not row or not row["means"]:
            continue
        made = row["indexing"] or {}
        searched = [row["cpu_ms"]["mean"], row["latency_ms"]["p50"], row["latency_ms"]["p95"]]
        built = [made.get("seconds"), made.get("cpu_seconds")]
        sizes = [None if (size := made.get(key)) is None else size / 1e6 for key in ("bytes", "peak_memory")]
        cells = ["" if value is None else f"{value:.1f}" for value in (*searched, *built, *sizes)]
        rows.append([name, *cells])
    return markdown(rows)


def log(each: Ranking) -> str:
    """What a benchmark printed, below what it was."""
    reduced = ", at a reduced size" if each["small"] else ""
    earlier = ", by an earlier state of the code" if each.get("earlier") else ""
    return f"{each['command']}\n{day(each)}{reduced}{earlier}\n\n{each['output'].strip()}\n"


def day(each: Ranking) -> str:
    """When a section was measured."""
    return str(each["date"])[:10]


def row_of(scores: Ranking, name: str) -> Ranking | None:
    return next((row for row in scores["rows"] if row["name"] == name), None)


def number(metric: str, value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if metric.startswith("tokens") else short(value)


def short(value: float) -> str:
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def signed(value: float) -> str:
    """A difference: +.14, -.01."""
    return f"{value:+.2f}".replace("0.", ".", 1)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
