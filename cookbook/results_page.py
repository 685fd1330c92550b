"""RESULTS.md and its plot, from the records that results.py keeps."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from stratagraph.eval.metrics import Difference, paired_difference

Record = Mapping[str, Any]
PLAIN = ("dense", "bm25", "hybrid")
METHODS = ("lshtree", "archrag", "noderag", "hirag")
OWN = ("walk", *METHODS, *(f"{name}/nodes" for name in METHODS))
WHOLE = "dense, whole passages"
METRICS = {
    "recall@5": "recall@5",
    "answer@1000": "answer in 1,000 tokens",
    "answer@2000": "answer in 2,000 tokens",
}
TITLES = {
    "musique": "MuSiQue",
    "hotpotqa": "HotpotQA",
    "2wiki": "2WikiMultiHopQA",
    "lihua": "LiHua-World",
    "multihop": "MultiHop-RAG",
    "musique-given": "MuSiQue, given facts",
}
CORPORA = tuple(TITLES)[:5]
"""The corpora that are counted; the last record is one of them again, with other facts."""
PLOT = "docs/images/results.svg"
LOGS = {
    "folds.txt": "The walk's settings, chosen without each corpus in turn",
    "walk.txt": "CPU time of a question to the walk, by size",
    "construction.txt": "Construction times of trees (LSH tree, Table 1)",
    "chunk-size.txt": "Sizes of chunks (LSH tree, Figure 5)",
    "chnsw.txt": "C-HNSW against five vector indexes (ArchRAG, Figures 6 and 9)",
    "communities.txt": "Quality of communities (ArchRAG, Figures 7 and 8, Table 7)",
    "noderag-tables.txt": "NodeRAG's ablations and statistics (Tables 2 and 4, Figure 4)",
    "hirag-figures.txt": "HiRAG's hierarchy and ablations (Figures 4 to 6, Table 7)",
}
"""Benchmarks that were run apart, each printed to a file: its command, its date, and the output."""

INTRO = f"""# Results

How often searches find what a question needs, on five public corpora, without a language model.
`cookbook/results.py` measures it and writes this page.

## What was compared

Every row searches the same passages with the same vectors (all-MiniLM-L6-v2, int8), by default settings.

| row | what it returns |
| --- | --- |
| `dense`, `bm25`, `hybrid` | plain rankings of passages: by vectors, by words, by both |
| `walk` | passages by PageRank over the names in them: what an index without a method returns |
| `METHOD`: {", ".join(METHODS)} | by default: three passages of the walk to each node of its own |
| `METHOD/nodes` | the method's own ranking, as in its paper (`fill=False`) |

- **recall@5**: the share of a question's supporting documents among the first five hits. A hit that rests on
  several documents takes one place for each, so summaries count little here. Questions without supporting
  documents are left out.
- **answer in 1,000 or 2,000 tokens**: the share of questions of which a gold answer stands, word for word, in
  the context. The context is what a user gets: as many hits as an answer is made from (20 passages, 20 to 40
  hits of a method), packed by `Retrieval.context(max_tokens)`, for plain rankings too. Only
  `{WHOLE}` is not packed: it has the passages that fit, the last one cut. Questions without
  an answer, or with yes or no, are left out.

Below a figure stands its difference to the best plain ranking of that corpus (in bold) with the 95 %
interval, by a paired bootstrap over questions (10,000 samples). A row is **better** or **worse** if the
interval does not contain 0, else **level**. Rows that lose are left in.
"""
LIMITS = """## What this does not show

- **No language model** took part, neither in extraction nor in summaries nor in answers. The methods are made
  for models. [Answers that need several documents](../docs/how-to/guided.md) tells what guided searches gain.
- **Defaults were set with these corpora at hand.** With settings of the walk that were chosen without each
  corpus in turn, mean recall of five documents fell from .845 to .844
  ([folds.txt](measured/folds.txt)).
