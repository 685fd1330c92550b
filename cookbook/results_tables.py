"""The tables and texts of RESULTS.md, from what `results.py` collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Ranking = Mapping[str, Any]
BARS = {"musique": 0.08, "2wiki": 0.10}
"""By how much the best method is to beat dense and BM25 in recall@5."""
JUDGED = ("musique", "hotpotqa", "2wiki")
INTRO = """# Results

Written by `cookbook/results.py`; every figure comes from a run of the commands named beside it. `DATA` is a
folder of public data sets that are not part of this repository. Retrieval is measured by `stratarag eval`:
all rank the same passages with the same MiniLM vectors (all-MiniLM-L6-v2, int8), with default settings; no
setting depends on the data set. `~` marks a difference to dense vectors whose 95 % interval (paired bootstrap
over questions, 10,000 samples) holds 0: noise. Rows that lose are left in.

View `chunks` ranks passages. The four methods share the walk that leads from what they found to passages, and
start it each in its own way, so their rows are close to each other. `METHOD/nodes` is the method's own
ranking, of summaries, entities or attributes among passages; a summary counts as none of the documents it is
made of, so such rows are to be read by `answer@`: whether a gold answer stands in so many tokens of context.
Without a language model summaries are sentences of the sources, which is the weakest form of such a view.
"""
ANSWERS = """## Answers by a model

