"""RESULTS.md: conclusions first, then tables; what is long stands in files of its own beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results_chnsw import searched
from results_margins import DEFAULT, NODES, WALK, conclusions, margins
from results_short import in_short, searched_in_short
from results_systems import Comparison, told
from results_tables import day, machines, markdown, row_of, short

Ranking = Mapping[str, Any]
INTRO = """# Results

Written by `cookbook/results.py` from runs of the commands named here; sentences, tables and the plot are made
of the same figures. `DATA` is a folder of public data sets that are not part of this repository. All rank the
same passages with the same vectors (all-MiniLM-L6-v2, int8) by default settings, without a language model;
"given extraction" means entities and facts that gpt-3.5 extracted. Noise (`~`) is a difference whose 95 %
interval (paired bootstrap over questions, 10,000 samples) holds 0. Rows that lose are left in.
The defaults of the four methods were set with these corpora at hand; those of the other systems are as their
papers and programs have them. How much that flatters the methods is measured by "settings chosen without each
corpus", below.

- `walk`: passages, by a walk over names and links. It needs no method.
- `METHOD`: what the method returns by default, its own nodes among passages of the walk.
- `METHOD/nodes`: the method's own ranking, of summaries, communities, entities and facts (`fill=False`). A
  summary counts as none of the documents it is made of, so that the methods are measured by the answer alone.
- Other systems (`hipporag`, `hipporag2`, `kag`, `fastgraphrag`, `lightrag`, `graphrag_local`, `raptor`):
  made anew from their papers and programs, on the same extraction, in their LLM-free forms: names and
  keywords of questions by rules, no recognition memory, extractive reports and summaries. `SYSTEM/nodes`:
  what they show a model beside passages. They were made for models; these figures are of retrieval alone.
- `ppr`: an early form of the walk. `hybrid`: reciprocal ranks of `dense` (vectors) and `bm25` (words).
- Recall@5: the share of a question's supporting documents of which a passage is among the first five, over
  the questions that have any. Answer: the share of the questions of which a gold answer stands, word for
  word, in the first so many tokens of the hits, over those with an answer other than yes or no.
"""
LEGEND = """In brackets behind each data set: the ranking that does best there among those compared with, and
by how much the rows are ahead of it, from the least of them to the most. All figures are in the tables below.
"""
COSTS = """Of one index that holds all four methods, without a model. Vectors of the passages are made before;
what all share (names and their links) is built first, and paid by the walk. Vectors of names, descriptions
and facts are made by the first method that needs them, and paid by it.
"""
WITHOUT = """`without`: what embeds every fact or relation is left out, for the time that it takes on long
articles; it is `missing` in the tables.
"""
PLOTS = (
    "Margins of the walk and the methods over the best plain ranking, by data set",
    "Methods, other systems and plain rankings, by data set",
)
MODEL = """## With a language model

Not measured: no language model that could answer these questions was at hand. `stratagraph eval` measures
accuracy by containment, recall, EM, F1, BLEU-1, METEOR and ROUGE-L, lets models judge, and compares answers
head to head. With a model of yours:

```text
stratagraph eval DATA/musique_train100 --extraction openie.jsonl --llm NAME --judge NAME \\
    --cache FOLDER --methods "OWN,dense,bm25,hybrid"
```

`--estimate` tells first what it would cost; with `--cache`, what was answered once is not asked
again. OWN, with commas, are methods that answer by their own prompts, such as `archrag?own_prompt=true`, and
their ablations, such as `archrag?build.max_levels=1&own_prompt=true`. An option with `build.` before it is a
setting of the build: such a row has an index of its own, of the same extraction.

| method | options of ablations |
|---|---|
| `lshtree` | `mode=per_level`, `levels=[0]`, `build.max_cluster=20` |
| `archrag` | `mode=direct`, `levels=[0]`, `build.max_levels=1`, `build.augmentation=none` |
| `noderag` | `mode=entry`, `types=["T"]`, `names=false`, `semantic_edges=false`, `steps=1` |
| `hirag` | `mode=no_bridge`, `build.max_layers=0` |