- **The methods take their passages from the walk.** That all are better together is one finding, not five.
- Intervals are not corrected for the number of comparisons: about one in twenty misses by chance.
- `MuSiQue, given facts` is MuSiQue with entities and facts from gpt-3.5. No count or mean includes it.
- Of corpora with more than 150 questions, 150 were drawn.
"""
SYSTEMS = """## Other systems

Seven other systems were written anew from their papers and programs. They were made for models, and had none.
They were last compared on 2026-11-23, by older code, in contexts of whole passages:
[systems.txt](measured/systems.txt). By recall@5 the walk of that day was better than the best of them on five
of five corpora, by .05 to .22. By the answer in 1,000 tokens the LSH tree's default view was better on three
and level on two; in 2,000 tokens, better on one and level on four.
`python cookbook/papers hipporag-recall DATA` runs them again.
"""
AGAIN = """## Measure it again

```text
python cookbook/results.py DATA --work FOLDER
```

`DATA` holds the corpora, which are not part of this repository. To measure on your documents, and answers of
a model too, use [`stratagraph eval`](../docs/how-to/evaluate.md).
"""


def page(records: Mapping[str, Record], logs: Path) -> str:
    """RESULTS.md."""
    known = {name: records[name] for name in TITLES if name in records}
    parts = [INTRO, "## In short\n", *in_short(known)]
    parts += [f"![Differences to the best plain ranking, by corpus](../{PLOT})\n"]
    for metric, title in METRICS.items():
        whole = (WHOLE,) if metric.startswith("answer") else ()
        parts += [f"## {title.capitalize()}\n", table(known, metric, (*PLAIN, *whole, *OWN))]
    parts += [LIMITS, SYSTEMS, "## When it was measured\n", measured(known), AGAIN]
    return "\n".join([*parts, "## Other benchmarks\n", *listed(known, logs)])


def scores(record: Record, name: str, metric: str) -> list[float | None]:
    """A row's score of each question; None where there is none."""
    row = record["rows"][name]
    if metric == "recall@5":
        pairs = zip(row["found"], record["gold"], strict=True)
        return [int(found) / int(gold) if gold != "0" else None for found, gold in pairs]
    return [None if held == "-" else float(held) for held in row[metric]]


def mean(record: Record, name: str, metric: str) -> float:
    """The mean over the questions that have a score."""
    known = [score for score in scores(record, name, metric) if score is not None]
    return sum(known) / len(known)


def best(record: Record, metric: str) -> str:
    """The best plain ranking, of equals the first."""
    return max(PLAIN, key=lambda name: mean(record, name, metric))


def gain(record: Record, name: str, metric: str) -> Difference:
    """The difference of a row to the best plain ranking."""
    ours, plain = (tuple(scores(record, row, metric)) for row in (name, best(record, metric)))
    return _difference(ours, plain)


@cache
def _difference(ours: tuple[float | None, ...], others: tuple[float | None, ...]) -> Difference:
    found = paired_difference(ours, others)
    if found is None:
        raise ValueError(f"fewer than two of {len(ours)} questions have a score")
    return found


def table(records: Mapping[str, Record], metric: str, names: Sequence[str]) -> str:
    """A row for each ranking, a column for each corpus, and the mean of the five."""
    lines = [["", *(TITLES[key] for key in records), "mean of five"]]
    for name in names:
        cells = [cell(each, name, metric) for each in records.values()]
        means = [mean(records[key], name, metric) for key in CORPORA if name in records[key]["rows"]]
        whole = short(sum(means) / len(means)) if len(means) == len(CORPORA) else ""
        lines.append([f"`{name}`", *cells, whole])
    return markdown(lines)


def cell(record: Record, name: str, metric: str) -> str:
    """A mean, and below it the difference to the best plain ranking, which is in bold."""
    if name not in record["rows"]:
        return "not measured"
    value = short(mean(record, name, metric))
    if name == best(record, metric):
        return f"**{value}**"
    found = gain(record, name, metric)
    signed = (f"{each:+.2f}".replace("0.", ".", 1) for each in (found.mean, found.low, found.high))
    return "{}<br>{} [{}, {}]".format(value, *signed)