Not measured: no language model that could answer these questions was at hand (a model of 135 million
parameters was; it follows no instruction well enough for its answers to say anything about what was
retrieved). `stratarag eval --llm` computes accuracy by containment, recall with the yes/no rule, EM, F1,
BLEU-1, METEOR and ROUGE-L, lets a model judge, and compares answers head to head; the tests of these run
with scripted models and against independent implementations of the metrics. What needs no model, the answer
in the context at a token budget, is above. The papers' accuracies are not comparable with it.
"""


def page(
    order: Sequence[tuple[str, str, str, bool]],
    found: Mapping[str, Ranking],
    methods: Sequence[str],
    baselines: Sequence[str],
) -> str:
    """RESULTS.md."""
    titles = {name: title for name, title, _, is_corpus in order if is_corpus}
    scored = {name: found[name]["scores"] for name in titles if "scores" in found.get(name, {})}
    parts = [INTRO, *machines(found)]
    if any(each["small"] and name in titles for name, each in found.items()):
        parts.append("**Some data sets were asked a few questions only (`--small`): a smoke test.**\n")
    parts += ["## Recall at a glance\n", glance(scored, titles, (*methods, *baselines))]
    parts += ["## Bars\n", *bars(scored, methods)]
    parts += ["## Retrieval by data set\n"]
    for name, title in titles.items():
        parts += [f"### {title}\n", *dataset(name, found, methods, baselines)]
    parts.append(ANSWERS)
    parts.append("## Indexing and benchmarks\n")
    for name, title, command, is_corpus in order:
        if not is_corpus:
            parts += [f"### {title}\n", *benchmark(found.get(name), command)]
    return "\n".join(parts).rstrip() + "\n"


def machines(found: Mapping[str, Ranking]) -> Iterator[str]:
    distinct: dict[str, list[str]] = {}
    for name, each in found.items():
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
    loads = [load for each in found.values() for load in each["load"]]
    if loads:
        yield (
            f"The machine was shared: its load was {min(loads):.0f} to {max(loads):.0f} during these runs, "
            "so wall times are several times what they would be alone. CPU times are the ones to compare.\n"
        )


def glance(scored: Mapping[str, Ranking], titles: Mapping[str, str], names: Sequence[str]) -> str:
    rows = [["recall@5, view `chunks`", *(titles[key] for key in scored)]]
    for name in names:
        rows.append([name, *(marked(scored[key], name, "recall@5") for key in scored)])
    return markdown(rows)


def marked(scores: Ranking, name: str, metric: str) -> str:
    row = row_of(scores, name)
    if not row or row["means"].get(metric) is None:
        return "missing"
    difference = row["differences"].get(metric)
    mark = " ~" if difference and difference["is_noise"] else ""
    return f"{short(row['means'][metric])}{mark}"


def bars(scored: Mapping[str, Ranking], methods: Sequence[str]) -> Iterator[str]:
    """What was asked for, and what was measured."""
    rows = [["data set", "bar", *methods, "met"]]
    for key in (*JUDGED, "musique-given"):
        if key not in scored:
            rows.append([key, "every method above dense and BM25", *([""] * len(methods)), "not measured"])
            continue
        floor = max(mean(scored[key], name) or 0.0 for name in ("dense", "bm25"))
        gains = [None if (value := mean(scored[key], name)) is None else value - floor for name in methods]
        cells = ["missing" if gain is None else f"{gain:+.3f}" for gain in gains]
        met = all(gain is not None and gain > 0 for gain in gains)
        rows.append([key, "each above dense and BM25, R@5", *cells, "yes" if met else "no"])
        if key in BARS:
            best = max((gain for gain in gains if gain is not None), default=0.0)
            bar = f"the best by {BARS[key]:.2f} at least"
            rows.append(
                [key, bar, *([""] * len(methods)), f"{'yes' if best >= BARS[key] else 'no'}: {best:+.3f}"]
            )
    yield markdown(rows)
    yield "Figures are the gain in recall@5 over the better of dense and BM25.\n"


def dataset(
    name: str, found: Mapping[str, Ranking], methods: Sequence[str], baselines: Sequence[str]
) -> Iterator[str]:
    each = found.get(name)
    if each is None or "scores" not in each:
        yield f"Missing: {' '.join(each['error']) if each else 'not run'}.\n"
        return
    scores, names = each["scores"], (*methods, *baselines)
    about = scores["settings"]
    yield (
        f"`{each['command']}`, {each['date']}: {about['questions']} questions, {about['documents']} "
        f"documents, {about['passages']} passages; extraction: {about['extraction']}.\n"
    )
    yield table(scores, names, passages_columns())
    yield "At equal token budgets: recall of what fits, and how often a gold answer stands there.\n"
    nodes = [f"{method}/nodes" for method in methods]
    yield table(scores, [*names, *nodes], budget_columns())
    yield differences(scores, names)
    yield by_type(scores, names)
    yield "Time of a search, and of making ready (a method's graph stands in the row of the first):\n"
    yield times(scores, [*names, *nodes])
    for row in scores["rows"]:
        if row["error"]:
            yield f"Failed: {row['name']}: {' '.join(row['error'].split())}\n"
    for what, ids in scores["notes"].items():
        yield f"Note on the data: {what}: {', '.join(ids) if len(ids) < 3 else len(ids)}.\n"


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
    metrics = {"R@2": "recall@2", "R@5": "recall@5", "R@10": "recall@10", "answer@1k": "answer@1000"}
    rows = [["difference to dense, 95 % interval", *metrics]]
    for name in names:
        row = row_of(scores, name)
        if row and row["differences"]:
            rows.append([name, *(interval(row["differences"].get(metric)) for metric in metrics.values())])
    return markdown(rows)


def interval(each: Ranking | None) -> str:
    if each is None:
        return ""
    return f"{each['mean']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]{' ~' if each['is_noise'] else ''}"


def by_type(scores: Ranking, names: Sequence[str]) -> str:
    types: dict[str, int] = {}
    for question in scores["questions"]:
        types[question["type"]] = types.get(question["type"], 0) + 1
    known = [
        kind
        for kind in sorted(types)
        if kind and any_mean(scores, kind) and types[kind] < sum(types.values())
    ]
    if len(known) < 2:
        return ""
    rows = [["recall@5 by type", *(f"{kind} ({types[kind]})" for kind in known)]]
    for name in names:
        row = row_of(scores, name)
        if row and row["by_type"]:
            rows.append([name, *(number("", row["by_type"][kind].get("recall@5")) for kind in known)])
    return markdown(rows)


def any_mean(scores: Ranking, kind: str) -> bool:
    return any(row["by_type"][kind].get("recall@5") is not None for row in scores["rows"] if row["by_type"])


def times(scores: Ranking, names: Sequence[str]) -> str:
    rows = [["", "CPU ms", "p50 ms", "p95 ms", "build s", "build CPU s", "MB on disk", "peak MB"]]
    for name in names:
        row = row_of(scores, name)
        if not row or not row["scores"]:
            continue
        made = row["indexing"] or {}
        searched = [row["cpu_ms"]["mean"], row["latency_ms"]["p50"], row["latency_ms"]["p95"]]
        built = [made.get("seconds"), made.get("cpu_seconds")]
        sizes = [None if (size := made.get(key)) is None else size / 1e6 for key in ("bytes", "peak_memory")]
        cells = ["" if value is None else f"{value:.1f}" for value in (*searched, *built, *sizes)]
        rows.append([name, *cells])
    return markdown(rows)


def benchmark(each: Ranking | None, command: str) -> Iterator[str]:
    if each is None:
        yield f"Missing: `{command}` was not run.\n"
        return
    yield f"`{each['command']}`, {each['date']}{', at a reduced size' if each['small'] else ''}.\n"
    if each["error"]:
        yield f"Missing: {' '.join(each['error'])}\n"
    if each["output"].strip():
        yield f"```text\n{each['output'].strip()}\n```\n"


def row_of(scores: Ranking, name: str) -> Ranking | None:
    return next((row for row in scores["rows"] if row["name"] == name), None)


def mean(scores: Ranking, name: str, metric: str = "recall@5") -> float | None:
    row = row_of(scores, name)
    value: float | None = row["means"].get(metric) if row else None
    return value


def number(metric: str, value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if metric.startswith("tokens") else short(value)


def short(value: float) -> str:
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