Each table and figure of the papers, and whether it was run here: [papers.md](papers.md), with HippoRAG's walk
on its own triples beside ours. Papers' accuracies are not comparable with what is measured without a model.
"""


def page(
    order: Sequence[tuple[str, str, str, bool]],
    found: Mapping[str, Ranking],
    methods: Sequence[str],
    baselines: Sequence[str],
    own_nodes: Sequence[str] = (),
    compared: Sequence[Comparison] = (),
    *,
    plots: Sequence[str] = (),
    search_plot: str = "",
    logs: str = "measured",
) -> str:
    """RESULTS.md.

    `own_nodes` are rows of other systems beside their passages, `compared` is what is told of these systems;
    `plots` (margins, systems), `search_plot` and `logs` are where figures and the logs of sections stand, as
    seen from it.
    """
    titles = {name: title for name, title, _, is_corpus in order if is_corpus}
    scored = {name: found[name]["scores"] for name in titles if "scores" in found.get(name, {})}
    current = {name: each for name, each in found.items() if not each.get("earlier")}
    parts = [INTRO]
    if any(each["small"] and name in titles for name, each in found.items()):
        parts.append("**Some data sets were asked a few questions only (`--small`): a smoke test.**\n")
    shown = [f"![{what}]({path})\n" for what, path in zip(PLOTS, plots, strict=False) if scored]
    parts += ["## Conclusions\n", *in_short(scored, titles, methods, compared)]
    parts += [*searched_in_short(found.get("chnsw")), "", *shown, LEGEND]
    parts += conclusions(scored, titles, methods)
    parts += told(scored, titles, methods, compared)
    parts += ["## Margins\n", *margins(scored, titles, methods)]
    others = (*baselines, *own_nodes)
    for metric, title in (("recall@5", "Recall@5"), ("answer@1000", "Answer in the first 1,000 tokens")):
        parts += [f"## {title}, every ranking\n", glance(scored, titles, methods, others, metric)]
    parts += ["## Costs\n", COSTS, costs(scored, titles, methods), *machines(current)]
    parts += searched(found.get("chnsw"), search_plot)
    rows = ",".join([*rows_of(methods, baselines), *own_nodes])
    parts += ["## Data sets and logs\n", f"ROWS is `{rows}`.\n", WITHOUT, *files(order, current, logs)]
    parts += ["## Not measured again\n", *missing(order, found, logs), MODEL]
    return "\n".join(parts).rstrip() + "\n"


def rows_of(methods: Sequence[str], baselines: Sequence[str]) -> list[str]:
    """The rows of an evaluation: the walk, every method with passages and without, and the baselines."""
    return [WALK, *methods, *(f"{name}{NODES}" for name in methods), *baselines]


def glance(
    scored: Mapping[str, Ranking],
    titles: Mapping[str, str],
    methods: Sequence[str],
    baselines: Sequence[str],
    metric: str,
) -> str:
    """A metric of every ranking on every data set; noise is against dense."""
    rows = [["`~`: as dense, within noise", *(titles[key] for key in scored)]]
    passages = [WALK, *(name for name in baselines if not name.endswith(NODES))]
    for name in rows_of(methods, baselines) if metric.startswith("answer") else passages:
        cells = [marked(scores, name, metric) for scores in scored.values()]
        if any(cell != "missing" for cell in cells):
            rows.append([name, *cells])
    return markdown(rows)


def marked(scores: Ranking, name: str, metric: str) -> str:
    row = row_of(scores, name)
    if not row or row["means"].get(metric) is None:
        return "missing"
    difference = row["differences"].get(metric)
    return f"{short(row['means'][metric])}{' ~' if difference and difference['is_noise'] else ''}"


def costs(scored: Mapping[str, Ranking], titles: Mapping[str, str], methods: Sequence[str]) -> str:
    """CPU of a build and of a search. The first row of a method makes its index."""
    rows = [["build, CPU-s; search with passages / without, CPU-ms", *(titles[key] for key in scored)]]
    for method in (WALK, *methods):
        cells = []
        for scores in scored.values():
            built = next((row["indexing"] for row in scores["rows"] if ours(row, method)), None)
            views = (DEFAULT,) if method == WALK else (DEFAULT, NODES)
            searched = [row_of(scores, f"{method}{view}") for view in views]
            times = [
                f"{row['cpu_ms']['mean']:.1f}" if row and row["means"] else "missing" for row in searched
            ]
            cells.append(f"{built['cpu_seconds']:.0f}; {' / '.join(times)}" if built else "missing")
        rows.append([method, *cells])
    cached = [
        titles[key] for key, scores in scored.items() if not scores["settings"].get("embedded_passages")
    ]
    said = f"Not so on {', '.join(cached)}: there all vectors came from a cache.\n\n"
    return (said if cached else "") + markdown(rows)


def ours(row: Ranking, method: str) -> bool:
    """Whether a row is the one that built a method."""
    return row["name"].partition("/")[0] == method and bool(row["indexing"])


def files(
    order: Sequence[tuple[str, str, str, bool]], found: Mapping[str, Ranking], logs: str
) -> Iterator[str]:
    """What was run, when, by which commit of this repository, and where its whole output is."""
    rows = [["section", "command", "date", "code"]]
    for name, title, _, is_corpus in order:
        each = found.get(name)
        if each:
            reduced = ", at a reduced size" if each["small"] else ""
            kind = "md" if is_corpus else "txt"
            link, code = f"[{title}]({logs}/{name}.{kind})", each.get("code") or "not recorded"
            rows.append([link, f"`{each['command']}`", day(each) + reduced, code])
    yield markdown(rows)


def missing(
    order: Sequence[tuple[str, str, str, bool]], found: Mapping[str, Ranking], logs: str
) -> Iterator[str]:
    """The sections without figures of this code, by their commands or the logs of earlier runs."""
    for name, title, command, is_corpus in order:
        each = found.get(name)
        if each is None:
            yield f"- {title}: not run (`{command}`)."
        elif each.get("earlier"):
            kind = "md" if is_corpus else "txt"
            yield f"- {title}: [log of an earlier state of the code]({logs}/{name}.{kind})"
    yield ""