def in_short(records: Mapping[str, Record]) -> Iterator[str]:
    """On how many of the corpora a row is better than, level with, or worse than the best plain ranking."""
    yield "On five corpora, against the best plain ranking of each:\n"
    counted = [records[key] for key in CORPORA]
    lines = [["", *METRICS.values()]]
    for name in OWN:
        lines.append([f"`{name}`", *(standing(counted, name, metric) for metric in METRICS)])
    yield markdown(lines)


def standing(records: Sequence[Record], name: str, metric: str) -> str:
    """As `3 better, 1 level, 1 worse`."""
    counts = {"better": 0, "level": 0, "worse": 0}
    for record in records:
        if name in record["rows"]:
            found = gain(record, name, metric)
            counts["level" if found.is_noise else "better" if found.mean > 0 else "worse"] += 1
    return ", ".join(f"{count} {which}" for which, count in counts.items() if count)


def measured(records: Mapping[str, Record]) -> str:
    """Sizes of the corpora, and the date and code of the rows."""
    lines = [["", "documents", "passages", "questions with documents", "with answers", "date, code"]]
    for key, record in records.items():
        asked = [sum(each is not None for each in scores(record, "walk", metric)) for metric in METRICS]
        sizes = [f"{each:,}" for each in (record["documents"], record["passages"], *asked[:2])]
        dates = dict.fromkeys(f"{row['date']}, {row['code']}" for row in record["rows"].values())
        lines.append([TITLES[key], *sizes, "<br>".join(dates)])
    return markdown(lines)


def listed(records: Mapping[str, Record], logs: Path) -> Iterator[str]:
    """The logs of other benchmarks, with their dates."""
    first = min(row["date"] for record in records.values() for row in record["rows"].values())
    yield (
        "Each log begins with its command. **Older** ones are of code before that of the tables above: their "
        "figures, times among them, may differ today.\n"
    )
    lines = [["benchmark", "date"]]
    for name, title in LOGS.items():
        day = (logs / name).read_text("utf-8").splitlines()[1][:10]
        lines.append([f"[{title}](measured/{name})", f"{day}{', older' if day < first else ''}"])
    yield markdown(lines)
    yield "[papers/](papers/README.md) lists each table and figure of the papers, and if it was run here.\n"


def draw(records: Mapping[str, Record], path: Path) -> None:
    """Draw the differences to the best plain ranking, with their intervals."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "results"  # the same figures give the same file
    keys = [key for key in TITLES if key in records]
    figure = Figure(figsize=(12, 1.5 + 1.1 * len(keys)), layout="constrained")
    panels = figure.subplots(1, len(METRICS), sharey=True)
    for panel, (metric, title) in zip(panels, METRICS.items(), strict=True):
        for place, name in enumerate(OWN):
            rows = [row for row, key in enumerate(keys) if name in records[key]["rows"]]
            found = [gain(records[keys[row]], name, metric) for row in rows]
            bars = [[each.mean - each.low for each in found], [each.high - each.mean for each in found]]
            colour = "black" if name == "walk" else f"C{(place - 1) % len(METHODS)}"
            places = [row + 0.08 * (place - len(OWN) / 2) for row in rows]
            inside = "white" if name.endswith("/nodes") else colour
            style = {"fmt": "o", "color": colour, "markerfacecolor": inside, "markersize": 4, "linewidth": 1}
            panel.errorbar([each.mean for each in found], places, xerr=bars, label=name, **style)
        panel.axvline(0, color="black", linewidth=1)
        panel.set_title(f"{title},\ndifference to the best plain ranking", fontsize=10)
        panel.grid(alpha=0.3, axis="x")
    panels[0].set_yticks(range(len(keys)), [TITLES[key].replace(", ", ",\n") for key in keys], fontsize=9)
    panels[0].set_ylim(len(keys) - 0.4, -0.6)
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="outside upper center", ncols=10)
    figure.savefig(path, metadata={"Date": None})


def short(value: float, digits: int = 3) -> str:
    """A share without its leading zero."""
    return f"{value:.{digits}f}".removeprefix("0")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
